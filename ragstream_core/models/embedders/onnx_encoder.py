"""`OnnxEmbedder`: any sentence-transformers model through onnxruntime, one text a call.

One text a call without padding, with one thread inside the call: the bits of a vector depend on
its text and on nothing else, which byte-exact replay needs (a batched encoder differs with its
batch by 1e-7). Parallelism is over texts.

The folder ``<models>/<fingerprint>/`` holds all that this needs: ``model.onnx``, made once,
``tokenizer.json`` and ``stamp.json``, the sha256 of both and what they were made from. A file that
does not have its stamped digest is made again. An export by torch is checked against it; if a
model cannot be exported, or its export differs, the reason is kept there instead, and torch runs
the model; the reason holds as long as the model's files are the same.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.models.embedders import fingerprints, onnx_export, shipped_model, weights
from ragstream_core.models.embedders.base import Ids, WindowedEncoder
from ragstream_core.models.embedders.fingerprints import NotExportable, Precision, Recipe, recipe_of
from ragstream_core.models.onnx_session import open_session
from ragstream_core.platform import files
from ragstream_core.platform.locks import FolderLock
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.tokenizer import ModelTokenizer

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragstream_core.ports import F32, Embedder

# Queries whose last layer is held: retrieval embeds the pieces, then MaxSim reads their tokens.
RECENT = 10

_CHECKED = ("A sentence.", "Two of them: longer, with numbers 12.5 and signs (like these).",
            "Ein Satz mit Umlauten äöü. " * 60)  # fmt: skip


class Export(NamedTuple):
    """What is known about a model's export."""

    folder: Path  # where its export lies, or the reason why there is none; named by its fingerprint
    refused: str = ""  # why torch runs it; empty if there is an export, or none was tried
    made: bool = False


def known_export(model: str, models_dir: Path, precision: Precision = "float32") -> Export:
    """Return what is known about the export of a model; nothing is made."""
    runtime = fingerprints.ONNX_RUNTIMES[precision]
    folder = models_dir / fingerprints.model_fingerprint(model, models_dir, runtime)
    try:
        stamp = json.loads((folder / onnx_export.STAMP_FILE).read_text(encoding="utf-8"))
        refused = str(stamp.get("refused", ""))
        made = not refused and (
            files.known_sha256(folder / onnx_export.MODEL_FILE) == stamp["sha256"]
            and files.known_sha256(folder / onnx_export.TOKENIZER_FILE) == stamp["tokenizer"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Export(folder)
    return Export(folder, refused, made)


def open_embedder(
    model: str, models_dir: Path, workers: int, device: str, precision: Precision
) -> Embedder:
    """Return a model through onnxruntime; torch runs one that cannot be exported."""
    try:
        return open_model(models_dir, model, precision=precision, workers=workers)
    except NotExportable:
        from ragstream_core.models.embedders.sentence_transformers import (
            SentenceTransformerEmbeddings,
        )

        return SentenceTransformerEmbeddings(models_dir, model=model, device=device)


def open_model(
    models_dir: Path,
    model: str = weights.DEFAULT_MODEL,
    *,
    precision: Precision = "float32",
    workers: int = 0,
) -> OnnxEmbedder:
    """Return a model through onnxruntime, exporting it first if that was never tried."""
    export = ensure_export(models_dir, model, precision)
    if export.refused:
        raise NotExportable(export.refused)
    opened = _opened(export.folder, model, workers)
    opened.precision = precision
    if precision == "int8":
        checked = opened.embed_documents([shipped_model.CHECKED_TEXT])[0]
        shipped_model.require_same_products(checked)
    return opened


def ensure_export(
    models_dir: Path, model: str = weights.DEFAULT_MODEL, precision: Precision = "float32"
) -> Export:
    """Return the export of a model, made now if it is not there or damaged."""
    export = known_export(model, models_dir, precision)
    if export.made or export.refused:
        return export
    source, folder = weights.find_model(model, models_dir), export.folder
    lock = FolderLock(folder, f"the exported model in {folder}")
    with lock.held(wait_s=onnx_export.LOCK_TIMEOUT_S):
        export = known_export(model, models_dir, precision)  # another process may have made it
        if not export.made and not export.refused:
            _make(model, source, folder, precision)
    return known_export(model, models_dir, precision)


def _make(model: str, source: Path, folder: Path, precision: Precision) -> None:
    """Export a model and check its vectors, or write down why there is no export."""
    try:
        data, stamp = onnx_export.model_bytes(model, source, precision)
        tokenizer = (source / onnx_export.TOKENIZER_FILE).read_bytes()
        files.replace_bytes(folder / onnx_export.MODEL_FILE, data)
        files.replace_bytes(folder / onnx_export.TOKENIZER_FILE, tokenizer)
        if not weights.is_default(model):  # the bytes of that one are known
            _compare(_opened(folder, model, 1), model, folder.parent)
        stamp |= {"sha256": sha256_hex(data), "tokenizer": sha256_hex(tokenizer)}
    except NotExportable as error:
        (folder / onnx_export.MODEL_FILE).unlink(missing_ok=True)
        stamp = {"refused": error.message}
    files.replace_text(folder / onnx_export.STAMP_FILE, canonical_json(stamp) + "\n")


def _opened(folder: Path, model: str, workers: int) -> OnnxEmbedder:
    if weights.is_default(model):  # once made, it does without its weights
        model, recipe = weights.DEFAULT_MODEL, fingerprints.DEFAULT_RECIPE
    else:
        recipe = recipe_of(weights.find_model(model, folder.parent), model)
    return OnnxEmbedder(folder, recipe, name=model, fingerprint=folder.name, workers=workers)


def _compare(exported: OnnxEmbedder, model: str, models_dir: Path) -> None:
    """Compare the vectors of an export with those of the model's own library."""
    from ragstream_core.models.embedders.sentence_transformers import SentenceTransformerEmbeddings

    own = SentenceTransformerEmbeddings(models_dir, model=model, device="cpu")
    for embed in ("embed_documents", "embed_queries"):
        difference = getattr(exported, embed)(_CHECKED) - getattr(own, embed)(_CHECKED)
        worst = float(np.abs(difference).max())
        if not worst <= onnx_export.TOLERANCE:
            raise NotExportable(
                f"the export of {model} differs from torch by {worst:.1e} "
                f"(at most {onnx_export.TOLERANCE:.0e} is accepted)"
            )


class OnnxEmbedder(WindowedEncoder):
    """An embedder over an exported model; safe to share between threads."""

    precision: Precision = "float32"  # of its products, for messages

    def __init__(
        self, folder: Path, recipe: Recipe, *, name: str, fingerprint: str, workers: int = 0
    ) -> None:
        self.name = name
        self._digest, self._pooling = fingerprint, recipe.pooling
        # 8-bit products are exact on x86 without VNNI as well: weights are made unsigned there
        self._session = open_session(folder / onnx_export.MODEL_FILE, x64quantprecision="1")
        self._wanted = {each.name for each in self._session.get_inputs()}
        self._tokenizer = ModelTokenizer.from_file(folder / onnx_export.TOKENIZER_FILE)
        self._head, self._tail = recipe.head, recipe.tail
        self._set_limits(recipe.prefixes, recipe.length)
        if self.window < 1:
            raise NotExportable(f"{name} has no room for a text: it reads {recipe.length} tokens")
        self._start_workers(workers)
        self._recent = functools.lru_cache(maxsize=RECENT)(self._run)
        self.dimension = int(self._run((*self._passage_prefix, *self._tokenizer.ids("a"))).shape[1])

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, window, pooling, prefixes and runtime kind."""
        return self._digest

    def _run(self, ids: Ids) -> F32:
        row = np.array([[*self._head, *ids, *self._tail]], dtype=np.int64)
        feed: dict[str, Any] = dict(
            zip(onnx_export.INPUT_NAMES, (row, np.ones_like(row), np.zeros_like(row)), strict=True)
        )
        given = {key: value for key, value in feed.items() if key in self._wanted}
        hidden: F32 = self._session.run([onnx_export.OUTPUT_NAME], given)[0][0]
        if hidden.ndim != 2 or hidden.shape[0] != row.shape[1]:
            raise EmbeddingFailed(f"the encoder returned shape {hidden.shape} for {row.shape}")
        hidden.flags.writeable = False  # the next caller gets the same array
        return hidden

    def _hidden(self, ids: Ids) -> F32:
        return self._recent(ids)

    def _pooled(self, ids: Ids) -> npt.NDArray[np.float64]:
        return self._one(self._run(ids))

    def _pooled_query(self, ids: Ids) -> npt.NDArray[np.float64]:
        return self._one(self._recent(ids))

    def _one(self, hidden: F32) -> npt.NDArray[np.float64]:
        rows = hidden.astype(np.float64)
        if self._pooling in ("mean", "max"):
            reduced: npt.NDArray[np.float64] = getattr(rows, self._pooling)(axis=0)
            return reduced
        last: npt.NDArray[np.float64] = rows[0 if self._pooling == "cls" else -1]
        return last
