"""Sealed files of named arrays: the one format of arrays that are derived from an index.

The arrays lie one after the other. The description behind them names the place of each, holds what
the writer says of them, and has a seal; so a reader maps the file and parses no damaged byte. The
description may also stand in the footer of an Arrow file, whose arrays are then read without Arrow.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.records.identity import canonical_json, digest_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = bytes | memoryview
    Arrays = dict[str, npt.NDArray[Any]]

    # First byte and number of bytes of each array in a file.
    Offsets = Mapping[str, tuple[int, int]]

# Stands before a description; named after the first file that had one.
MARK = b"RAGSTREAM-HISTORY "
# Begins the message of a whole file whose stamp is another one.
OTHER = "it is of "
_TAIL = re.compile(rb".{4}(?:ARROW1|SEALED)\Z", re.DOTALL)
_TAIL_BYTES = 10
_ALIGNED = 8


def description(meta: Mapping[str, object], offsets: Offsets) -> bytes:
    """Return the description of a file, sealed."""
    described = {**meta, "arrays": offsets}
    return MARK + canonical_json(described | {"seal": digest_of(described)}).encode()


def encode(meta: Mapping[str, object], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the bytes of a file; the same content gives the same bytes.

    The arrays are contiguous and little-endian; `meta` is JSON without ``arrays``, ``crc32``,
    ``seal``.
    """
    return b"".join(stream(meta, [(name, [array.tobytes()]) for name, array in arrays.items()]))


def stream(
    meta: Mapping[str, object], arrays: Iterable[tuple[str, Iterable[bytes]]]
) -> Iterator[bytes]:
    """Yield the bytes of a file whose arrays come in parts and need not be in memory at once."""
    offsets, at, crc = {}, 0, 0
    for name, parts in arrays:
        begin = at
        for raw in parts:
            yield raw
            at, crc = at + len(raw), zlib.crc32(raw, crc)
        offsets[name] = (begin, at - begin)
        gap = bytes(-at % _ALIGNED)
        yield gap
        at, crc = at + len(gap), zlib.crc32(gap, crc)
    described = description({**meta, "crc32": crc}, offsets)
    yield described + len(described).to_bytes(4, "little") + b"SEALED"


def decode(
    data: Bytes, dtypes: Mapping[str, str], stamp: Mapping[str, object]
) -> tuple[dict[str, Any], Arrays]:
    """Read a file: what it says of itself, and its arrays, which are not copied.

    The arrays of a file that `encode` made are checked; those of an Arrow file are the caller's to
    check. A `ValueError` says what is wrong with it, or which other stamp it has.
    """
    import numpy as np

    meta, end = _described(data)
    for name, value in stamp.items():
        if meta.get(name) != value:
            raise ValueError(f"{OTHER}{name} {meta.get(name)}, this program reads {value}")
    if "crc32" in meta and zlib.crc32(memoryview(data)[:end]) != meta["crc32"]:
        raise ValueError("its arrays are damaged")
    arrays = {}
    for name, dtype in dtypes.items():
        at, size = meta["arrays"].get(name, (0, -1))
        if not 0 <= size <= len(data) - at:
            raise ValueError(f"its array {name} is missing or cut off")
        arrays[name] = np.frombuffer(data, dtype, size // np.dtype(dtype).itemsize, at)
    return meta, arrays


def has_stamp(path: Path, stamp: Mapping[str, object]) -> bool:
    """Return whether a file's description holds some values; its arrays are not looked at."""
    description = read_description(path)
    return bool(description) and description.items() >= stamp.items()


def read_description(path: Path) -> dict[str, Any]:
    """Return what a file says of its arrays, which are not looked at; empty if it is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            length = int.from_bytes(file.read(4), "little") + _TAIL_BYTES
            file.seek(max(0, size - length))
            return _described(file.read(length))[0]
    except (OSError, ValueError):
        return {}


def _described(data: Bytes) -> tuple[dict[str, Any], int]:
    """Return the description that ends some bytes, if it has its seal, and where it begins."""
    tail = bytes(data[-_TAIL_BYTES:])
    if not _TAIL.fullmatch(tail):
        raise ValueError("it does not end as such a file does")
    begin = max(0, len(data) - _TAIL_BYTES - int.from_bytes(tail[:4], "little"))
    footer = bytes(data[begin:-_TAIL_BYTES])
    at = footer.find(MARK)
    if at < 0:
        raise ValueError("it has no description of itself")
    try:
        meta, _ = json.JSONDecoder().raw_decode(footer[at + len(MARK) :].decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("its description is damaged") from None
    if not isinstance(meta, dict) or meta.pop("seal", "") != digest_of(meta):
        raise ValueError("its description is damaged")
    return meta, begin + at
