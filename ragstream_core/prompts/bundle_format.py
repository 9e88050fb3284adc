r"""The file of a bundle: a list of parts, their bytes one after the other, and a seal.

``RSBUNDLE1\n``, one line of JSON ``{"prompt_key", "parts": [[name, size, sha256], …]}``, the bytes
of the parts in that order, the sha256 of all that as 64 hex digits and a line end. Nothing is
compressed, and no part is a path: names come from a closed list, so there is nothing to unfold,
to link to, or to write anywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ragstream_core.errors import (
    InputUnavailable,
    IntegrityError,
    Refused,
    RunCommand,
)
from ragstream_core.index.rows import ChunkRow, FileEntry
from ragstream_core.records.identity import canonical_json, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.index.look import Portable
    from ragstream_core.records.prompt_inputs import PromptInputs

MAGIC = b"RSBUNDLE1\n"
MAX_BYTES = 1 << 30
MAX_HEAD = 4 << 20
MAX_PARTS = 20_000
MAX_DIMENSION = 1 << 16
MAX_NUMBER = 1 << 53
RECORD = "record"
JOURNAL, SNAPSHOT = "history/journal", "history/snapshot"
BLOB = "blobs/"
INDEX_PARTS = ("generation", "files", "chunks", "texts", "vectors")
_SEAL = 65
_NAME = re.compile(
    rf"{RECORD}|{JOURNAL}|{SNAPSHOT}|{BLOB}[0-9a-f]{{64}}"
    rf"|index/[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}/(?:{'|'.join(INDEX_PARTS)})"
)
_KEY = re.compile(r"[0-9a-f]{64}")
_MENTIONED = re.compile(rb'"([0-9a-f]{64})"')
_FILE = (str, str, int, int, str, str, str)
_CHUNK = (str, str, str, int, int, int, int, str, str)
_TEXT = (str, int, str)
_HEAD = {"index_fp": str, "embed_fp": str, "dimension": int}

# Stores that a bundle's rows can be put into again; a graph of Chroma is not made twice.
EXACT_STORES = ("catalog", "faiss")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose seal and digests were checked."""

    prompt_key: str  # the prompt that it makes again
    parts: Mapping[str, memoryview]  # name → bytes


def index_part(project: str, kind: str) -> str:
    """Return the name of a part of a project's generation."""
    return f"index/{project}/{kind}"


def required_blobs(inputs: PromptInputs) -> list[str]:
    """Return the digests of the bytes that a prompt needs besides the index, sorted."""
    return sorted({*inputs.receipts.values(), *inputs.query_vectors.values()})


def mentioned(record: bytes | memoryview) -> set[str]:
    """Return the digests that a record names: of some of them the bytes may be kept."""
    return {found.decode() for found in _MENTIONED.findall(bytes(record))}


def require_exact(inputs: PromptInputs) -> None:
    """Refuse a prompt whose candidates came from a store that cannot be made again elsewhere."""
    given = [inputs.settings.get("retrieval", {}).get("store", EXACT_STORES[0])]
    given += [value for _, key, value in inputs.changes if key == "retrieval.store"]
    other = [store for store in given if store not in EXACT_STORES]
    if other or inputs.models.get("store"):
        raise InputUnavailable(
            f"the candidates came from the store {inputs.models.get('store') or other[0]}, which "
            "does not fit into a file",
            hint="prompts of retrieval.store=catalog, retrieval.approximate_at=0 can be bundled",
        )


def pack(prompt_key: str, parts: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a bundle; the same parts give the same bytes."""
    names = sorted(parts)
    listed = [[name, len(parts[name]), sha256_hex(parts[name])] for name in names]
    head = canonical_json({"prompt_key": prompt_key, "parts": listed}).encode() + b"\n"
    size = len(MAGIC) + len(head) + sum(map(len, parts.values())) + _SEAL
    if size > MAX_BYTES or len(head) > MAX_HEAD or len(names) > MAX_PARTS:
        raise Refused(
            f"the bundle would have {size / 1e9:,.1f} GB in {len(names):,} parts; a reader takes "
            f"{MAX_BYTES / 1e9:,.1f} GB in {MAX_PARTS:,}",
            hint=(RunCommand("backup"), " copies the whole data root"),
        )
    body = b"".join([MAGIC, head, *(parts[name] for name in names)])
    return body + sha256_hex(body).encode() + b"\n"


def unpack(data: bytes | memoryview) -> Bundle:
    """Read a bundle; every byte is checked before any is used."""
    view = memoryview(data)
    if len(view) > MAX_BYTES:
        broken(f"it is larger than {MAX_BYTES:,} bytes")
    if bytes(view[: len(MAGIC)]) != MAGIC:
        broken("it does not begin as one")
    end = len(view) - _SEAL
    if end < 0 or bytes(view[end:]) != hashlib.sha256(view[:end]).hexdigest().encode() + b"\n":
        broken("its seal does not fit its bytes")
    start = bytes(view[len(MAGIC) : min(end, len(MAGIC) + MAX_HEAD)])
    line, found, _ = start.partition(b"\n")
    if not found:
        broken("its list of parts does not end")
    key, listed = _head(line)
    return Bundle(key, _parts(view, listed, start=len(MAGIC) + len(line) + 1, end=end))


def broken(what: str) -> NoReturn:
    """Refuse a bundle."""
    raise IntegrityError(
        f"the bundle is damaged or was tampered with: {what}",
        hint="ask for it again; nothing of it was kept",
    )


def strict_json(data: bytes | memoryview, what: str) -> Any:
    """Read JSON without NaN, without a key given twice, and not nested without end."""
    try:
        return json.loads(bytes(data), object_pairs_hook=_once, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        broken(f"{what} is not readable ({type(error).__name__})")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


def _head(line: bytes) -> tuple[str, list[Any]]:
    head = strict_json(line, "its list of parts")
    if not isinstance(head, dict) or set(head) != {"prompt_key", "parts"}:
        broken("its list of parts has another form")
    key, listed = head["prompt_key"], head["parts"]
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        broken("it names no prompt")
    if not isinstance(listed, list) or len(listed) > MAX_PARTS:
        broken("it lists no parts, or too many")
    return key, listed


def _parts(view: memoryview, listed: list[Any], *, start: int, end: int) -> dict[str, memoryview]:
    found: dict[str, memoryview] = {}
    at = start
    for row in listed:
        if not (isinstance(row, list) and [type(x) for x in row] == [str, int, str]):
            broken("a part is not described as one")
        name, size, digest = row
        if _NAME.fullmatch(name) is None or name in found:
            broken(f"it lists {name[:80]!r}, which no bundle holds, or holds once")
        if not 0 <= size <= end - at:
            broken(f"{name} ends behind the file")
        found[name] = view[at : at + size]
        if hashlib.sha256(found[name]).hexdigest() != digest:
            broken(f"{name} does not have its digest")
        at += size
    if at != end:
        broken("there are bytes behind its last part")
    return found


def encode(found: Portable) -> list[bytes]:
    """Return the parts of a generation in the order of `INDEX_PARTS`."""
    head = {
        "index_fp": found.index_fp,
        "embed_fp": found.embed_fp,
        "dimension": int(found.vectors.shape[1]),
    }
    files = (
        (f.path, f.sha256, f.size, f.mtime_ns, f.type, f.decision, f.reason) for f in found.files
    )
    return [
        canonical_json(head).encode(),
        _lines(files),
        _lines(found.chunks),
        _lines(found.texts),
        found.vectors.astype("<f4").tobytes(),
    ]


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    return "".join(f"{canonical_json(list(row))}\n" for row in rows).encode()


def decode(parts: Sequence[bytes | memoryview]) -> Portable:
    """Read the parts of a generation, in the order of `INDEX_PARTS`; every row is checked."""
    import numpy as np

    from ragstream_core.index.look import Portable

    head = strict_json(parts[0], "the head of a generation")
    if not isinstance(head, dict) or {k: type(v) for k, v in head.items()} != _HEAD:
        broken("the head of a generation has another form")
    files = tuple(FileEntry(*row) for row in _rows(parts[1], _FILE, "files"))
    chunks = tuple(ChunkRow(*row) for row in _rows(parts[2], _CHUNK, "chunks"))
    texts = tuple((h, n, text) for h, n, text in _rows(parts[3], _TEXT, "texts"))
    if {text[0] for text in texts} != {chunk.text_hash for chunk in chunks}:
        broken("its texts are not those of its chunks")
    if any(sha256_hex(text) != text_hash for text_hash, _, text in texts):
        broken("a text does not have its hash")
    dimension = head["dimension"]
    if not 0 < dimension <= MAX_DIMENSION or len(parts[4]) != len(texts) * dimension * 4:
        broken("its vectors are not as many as its texts")
    vectors = np.frombuffer(parts[4], "<f4").reshape(len(texts), dimension).copy()
    return Portable(head["index_fp"], head["embed_fp"], files, chunks, texts, vectors)


def _rows(data: bytes | memoryview, types: Sequence[type], what: str) -> list[list[Any]]:
    """Return the rows of a part, each with values of these types, the first of them once."""
    lines = bytes(data).splitlines()
    rows = [strict_json(line, f"a row of its {what}") for line in lines]
    for row in rows:
        if not isinstance(row, list) or [type(value) for value in row] != list(types):
            broken(f"a row of its {what} has another form")
        if any(type(value) is int and abs(value) >= MAX_NUMBER * 1024 for value in row):
            broken(f"a number in its {what} is too large")
    if len({row[0] for row in rows}) < len(rows):
        broken(f"a row of its {what} is there twice")
    return rows
