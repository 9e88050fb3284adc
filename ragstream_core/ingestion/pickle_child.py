"""The child that reads a foreign pickle: the only module of the project that imports pickle.

It is run as a script, imports the standard library alone, and gets the file on stdin. No name of
the pickle is ever resolved: arrays, dtypes and containers become the recorders below, every other
name ends the reading. Beside that, the process is limited (memory, CPU, no files written, no child
process), has no network where the system allows that, and an audit hook that cannot be removed
refuses whatever a pickle has no business with: opening, importing, connecting, executing.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import io
import json
import math
import os
import pickle
import resource
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

ALLOWED_EVENTS = ("pickle.find_class", "object.__getattr__", "object.__setattr__")
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TEXTS = ("texts", "documents", "chunks", "snippets")
TEXT = ("text", "document", "chunk", "snippet", "page_content")
VECTORS, VECTOR = ("vectors", "embeddings"), ("vector", "embedding")
METADATA = ("metadata", "metadatas", "meta")
NAMES = ("id", "source", "path", "file", "filename")


class NotAllowed(Exception):
    """The pickle is not one that may be read; the message says why."""


class DType:
    """Records a dtype: kind, bytes of an item, byte order."""

    def __init__(self, code: str, *flags: object) -> None:
        if not isinstance(code, str) or code[:1] not in tuple("fiubSUO"):
            raise NotAllowed(f"holds an array of type {str(code)[:20]!r}")
        size = int(code[1:] or 8)
        if not 0 <= size <= 1 << 20:
            raise NotAllowed("holds an array with items of an impossible size")
        self.kind, self.order = code[0], "<"
        self.width = size * (4 if self.kind == "U" else 1)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take the byte order; fields and sub-arrays are not for documents."""
        if state[2] is not None or state[3] is not None:
            raise NotAllowed("holds a structured array")
        self.order = ">" if state[1] == ">" else "<"

    def values(self, data: bytes) -> list[Any]:
        """Return the items of a buffer: texts, integers, or None for what nobody needs."""
        if self.kind == "O":
            raise NotAllowed("holds a damaged array")
        if self.kind in "fb" or not self.width:
            return [None] * (len(data) // self.width if self.width else 0)
        parts = [data[at : at + self.width] for at in range(0, len(data), self.width)]
        if self.kind in "iu":
            order: Any = "little" if self.order == "<" else "big"
            return [int.from_bytes(part, order, signed=self.kind == "i") for part in parts]
        wide = "utf-32-le" if self.order == "<" else "utf-32-be"
        name = wide if self.kind == "U" else "utf-8"
        return [part.decode(name, "replace").rstrip("\0") for part in parts]


class Array:
    """Records an array: its shape, and its items where there is one dimension."""

    shape: tuple[int, ...] = ()
    dtype: DType | None = None
    data: bytes | list[Any] = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take (version, shape, dtype, Fortran order, data)."""
        _, self.shape, self.dtype, _, self.data = state
        self.check()

    def check(self) -> None:
        """Refuse what is not an array."""
        dtype, shape = self.dtype, self.shape
        if not isinstance(dtype, DType) or not isinstance(shape, tuple):
            raise NotAllowed("holds a damaged array")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise NotAllowed("holds an array of an impossible shape")
        whole = math.prod(shape) * (1 if dtype.kind == "O" else dtype.width)
        if len(self.data) != whole:
            raise NotAllowed("holds an array whose data does not have its shape")

    def items(self) -> list[Any]:
        """Return the items along the first dimension; rows of numbers are None."""
        if len(self.shape) != 1 or self.dtype is None:
            return [None] * (self.shape[0] if self.shape else 0)
        if isinstance(self.data, list):
            return self.data
        return self.dtype.values(bytes(self.data))


class NDArray:
    """Stands for the class ``numpy.ndarray``."""


def reconstruct(subtype: object, shape: object, code: object) -> Array:
    """Begin an array as NumPy's ``_reconstruct`` does."""
    if subtype is not NDArray:
        raise NotAllowed("holds an array of a foreign class")
    return Array()


def from_buffer(data: Any, dtype: Any, shape: Any, order: object = "C", *more: object) -> Array:
    """Make an array of a buffer, as pickle protocol 5 stores it."""
    array = Array()
    array.data, array.dtype, array.shape = bytes(data), dtype, shape
    array.check()
    return array


def scalar(dtype: DType, data: object = b"") -> Any:
    """Return a NumPy scalar as a plain value; a float is of no use here."""
    if not isinstance(dtype, DType) or not isinstance(data, bytes):
        raise NotAllowed("holds a damaged scalar")
    return (dtype.values(data) or [None])[0]


def encode(text: str, coding: str) -> bytes:
    """Return the bytes that protocols 0 to 2 store as text."""
    if coding not in ("latin1", "latin-1"):
        raise NotAllowed(f"asks for the codec {str(coding)[:20]!r}")
    return text.encode("latin-1")


_KNOWN: dict[str, dict[str, Any]] = {
    "_codecs": {"encode": encode},
    "builtins": {"set": set, "frozenset": frozenset},
    "__builtin__": {"set": set, "frozenset": frozenset},
    "collections": {"OrderedDict": OrderedDict},
    "numpy": {"ndarray": NDArray, "dtype": DType},
}
for _core in ("core", "_core"):
    _KNOWN[f"numpy.{_core}.multiarray"] = {"_reconstruct": reconstruct, "scalar": scalar}
    _KNOWN[f"numpy.{_core}.numeric"] = {"_frombuffer": from_buffer}


class Reader(pickle.Unpickler):
    """An unpickler that resolves the names of `_KNOWN` to recorders and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the recorder for a name."""
        known = _KNOWN.get(module, {})
        if name not in known:
            raise NotAllowed(f"names {module}.{name}, which no array or container needs")
        return known[name]

    def persistent_load(self, pid: object) -> Any:
        """Refuse references to the outside."""
        raise NotAllowed("refers to something outside the file")


def rows_of(loaded: object) -> tuple[list[dict[str, Any]], int]:
    """Return records with ``name`` and ``text`` from the accepted shapes, and how many vectors."""
    if isinstance(loaded, dict):
        if _first(loaded, TEXTS) is not None:
            return _columns(loaded)
        loaded = [
            {"id": key, **(row if isinstance(row, dict) else {"text": row})}
            for key, row in loaded.items()
        ]
    if isinstance(loaded, Array):
        loaded = loaded.items()
    if not isinstance(loaded, (list, tuple)) or not loaded:
        raise NotAllowed("is neither a dict with texts nor a list of records")
    rows, vectors = [], 0
    for number, row in enumerate(loaded):
        if not isinstance(row, dict):
            raise NotAllowed(f"record {number} is not a dict")
        rows.append(_row(row, _first(row, METADATA), _first(row, TEXT), number))
        vectors += _first(row, VECTOR) is not None
    return rows, vectors


def _columns(table: dict[Any, Any]) -> tuple[list[dict[str, Any]], int]:
    texts = _items(_first(table, TEXTS))
    names = _items(table.get("ids")) or [None] * len(texts)
    metas = _items(_first(table, METADATA)) or [None] * len(texts)
    vectors = _items(_first(table, VECTORS))
    sizes = {len(texts), len(names), len(metas), len(vectors) or len(texts)}
    if len(sizes) > 1:
        raise NotAllowed(f"its columns have different lengths: {sorted(sizes)}")
    rows = zip(names, metas, texts, strict=True)
    return [_row({"id": i}, m, t, number) for number, (i, m, t) in enumerate(rows)], len(vectors)


def _row(row: dict[Any, Any], meta: object, text: object, number: int) -> dict[str, Any]:
    if not isinstance(text, str):
        raise NotAllowed(f"record {number} has no text")
    places = [row, meta] if isinstance(meta, dict) else [row]
    values = [place.get(name) for place in places for name in NAMES]
    named = (str(value) for value in values if isinstance(value, (str, int)) and value != "")
    return {"name": next(named, str(number)), "text": text}


def _first(row: dict[Any, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _items(column: object) -> list[Any]:
    if column is None:
        return []
    if isinstance(column, Array):
        return column.items()
    if isinstance(column, (list, tuple)):
        return list(column)
    raise NotAllowed("a column is neither a list nor an array")


def confine(memory_bytes: int, cpu_s: int) -> None:
    """Take everything from this process that reading a pickle does not need."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNET)  # best effort: no network at all
    for what, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 3),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (value, value))
    sys.addaudithook(_refuse_event)


def _refuse_event(event: str, args: tuple[Any, ...]) -> None:
    if event not in ALLOWED_EVENTS:
        raise NotAllowed(f"tries {event}")


def answer(data: bytes) -> dict[str, Any]:
    """Return ``rows`` and ``vectors``, or ``refused`` with the reason."""
    try:
        rows, vectors = rows_of(Reader(io.BytesIO(data)).load())
        return {"rows": rows, "vectors": vectors}
    except NotAllowed as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"refused": "needs more memory than the limit"}
    except RecursionError:
        return {"refused": "is nested too deep"}
    except Exception as error:  # a hostile file may raise anything
        return {"refused": f"is not a readable pickle: {type(error).__name__}"}


def main() -> None:
    """Read stdin, answer JSON on stdout; the limits are the two arguments."""
    data = sys.stdin.buffer.read()
    for coding in ("utf-32-le", "utf-32-be", "latin-1", "utf-8"):
        codecs.lookup(coding)  # loads it while importing is still possible
    json.dumps({})
    confine(int(sys.argv[1]), int(sys.argv[2]))
    written = json.dumps(answer(data)).encode("ascii")
    while written:
        written = written[os.write(1, written) :]
    os._exit(0)


if __name__ == "__main__":
    main()
