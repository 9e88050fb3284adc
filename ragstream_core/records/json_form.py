"""The JSON form of records: what is written from their fields, and read back by their types."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

# What `json` reads and writes; its shape is known where it is read into a record.
Json = Any
_Read = Callable[[Json], Json]
_PLAIN = frozenset({str, int, float, bool, type(None)})


def json_of(value: Json) -> Json:
    """Return the JSON form of a value: of a record its fields but those that are None.

    A record that is written otherwise has a method ``to_json``.
    """
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {k: v if v.__class__ in _PLAIN else json_of(v) for k, v in value.items()}
    if kind is tuple or kind is list:
        return [v if v.__class__ in _PLAIN else json_of(v) for v in value]
    return _writer(kind)(value)


def report_of(value: Json) -> Json:
    """Return the JSON form of what people are told: of a record all its fields, None among them.

    A record that is written otherwise has a method ``to_json``.
    """
    if hasattr(value, "to_json"):
        return report_of(value.to_json())
    if names := names_of(value.__class__):
        return {name: report_of(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: report_of(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [report_of(held) for held in value]
    return value


def fields_of(record: Any) -> dict[str, Json]:
    """Return the JSON form of a record's fields but those that are None."""
    row: dict[str, Json] = _fields_writer(record.__class__)(record)
    return row


@functools.cache
def _writer(kind: type) -> _Read:
    """Return what writes the values of a class that JSON does not know."""
    if hasattr(kind, "to_json"):
        write: _Read = kind.to_json
        return write
    if names_of(kind):
        return _fields_writer(kind)
    if issubclass(kind, Mapping):
        return lambda value: json_of(dict(value))
    raise TypeError(f"{kind.__name__} has no JSON form")


@functools.cache
def _fields_writer(kind: type) -> _Read:
    names = names_of(kind)
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
def names_of(kind: type) -> tuple[str, ...]:
    """Return the names of a record's fields, none for anything else."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return tuple(getattr(kind, "_fields", ()))


def read_as(kind: Any, data: Json) -> Any:
    """Return the value of a type that a JSON form stands for; the inverse of `json_of`."""
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
        return functools.partial(_sequence, _reader(args[0]), _classes(args[0]))
    if origin is Mapping:
        return functools.partial(_values, _reader(args[1]), _classes(args[1]))
    return _record(kind) if names_of(kind) else None


def _classes(kind: Any) -> frozenset[type]:
    """Return the classes of a plain type's values, of one or None likewise; of others none."""
    if get_origin(kind) in (Union, types.UnionType):
        each = [_classes(arg) for arg in get_args(kind)]
        return frozenset().union(*each) if all(each) else frozenset()
    if kind is float:
        return frozenset({float, int})
    return frozenset({kind}) if kind in _PLAIN else frozenset()


def _optional(read: _Read, data: Json) -> Json:
    return None if data is None else read(data)


def _sequence(read: _Read | None, classes: frozenset[type], data: Json) -> Json:
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"no list: {type(data).__name__}")
    for held in data if classes else ():
        _require(classes, held, "an item")
    return tuple(data) if read is None else tuple(map(read, data))


def _values(read: _Read | None, classes: frozenset[type], data: Json) -> Json:
    if not isinstance(data, Mapping):
        raise TypeError(f"no object: {type(data).__name__}")
    for held in data.values() if classes else ():
        _require(classes, held, "a value")
    return data if read is None else {key: read(held) for key, held in data.items()}


def _require(classes: frozenset[type], value: Json, what: str) -> None:
    if value.__class__ not in classes:
        raise TypeError(f"{what} is a {type(value).__name__}")


def _record(kind: Any) -> _Read:
    hints = get_type_hints(kind)
    readers = {name: _reader(hint) for name, hint in hints.items()}
    changed = {name: read for name, read in readers.items() if read is not None}
    plain = {name: found for name, hint in hints.items() if (found := _classes(hint))}

    def read(data: Json) -> Json:
        """Return the record."""
        if not isinstance(data, Mapping):
            raise TypeError(f"no {kind.__name__}: {type(data).__name__}")
        for name in plain.keys() & data.keys():
            _require(plain[name], data[name], f"{kind.__name__}.{name}")
        return kind(**{k: changed[k](v) if k in changed else v for k, v in data.items()})

    return read
