"""A sweep of the gate's thresholds: what it keeps of what gold questions need, and at what size.

The heat map of it is a PNG made with NumPy alone: coloured cells with their numbers and a legend.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.agents.a5_format_enforcer import shown_texts
from ragstream_core.agents.context.condensed_notes import savings_of
from ragstream_core.evaluation.prompt_quality import WORDS, PromptReport, worst_word
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.platform import sidecar
from ragstream_core.platform.files import replace_text
from ragstream_core.prompts.blocks import repeated_texts
from ragstream_core.records import SuperPrompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragstream_core.ports import TokenCounter
    from ragstream_core.records.identity import Json

    Pixels = NDArray[np.uint8]

_GLYPHS = {  # five rows of three pixels, an octal digit a row
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71111", "8": "75757", "9": "75717", ".": "00002", "-": "00700",
    "A": "25755", "E": "74647", "G": "34553", "H": "55755", "I": "72227", "K": "55655",
    "L": "44447", "N": "65555", "O": "25552", "P": "65644", "R": "65655", "S": "34216",
    "T": "72222", "V": "55552", "W": "55775", " ": "00000",
}  # fmt: skip
_SCALE = 3
CELL = (32, 84)
"""Height and width of a cell in pixels; what stands before a row is two cells wide."""
_LEGEND = 4
"""Cells of the legend: the least value, the colours between, the greatest value."""
_LOW, _HIGH = (255, 247, 236), (179, 0, 0)
_LABEL, _EMPTY, _INK = (236, 239, 243), (255, 255, 255), (20, 20, 20)


def heat_map(
    values: Sequence[Sequence[float | None]],
    *,
    names: tuple[str, str, str],
    columns: Sequence[float],
    rows: Sequence[float],
    low: float,
    high: float,
    form: str,
) -> bytes:
    """Draw a table of numbers, the larger the darker, with its axes, and a legend below."""
    import numpy as np

    wide = (2, max(2, len(columns)), 2)
    name, across, down = (
        _cell(each.upper(), _LABEL, wide=cells) for each, cells in zip(names, wide, strict=True)
    )
    heads = [_cell(f"{value:g}".upper(), _LABEL) for value in columns]
    lines = [[name, across], [down, *heads]]
    for value, row in zip(rows, values, strict=True):
        cells = [_number(each, low, high, form) for each in row]
        lines.append([_cell(f"{value:g}".upper(), _LABEL, wide=2), *cells])
    lines += [[], _legend(low, high, form)]
    drawn = np.empty((len(lines), CELL[0], max(_LEGEND, len(columns) + 2) * CELL[1], 3), np.uint8)
    drawn[:] = _EMPTY
    for strip, line in zip(drawn, lines, strict=True):
        if line:
            strip[:, : sum(cell.shape[1] for cell in line)] = np.hstack(line)
    return _png(drawn.reshape(-1, *drawn.shape[2:]))


def _number(value: float | None, low: float, high: float, form: str) -> Pixels:
    if value is None:
        return _cell("", _EMPTY)
    return _cell(format(value, form), _colour(value, low, high))


def _legend(low: float, high: float, form: str) -> list[Pixels]:
    """Return the least and the greatest value with the colours between; one if they agree."""
    import numpy as np

    if high <= low:
        return [_number(low, low, high, form)]
    between = _cell("", _EMPTY, wide=_LEGEND - 2)
    shades = np.linspace(low, high, between.shape[1])
    between[1:] = [_colour(float(shade), low, high) for shade in shades]
    return [_number(low, low, high, form), between, _number(high, low, high, form)]


def _colour(value: float, low: float, high: float) -> tuple[int, ...]:
    share = min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0
    return tuple(round(a + share * (b - a)) for a, b in zip(_LOW, _HIGH, strict=True))


def _cell(text: str, colour: tuple[int, ...], *, wide: int = 1) -> Pixels:
    """Return one cell, or several in one; its text is light if the ground is dark."""
    import numpy as np

    cell: Pixels = np.empty((CELL[0], wide * CELL[1], 3), dtype=np.uint8)
    cell[:] = colour
    cell[0], cell[:, 0] = _EMPTY, _EMPTY  # a hairline between cells
    if text:
        ink = _INK if sum(colour) > 380 else _EMPTY
        mask = _written(text)[:, : cell.shape[1]]
        top, left = ((cell.shape[at] - mask.shape[at]) // 2 for at in (0, 1))
        cell[top : top + mask.shape[0], left : left + mask.shape[1]][mask] = ink
    return cell


def _written(text: str) -> NDArray[np.bool_]:
    import numpy as np

    gap = np.zeros((5, 1), dtype=bool)
    parts = []
    for letter in text:
        rows = [[bool(int(digit) >> bit & 1) for bit in (2, 1, 0)] for digit in _GLYPHS[letter]]
        parts += [np.array(rows), gap]
    return np.kron(np.hstack(parts), np.ones((_SCALE, _SCALE), dtype=bool)).astype(bool)


def _png(pixels: Pixels) -> bytes:
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


THETAS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
RELATIVES = (0.0, 0.3, 0.42, 0.55)
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """What one pair of thresholds comes to over all questions."""

    theta: float  # ``gate.theta``, and ``gate.nli_theta`` if a model gates
    relative: float  # ``gate.relative``
    kept_relevant: float  # share of the expected items among the candidates that pass the gate
    shown: float  # share of them that stands in the finished prompts
    candidates: float  # mean number of candidates that pass
    tokens: float  # mean tokens of a prompt
    # mean tokens that A4 left out: behind the end of the evidence, repeated, or outside of a window
    saved: float
    answered: float  # share of the questions whose prompt says so of all their pieces
    perhaps: float  # share of those that are *perhaps* answered at worst
    not_found: float  # share of those with a piece that is *not found*
    found: int  # expected items among the candidates, over all questions
    questions: int
    # digest of the questions, the generation, the other settings and the code; only points with an
    # equal one compare
    fingerprint: str

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


def point_of(
    asked: Sequence[tuple[GoldQuestion, SuperPrompt]],
    theta: float,
    relative: float,
    counter: TokenCounter,
    *,
    fingerprint: str = "",
) -> Point:
    """Add up what finished prompts hold; if nothing is found, both shares are 0."""
    found = kept = shown = candidates = tokens = saved = 0
    for question, prompt in asked:
        before = _held(question, prompt, prompt.views_by_stage["reranked"])
        found += len(before)
        repeats, same = prompt.extras.repeats, repeated_texts(prompt)
        view = [*prompt.views_by_stage["a3"], *repeats]
        kept += len(before & _held(question, prompt, view))
        texts = shown_texts(prompt)
        named = [i for i, holder in repeats.items() if same.get(holder)]
        view = [*prompt.final_selection_ids, *named]
        shown += len(before & _held(question, prompt, view, texts))
        candidates += len(prompt.views_by_stage["a3"])
        tokens += prompt.extras.enforced.total_tokens
        saved += sum(row.tokens for row in savings_of(prompt, counter))
    words = word_shares(worst_word(prompt.extras.answers) for _, prompt in asked)
    return Point(
        theta=theta,
        relative=relative,
        kept_relevant=round(kept / max(1, found), _DIGITS),
        shown=round(shown / max(1, found), _DIGITS),
        candidates=round(candidates / len(asked), 2),
        tokens=round(tokens / len(asked), 1),
        saved=round(saved / len(asked), 1),
        **{word.replace(" ", "_"): share for word, share in words.items()},
        found=found,
        questions=len(asked),
        fingerprint=fingerprint,
    )


def _held(
    question: GoldQuestion,
    prompt: SuperPrompt,
    chunk_ids: Iterable[str],
    texts: Mapping[str, str] | None = None,
) -> set[int]:
    """Return which expected items are, or stand in, some chunks."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    rows = [(chunks[i].source, (texts or {}).get(i, chunks[i].snippet)) for i in chunk_ids]
    return {at for at, rank in enumerate(question.ranks(rows)) if rank}


def word_shares(said: Iterable[str]) -> dict[str, float]:
    """Return the share of each of the three words."""
    found = Counter(said)
    return {word: round(found[word] / found.total(), _DIGITS) for word in WORDS}


@dataclass(frozen=True, slots=True)
class Variant:
    """What the prompts of gold questions come to under some settings."""

    settings: Mapping[str, str]  # dotted key → value, of those that are varied
    report: PromptReport

    @property
    def words(self) -> dict[str, float]:
        """Shares of the questions by the worst word that their prompt says of a piece."""
        return word_shares(row.word for row in self.report.rows)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        figures: dict[str, Json] = {**self.report.figures.to_json()}
        return {"settings": {**self.settings}, "figures": figures, "words": {**self.words}}


def write_point(folder: Path, point: Point) -> Path:
    """Keep a point in a file of its own, so that several processes can sweep at once."""
    path = folder / f"{point.theta:g}-{point.relative:g}.json"
    replace_text(path, json.dumps(point.to_json(), indent=1) + "\n")
    return path


def read_points(folder: Path, fingerprint: str) -> list[Point]:
    """Return the kept points that were measured on what holds now, in order."""
    kept = (sidecar.read(path, Point) for path in folder.glob("*.json"))
    points = [point for point in kept if point and point.fingerprint == fingerprint]
    return sorted(points, key=lambda point: (point.theta, point.relative))


def pictures(points: Sequence[Point]) -> dict[str, bytes]:
    """Return the heat maps as PNG: ``kept relevant``, ``shown`` and ``tokens``.

    θ grows to the right, the relative threshold downwards; the smallest number is the lightest.
    """
    thetas = sorted({point.theta for point in points})
    relatives = sorted({point.relative for point in points})
    at = {(point.theta, point.relative): point for point in points}

    def drawn(name: str, form: str) -> bytes:
        field = name.replace(" ", "_")
        found = {pair: float(getattr(point, field)) for pair, point in at.items()}
        values = [[found.get((t, r)) for t in thetas] for r in relatives]
        low, high = min(found.values()), max(found.values())
        names = (name, "theta", "relative")
        return heat_map(
            values, names=names, columns=thetas, rows=relatives, low=low, high=high, form=form
        )

    forms = {"kept relevant": ".3f", "shown": ".3f", "tokens": ".0f"}
    return {name: drawn(name, form) for name, form in forms.items()}
