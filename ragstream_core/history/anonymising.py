"""Turns without what names a person: masks in the place of addresses, numbers, names (R-196).

What can be told by its form is found: e-mail addresses, telephone and account numbers, addresses of
machines, names of home folders, and whatever the caller finds (secrets). A person's name in a
sentence cannot; the words to mask are given.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ragstream_core.history.records import Turn
from ragstream_core.records.identity import sha256_hex

SESSION = "anonymous-{}"
_FORMS = (
    ("email", re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")),
    ("account", re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){3,7}(?:[ ]?[A-Z0-9]{1,3})?\b")),
    ("card", re.compile(r"(?<![\d.])\d{4}(?:[ -]?\d{4}){3}(?![\d.])")),
    ("address", re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    ("phone", re.compile(r"(?<![\w+/.-])(?:\+|00)[1-9](?:[ ()/-]{0,2}\d){6,14}(?!\d)")),
    ("phone", re.compile(r"(?<![\w/.-])\(?0[1-9]\d{1,4}\)?[ /-](?:[ -]?\d){4,10}(?!\d)")),
    ("home", re.compile(r"(?<=/home/)[\w.-]+|(?<=/Users/)[\w.-]+|(?<=\\Users\\)[\w.-]+")),
)
Redact = Callable[[str], str]
"""Returns a text with what the caller knows to be secret masked."""


def masked(text: str, words: Sequence[str] = (), redact: Redact = str) -> tuple[str, Counter[str]]:
    """Return a text with masks such as ``[email]``, and how often each kind was found.

    Args:
        text: Any text.
        words: Masked as ``[name]`` where they stand alone, in upper and lower case.
        redact: Asked first.
    """
    found: Counter[str] = Counter()
    result = redact(text)
    if result != text:
        found["secret"] += result.count("[redacted:") - text.count("[redacted:")
    names = sorted({word.strip() for word in words if word.strip()}, key=len, reverse=True)
    forms = list(_FORMS)
    if names:
        any_of = "|".join(map(re.escape, names))
        forms.insert(0, ("name", re.compile(rf"(?<!\w)(?:{any_of})(?!\w)", re.IGNORECASE)))
    for kind, form in forms:
        result, count = form.subn(f"[{kind}]", result)
        found[kind] += count
    return result, +found


def anonymous(turn: Turn, words: Sequence[str] = (), redact: Redact = str) -> Turn:
    """Return a turn of an anonymous conversation: masked, to the day, without what leads back.

    Left out: its id, the prompt that it answers, files, citations and the names of its speakers,
    which are masked in the texts as well.

    Args:
        turn: As it was said.
        words: Names to mask.
        redact: As for `masked`.
    """
    spoken = [name for name in turn.speakers if name not in ("user", "assistant")]
    user, said = (
        masked(text, [*words, *spoken], redact)[0] for text in (turn.user_text, turn.assistant_text)
    )
    return replace(
        Turn("", SESSION.format(sha256_hex(turn.session_id)[:8]), "", user, said),
        timestamp=f"{turn.timestamp[:10]}T00:00:00+00:00",
        tags=turn.tags,
        projects=turn.projects,
        active_dbs=turn.active_dbs,
        source=turn.source,
        importance=turn.importance,
        status=turn.status,
    )
