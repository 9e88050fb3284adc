"""Raised and lowered characters in plain text, so that they never change a number or a word.

``10`` with a raised 6 is ``10^6`` and never 106; m with a raised 2 is m²; a raised 2 behind the end
of a sentence marks a note and stands in brackets. Ordinals are written as always.
"""

from __future__ import annotations

import re

_RAISED = str.maketrans("0123456789+-−–=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁼⁽⁾ⁿⁱ")
_EXPONENT = re.compile(r"[0-9+\-−–=()ni]+")
_NOTE = re.compile(r"\d{1,3}(?:\s?[,–-]\s?\d{1,3})*")
_BASE = re.compile(r"[\w)\]}]$")
_UNIT = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,3}$")
_ELEMENT = re.compile(r"[A-Z][a-z]?(?![a-z])")
_ORDINALS = frozenset(
    ["st", "nd", "rd", "th", "er", "re", "ère", "e", "è", "ème", "eme", "nde", "de", "ste", "le",
     "lle", "mme", "os", "as"]
)  # fmt: skip
_SIGNS = {"o": "º", "a": "ª", "TM": "™", "SM": "℠", "R": "®"}
_SYMBOLS = re.compile(r"[^\w^+\-−–=]+")
_ONE_TERM = re.compile(r"[+\-−–]?[\w.,]+[+\-−–]?")


def superscript(raised: str, before: str, after: str = "", *, is_note: bool = False) -> str:
    """Return how raised text is written."""
    text = " ".join(raised.split())
    if not text or _SYMBOLS.fullmatch(text):
        return text
    if after[:1] == "⁄" and text.isdigit():  # one and a half: 1 1⁄2
        return f" {text}" if before[-1:].isdigit() else text
    unbased = _NOTE.fullmatch(text) and not _BASE.search(before)
    if unbased and _ELEMENT.match(after):  # an isotope
        return text.translate(_RAISED)
    if is_note or unbased or text[0] == "[":
        gap = " " if before and not before[-1].isspace() else ""
        return gap + (text if text[0] == "[" else f"[{text}]")
    if text in _ORDINALS and before[-1:].isalnum():
        return text
    if text in _SIGNS and before[-1:].isalnum():
        return _SIGNS[text]
    if _EXPONENT.fullmatch(text) and _UNIT.search(before):
        written = text.translate(_RAISED)
    else:
        written = f"^{text}" if _ONE_TERM.fullmatch(text) else f"^({text})"
    return f"{written} " if after[:1].isdigit() else written


def subscript(lowered: str, before: str, after: str = "") -> str:
    """Return how lowered text is written: H2O, but ``101_2`` and ``log_2 8``."""
    text = " ".join(lowered.split())
    if not (re.search(r"\d", text) and (before[-1:].isdigit() or after[:1].isdigit())):
        return text
    return f"_{text}{' ' if after[:1].isdigit() else ''}"
