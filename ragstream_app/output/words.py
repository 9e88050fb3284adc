"""Words for people: texts made safe and short, times, durations and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.services.shared_embeddings import SharedTable

KEY_DIGITS = 12
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Return a text without control characters, so that it cannot steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else REPLACEMENT for c in text)


def one_line(text: str) -> str:
    """Return a text as one printable line."""
    return printable(" ".join(text.split()))


def shortened(text: str, most: int) -> str:
    """Return a text as one printable line of about ``most`` characters; a cut is marked."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[:most].rstrip()} …"


def moment(at: str) -> str:
    """Return a time in ISO 8601 to the minute, e.g. ``2026-03-01 12:30``."""
    return at[:16].replace("T", " ")


def duration(seconds: float) -> str:
    """Return a length of time: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count: int) -> str:
    """Return a number of bytes: ``512 bytes``, ``1.5 KiB``."""
    power = min((max(count, 1).bit_length() - 1) // 10, 3)
    if power == 0:
        return f"{count:,} bytes"
    return f"{count / 1024**power:,.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"


def workers_text(queue: str, table: SharedTable) -> str:
    """Return a line with the workers of a queue, and those that are of no use here."""
    names = ", ".join(table.workers or ()) or "none; start one with `ragstream worker`"
    others = table.workers_of_other_models
    return f"workers of queue {queue}: {names}" + (
        f"; of another model: {', '.join(others)}" if others else ""
    )
