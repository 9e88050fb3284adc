"""FlashRank's models (R-151): a folder with an ONNX file and its tokenizer, read by onnxruntime.

Neither FlashRank nor torch is needed, and nothing is downloaded: put the unpacked folder of a
model below ``<data>/models``. Windows and one pair a call as in `cross_encoder`: the models are
quantised, and a batch would change the scores of its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragstream_core.errors import OperationFailed, SetSetting, UsageError, WeightsMissing
from ragstream_core.models.onnx_session import open_session
from ragstream_core.models.rerankers.cross_encoder import CrossEncoderReranker
from ragstream_core.platform import sidecar
from ragstream_core.text.tokenizer import ModelTokenizer

PREFIX = "flashrank:"
TOKENIZER = "tokenizer.json"
_LENGTH = 512
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


def find_flashrank(model: str, models_dir: Path) -> Path | None:
    """Return the local folder of a FlashRank model, or None."""
    for folder in (Path(model), models_dir / "flashrank" / model, models_dir / model):
        if _onnx_file(folder) is not None and (folder / TOKENIZER).is_file():
            return folder
    return None


class FlashRankReranker(CrossEncoderReranker):
    """A `ragstream_core.ports.Reranker`; scores are logits, whose order is that of FlashRank's."""

    kind = "flashrank"

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

    def _load(self) -> tuple[Any, ModelTokenizer, int]:
        if self._loaded is None:
            path = _onnx_file(self._folder)
            if path is None or not (self._folder / TOKENIZER).is_file():
                raise WeightsMissing(
                    f"{self._folder} holds no FlashRank model",
                    hint=(
                        SetSetting("rerank.backend", "maxsim"),
                        ", or put the model's folder there",
                    ),
                )
            self._loaded = self._opened(path)
        return self._loaded

    def _opened(self, path: Path) -> tuple[Any, ModelTokenizer, int]:
        from tokenizers import Tokenizer

        try:
            session = open_session(path)
            tokenizer = Tokenizer.from_file(str(self._folder / TOKENIZER))
        except Exception as error:  # both engines raise types of their own
            raise OperationFailed(f"{self._folder} cannot be read: {str(error)[:200]}") from None
        unknown = {each.name for each in session.get_inputs()} - _INPUTS
        if unknown:
            raise UsageError(f"{self.name} wants inputs that no pair has: {', '.join(unknown)}")
        length = min(_max_length(self._folder), _LENGTH)
        plain = ModelTokenizer(tokenizer)
        tokenizer.enable_truncation(length, strategy="longest_first")
        tokenizer.no_padding()
        return (session, tokenizer.encode), plain, length


def _onnx_file(folder: Path) -> Path | None:
    files = sorted(folder.glob("*.onnx")) if folder.is_dir() else []
    return files[0] if len(files) == 1 else None


def _max_length(folder: Path) -> int:
    stated = (sidecar.read(folder / "tokenizer_config.json", dict[str, Any]) or {}).get(
        "model_max_length"
    )
    return int(min(stated, _LENGTH)) if isinstance(stated, int | float) else _LENGTH
