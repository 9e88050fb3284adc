"""Names and metadata in the form that Chroma accepts.

A metadata value is never None, and a list never empty: what is empty is left out. The name of a
project that Chroma does not accept stands in the collection's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.records import Chunk

Value = str | int | float | bool | Sequence[str] | None
Metadata = Mapping[str, Value]
"""What stands beside a vector, or what a collection says of itself."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG_CHARS = 200
CLOSE = 1e-5
HISTORY_MAIN = "history_main"
"""The collection of all conversations (R-227)."""


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
