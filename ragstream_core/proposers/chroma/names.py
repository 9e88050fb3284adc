"""Names and metadata in the form that Chroma accepts.

A metadata value is never None, and a list never empty: what is empty is left out. The name of a
project that Chroma does not accept stands in the collection's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, IntegrityError
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import label, read, update_hint
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex

if TYPE_CHECKING:
    import sqlite3

    from ragstream_core.index.history import TurnRow
    from ragstream_core.records import Chunk

Value = str | int | float | bool | Sequence[str] | None

# What stands beside a vector, or what a collection says of itself.
Metadata = Mapping[str, Value]
# What every row says of its turn; others only if there are any.
REQUIRED = frozenset(
    {"session_id", "turn_id_start", "turn_id_end", "timestamp_first", "timestamp_last"}
)
_NS = 1_000_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG_CHARS = 200
CLOSE = 1e-5

# The collection of all conversations.
HISTORY_MAIN = "history_main"


def collection_name(project: str) -> str:
    """Return the name of a project's collection: its own if Chroma takes it, else a slug.

    Two projects never share one: a slug ends with eight digits of the name's sha256.
    """
    if project == HISTORY:
        return HISTORY_MAIN
    if _NAME.fullmatch(project) and ".." not in project:
        return project
    slug = _FOREIGN.sub("-", project).replace("..", "-").strip("._-")[:_SLUG_CHARS]
    return f"{slug or 'project'}-{sha256_hex(project)[:8]}"


def row_metadata(chunk: Chunk) -> Metadata:
    """Return what Chroma keeps beside a chunk's vector (R-077, R-078), nothing empty.

    ``chunk_id`` is the short id; the row's id is the canonical one. ``text_hash`` tells two texts
    apart that a change of the chunker gave the same id.
    """
    meta = chunk.meta
    return kept(
        {
            "path": meta["path"],
            "sha256": meta["sha256"],
            "chunk_idx": meta["chunk_index"],
            "mtime": meta["mtime"],
            "source": meta["source"],
            "page_number": meta["page_number"],
            "chunk_id": sha256_hex(chunk.id)[:SHORT_ID_DIGITS],
            "file_type": meta["file_type"],
            "heading": meta["heading"],
            "span_start": chunk.span[0],
            "span_end": chunk.span[1],
            "text_hash": sha256_hex(chunk.snippet),
        }
    )


def same_row(stored: Metadata | None, made: Metadata) -> bool:
    """Return whether stored metadata is what `row_metadata` or `turn_metadata` made.

    Chroma gives a number back to the microsecond, not to the last bit.
    """
    return (
        stored is not None
        and stored.keys() == made.keys()
        and all(_same(stored[key], value) for key, value in made.items())
    )


def _same(stored: Value, made: Value) -> bool:
    if isinstance(made, float) and isinstance(stored, int | float):
        return abs(stored - made) < CLOSE
    return stored == made


def kept(metadata: Metadata) -> Metadata:
    """Return metadata without None, empty texts and empty lists; tags also as ``tag_NAME: True``.

    Older versions cannot search a list; they can search a flag.
    """
    tags = metadata.get("tags")
    flags = {f"tag_{tag}": True for tag in tags} if isinstance(tags, list | tuple) else {}
    full = {key: value for key, value in metadata.items() if value not in (None, "", [], ())}
    return {**full, **flags}


def turn_metadata(chunk: Chunk, row: TurnRow) -> Metadata:
    """Return what Chroma keeps beside the vector of one chunk of a turn (R-228), nothing empty.

    Times are whole seconds since the epoch, so that a ``where`` filter can compare them; tags are
    those of the generation that the collection was made from, each also as ``tag_NAME: True``.
    """
    if chunk.meta["sha256"] != row.sha256:
        raise IntegrityError(f"{chunk.id} is of another version of its turn")
    turn, seconds = row.turn, row.timestamp_ns // _NS
    return kept(
        {
            "session_id": turn.session_id,
            "turn_id_start": row.seq,
            "turn_id_end": row.seq,
            "turn": turn.id,
            "tags": list(row.tags),
            "timestamp": turn.timestamp,
            "timestamp_first": seconds,
            "timestamp_last": seconds,
            "projects": list(turn.projects),
            "active_dbs": list(turn.active_dbs),
            "source": turn.source,
            "importance": turn.importance,
            "chunk_idx": chunk.meta["chunk_index"],
            "chunk_id": sha256_hex(chunk.id)[:SHORT_ID_DIGITS],
            "text_hash": sha256_hex(chunk.snippet),
        }
    )


def describer(index_dir: Path, generation: int) -> Callable[[Chunk], Metadata]:
    """Return what makes the metadata of one generation's rows."""
    from ragstream_core.index.history import read_turns  # the path without a change is light

    def look(db: sqlite3.Connection) -> tuple[int, dict[str, TurnRow]]:
        newest = latest_generation(db)
        rows = {row.path: row for row in read_turns(db)}
        return newest.n if newest else 0, rows

    newest, rows = read(index_dir, look)
    if newest != generation:
        raise GenerationGone(
            f"{label(index_dir)} is now at generation {newest}, not at {generation}",
            hint=update_hint(index_dir),
        )

    def describe(chunk: Chunk) -> Metadata:
        """Return the metadata of one chunk."""
        if chunk.source not in rows:
            raise IntegrityError(f"{index_dir}: the turn of {chunk.id} is missing")
        return turn_metadata(chunk, rows[chunk.source])

    return describe
