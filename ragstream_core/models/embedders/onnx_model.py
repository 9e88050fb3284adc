"""Any sentence-transformers model through onnxruntime: exported once, checked against torch.

The folder ``<models>/<fingerprint>/`` holds the export as for the default model. If a model cannot
be exported, or its export differs from torch, the reason is kept there instead, and torch runs the
model; the reason holds as long as the model's files are the same.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.errors import EmbeddingFailed, OperationFailed
from ragstream_core.models.embedders import fingerprints, onnx_export, weights
from ragstream_core.models.embedders.base import mean_unit, stack_checked, unit_rows_f16
from ragstream_core.models.embedders.fingerprints import NotExportable, Recipe, recipe_of
from ragstream_core.models.embedders.onnx_minilm import OnnxEmbedder, open_session
from ragstream_core.platform import files
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.tokenizer import ModelTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragstream_core.ports import F16, F32

_CHECKED = ("A sentence.", "Two of them: longer, with numbers 12.5 and signs (like these).",
            "Ein Satz mit Umlauten äöü. " * 60)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Export:
    """What is known about a model's export.

    Attributes:
        source: The model's own folder.
        folder: Where its export lies, or the reason why there is none.
        fingerprint: ``embed_fp`` by onnxruntime.
        refused: Why torch runs it; empty if there is an export, or none was tried.
        made: Whether there is a whole export.
    """

    source: Path
    folder: Path
    fingerprint: str
    refused: str
    made: bool


def known_export(model: str, models_dir: Path) -> Export:
    """Return what is known about the export of a model; nothing is made.

    Args:
        model: A folder, or a name as ``organisation/model``.
        models_dir: ``<data>/models``.

    Raises:
        WeightsMissing: The model is not on this machine.
    """
    source = weights.find_model(model, models_dir)
    digest = fingerprints.folder_fingerprint(source, model=model, runtime=fingerprints.ONNX_RUNTIME)
    folder = models_dir / digest
    try:
        stamp = json.loads((folder / onnx_export.STAMP_FILE).read_text(encoding="utf-8"))
        refused = str(stamp.get("refused", ""))
        made = not refused and (
            weights.file_sha256(folder / onnx_export.MODEL_FILE) == stamp["sha256"]
            and weights.file_sha256(folder / onnx_export.TOKENIZER_FILE) == stamp["tokenizer"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        refused, made = "", False
    return Export(source, folder, digest, refused, made)


def open_model(
    model: str, models_dir: Path, *, workers: int = 0, notice: onnx_export.Notice | None = None
) -> OnnxModel:
    """Return a model through onnxruntime, exporting it first if that was never tried.

    Args:
        model: A folder, or a name as ``organisation/model``.
        models_dir: ``<data>/models``.
        workers: Texts encoded at the same time; 0 = one for each core.
        notice: Told one line before the one-time export begins.

    Raises:
        WeightsMissing: The model is not on this machine, or onnx is missing for the export.
        NotExportable: It cannot be exported, or its export differs from torch.
        OperationFailed: Another process holds the export lock for too long.
    """
    export = known_export(model, models_dir)
    if not export.made and not export.refused:
        export = _exported(model, models_dir, export, notice)
    if export.refused:
        raise NotExportable(export.refused)
    return OnnxModel(export, recipe_of(export.source, model), name=model, workers=workers)


def _exported(
    model: str, models_dir: Path, export: Export, notice: onnx_export.Notice | None
) -> Export:
    from filelock import FileLock, Timeout

    files.make_private_dir(export.folder)
    try:
        with FileLock(export.folder / ".lock", timeout=onnx_export.LOCK_TIMEOUT_S):
            now = known_export(model, models_dir)  # another process may have made it
            if not now.made and not now.refused:
                _make(model, models_dir, now, notice)
    except Timeout as error:
        raise OperationFailed(
            f"{export.folder} is locked by another process that exports the model",
            hint="wait for it, or end it, and run the command again",
        ) from error
    return known_export(model, models_dir)


def _make(model: str, models_dir: Path, export: Export, notice: onnx_export.Notice | None) -> None:
    """Export a model and check its vectors, or write down why there is no export."""
    if notice is not None:
        notice(f"exporting {model} to ONNX, once ({export.folder})")
    onnx_export.require_packages()
    stamp = export.folder / onnx_export.STAMP_FILE
    try:
        recipe = recipe_of(export.source, model)
        data = onnx_export.exported_bytes(export.source)
        tokenizer = (export.source / onnx_export.TOKENIZER_FILE).read_bytes()
        files.replace_bytes(export.folder / onnx_export.MODEL_FILE, data)
        files.replace_bytes(export.folder / onnx_export.TOKENIZER_FILE, tokenizer)
        _compare(OnnxModel(export, recipe, name=model, workers=1), model, models_dir)
    except NotExportable as error:
        files.replace_text(stamp, canonical_json({"refused": error.message}) + "\n")
        (export.folder / onnx_export.MODEL_FILE).unlink(missing_ok=True)
        return
    digests = {"sha256": sha256_hex(data), "tokenizer": sha256_hex(tokenizer)}
    files.replace_text(stamp, canonical_json({**digests, **onnx_export.versions()}) + "\n")


def _compare(exported: OnnxModel, model: str, models_dir: Path) -> None:
    """Compare the vectors of an export with those of the model's own library.

    Raises:
        NotExportable: They differ by more than 1e-5.
    """
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


class OnnxModel(OnnxEmbedder):
    """A `ragstream_core.ports.Embedder` over an exported model, with its own pooling and prefixes.

    Args:
        export: Where the export lies.
        recipe: How the model is used.
        name: For people.
        workers: Texts encoded at the same time; 0 = one for each core.
    """

    def __init__(self, export: Export, recipe: Recipe, *, name: str, workers: int = 0) -> None:
        self.name = name
        self._recipe, self._digest = recipe, export.fingerprint
        self._session = open_session(export.folder / onnx_export.MODEL_FILE)
        self._wanted = {each.name for each in self._session.get_inputs()}
        self._tokenizer = ModelTokenizer.from_file(export.folder / onnx_export.TOKENIZER_FILE)
        self._query = tuple(self._tokenizer.ids(recipe.prefixes.query))
        self._passage = tuple(self._tokenizer.ids(recipe.prefixes.passage))
        longest = max(len(self._query), len(self._passage))
        self.window = recipe.length - len(recipe.head) - len(recipe.tail) - longest
        if self.window < 1:
            raise NotExportable(f"{name} has no room for a text: it reads {recipe.length} tokens")
        self._start_workers(workers)
        self.dimension = int(self._run((*self._passage, *self._tokenizer.ids("a"))).shape[1])

    @property
    def fingerprint(self) -> str:
        """Digest of the model's files, its prefixes and the runtime kind."""
        return self._digest

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries, with the model's query prefix.

        Raises:
            EmbeddingFailed: A vector is not finite or has no length.
        """
        rows = self._each(functools.partial(self._pooled, self._query), texts)
        return stack_checked(rows, shape=(len(texts), self.dimension))

    def _run(self, ids: tuple[int, ...]) -> F32:
        row = np.array([[*self._recipe.head, *ids, *self._recipe.tail]], dtype=np.int64)
        feed: dict[str, Any] = dict(
            zip(onnx_export.INPUT_NAMES, (row, np.ones_like(row), np.zeros_like(row)), strict=True)
        )
        given = {key: value for key, value in feed.items() if key in self._wanted}
        hidden: F32 = self._session.run([onnx_export.OUTPUT_NAME], given)[0][0]
        if hidden.ndim != 2 or hidden.shape[0] != row.shape[1]:
            raise EmbeddingFailed(f"the encoder returned shape {hidden.shape} for {row.shape}")
        hidden.flags.writeable = False
        return hidden

    def _vector(self, hidden: Any, text: str) -> F32:
        return self._pooled(self._passage, text)

    def _pooled(self, prefix: tuple[int, ...], text: str) -> F32:
        parts = [self._one(self._hidden((*prefix, *ids))) for ids in self._windows(text)]
        return mean_unit([mean_unit(part[np.newaxis]).astype(np.float64) for part in parts])

    def _one(self, hidden: F32) -> Any:
        rows = hidden.astype(np.float64)
        if self._recipe.pooling == "mean":
            return rows.mean(axis=0)
        if self._recipe.pooling == "max":
            return rows.max(axis=0)
        return rows[0] if self._recipe.pooling == "cls" else rows[-1]

    def _tokens_of(self, text: str) -> F16:
        head, tail = len(self._recipe.head), len(self._recipe.tail)
        hidden = [self._hidden(ids) for ids in self._windows(text)]
        return unit_rows_f16(np.concatenate([h[head : len(h) - tail] for h in hidden]))
