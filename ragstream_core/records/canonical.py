"""The canonical JSON text of records in one pass, rows of one kind column by column.

Every op's result is digested, and most of it are rows of the ledger with the same few fields.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from json.encoder import encode_basestring
from typing import Any

from ragstream_core.records.identity import canonical_json
from ragstream_core.records.json_form import Json, json_of, names_of

_Write = Callable[[Sequence[Any]], Iterable[str]]
"""Writes some values of one class."""


def canonical_text(value: Json) -> str:
    """Return `canonical_json` of the JSON form of a value."""
    (text,) = _writer(value.__class__)([value])
    return text


def _texts(values: Sequence[Any]) -> Iterable[str]:
    kinds = set(map(type, values))
    return _writer(kinds.pop())(values) if len(kinds) == 1 else map(canonical_text, values)


@functools.cache
def _writer(kind: type) -> _Write:
    """Return what writes values of a class."""
    plain: dict[type, _Write] = {
        str: functools.partial(map, encode_basestring),
        int: functools.partial(map, int.__repr__),
        float: _numbers,
        bool: lambda values: ["true" if value else "false" for value in values],
        list: _arrays,
        tuple: _arrays,
        dict: _objects,
    }
    if kind in plain:
        return plain[kind]
    if hasattr(kind, "to_json"):
        return lambda values: _texts([value.to_json() for value in values])
    if len(names_of(kind)) > 1:
        names, template = _shape(names_of(kind))
        return functools.partial(_records, operator.attrgetter(*names), template)
    if issubclass(kind, Mapping):
        return lambda values: _objects(list(map(dict, values)))
    return _one_by_one


def _one_by_one(values: Sequence[Any]) -> Iterable[str]:
    return map(canonical_json, map(json_of, values))


def _numbers(values: Sequence[float]) -> Iterable[str]:
    if not math.isfinite(sum(values)):  # perhaps it is their sum that is too large
        return _one_by_one(values)
    return map(float.__repr__, values)


def _arrays(values: Sequence[Sequence[Any]]) -> Iterable[str]:
    texts = iter(_texts(list(chain.from_iterable(values))))
    return [f"[{','.join(islice(texts, len(held)))}]" for held in values]


def _objects(values: Sequence[dict[Any, Any]]) -> Iterable[str]:
    if len(values) == 1:
        return map(_table, values)
    shapes = list(map(tuple, values))
    found = dict.fromkeys(range(len(values)), "{}")
    for names in set(shapes) - {()}:
        at = [i for i, shape in enumerate(shapes) if shape == names]
        found.update(zip(at, _shaped(names, [values[i] for i in at]), strict=True))
    return found.values()


def _shaped(keys: tuple[Any, ...], values: Sequence[dict[Any, Any]]) -> Iterable[str]:
    """Return the texts of objects with the same keys in the same order, which is kept for later."""
    if not all(key.__class__ is str for key in keys):
        return _one_by_one(values)
    names, template = _shape(keys)
    columns = [_texts([held[name] for held in values]) for name in names]
    return map(template.__mod__, zip(*columns, strict=True))


def _table(held: dict[Any, Any]) -> str:
    """Return the text of one object: its keys may be ids, and no form is worth keeping for them."""
    if not all(key.__class__ is str for key in held):
        return canonical_json(json_of(held))
    names = sorted(held)
    texts = _texts([held[name] for name in names])
    rows = map("%s:%s".__mod__, zip(map(encode_basestring, names), texts, strict=True))
    return f"{{{','.join(rows)}}}"


def _records(
    fields: Callable[[Any], tuple[Any, ...]], template: str, records: Sequence[Any]
) -> Iterable[str]:
    columns = list(zip(*map(fields, records), strict=True))
    if any(None in column for column in columns):
        return _one_by_one(records)  # a field that is None may have no place
    return map(template.__mod__, zip(*map(_texts, columns), strict=True))


@functools.lru_cache(maxsize=256)
def _shape(keys: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the keys of an object in order, and its text with a place for each value."""
    names = tuple(sorted(keys))
    rows = [f"{encode_basestring(name).replace('%', '%%')}:%s" for name in names]
    return names, f"{{{','.join(rows)}}}"
