"""Any value as one short line of text: the same value gives the same line, and nothing raises.

dict and list become JSON-like text; arrays, tables and tensors their type, shape and first values;
anything else its ``repr``. Secrets go before anything is cut, so that no part of one is left.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any

ELLIPSIS = "…"
ARRAY_PACKAGES = ("numpy", "pandas", "pyarrow", "torch")
PREVIEW = 5
"""So many values of an array are shown."""
LOOKAHEAD = 8_400
"""Characters beyond the cut in which a secret may end: the longest pattern spans 8,000."""
_MAX_DEPTH = 6
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

Redact = Callable[[str], str]


def one_line(text: str) -> str:
    """Return a text with escapes for line breaks and whatever else cannot be printed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def dump(value: Any, limit: int, redact: Redact) -> str:
    """Return a value as one line.

    Args:
        value: Anything.
        limit: Most characters; what is longer ends in ``…`` and its length.
        redact: Replaces secrets in a text.

    Returns:
        At most ``limit`` characters and the mark of the cut, e.g. ``… (len=1024)``.
    """
    reach = limit + LOOKAHEAD
    if isinstance(value, str):
        return clip(redact(value[:reach]), limit, len(value))
    written, size = [], 0
    try:
        for piece in _pieces(value, functools.partial(_leaf, reach=reach, redact=redact), ()):
            written.append(piece)
            size += len(piece)
            if size > reach:
                break
    except Exception as error:  # a value that cannot be looked at must not stop who looks
        written.append(f"<{type(error).__name__}>")
    return clip(redact("".join(written)), limit, _length(value))


def clip(text: str, limit: int, length: int | None = None) -> str:
    """Return one line of at most ``limit`` characters, and the mark of the cut where it is longer.

    Args:
        text: Redacted already.
        limit: Most characters.
        length: What the mark says; default: the characters of the text.
    """
    line = one_line(text)
    if len(line) <= limit:
        return line
    return f"{line[:limit]}{ELLIPSIS} (len={len(text) if length is None else length})"


def about(value: Any) -> str:
    """Return what a value is, without anything of it: ``str of 12``, ``ndarray (3, 4) float32``."""
    name = type(value).__name__
    if _is_array(value):
        return " ".join([name, *_measures(value)])
    length = _length(value)
    return name if length is None else f"{name} of {length}"


def _leaf(text: str, *, reach: int, redact: Redact) -> str:
    return json.dumps(redact(text[:reach]), ensure_ascii=False)


def _pieces(value: Any, leaf: Callable[[str], str], above: tuple[int, ...]) -> Iterator[str]:
    """Yield the text of a value bit by bit, so that nobody writes more of it than is shown."""
    if id(value) in above or len(above) > _MAX_DEPTH:
        yield ELLIPSIS
    elif isinstance(value, str):
        yield leaf(value)
    elif value is None or isinstance(value, (bool, int, float)):
        yield json.dumps(value) if type(value) in (type(None), bool, int, float) else repr(value)
    elif isinstance(value, Mapping):
        items = (
            (leaf(key if isinstance(key, str) else _represented(key)), item)
            for key, item in value.items()
        )
        yield from _bracketed("{}", items, leaf, (*above, id(value)))
    elif isinstance(value, (list, tuple, Set)):
        ordered = sorted(value, key=_represented) if isinstance(value, Set) else value
        yield from _bracketed("[]", (("", item) for item in ordered), leaf, (*above, id(value)))
    elif _is_array(value):
        yield _array(value)
    else:
        yield _represented(value)


def _bracketed(
    ends: str, items: Iterator[tuple[str, Any]], leaf: Callable[[str], str], above: tuple[int, ...]
) -> Iterator[str]:
    yield ends[0]
    for at, (name, item) in enumerate(items):
        yield (", " if at else "") + (f"{name}: " if name else "")
        yield from _pieces(item, leaf, above)
    yield ends[1]


def _represented(value: Any) -> str:
    """Return ``repr`` without addresses in memory, or what it failed with."""
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception as error:
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"


def _is_array(value: Any) -> bool:
    """Say whether a value is of an array library, without importing one."""
    package = type(value).__module__.partition(".")[0]
    return package in ARRAY_PACKAGES and (hasattr(value, "shape") or hasattr(value, "dtype"))


def _measures(value: Any) -> list[str]:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    measures = [] if shape is None else [str(tuple(shape))]
    return measures if dtype is None else [*measures, str(dtype)]


def _array(value: Any) -> str:
    """Return type, shape and first values of an array, table or tensor."""
    head = " ".join([type(value).__name__, *_measures(value)])
    try:
        if hasattr(value, "columns"):
            names = list(value.columns)[:PREVIEW] if hasattr(value, "head") else []
            first: Any = {str(name): value[name].head(PREVIEW).tolist() for name in names}
        else:
            flat = value.reshape(-1) if hasattr(value, "reshape") else value
            first = flat[:PREVIEW].tolist()
        return f"<{head} {_represented(first)}>"
    except Exception as error:
        return f"<{head} without a preview: {type(error).__name__}>"


def _length(value: Any) -> int | None:
    if isinstance(value, Collection):
        try:
            return len(value)
        except Exception:
            return None
    return None
