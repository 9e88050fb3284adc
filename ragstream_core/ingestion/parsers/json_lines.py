"""Lines of JSON as records: each says the name of every value, so that it can be read alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ragstream_core.ingestion.junk import without_junk
from ragstream_core.ingestion.parsers.engines import decoded, listed
from ragstream_core.ingestion.parsers.tables import named_values, plain

_SHORT = 200
_MOST_NUMBERS = 64  # in a list: an embedding, or a signal, says nothing to a reader
_NAMED = 20  # broken lines


def records_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return each record as a paragraph ``part: VK-1 · torque: 45``, long texts below it.

    Numbers keep the digits of the file. A line that is no JSON stays as it is.
    """
    text = decoded(data)
    text, left_out = without_junk(text, long_lines=False)
    made, broken = list[str](), list[int]()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_float=_Number, parse_int=_Number, parse_constant=str)
            made.append(_record(value))
        except (ValueError, RecursionError):
            broken.append(number)
            made.append(plain(line.strip()))
    notes = [left_out, f"lines that are no JSON: {listed(broken, _NAMED)}" if broken else ""]
    return "\n\n".join(made), "; ".join(filter(None, notes))


class _Number(str):
    """A number as the file writes it."""

    __slots__ = ()


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(value, _Number) for value in values)


def _record(value: Any) -> str:
    short, long = list[str](), list[str]()
    for name, text in _values(value, ""):
        said = f"{name}: {text}" if name else text
        (short if len(text) <= _SHORT and "\n" not in text else long).append(plain(said))
    return "\n\n".join([*(named_values(short) if short else []), *long])


def _values(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield each value of a record with its name, ``address.city`` or ``lines[2].part``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for n, inner in enumerate(value):
            yield from _values(inner, f"{name}[{n}]")
    elif isinstance(value, list) and len(value) > _MOST_NUMBERS and _are_numbers(value):
        yield name, f"{', '.join(value[:3])}, … ({len(value)} numbers)"
    elif isinstance(value, list):
        yield name, ", ".join(text for inner in value for _, text in _values(inner, ""))
    elif isinstance(value, bool):
        yield name, str(value).lower()
    elif value is not None and str(value).strip():
        yield name, str(value).strip()
