"""`Chunker`: the text of a document into numbered chunks with spans and heading paths (R-059)."""

from __future__ import annotations

from typing import NamedTuple

from ragstream_core.chunking.headings import MARKDOWN_TYPES, HeadingIndex, normal_type
from ragstream_core.chunking.markup import MARKUP_VERSION, Markup
from ragstream_core.chunking.profiles import ChunkProfile
from ragstream_core.chunking.sizes import TokenOffsets
from ragstream_core.chunking.splitter import split
from ragstream_core.chunking.words import word_offsets


class ChunkPiece(NamedTuple):
    """One chunk of one text.

    Attributes:
        chunk_idx: 0…N-1.
        chunk_text: Equals ``text[start:end]``, without markup where that is left out.
        start: Character offset.
        end: Character offset, exclusive.
        heading: Heading path at its start, or "".
    """

    chunk_idx: int
    chunk_text: str
    start: int
    end: int
    heading: str


class Chunker:
    """Cuts documents by one profile.

    Args:
        profile: Limits, overlap and unit.
        token_offsets: The model's tokenizer; without it words and signs are counted.
        strip_markdown: Leave the markup of Markdown out of the chunks' texts; their spans still
            name the place in the source.
    """

    def __init__(
        self,
        profile: ChunkProfile,
        *,
        token_offsets: TokenOffsets = word_offsets,
        strip_markdown: bool = False,
    ) -> None:
        self._profile = profile
        self._token_offsets = token_offsets
        self._strip = strip_markdown

    @property
    def version(self) -> str:
        """What stands for this chunker in the index fingerprint."""
        stripped = f" markup-{MARKUP_VERSION} stripped" if self._strip else ""
        return self._profile.version + stripped

    def chunk(self, text: str, *, file_type: str) -> list[ChunkPiece]:
        """Return the chunks of a text in order; none for a text of white space.

        Args:
            text: The decoded text of a document.
            file_type: Extension: Markdown and reStructuredText have headings.
        """
        spans = split(
            text, profile=self._profile, file_type=file_type, token_offsets=self._token_offsets
        )
        headings = HeadingIndex(text, file_type=file_type)
        if self._strip and normal_type(file_type) in MARKDOWN_TYPES:
            markup = Markup(text)
            words = [(span, markup.without(*span)) for span in spans]
        else:
            words = [(span, text[span.start : span.end]) for span in spans]
        kept = [(span, said) for span, said in words if said]  # a rule alone says nothing
        return [
            ChunkPiece(i, said, *span, headings.path_at(span.start))
            for i, (span, said) in enumerate(kept)
        ]
