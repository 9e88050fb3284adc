"""What a settings section is made of, and what a setting may be in words.

The words are the same in the reference, in the Launchpad and in errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr
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


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""A list of names or globs; from a text, separated by commas."""


class Section(BaseModel):
    """A frozen group of settings; an unknown name is refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
        defer_build=True,
        allow_inf_nan=False,
    )
