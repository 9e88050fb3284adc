"""Identity is a content hash: every id and digest of the project is made here and nowhere else."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import TypeAlias

# What `json.dumps` takes.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
_CHUNK_ID = re.compile(r"^(?P<path>.*)::(?P<sha>[0-9a-f]{64})::(?P<idx>\d+)$", re.DOTALL)
_ID_IN_TEXT = re.compile(r"::[0-9a-f]{64}::(\d+)\b")
_TURN_ID = re.compile(r"history::(?P<session>.+)::(?P<seq>\d+)-\d+::(?P<idx>\d+)")
SHORT_ID_DIGITS = 8


def sha256_hex(data: bytes | str) -> str:
    """Return the sha256 of bytes, or of the UTF-8 form of a text, as 64 hex digits."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: object) -> str:
    """Serialise to the one JSON text a value has here: sorted keys, no spaces, no NaN."""
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def digest_of(value: object) -> str:
    """Return the sha256 of a value's canonical JSON, as 64 hex digits."""
    return sha256_hex(canonical_json(value))


def chunk_id(rel_path: str, sha256: str, chunk_idx: int) -> str:
    """Make the canonical id of a document chunk: ``rel_path::sha256::chunk_idx`` (R-076)."""
    return f"{rel_path}::{sha256}::{chunk_idx}"


def parse_chunk_id(identifier: str) -> tuple[str, str, int]:
    """Split a chunk id from the right into path, sha256 and index."""
    match = _CHUNK_ID.match(identifier)
    if match is None:
        raise ValueError(f"not a document chunk id: {identifier!r}")
    return match["path"], match["sha"], int(match["idx"])


def shown_name(identifier: str) -> str:
    """Return what people call a chunk: ``path#idx``, of a turn ``history/session/turn#idx``."""
    turn = _TURN_ID.fullmatch(identifier)
    if turn:
        return f"history/{turn['session']}/{turn['seq']}#{turn['idx']}"
    match = _CHUNK_ID.match(identifier)
    return f"{match['path']}#{match['idx']}" if match else identifier


def with_names(text: str) -> str:
    """Return a text in which chunks of documents are called by their `shown_name`."""
    return _ID_IN_TEXT.sub(r"#\1", text)


def short_ids(identifiers: list[str]) -> dict[str, str]:
    """Give each id its citation id: 8 hex digits of its sha256, longer only on a collision."""
    unique = sorted(set(identifiers))
    hashes = {i: sha256_hex(i) for i in unique}
    digits = SHORT_ID_DIGITS
    while len({h[:digits] for h in hashes.values()}) < len(unique):
        digits += 4
    return {i: h[:digits] for i, h in hashes.items()}


def row_number(canonical: str) -> int:
    """Return the sha256 of one row's canonical text as an integer below 2^256."""
    return int.from_bytes(
        hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).digest(), "big"
    )


def multiset_sum(total: int, added: Iterable[str], *, removed: Iterable[str] = ()) -> int:
    """Add rows to, and take rows from, an order-independent digest: a sum modulo 2^256.

    The same live rows give the same number whatever the history of adding and removing.
    """
    total += sum(map(row_number, added)) - sum(map(row_number, removed))
    return total % (1 << 256)


def generation_digest(row_sum: int, index_fp: str, embed_fp: str) -> str:
    """Return the digest of a generation: its live rows and what they were made with."""
    return digest_of({"rows": f"{row_sum:064x}", "index_fp": index_fp, "embed_fp": embed_fp})
