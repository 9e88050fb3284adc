"""Rerankers and the NLI model: cross-encoders by torch, FlashRank's by onnxruntime, fresh vectors.

Nothing is downloaded, and engines are imported at the first score. A passage longer than a model
reads is scored in windows, the best one counts; one pair a call, since a batch would change the
scores of its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import OperationFailed, SetSetting, UsageError, WeightsMissing
from ragstream_core.models.embedders.weights import places_of
from ragstream_core.models.onnx_session import open_session
from ragstream_core.platform import extras, sidecar
from ragstream_core.platform.files import known_sha256
from ragstream_core.records.identity import digest_of
from ragstream_core.text.tokenizer import ModelTokenizer, text_windows

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder

PREFIX = "flashrank:"
TOKENIZER = "tokenizer.json"
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
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
    _called = "cross-encoder"

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
            self._loaded = self._opened()
        if self._loaded is None:
            raise WeightsMissing(
                f"{self._folder} holds no {self._called}",
                hint=(SetSetting("rerank.backend", "maxsim"), ", or put the model's folder there"),
            )
        return self._loaded

    def _opened(self) -> tuple[Any, ModelTokenizer, int] | None:
        """Return the model, its tokenizer and how much it reads; None if its files are missing."""
        if not _is_complete(self._folder):
            return None
        what = f"the cross-encoder in {self._folder}"
        extras.require(what, "torch", "torch", "sentence_transformers")
        from sentence_transformers import CrossEncoder
        from transformers.utils import logging

        logging.disable_progress_bar()
        model = CrossEncoder(
            str(self._folder), device=self._device, local_files_only=True, trust_remote_code=False
        )
        self._check(model)
        tokenizer = ModelTokenizer(model.tokenizer.backend_tokenizer)
        length = min(int(model.max_length or _DEFAULT_LENGTH), _DEFAULT_LENGTH)
        # RoBERTa's kin part the two texts by one token more than BERT's
        length -= model.tokenizer.num_special_tokens_to_add(pair=True) - _PAIR_SPECIALS
        return model, tokenizer, length

    def _check(self, model: Any) -> int:
        """Return the output that counts, or refuse a model of another kind."""
        if model.config.num_labels != 1:
            raise UsageError(f"{self.name} has {model.config.num_labels} outputs, not one")
        return 0


def _is_complete(folder: Path) -> bool:
    return (folder / "config.json").is_file() and (folder / "model.safetensors").is_file()


_ENTAILMENT = ("entailment", "entail", "entails")


def entailment_index(labels: dict[int, str]) -> int | None:
    """Return the output that means entailment; None if no output, or several, say so."""
    outputs = [int(i) for i, label in labels.items() if label.strip().lower() in _ENTAILMENT]
    return outputs[0] if len(outputs) == 1 and len(labels) > 1 else None


class NliModel(CrossEncoderReranker):
    """Scores (passage, statement) pairs by the probability of entailment, in [0, 1].

    The order of the verdicts differs from model to model: it is read from its own ``id2label``.
    """

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


def find_flashrank(model: str, models_dir: Path) -> Path | None:
    """Return the local folder of a FlashRank model, or None."""
    folders = (Path(model), models_dir / "flashrank" / model, models_dir / model)
    return next(filter(_flashrank_file, folders), None)


class FlashRankReranker(CrossEncoderReranker):
    """A `ragstream_core.ports.Reranker`; scores are logits, whose order is that of FlashRank's."""

    kind = "flashrank"
    _called = "FlashRank model"

    def _predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import numpy as np

        (session, encode), _, _ = self._load()
        wanted = {each.name for each in session.get_inputs()}
        scores = []
        for query, window in pairs:
            one = encode(query, window)
            rows = {"input_ids": one.ids, "attention_mask": one.attention_mask,
                    "token_type_ids": one.type_ids}  # fmt: skip
            feed = {k: np.array([v], dtype=np.int64) for k, v in rows.items() if k in wanted}
            logits = np.asarray(session.run(None, feed)[0], dtype=np.float64).reshape(-1)
            if len(logits) not in (1, 2):
                raise UsageError(f"{self.name} has {len(logits)} outputs, not one or two")
            scores.append(float(logits[-1] - logits[0] if len(logits) == 2 else logits[0]))
        return scores

    def _opened(self) -> tuple[Any, ModelTokenizer, int] | None:
        path = _flashrank_file(self._folder)
        if path is None:
            return None
        from tokenizers import Tokenizer

        try:
            session = open_session(path)
            tokenizer = Tokenizer.from_file(str(self._folder / TOKENIZER))
        except Exception as error:  # both engines raise types of their own
            raise OperationFailed(f"{self._folder} cannot be read: {str(error)[:200]}") from None
        unknown = {each.name for each in session.get_inputs()} - _INPUTS
        if unknown:
            raise UsageError(f"{self.name} wants inputs that no pair has: {', '.join(unknown)}")
        length = min(_max_length(self._folder), _DEFAULT_LENGTH)
        plain = ModelTokenizer(tokenizer)
        tokenizer.enable_truncation(length, strategy="longest_first")
        tokenizer.no_padding()
        return (session, tokenizer.encode), plain, length


def _flashrank_file(folder: Path) -> Path | None:
    """Return the one model of a folder that has a tokenizer beside it."""
    files = sorted(folder.glob("*.onnx")) if (folder / TOKENIZER).is_file() else []
    return files[0] if len(files) == 1 else None


def _max_length(folder: Path) -> int:
    stated = (sidecar.read(folder / "tokenizer_config.json", dict[str, Any]) or {}).get(
        "model_max_length"
    )
    return int(min(stated, _DEFAULT_LENGTH)) if isinstance(stated, int | float) else _DEFAULT_LENGTH


@dataclass(frozen=True, slots=True)
class ReembedReranker:
    """Scores passages by the cosines of fresh vectors, LogAvgExp over the query pieces."""

    embedder: Embedder
    tau: float = 9.0  # sharpness over the pieces > 0; one piece is its own cosine

    def score(self, pieces: Sequence[str], passages: Sequence[str]) -> list[float]:
        """Return one score a passage in [-1, 1], higher is better, aligned with ``passages``."""
        import numpy as np

        from ragstream_core.retrieval.scoring import DIGITS, exact_cosines, log_avg_exp

        if not getattr(self.embedder, "reproducible", True):
            raise UsageError(
                f"{self.embedder.name} may answer differently tomorrow; nothing is reranked",
                hint=SetSetting("rerank.backend", "maxsim"),
            )
        if not (pieces and passages):
            return [0.0] * len(passages)
        queries = self.embedder.embed_queries(list(pieces))
        cosines = exact_cosines(self.embedder.embed_documents(list(passages)), queries)
        return [float(score) for score in np.round(log_avg_exp(cosines, self.tau), DIGITS)]
