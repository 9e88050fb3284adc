"""From a question to the statement that a passage would entail if it answered it.

An entailment model judges statements: "who writes the catalog?" is neither true nor false,
"somebody writes the catalog" is. Rules over the words, for English and some German; what they
cannot turn is asked about the text itself ("The text answers: …").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

_DONE = (
    r"(?:\w+(?:ed|en|wn|ept|ilt)|made|set|read|found|put|held|sent|sold|told|said|cut|run|lost|left"
    r"|stored|done|gone|meant|paid|laid)\b"
)
_TOLD = (
    rf"{_DONE}(?: (?:by|in|on|at|to|from|with|for|again|as|into|after|before|first|twice|when|if)"
    r"\b.*)?"
)
_BE = r"(is|are|was|were)"
_MAY = r"(?:do|can|could|should|must|may)"
_SELF = r"(?:i|you|we|one)"
_LEADS = re.compile(r"^\s*(?:(?:and|but|so|please|also|then|or|und|aber)[, ]+)+", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:who|what|which|where|when|why|how|whose|is|are|was|were|do|does|did|can|could|should|must"
    r"|may|will|would|has|have|wer|was|wo|wann|warum|wie|welche[rsnm]?|ist|sind|kann|darf|muss)\b",
    re.IGNORECASE,
)
_GERMAN = re.compile(
    r"(?:wer|was|wo|wann|warum|wie|welche[rsnm]?|ist|sind|kann|darf|muss)\b.*"
    r"(?:\b(?:der|die|das|den|ein|eine|ist|sind|wird|werden|man|ich)\b|[äöüß])",
    re.IGNORECASE,
)
Turn = Callable[[re.Match[str]], str]
_RULES: tuple[tuple[str, Turn], ...] = (
    (r"how (?:many|much) (.+)", lambda m: f"some amount of {m[1]}"),
    (rf"how {_MAY} {_SELF} (.+)", lambda m: f"you can {m[1]} in some way"),
    (rf"where {_MAY} {_SELF} (.+)", lambda m: f"you can {m[1]} somewhere"),
    (rf"when {_MAY} {_SELF} (.+)", lambda m: f"you can {m[1]} at some time"),
    (rf"what {_MAY} {_SELF} (.+)", lambda m: f"you can {m[1]} something"),
    (rf"where {_BE} (.+) ({_TOLD})", lambda m: f"{m[2]} {m[1]} {m[3]} somewhere"),
    (rf"when {_BE} (.+) ({_TOLD})", lambda m: f"{m[2]} {m[1]} {m[3]} at some time"),
    (rf"why {_BE} (.+) ({_TOLD})", lambda m: f"{m[2]} {m[1]} {m[3]} for some reason"),
    (rf"how {_BE} (.+) ({_TOLD})", lambda m: f"{m[2]} {m[1]} {m[3]} in some way"),
    (rf"where {_BE} (.+)", lambda m: f"{m[2]} {m[1]} somewhere"),
    (rf"when {_BE} (.+)", lambda m: f"{m[2]} {m[1]} at some time"),
    (rf"what {_BE} ({_DONE}.*)", lambda m: f"something {m[1]} {m[2]}"),
    (rf"what {_BE} (.+)", lambda m: f"{m[2]} {m[1]} something"),
    (rf"who {_BE} (?!{_DONE})(.+)", lambda m: f"{m[2]} {m[1]} somebody"),
    (r"who (?!do\b|does\b|did\b)(.+)", lambda m: f"somebody {m[1]}"),
    (r"what (?!(?:do|does|did|can|could|should|must|may|will|would|has|have|had)\b|kind|type|sort)"
     r"((?:\w+(?:s|ed)\b).*)", lambda m: f"something {m[1]}"),
    (r"(?:which|what) (\w+) ((?!do\b|does\b|did\b)\w+(?:s|ed)\b (?!(?:i|you|we)\b).+)",
     lambda m: f"some {m[1]} {m[2]}"),
    (rf"{_BE} there (.+)", lambda m: f"there {m[1].lower()} {m[2]}"),
    (r"wer (?!ist\b|sind\b)(.+)", lambda m: f"jemand {m[1]}"),
    (r"(?:wer|was) (ist|sind) (.+)", lambda m: f"{m[2]} {m[1]} etwas"),
    (r"wo (ist|sind|liegt|liegen|steht|stehen) (.+)", lambda m: f"{m[2]} {m[1]} irgendwo"),
    (r"(?:explain|describe|show|tell me|list|name|summari[sz]e|define|outline) (.+)",
     lambda m: f"the text tells {m[1]}"),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), turn) for pattern, turn in _RULES)
MAX_CHARS = 400


@functools.lru_cache(maxsize=4_096)
def hypothesis_of(piece: str) -> str:
    """Return the statement that stands for a query piece.

    Args:
        piece: A question, an instruction or a statement; a statement stays as it is.

    Returns:
        One sentence with its full stop; never a question.
    """
    said = " ".join(piece.split()).strip()
    bare = _LEADS.sub("", said).rstrip(" ?.!。？！")
    if not bare or len(bare) > MAX_CHARS or re.search(r"[.?!] ", bare):
        return _about(said)
    found = ((pattern.fullmatch(bare), turn) for pattern, turn in _COMPILED)
    turned = next((turn(match) for match, turn in found if match), "")
    if turned:
        return f"{turned[0].upper()}{turned[1:]}."
    is_question = said.endswith(("?", "？")) or _ASKS.match(bare) is not None
    return _about(said) if is_question else f"{bare}."


def _about(said: str) -> str:
    """Return a statement about the text, for what cannot be turned."""
    asked = said.rstrip(" ?.!？。！")
    lead = "Der Text beantwortet" if _GERMAN.match(asked) else "The text answers"
    return f"{lead}: {asked}."
