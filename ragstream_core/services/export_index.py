"""`ragstream index export`: one generation of a project as one Arrow file.

It has a row a chunk, sorted by id, and the term arrays in row 0 of a column of their own; the same
generation gives the same bytes. What it says of itself stands in the schema's metadata under
``ragstream``, with a digest over all rows.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.errors import AddOption, GenerationGone, IntegrityError, Refused, RunCommand
from ragstream_core.index.view import open_view
from ragstream_core.platform.disk import disk_failure, require_space
from ragstream_core.platform.files import create_bytes, replace_bytes
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.terms import LEXICAL_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from ragstream_core.ports import IndexView
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace

VERSION = 1
KEY = b"ragstream"
PAGE = 2_000

# The columns that the digest covers row by row; text by its hash, and the vector by its bytes.
COLUMNS = (
    "chunk_id", "path", "sha256", "chunk_idx", "span_start", "span_end", "page_number", "heading",
    "file_type", "mtime", "text_hash",
)  # fmt: skip


class ExportMeta(NamedTuple):
    """What an exported file says of itself."""

    version: int  # of the format
    project: str
    generation: int
    digest: str  # of the generation
    rows: int  # how many
    dimension: int  # of the vectors
    embed_fp: str  # fingerprint of the model that made them
    lexical: str  # version of the term arrays
    content: str  # digest of all rows


class Exported(NamedTuple):
    """A file with one generation: its path, its size, and what it says of itself."""

    path: str
    bytes: int
    meta: ExportMeta

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream index export --json` prints."""
        return {"path": self.path, "bytes": self.bytes, **self.meta._asdict()}


def export(
    workspace: Workspace, project: str, out: Path, *, generation: int = 0, force: bool = False
) -> Exported:
    """Write an export, whole or not at all; what is written was read back first.

    Args:
        workspace: The data root.
        project: Its name.
        out: The file.
        generation: Its number; 0 for the newest.
        force: Replace a file that is there.

    Raises:
        GenerationGone: That generation is not kept, or holds no chunk.
        Refused: The file already exists, or is a folder.
        IntegrityError: The index is damaged.
        OperationFailed: Disk full, permission denied; a file that was there stays.
    """
    require_new(out, force=force)
    view = open_view(workspace.index_dir(project), generation=generation)
    if not view.chunk_ids:
        raise GenerationGone(
            f"generation {view.generation} of {project} holds no chunk",
            hint=RunCommand("index generations", project),
        )
    data, meta = encode(view)
    decode(data)
    target = out.absolute()
    require_space(target.parent, len(data))
    try:
        (replace_bytes if force else create_bytes)(target, bytes(data))
    except FileExistsError:
        raise _there(out) from None
    except OSError as error:
        raise disk_failure(target, error, needed=len(data)) from error
    return Exported(str(out), len(data), meta)


def require_new(out: Path, *, force: bool) -> None:
    """Refuse a file that already exists.

    Raises:
        Refused: It does, or it is a folder.
    """
    if out.is_dir():
        raise Refused(f"{out} is a folder", hint="name a file in it")
    if out.exists() and not force:
        raise _there(out)


def _there(out: Path) -> Refused:
    return Refused(f"{out} already exists", hint=(AddOption("--force"), ", or another name"))


def encode(view: IndexView) -> tuple[memoryview, ExportMeta]:
    """Return the bytes of the file, and what it says of itself."""
    import pyarrow as pa

    table = _table(view)
    meta = ExportMeta(
        version=VERSION,
        project=view.project,
        generation=view.generation,
        digest=view.digest,
        rows=table.num_rows,
        dimension=int(view.vectors.shape[1]),
        embed_fp=view.embed_fp,
        lexical=LEXICAL_VERSION,
        content=content_digest(table),
    )
    table = table.replace_schema_metadata({KEY: canonical_json(meta._asdict()).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue()), meta


def decode(data: bytes | memoryview) -> tuple[pa.Table, dict[str, Any]]:
    """Read an export and check it: its rows have its digest, each text has its hash.

    Raises:
        IntegrityError: It is none, or not what was written.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        meta: dict[str, Any] = json.loads(table.schema.metadata[KEY])
        whole = meta["version"] == VERSION and meta["content"] == content_digest(table)
        texts = zip(table["text"].to_pylist(), table["text_hash"].to_pylist(), strict=True)
        whole = whole and all(sha256_hex(text) == text_hash for text, text_hash in texts)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"no export of an index: {error}", hint=_AGAIN) from None
    if not whole:
        raise IntegrityError("the export is not what was written", hint=_AGAIN)
    return table, meta


def content_digest(table: pa.Table) -> str:
    """Return the sha256 over the rows of an export: their values as JSON, then their vectors."""
    hashed = sha256()
    columns = [table[name].to_pylist() for name in COLUMNS]
    for row in zip(*columns, strict=True):
        hashed.update(canonical_json(list(row)).encode("utf-8", "surrogatepass"))
    for chunk in table["vector"].chunks:
        hashed.update(chunk.flatten().to_numpy(zero_copy_only=False).astype("<f4").tobytes())
    return hashed.hexdigest()


_AGAIN = RunCommand("index export", "PROJECT --force")


def _table(view: IndexView) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    rows: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, "text")}
    for start in range(0, len(view.chunk_ids), PAGE):
        for chunk in view.chunks(view.chunk_ids[start : start + PAGE]):
            meta = chunk.meta
            values = (
                chunk.id, meta["path"], meta["sha256"], meta["chunk_index"], *chunk.span,
                meta["page_number"], meta["heading"], meta["file_type"], float(meta["mtime"]),
                sha256_hex(chunk.snippet), chunk.snippet,
            )  # fmt: skip
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    flat = pa.array(np.ascontiguousarray(view.vectors, dtype="<f4").reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(flat, int(view.vectors.shape[1]))
    terms = [view.lexical.packed(), *[b""] * (len(view.chunk_ids) - 1)]
    columns = {name: pa.array(values) for name, values in rows.items()}
    return pa.table({**columns, "vector": vectors, "lexical": pa.array(terms, pa.large_binary())})
