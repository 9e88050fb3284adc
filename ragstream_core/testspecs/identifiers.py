"""Identifiers: those of test cases are made from a format, those of requirements are found."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from string import Formatter

from ragstream_core.errors import AddOption, UnknownSetting, UsageError

_LITERAL = re.compile(r"[A-Za-z0-9._-]{0,32}")
_WIDTH = re.compile(r"(?:0[1-9])?d?")
_BEFORE, _AFTER = r"(?<![\w-])(?<!\d\.)", r"(?!-*\w)(?!\.\d)"
MAX_PATTERN = 200


@dataclass(frozen=True, slots=True)
class IdFormat:
    """How test cases are numbered, e.g. ``TC-{number:03d}``."""

    before: str  # letters, digits, ``.``, ``_`` and ``-`` in front of the number
    width: int  # least digits of the number, filled with zeros; 1 to 9
    after: str  # as ``before``, behind the number

    def make(self, number: int) -> str:
        """Return the identifier of a number ≥ 1."""
        return f"{self.before}{number:0{self.width}d}{self.after}"

    def number(self, identifier: str) -> int:
        """Return the number of an identifier; 0 if it is none of this format."""
        inner = identifier.removeprefix(self.before).removesuffix(self.after)
        if not (inner.isascii() and inner.isdigit() and len(inner) <= 9):
            return 0
        return int(inner) if self.make(int(inner)) == identifier else 0

    def fresh(self, taken: Collection[str], start: int = 0) -> Iterator[str]:
        """Yield identifiers that nothing has yet, in ascending order."""
        first = start or 1 + max((self.number(identifier) for identifier in taken), default=0)
        made = (self.make(number) for number in itertools.count(first))
        return (identifier for identifier in made if identifier not in taken)


def id_format(text: str) -> IdFormat:
    """Read the setting ``documentation.id_format``."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        parts = []
    fields = [part for part in parts if part[1] is not None]
    literals = [part[0] for part in parts]
    if len(fields) == 1 and all(_LITERAL.fullmatch(literal) for literal in literals):
        before, name, spec, conversion = fields[0]
        if name == "number" and not conversion and _WIDTH.fullmatch(spec or ""):
            after = literals[1] if len(parts) == 2 else ""
            return IdFormat(before, int((spec or "01").strip("d") or "1"), after)
    raise UnknownSetting(
        f"documentation.id_format = {text!r} is not a format of identifiers",
        hint="letters, digits and one number, e.g. TC-{number:03d}",
    )


def id_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern that finds whole requirement ids."""
    try:
        found = re.compile(f"{_BEFORE}(?:{text}){_AFTER}") if len(text) <= MAX_PATTERN else None
        usable = found is not None and re.fullmatch(text, "") is None
    except re.error as error:
        raise UsageError(
            f"the pattern {text!r} is not a regular expression: {error}",
            hint=("e.g. ", AddOption("--pattern 'REQ-[0-9]+'")),
        ) from None
    if found is None or not usable:
        raise UsageError(
            f"the pattern {text[:40]!r} fits the empty text or is too long",
            hint=("e.g. ", AddOption("--pattern 'REQ-[0-9]+'")),
        )
    return found


def family(identifier: str) -> str:
    """Return what identifiers of one list share: everything in front of the last number."""
    return identifier.rstrip("0123456789")
