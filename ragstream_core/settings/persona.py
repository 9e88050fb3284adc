"""Wording that a person may replace in settings or a task profile: who answers, and templates.

A template is a text with one named place in it.
"""

from __future__ import annotations

import functools
import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

TASK_PLACE = "task"
PLACES = (TASK_PLACE, "role", "tone", "audience", "depth")
"""What a template may name in braces; all but the task may be empty in a prompt."""
MAX_VOICE_CHARS = 500
MAX_TEMPLATE_CHARS = 8_000
_PLACES = re.compile(r"\{(\w*)\}")

Voice = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_VOICE_CHARS)]
"""A role, a tone or a system line; empty: not set."""


@functools.lru_cache(maxsize=64)  # settings are validated for every stage of a prompt
def _template(text: str) -> str:
    """Return a template as it stands; the empty one wraps nothing."""
    if not text.strip():
        return ""
    named = _PLACES.findall(text)
    known = ", ".join(f"{{{name}}}" for name in PLACES)
    unknown = sorted({f"{{{name}}}" for name in named if name not in PLACES})
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is no place; there are {known}")
    if named.count(TASK_PLACE) != 1:
        raise ValueError(f"write {{{TASK_PLACE}}} once, where your task belongs")
    if len(text) > MAX_TEMPLATE_CHARS:
        raise ValueError(f"{len(text):,} characters are more than {MAX_TEMPLATE_CHARS:,}")
    return text


Template = Annotated[str, AfterValidator(_template)]
"""Empty, or a text that holds ``{task}`` once and no place in braces beside `PLACES`."""


REFUSAL_PLACE = "{refusal}"
MAX_CHARS = 4_000
_TEXT_PLACES = re.compile(r"\{\w*\}")


@functools.lru_cache(maxsize=64)  # settings are validated for every stage of a prompt
def _wording(text: str) -> str:
    """Return a wording as it stands; the empty one stands for ours."""
    if not text.strip():
        return ""
    unknown = sorted(set(_TEXT_PLACES.findall(text)) - {REFUSAL_PLACE})
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is no place; the only one is {REFUSAL_PLACE}")
    if REFUSAL_PLACE not in text:
        raise ValueError(f"write {REFUSAL_PLACE} where the sentence of refusal belongs")
    if len(text) > MAX_CHARS:
        raise ValueError(f"{len(text):,} characters are more than {MAX_CHARS:,}")
    return text


Wording = Annotated[str, AfterValidator(_wording)]
"""Empty, or a text that holds ``{refusal}`` and no other place in braces."""
