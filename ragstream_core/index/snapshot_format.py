"""The published history as one Arrow IPC file, and how it is read without Arrow.

Anything that speaks Arrow can read the file. RAGstream maps it and takes each array from where the
file's own metadata says it lies, after checking the seal of that metadata: no damaged byte is ever
parsed (Arrow's reader was seen to crash on some flipped bits), nothing is decoded before it is
asked for, and no library has to be imported. The digest covers every array, and every value a
reader can get comes from one of them. The term arrays lie in row 0 of a column of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ragstream_core.conversations.columns import Coded, Strings
from ragstream_core.records.identity import canonical_json, digest_of
from ragstream_core.text.bm25 import LEXICAL_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    Bytes = bytes | bytearray | memoryview

VERSION = 1
"""Raised with every change of the format, and of what the words or the cap of a row are."""
NUMBERS = {
    "seq": "<i8", "seq_last": "<i8", "chunk_idx": "<i4", "start": "<i4", "end": "<i4",
    "timestamp_ns": "<i8", "importance": "<f8",
}  # fmt: skip
TEXTS = ("chunk_id", "text", "text_hash", "turn_id", "sha256", "prompt_key")
LABELS = ("session", "source")
LISTS = ("tags", "projects", "active_dbs", "versions")
"""Columns of JSON lists: a number a row, and each distinct list once, as its JSON text."""
_DTYPES = {"offsets": "<i8", "data": "|u1", "codes": "<i4"}
_MARK = b"RAGSTREAM-HISTORY "
_ROOM = 6_000
"""Bytes kept for the metadata: it names where the arrays lie, and they move with its length."""
_END = re.compile(rb".{4}ARROW1\Z", re.DOTALL)


def _names() -> dict[str, str]:
    """Return the name and type of every array but the vectors and the term arrays."""
    names = dict(NUMBERS)
    for column in (*TEXTS, *LABELS, *LISTS):
        parts = ("offsets", "data") if column in TEXTS else ("codes", "offsets", "data")
        names |= {f"{column}.{part}": _DTYPES[part] for part in parts}
    return names


ARRAYS = {**_names(), "vector": "<f4", "lexical": "|u1"}


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a snapshot.

    Attributes:
        arrays: One flat array for each name in `ARRAYS`.
        dimension: Of the vectors.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    dimension: int

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Shape (rows, dimension)."""
        return self.arrays["vector"].reshape(len(self.arrays["seq"]), self.dimension)

    @property
    def lexical(self) -> memoryview:
        """`LexicalArrays.packed`; empty where there are no rows."""
        return self.arrays["lexical"].data

    def text(self, name: str) -> Strings:
        """Return a column of texts, or the distinct values of a column of labels or lists."""
        return Strings(self.arrays[f"{name}.offsets"], self.arrays[f"{name}.data"])

    def labels(self, name: str) -> Coded[str]:
        """Return a column of labels."""
        return Coded(self.arrays[f"{name}.codes"], tuple(self.text(name)))

    def lists(self, name: str) -> Coded[tuple[Any, ...]]:
        """Return a column of lists."""
        return Coded(self.arrays[f"{name}.codes"], tuple(map(_listed, self.text(name))))

    def digest(self, embed_fp: str) -> str:
        """Return the digest of all rows, all columns and the model, 64 hex digits."""
        hashed = sha256(canonical_json([VERSION, embed_fp, self.dimension]).encode())
        for name in sorted(self.arrays):
            raw = _raw(self.arrays[name])
            hashed.update(f"{name}:{len(raw)}:".encode())
            hashed.update(raw)
        return hashed.hexdigest()


def _listed(text: str) -> tuple[Any, ...]:
    try:
        return tuple(json.loads(text))
    except (ValueError, TypeError):  # damaged: the digest says so
        return ()


def _raw(array: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).view(np.uint8).data


def arrays_of(
    numbers: Mapping[str, npt.NDArray[Any]],
    texts: Mapping[str, Strings],
    labels: Mapping[str, Coded[str]],
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of some columns.

    Args:
        numbers: Columns of numbers.
        texts: Columns of texts.
        labels: Columns of labels, and of lists as JSON.
    """
    found = dict(numbers)
    for name, text in [*texts.items(), *((n, Strings.of(c.values)) for n, c in labels.items())]:
        found |= {f"{name}.offsets": text.offsets, f"{name}.data": text.data}
    return found | {f"{name}.codes": column.codes for name, column in labels.items()}


def encode(stored: Stored, meta: Mapping[str, Any]) -> memoryview:
    """Return the bytes of the file.

    Args:
        stored: The content.
        meta: What else it says of itself; JSON.
    """
    import pyarrow as pa

    columns = _columns(stored)
    room = _MARK + b" " * (_ROOM + len(canonical_json(meta)))
    schema = pa.schema(
        [pa.field(name, column.type, nullable=False) for name, column in columns.items()],
        metadata={b"ragstream": room},
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    written = sink.getvalue()
    sealed = dict(meta) | {"arrays": _places(written)}
    sealed |= {"seal": digest_of(sealed)}
    data = bytearray(written)
    told = (_MARK + canonical_json(sealed).encode()).ljust(len(room))
    for at in [match.start() for match in re.finditer(re.escape(room), data)]:
        data[at : at + len(room)] = told
    return memoryview(data)


def _columns(stored: Stored) -> dict[str, pa.Array]:
    import pyarrow as pa

    arrays, rows = stored.arrays, len(stored.arrays["seq"])
    columns = {name: _text_column(stored.text(name)) for name in TEXTS}
    columns |= {name: pa.array(arrays[name]) for name in NUMBERS}
    columns |= {
        name: pa.DictionaryArray.from_arrays(
            pa.array(arrays[f"{name}.codes"]), _text_column(stored.text(name))
        )
        for name in (*LABELS, *LISTS)
    }
    flat = pa.array(arrays["vector"])
    columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, stored.dimension)
    ends = np.full(rows + 1, len(stored.lexical), dtype=np.int64)
    ends[0] = 0
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(stored.lexical)]
    columns["lexical"] = pa.Array.from_buffers(pa.large_binary(), rows, buffers)
    return columns


def _text_column(text: Strings) -> pa.Array:
    import pyarrow as pa

    buffers = [None, pa.py_buffer(text.offsets), pa.py_buffer(text.data)]
    return pa.Array.from_buffers(pa.large_utf8(), len(text), buffers)


def _places(written: pa.Buffer) -> dict[str, tuple[int, int]]:
    """Return where each array lies in the file: first byte and number of bytes."""
    import pyarrow as pa

    batch = pa.ipc.open_file(pa.BufferReader(written)).get_batch(0)
    buffers: dict[str, pa.Buffer] = {}
    for name in TEXTS:
        buffers |= _text_buffers(name, batch.column(name))
    for name in (*LABELS, *LISTS):
        column = batch.column(name)
        buffers |= _text_buffers(name, column.dictionary)
        buffers[f"{name}.codes"] = column.indices.buffers()[1]
    buffers |= {name: batch.column(name).buffers()[1] for name in NUMBERS}
    buffers["vector"] = batch.column("vector").values.buffers()[1]
    buffers["lexical"] = batch.column("lexical").buffers()[2]
    return {  # an empty one may lie anywhere, or be None
        name: (buffer.address - written.address, buffer.size) if buffer else (0, 0)
        for name, buffer in buffers.items()
    }


def _text_buffers(name: str, column: pa.Array) -> dict[str, pa.Buffer]:
    _, offsets, data = column.buffers()
    return {f"{name}.offsets": offsets, f"{name}.data": data}


def decode(data: Bytes) -> tuple[Stored, dict[str, Any]]:
    """Read a file's content and metadata; no row is copied or looked at.

    Args:
        data: The whole file, usually mapped.

    Raises:
        ValueError: It is no snapshot, torn, damaged where that is seen at once, or of another
            format.
    """
    meta = _meta(data)
    if meta["version"] != VERSION:
        raise ValueError(f"it is of format {meta['version']}, this program reads {VERSION}")
    words = meta.get("lexical")
    if words != LEXICAL_VERSION:
        raise ValueError(f"its words are read by the rules {words}, not by these")
    arrays = {}
    for name, dtype in ARRAYS.items():
        at, size = meta["arrays"][name]
        if size > len(data) - at:
            raise ValueError("its end is missing")
        arrays[name] = np.frombuffer(data, dtype, size // np.dtype(dtype).itemsize, at)
    return Stored(arrays, meta["dimension"]), meta


def _meta(data: Bytes) -> dict[str, Any]:
    """Return the metadata in the file's footer, where it has its seal."""
    tail = bytes(data[-10:])
    if not _END.fullmatch(tail):
        raise ValueError("it does not end as such a file does")
    footer = bytes(data[-10 - int.from_bytes(tail[:4], "little") : -10])
    at = footer.find(_MARK)
    if at < 0:
        raise ValueError("it has no description of itself")
    text = footer[at + len(_MARK) :].decode("utf-8", "replace")
    meta, _ = json.JSONDecoder().raw_decode(text)
    if not isinstance(meta, dict):
        raise ValueError("its description is damaged")
    if meta.pop("seal", "") != digest_of(meta):
        raise ValueError("its description is damaged")
    return meta
