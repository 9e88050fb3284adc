"""What a question leaves out: "not owned by team red", "other than X", "except X".

A search knows no *not*: the words of what is left out would find just that. So they are not
searched for where it is sure that others are meant: behind a word that excepts, and behind who does
or owns something. "Not covered by warranty" may stand in a document as it is: nothing is taken out.
"""

from __future__ import annotations

import re

_REASONS = re.compile(
    r"\s*(?:why|how|warum|wieso|weshalb|wie|pourquoi|comment|por qué|cómo)\b"
    r"|[\s\S]*\b(?:if|when|while|because|unless|wenn|falls|weil|si|quand|parce que|cuando"
    r"|porque)\b",
    re.IGNORECASE,
)
_DONE = (
    "owned|made|run|maintained|managed|operated|supplied|written|produced|built|delivered|provided"
    "|hosted|led|created|developed|sold|published|sponsored|staffed|serviced|signed|headed"
)
_IS_DONE = (
    r"betrieben|gewartet|verwaltet|geführt|geleitet|gebaut|hergestellt|geliefert|geschrieben"
    r"|entwickelt|betreut|verantwortet|gehör\w*"
)
_EXCEPTS = (
    r"other than|except(?: for)?|apart from|aside from|excluding"
    rf"|(?:not|never) (?:{_DONE}) by|not (?:belong(?:ing)? to|part of)"
    rf"|außer|ausgenommen|abgesehen von|nicht (?:von(?=[^.?!]{{1,40}}\b(?:{_IS_DONE}))|zu)"
    r"|sauf|hormis|excepté|à l['’]exception d(?:e|u|es)|autres? que|appartien\w+ pas (?:à|au|aux)"
    r"|pas (?:gérée?s?|faite?s?|maintenue?s?|fournie?s?|exploitée?s?) par"
    r"|excepto|salvo|aparte de|distint[oa]s? (?:de|a)"
    r"|no (?:pertenece\w* a(?:l)?|son del?|es del?|(?:está|son|es)\w* \w{2,20}[oa]s? por)"
)
_WORD = (
    r"(?!(?:and|or|but|that|which|who|und|oder|et|ou|y|o|que|are|is|was|were|have|has|do|does|can"
    rf"|sind|ist|werden|{_IS_DONE})\b)[^\s,.;:!?()]{{1,40}}"
)
_EXCLUDES = re.compile(
    rf"(?:\b(?:{_EXCEPTS})|n['’]t (?:(?:{_DONE}) by|belong to|part of))"
    rf"\s+(?P<what>{_WORD}(?:\s+{_WORD}){{0,3}})",
    re.IGNORECASE,
)


def without_excluded(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without the words of what it leaves out, and these, in order.

    Args:
        text: A query piece.
    """
    if _REASONS.match(text):
        return text, ()
    found = list(_EXCLUDES.finditer(text))
    for match in reversed(found):
        text = text[: match.start("what")].rstrip() + text[match.end() :]
    return text, tuple(" ".join(match["what"].split()) for match in found)
