"""The documents of a generation, as their chunks give them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.records import Chunk

SIGNATURE = "<!-- ragstream test specification 1 -->"
"""The first line of a specification; as a document it is no source of requirements."""
Span = tuple[int, int]
"""Start and end in the characters of a document's text."""


@dataclass(frozen=True, slots=True)
class Document:
    """One indexed document.

    Attributes:
        path: Relative to its project.
        file_type: E.g. ``md``.
        text: The chunks put side by side at their places; white space between them may be missing,
            every other character is at its offset.
    """

    path: str
    file_type: str
    text: str

    def at(self, span: Span) -> str:
        """Return the words of a passage."""
        return self.text[span[0] : span[1]]


def documents_of(chunks: Iterable[Chunk]) -> list[Document]:
    """Return the documents that chunks were cut from, by path.

    Args:
        chunks: All chunks of a generation, in any order; they may overlap.
    """
    by_path: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_path.setdefault(chunk.source, []).append(chunk)
    return [_document(path, by_path[path]) for path in sorted(by_path)]


def _document(path: str, chunks: list[Chunk]) -> Document:
    parts, end = list[str](), 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.span):
        start, stop = chunk.span
        if stop <= end:
            continue
        if start > end:
            parts.append("\n" * (start - end))  # between two chunks there is only white space
        whole = chunk.snippet.ljust(stop - start, "\n")
        parts.append(whole[max(0, end - start) : stop - start])
        end = stop
    return Document(path, str(chunks[0].meta.get("file_type", "")), "".join(parts))
