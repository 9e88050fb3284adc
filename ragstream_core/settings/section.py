"""What every section of the settings is made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _listed(value: Any) -> Any:
    """Read ``a, b`` as a list: on the command line and in the environment nobody writes JSON."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""A list of names or globs; from a text, separated by commas."""


class Section(BaseModel):
    """A frozen group of settings; an unknown name is refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), defer_build=True
    )
