"""Models that read a query and a passage together: `CrossEncoderReranker` and `NliModel`.

The network is never used: `find_cross_encoder` looks in the data root and in the local Hugging Face
cache. One pair a call, so that a score depends on its pair and not on its neighbours. A passage
that does not fit beside the query is read in windows and has the score of its best one. The order
of an NLI model's verdicts differs from model to model, so it is read from its own ``id2label``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragstream_core.errors import OperationFailed, SetSetting, UsageError, WeightsMissing
from ragstream_core.models.embedders.weights import places_of
from ragstream_core.platform import extras
from ragstream_core.platform.files import known_sha256
from ragstream_core.records.identity import digest_of
from ragstream_core.text.tokenizer import ModelTokenizer, text_windows

DECIMALS = 6
_PAIR_SPECIALS = 3
_DEFAULT_LENGTH = 512


def find_cross_encoder(model: str, models_dir: Path) -> Path | None:
    """Return the local folder of a cross-encoder, or None; the network is never asked."""
    return next(filter(_is_complete, places_of(model, models_dir)), None)


def weights_digest(folder: Path) -> str:
    """Return the digest of everything that a cross-encoder's scores depend on, 64 hex digits.

    A file is read once a process, and again when its size, time or inode has changed.
    """
    files = (path for path in sorted(folder.iterdir()) if _counts(path))
    return digest_of({path.name: known_sha256(path) for path in files})


def _counts(path: Path) -> bool:
    return path.suffix in (".json", ".onnx", ".safetensors", ".txt") and path.is_file()


class CrossEncoderReranker:
    """A `ragstream_core.ports.Reranker`; the model is loaded at the first score."""

    kind = "cross_encoder"  # what comes before the model in `name`

    def __init__(self, folder: Path, *, model: str = "", device: str = "auto") -> None:
        self._folder = folder
        self._model_name = model or folder.name
        self._device = None if device == "auto" else device
        self._loaded: tuple[Any, ModelTokenizer, int] | None = None

    @property
    def name(self) -> str:
        """Kind and model."""
        return f"{self.kind}:{self._model_name}"

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each (query, passage) pair."""
        _, tokenizer, length = self._load()
        room = max(length // 2, length - _PAIR_SPECIALS - tokenizer.count(query))
        windows = [text_windows(p, tokenizer.offsets(p), room) for p in passages]
        pairs = [(query, window) for group in windows for window in group]
        if not pairs:
            return []
        values = iter(self._predict(pairs))
        best = [round(max(next(values) for _ in group), DECIMALS) for group in windows]
        if any(value != value for value in best):
            raise OperationFailed(f"{self.name} returned a score that is not a number")
        return best

    def _predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one score a (query, window), each made alone."""
        model, _, _ = self._load()
        scores = model.predict(list(pairs), batch_size=1, show_progress_bar=False)
        return [float(value) for value in scores.tolist()]

    def _load(self) -> tuple[Any, ModelTokenizer, int]:
        if self._loaded is None:
            if not _is_complete(self._folder):
                raise WeightsMissing(
                    f"{self._folder} holds no cross-encoder",
                    hint=(
                        SetSetting("rerank.backend", "maxsim"),
                        ", or put the model's folder there",
                    ),
                )
            model = _open(self._folder, self._device)
            self._check(model)
            tokenizer = ModelTokenizer(model.tokenizer.backend_tokenizer)
            length = min(int(model.max_length or _DEFAULT_LENGTH), _DEFAULT_LENGTH)
            # RoBERTa's kin part the two texts by one token more than BERT's
            length -= model.tokenizer.num_special_tokens_to_add(pair=True) - _PAIR_SPECIALS
            self._loaded = (model, tokenizer, length)
        return self._loaded

    def _check(self, model: Any) -> int:
        """Return the output that counts, or refuse a model of another kind."""
        if model.config.num_labels != 1:
            raise UsageError(f"{self.name} has {model.config.num_labels} outputs, not one")
        return 0


def _open(folder: Path, device: str | None) -> Any:
    extras.require(f"the cross-encoder in {folder}", "torch", "torch", "sentence_transformers")
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    logging.disable_progress_bar()
    return CrossEncoder(str(folder), device=device, local_files_only=True, trust_remote_code=False)


def _is_complete(folder: Path) -> bool:
    return (folder / "config.json").is_file() and (folder / "model.safetensors").is_file()


_ENTAILMENT = ("entailment", "entail", "entails")


def entailment_index(labels: dict[int, str]) -> int | None:
    """Return the output that means entailment; None if no output, or several, say so."""
    outputs = [int(i) for i, label in labels.items() if label.strip().lower() in _ENTAILMENT]
    return outputs[0] if len(outputs) == 1 and len(labels) > 1 else None


class NliModel(CrossEncoderReranker):
    """Scores (passage, statement) pairs by the probability of entailment, in [0, 1]."""

    kind = "nli"

    def entailment(self, statements: Sequence[str], passages: Sequence[str]) -> list[float]:
        """Return for each passage the best probability over the statements and its windows."""
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
                hint=(SetSetting("gate.backend", "similarity"), ", or another gate.model"),
            )
        return column
