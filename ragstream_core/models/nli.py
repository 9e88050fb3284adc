"""`NliModel`: does a passage entail what is asked? A cross-encoder with the verdicts of NLI.

The order of the verdicts differs from model to model, so it is read from the model's own
``id2label``. Windows, one pair a call, and never the network: as in `cross_encoder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragstream_core.errors import UsageError
from ragstream_core.models.cross_encoder import CrossEncoderReranker

_ENTAILMENT = ("entailment", "entail", "entails")


def entailment_index(labels: dict[int, str]) -> int | None:
    """Return the output that means entailment; None where no output, or several, say so.

    Args:
        labels: ``id2label`` of the model's configuration.
    """
    found = [int(i) for i, label in labels.items() if label.strip().lower() in _ENTAILMENT]
    return found[0] if len(found) == 1 and len(labels) > 1 else None


class NliModel(CrossEncoderReranker):
    """Scores (passage, statement) pairs by the probability of entailment, in [0, 1]."""

    kind = "nli"

    def entailment(self, statements: Sequence[str], passages: Sequence[str]) -> list[float]:
        """Return for each passage the best probability over the statements and its windows.

        Args:
            statements: Each is a hypothesis.
            passages: Chunk texts; each window of one is a premise.

        Returns:
            One probability a passage, rounded to 1e-6, aligned with ``passages``.

        Raises:
            WeightsMissing: The folder holds no model.
            UsageError: Its labels do not name one entailment.
            OperationFailed: A score is not a number.
        """
        best = [0.0] * len(passages)
        for statement in dict.fromkeys(statements):
            best = list(map(max, best, self.score(statement, passages)))
        return best

    def _predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import numpy as np
        import torch

        model, _, _ = self._load()
        column = self._check(model)
        logits = model.predict(
            [(window, piece) for piece, window in pairs],
            batch_size=1,
            show_progress_bar=False,
            activation_fn=torch.nn.Identity(),
        )
        rows = np.asarray(logits, dtype=np.float64)
        shares = np.exp(rows - rows.max(axis=1, keepdims=True))
        return [float(x) for x in shares[:, column] / shares.sum(axis=1)]

    def _check(self, model: Any) -> int:
        labels = dict(model.config.id2label)
        column = entailment_index(labels)
        if column is None:
            raise UsageError(
                f"{self.name} names no entailment among its outputs: "
                f"{', '.join(map(str, labels.values()))[:200]}",
                hint="--set gate.backend=similarity, or another gate.model",
            )
        return column
