"""How a turn is read by the search: dated speaker lines, and the pieces of a long one (R-229).

The unit of a turn is one line a speaker, ``[5 October 2026, 14:07] user: …``, the month in words as
questions have it. A unit that fits is one chunk; else each speaker's line is one if it fits, and
a longer one is cut at sentences, with the date and the speaker before every piece.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ragstream_core.conversations.journal.records import Turn, moment_ns
from ragstream_core.records.identity import canonical_json, digest_of, sha256_hex
from ragstream_core.text.chunk_profiles import ChunkProfile, chunk_profile
from ragstream_core.text.chunker import split
from ragstream_core.text.tokenizer import TokenOffsets, word_offsets

# Raised with every change that alters a unit or moves a boundary; all turns are cut again then.
UNITS_VERSION = 1
# Of a model without a tokenizer: so much is read at once.
UNIT_TOKENS = 250
_MIN_TOKENS = 32
_SPEAKER_CHARS = 64
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_SURROGATES = re.compile("[\ud800-\udfff]")
_CHUNK_ID = re.compile(r"history::(?P<session>.+)::(?P<first>\d+)-(?P<last>\d+)::(?P<idx>\d+)")


def history_chunk_id(session: str, seq_first: int, seq_last: int, idx: int) -> str:
    """Make the canonical id of a history chunk (R-229)."""
    return f"history::{session}::{seq_first}-{seq_last}::{idx}"


def parse_history_chunk_id(identifier: str) -> tuple[str, int, int, int]:
    """Split a history chunk id into session, first turn, last turn and index."""
    match = _CHUNK_ID.fullmatch(identifier)
    if match is None:
        raise ValueError(f"not a history chunk id: {identifier!r}")
    return match["session"], int(match["first"]), int(match["last"]), int(match["idx"])


def is_summary(identifier: str) -> bool:
    """Whether an id is that of a summary: a chunk of several turns."""
    try:
        _, first, last, _ = parse_history_chunk_id(identifier)
    except ValueError:
        return False
    return first < last


def turn_path(session: str, seq: int) -> str:
    """Return what stands for the path of a file: ``<session>/<seq>``."""
    return f"{session}/{seq}"


def turn_sha(turn: Turn) -> str:
    """Return the digest of both texts and the speakers, 64 hex digits."""
    return sha256_hex(canonical_json([list(turn.speakers), turn.user_text, turn.assistant_text]))


def month_of(turn: Turn) -> str:
    """Return the month of a turn on the clock it was written with, ``2026-10``."""
    return turn.timestamp[:7]


def timestamp_ns(turn: Turn) -> int:
    """Return the time of a turn in ns since the epoch, as `moment_ns`; no time at all is 0."""
    try:
        return moment_ns(turn.timestamp)
    except ValueError:
        return 0


class Line(NamedTuple):
    """What one speaker said, in the text of a unit."""

    start: int  # offset of the line
    said: int  # offset behind ``[date] speaker: ``
    end: int  # offset behind the line, exclusive


def heading(turn: Turn, speaker: str) -> str:
    """Return what stands before one speaker's words: ``[5 October 2026, 14:07] user: ``."""
    name = " ".join(_SURROGATES.sub("\ufffd", speaker).split())[:_SPEAKER_CHARS] or "?"
    date = f"[{_date(turn)}] " if timestamp_ns(turn) else ""
    return f"{date}{name}: "


def _date(turn: Turn) -> str:
    """Return the time of a turn with its month in words: questions and models speak so."""
    when = dt.datetime.fromisoformat(turn.timestamp)
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}, {when:%H:%M}"


def unit(turn: Turn) -> tuple[str, list[Line]]:
    """Return the text of a turn's unit and its lines; a speaker who said nothing has none."""
    text, lines = "", []
    for speaker, words in zip(turn.speakers, (turn.user_text, turn.assistant_text), strict=True):
        said = _SURROGATES.sub("\ufffd", words).strip()
        if said:
            text += "\n" if text else ""
            head = heading(turn, speaker)
            lines.append(Line(len(text), len(text) + len(head), len(text + head + said)))
            text += head + said
    return text, lines


class Piece(NamedTuple):
    """One chunk of a turn."""

    text: str  # ``[start:end]`` of the unit, after the date and speaker if it continues a line
    start: int  # character offset in the unit's text
    end: int  # character offset, exclusive


@dataclass(frozen=True, slots=True)
class TurnChunker:
    """Cuts turns for one model."""

    # the model's tokenizer; without it words and signs are counted
    token_offsets: TokenOffsets = word_offsets
    window: int = UNIT_TOKENS  # largest number of tokens the model reads at once
    # how a long line is cut, and what its sizes are counted in
    profile: ChunkProfile = field(default_factory=lambda: chunk_profile("history_small"))

    @property
    def limit(self) -> int:
        """Largest chunk: a quarter more than a piece, in tokens at most the model's window."""
        whole = self.profile.max_tokens * 5 // 4
        most = whole if self.profile.unit == "characters" else min(self.window, whole)
        return max(_MIN_TOKENS, most)

    def index_fp(self, embed_fp: str) -> str:
        """Return the digest of everything that shapes a chunk and its vector."""
        rules = f"history-units-{UNITS_VERSION} {self.limit} {self.profile.version}"
        return digest_of({"embed_fp": embed_fp, "units": rules})

    def pieces(self, turn: Turn) -> list[Piece]:
        """Return the chunks of a turn in order; none if nothing was said."""
        text, lines = unit(turn)
        if lines and self._size(text) <= self.limit:
            return [Piece(text, 0, len(text))]
        return [piece for line in lines for piece in self._of_line(text, line)]

    def _size(self, text: str) -> int:
        counted = text if self.profile.unit == "characters" else self.token_offsets(text)
        return len(counted)

    def _of_line(self, text: str, line: Line) -> Iterator[Piece]:
        if self._size(text[line.start : line.end]) <= self.limit:
            yield Piece(text[line.start : line.end], line.start, line.end)
            return
        head, said = text[line.start : line.said], text[line.said : line.end]
        room = max(1, min(self.profile.max_tokens, self.limit - self._size(head)))
        profile = replace(
            self.profile, max_tokens=room, overlap_tokens=min(self.profile.overlap_tokens, room - 1)
        )
        for at, span in enumerate(split(said, profile=profile, token_offsets=self.token_offsets)):
            begin = span.start + line.said if at else line.start
            yield Piece(head + said[span.start : span.end], begin, span.end + line.said)
