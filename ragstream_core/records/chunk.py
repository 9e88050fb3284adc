"""`Chunk`: the immutable piece of a source text that a prompt can quote (R-123…R-126)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a source text. Ranks, scores and decisions live outside of it.

    Attributes:
        id: Canonical chunk id, ``rel_path::sha256::chunk_idx``.
        source: POSIX path relative to the project.
        snippet: The text; equals ``source_text[span[0]:span[1]]``, less the markup where the
            chunks are stripped of it.
        span: Start and end character offsets in the decoded source text: the pages of a PDF joined
            by form feeds, the Markdown of a converted file, with redacted secrets replaced.
        meta: ``project, path, sha256, mtime, file_type, chunk_index, page_number, heading,
            generation`` (read-only by convention; never part of the identity).
    """

    id: str
    source: str
    snippet: str
    span: tuple[int, int]
    meta: Mapping[str, Any]
