"""The JSON form of records: what is written from their fields, and read back by their types."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

Json = Any
"""What `json` reads and writes; its shape is known where it is read into a record."""
_Read = Callable[[Json], Json]
_PLAIN = frozenset({str, int, float, bool, type(None)})


def json_of(value: Json) -> Json:
    """Return the JSON form of a value: of a record its fields but those that are None.

    A record that is written otherwise has a method ``to_json``.

    Raises:
        TypeError: It has none.
    """
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {k: v if v.__class__ in _PLAIN else json_of(v) for k, v in value.items()}
    if kind is tuple or kind is list:
        return [v if v.__class__ in _PLAIN else json_of(v) for v in value]
    return _writer(kind)(value)


def fields_of(record: Any) -> dict[str, Json]:
    """Return the JSON form of a record's fields but those that are None: for its own ``to_json``.

    Raises:
        TypeError: It is no record, or a field has no JSON form.
    """
    row: dict[str, Json] = _fields_writer(record.__class__)(record)
    return row


@functools.cache
def _writer(kind: type) -> _Read:
    """Return what writes the values of a class that JSON does not know."""
    if hasattr(kind, "to_json"):
        write: _Read = kind.to_json
        return write
    if _fields(kind):
        return _fields_writer(kind)
    if issubclass(kind, Mapping):
        return lambda value: json_of(dict(value))
    raise TypeError(f"{kind.__name__} has no JSON form")


@functools.cache
def _fields_writer(kind: type) -> _Read:
    names = _fields(kind)
    if not names:
        raise TypeError(f"{kind.__name__} is no record")
    deep = [name for name, hint in get_type_hints(kind).items() if hint not in _PLAIN]
    return functools.partial(_row, names, operator.attrgetter(*names), deep)


def _row(names: tuple[str, ...], values: _Read, deep: list[str], record: Json) -> Json:
    row = dict(zip(names, values(record), strict=True))
    for name in deep:
        if row[name] is None:
            del row[name]
        else:
            row[name] = json_of(row[name])
    return row


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of a record's fields, none for anything else."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return tuple(getattr(kind, "_fields", ()))


def read_as(kind: Any, data: Json) -> Any:
    """Return the value of a type that a JSON form stands for; the inverse of `json_of`.

    Args:
        kind: A record, a tuple, a mapping or a plain type; one of them or None.
        data: Its JSON form.

    Raises:
        TypeError: A field is missing or unknown, or a value has another form.
    """
    read = _reader(kind)
    return data if read is None else read(data)


@functools.cache
def _reader(kind: Any) -> _Read | None:
    """Return what reads a type's JSON form; None if that is the value itself."""
    if hasattr(kind, "from_json"):
        read: _Read = kind.from_json
        return read
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        one = _reader(next(arg for arg in args if arg is not type(None)))
        return one and functools.partial(_optional, one)
    if origin is tuple:
        return functools.partial(_sequence, _reader(args[0]))
    if origin is Mapping:
        one = _reader(args[1])
        return one and functools.partial(_values, one)
    return _record(kind) if _fields(kind) else None


def _optional(read: _Read, data: Json) -> Json:
    return None if data is None else read(data)


def _sequence(read: _Read | None, data: Json) -> Json:
    return tuple(data) if read is None else tuple(map(read, data))


def _values(read: _Read, data: Json) -> Json:
    return {key: read(held) for key, held in data.items()}


def _record(kind: Any) -> _Read:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
    changed = {name: read for name, read in readers.items() if read is not None}
    if not changed:
        return lambda data: kind(**data)

    def read(data: Json) -> Json:
        return kind(**{k: changed[k](v) if k in changed else v for k, v in data.items()})

    return read
