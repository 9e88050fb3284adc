"""`USER_MEMORY.md` and `COMPANY_MEMORY.md`: one bullet ``- <fact>`` a line (R-258).

They belong to the person: a line that nobody asks about keeps its bytes, whatever stands in it.
"""

from __future__ import annotations

from collections.abc import Iterable

NAMES = {"user": "USER_MEMORY.md", "company": "COMPANY_MEMORY.md"}
BULLET = "- "


def bullets(text: str) -> list[str]:
    """Return the facts of a file, in order; lines that are no bullets hold none."""
    return [line[2:].strip() for line in text.splitlines() if _is_bullet(line)]


def with_lines(text: str, *, add: Iterable[str] = (), drop: Iterable[str] = ()) -> str:
    """Return a file with facts added at its end, where they are not there, and others dropped.

    Args:
        text: The file.
        add: Facts, one line each.
        drop: Facts whose bullets go; nothing else changes.
    """
    gone = set(drop)
    kept = [
        line
        for line in text.splitlines(keepends=True)
        if not (_is_bullet(line) and line[2:].strip() in gone)
    ]
    there = set(bullets("".join(kept)))
    new = [fact for fact in dict.fromkeys(add) if fact not in there]
    if new and kept and not kept[-1].endswith(("\n", "\r")):
        kept[-1] += "\n"
    return "".join([*kept, *(f"{BULLET}{fact}\n" for fact in new)])


def _is_bullet(line: str) -> bool:
    return line.startswith(BULLET) and bool(line[2:].strip())
