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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ragstream_core.errors import (
    InputUnavailable,
    IntegrityError,
    Refused,
    RunCommand,
)
from ragstream_core.records.identity import canonical_json, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.records.prompt_inputs import PromptInputs

MAGIC = b"RSBUNDLE1\n"
MAX_BYTES = 1 << 30
MAX_HEAD = 4 << 20
MAX_PARTS = 20_000
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
EXACT_STORES = ("catalog", "faiss")
"""Stores that a bundle's rows can be put into again; a graph of Chroma is not made twice."""


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
