"""What has no text layer, read by OCR: pages of a PDF that are pictures, and pictures.

A limited child reads page by page (`ocr`). What it has read when it ends stays; a page that ended
it is named, and another child goes on behind it.
"""

from __future__ import annotations

import json
import signal
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO

from ragstream_core.index.rows import pages_without_text
from ragstream_core.ingestion.parsers.engines import (
    NO_TEXT_LAYER,
    Limits,
    Parsed,
    missing,
    ocr_phrase,
    pages_phrase,
)
from ragstream_core.platform.sandbox import run_child

CHILD = "ragstream_core.ingestion.parsers.ocr"

# What one file may cost; a full page takes about 5 s of CPU.
OCR_LIMITS = Limits(memory_bytes=1_500_000_000, cpu_s=600, wall_s=1_800)

# At most so many children read one file.
CHILDREN = 4


@dataclass
class _Scans:
    """What was read of a file.

    Attributes:
        count: How many pages it has.
        pages: Those that were to be read.
        texts: What was found on them.
        problems: Why others could not be read.
        refused: Why the file could not be.
    """

    count: int = 0
    pages: list[int] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    refused: str = ""

    def take(self, answer: bytes) -> None:
        """Take what a child said; a line that it did not end is left out."""
        for line in answer.split(b"\n")[:-1]:
            told = json.loads(line)
            if "refused" in told:
                self.refused = str(told["refused"])
            elif "page" not in told:
                self.count, self.pages = int(told["count"]), self.pages or list(told["pages"])
            elif "text" in told:
                self.texts[int(told["page"])] = str(told["text"]).strip()
            else:
                self.problems[int(told["page"])] = str(told["problem"])

    @property
    def left(self) -> list[int]:
        """The pages that nothing is known of."""
        return [n for n in self.pages if n not in self.texts and n not in self.problems]


def read_scans(data: bytes, file_type: str, parsed: Parsed, limits: Limits = OCR_LIMITS) -> Parsed:
    """Return what a file says, with its pages without text, or the picture that it is, by OCR."""
    if lacking := missing("png"):
        note = parsed.note if parsed.pages else f"{parsed.note}: OCR {lacking}"
        return Parsed(parsed.pages, note)
    found, over = _Scans(), ""
    ends = time.monotonic() + limits.wall_s
    with tempfile.TemporaryFile() as given:
        given.write(data)
        for _ in range(CHILDREN):
            after = max([*found.texts, *found.problems], default=-1)
            code, answer = _asked(given, file_type, after, limits, ends - time.monotonic())
            try:
                found.take(answer)
            except (ValueError, TypeError, KeyError):
                return Parsed(parsed.pages, f"{parsed.note}; OCR gave no usable answer")
            if code in (None, -signal.SIGXCPU):
                took = f"{limits.wall_s} s" if code is None else f"{limits.cpu_s} s of CPU"
                over = f"OCR took all of its {took}"
            if over or code == 0 or found.refused:
                break
            if not found.left:
                found.refused = "" if found.pages else f"OCR ended (exit code {code})"
                break
            ended = "crashed" if code != -signal.SIGPROF else "took too much CPU"
            found.problems[found.left[0]] = f"OCR {ended} on page {found.left[0]}"
    return _merged(parsed, found, over)


def lacks_text(parsed: Parsed) -> bool:
    """Say whether pages of a PDF have no text layer."""
    if parsed.pages is None:
        return parsed.note.startswith(NO_TEXT_LAYER)
    return bool(pages_without_text(parsed.note))


def _asked(
    given: IO[bytes], file_type: str, after: int, limits: Limits, wall_s: float
) -> tuple[int | None, bytes]:
    """Give a file to a child; return how it ended, as `run_child` does, and what it said."""
    numbers = (after, limits.memory_bytes, limits.cpu_s, limits.pages, limits.text_bytes)
    with tempfile.TemporaryFile() as answer:
        given.seek(0)
        end = run_child(
            ["-m", CHILD, file_type, *map(str, numbers)], given, answer=answer,
            wall_s=max(0.0, wall_s),
        )  # fmt: skip
        answer.seek(0)
        return end.code, answer.read()


def _merged(parsed: Parsed, found: _Scans, over: str) -> Parsed:
    texts = {number: text for number, text in found.texts.items() if text}
    bare = [number for number in found.pages if number not in texts]
    notes = [over] if over else []
    if found.refused:
        notes.append(found.refused)
    else:
        notes += dict.fromkeys(found.problems.values())
    if not texts and parsed.pages is None:
        what = parsed.note or ("" if notes else "a picture in which OCR found no text")
        return Parsed(None, "; ".join(filter(None, [what, *notes])))
    pages = tuple(sorted({**dict(parsed.pages or ()), **texts}.items()))
    bare_before = pages_without_text(parsed.note)
    own_note = parsed.note.replace(f"; {bare_before}", "")
    said = [own_note if parsed.pages else f"{found.count} pages"]
    said += [pages_phrase(bare, found.count)] if bare else []
    said += [ocr_phrase(sorted(texts), found.count)] if texts else []
    if found.pages == [0]:
        said = [ocr_phrase([], 0)]
    return Parsed(pages, "; ".join([*said, *notes]))
