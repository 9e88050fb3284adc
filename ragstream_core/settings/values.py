"""What a settings section is made of, and what a setting may be in words.

The words are the same in the reference, in the Launchpad and in errors.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SecretStr,
    StringConstraints,
)
from pydantic.fields import FieldInfo

_NAMES = (
    (bool, "true, false"),
    (int, "integer"),
    (float, "number"),
    (str, "text"),
    (SecretStr, "text"),
)
_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))


def default_of(field: FieldInfo) -> str:
    """Return a setting's default as Markdown."""
    value = field.default
    if hasattr(value, "get_secret_value"):
        value = value.get_secret_value()
    return "(empty)" if value == "" else f"`{json.dumps(value).strip(chr(34))}`"


def values_of(field: FieldInfo) -> str:
    """Return a setting's choices, or its kind and its range, as Markdown."""
    choices = getattr(field.annotation, "__args__", ())
    if choices and all(isinstance(choice, str) for choice in choices):
        return ", ".join(f"`{choice}`" for choice in choices)
    name = next((name for kind, name in _NAMES if field.annotation is kind), "list of texts")
    return " ".join([name, *_bounds(field)])


def _bounds(field: FieldInfo) -> Iterator[str]:
    for limit in field.metadata:
        for attribute, sign in _BOUNDS:
            value: Any = getattr(limit, attribute, None)
            if value is not None:
                yield f"{sign} {value}"


def _listed(value: object) -> Any:
    """Read ``a, b`` as a list: on the command line and in the environment nobody writes JSON."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


# A list of names or globs; from a text, separated by commas.
Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Section(BaseModel):
    """A frozen group of settings; an unknown name is refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
        defer_build=True,
        allow_inf_nan=False,
    )


TASK_PLACE = "task"

# What a template may name in braces; all but the task may be empty in a prompt.
PLACES = (TASK_PLACE, "role", "tone", "audience", "depth")
REFUSAL_PLACE = "{refusal}"
MAX_VOICE_CHARS = 500
MAX_TEMPLATE_CHARS = 8_000
MAX_WORDING_CHARS = 4_000
_PLACES = re.compile(r"\{(\w*)\}")


@functools.lru_cache(maxsize=64)  # settings are validated for every stage of a prompt
def _template(text: str) -> str:
    """Return a template as it stands; the empty one wraps nothing."""
    if not text.strip():
        return ""
    named = _PLACES.findall(text)
    known = ", ".join(f"{{{name}}}" for name in PLACES)
    _require_known(named, PLACES, f"there are {known}")
    if named.count(TASK_PLACE) != 1:
        raise ValueError(f"write {{{TASK_PLACE}}} once, where your task belongs")
    return _short(text, MAX_TEMPLATE_CHARS)


@functools.lru_cache(maxsize=64)  # settings are validated for every stage of a prompt
def _wording(text: str) -> str:
    """Return a wording as it stands; the empty one stands for ours."""
    if not text.strip():
        return ""
    place = REFUSAL_PLACE.strip("{}")
    _require_known(_PLACES.findall(text), (place,), f"the only one is {REFUSAL_PLACE}")
    if REFUSAL_PLACE not in text:
        raise ValueError(f"write {REFUSAL_PLACE} where the sentence of refusal belongs")
    return _short(text, MAX_WORDING_CHARS)


def _require_known(named: Sequence[str], places: Sequence[str], known: str) -> None:
    if unknown := sorted({f"{{{name}}}" for name in named if name not in places}):
        raise ValueError(f"{', '.join(unknown)} is no place; {known}")


def _short(text: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(f"{len(text):,} characters are more than {most:,}")
    return text


# A role, a tone or a system line; empty: not set.
Voice = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_VOICE_CHARS)]
# Empty, or a text that holds ``{task}`` once and no place in braces beside `PLACES`.
Template = Annotated[str, AfterValidator(_template)]
# Empty, or a text that holds ``{refusal}`` and no other place in braces.
Wording = Annotated[str, AfterValidator(_wording)]
