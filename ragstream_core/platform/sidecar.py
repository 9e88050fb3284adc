"""Small JSON files beside the data: derived, so one that is damaged counts as none."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Value = TypeVar("Value")


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # an ingest with nothing to do has no use for it

    return TypeAdapter(kind)  # kept: building one costs more than reading a file with it


def read(path: Path, kind: type[Value]) -> Value | None:
    """Return what a file holds, of this type to the last field; None if missing or damaged.

    A dataclass names the fields that its reader needs; others in the file are passed over.
    """
    adapter = _adapter(kind)  # type: ignore[arg-type]  # mypy takes no class for hashable
    try:
        value: Value = adapter.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):  # what pydantic refuses is a `ValueError` too
        return None
    return value
