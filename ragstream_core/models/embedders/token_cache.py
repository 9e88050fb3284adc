"""Token vectors on disk by text hash: derived, limited in size, and never trusted.

One file an entry: float16 rows, then their number, the dimension and a crc32. A file that does not
add up is a miss and is removed. The least recently used entries go first; use is the file's mtime.
Writes are atomic and not durable: what a power cut takes is computed again.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragstream_core.platform import files
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import F16, Embedder

GIB = 1024**3
_HASH = re.compile(r"[0-9a-f]{16,128}")
_TRAILER = struct.Struct("<III")  # rows, dimension, crc32 of everything before it
_KEPT_SHARE = 0.9  # evict down to this, so that eviction is rare


class TokenVectorCache:
    """A directory of token vectors of one model; safe for threads and for several processes."""

    def __init__(self, directory: Path, *, max_bytes: int = GIB, read_only: bool = False) -> None:
        """Open a cache; nothing is read or created before the first use."""
        self._directory = directory
        self._read_only = read_only
        self._max_bytes = max_bytes
        self._total: int | None = None
        self._lock = threading.Lock()

    def get(self, text_hash: str) -> F16 | None:
        """Return the rows of a text, shape (tokens, dimension) float16, or None."""
        path = self._path(text_hash)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        rows = _decode(data)
        if self._read_only:
            return rows
        with contextlib.suppress(OSError):
            if rows is None:
                path.unlink()
            else:
                os.utime(path)
        return rows

    def put(self, text_hash: str, rows: F16) -> None:
        """Store the rows of a text; a full disk or a read-only directory is no error."""
        if self._read_only:
            return
        data = _encode(rows)
        try:
            files.replace_bytes(self._path(text_hash), data, durable=False)
        except OSError:
            return
        with self._lock:
            self._total = self._scan_total() if self._total is None else self._total + len(data)
            if self._total > self._max_bytes:
                self._evict()

    def discard(self, text_hash: str) -> None:
        """Remove the entry of a text; no error if there is none."""
        self._path(text_hash).unlink(missing_ok=True)

    def _path(self, text_hash: str) -> Path:
        if not _HASH.fullmatch(text_hash):
            raise ValueError(f"not a text hash: {text_hash!r}")
        return self._directory / text_hash[:2] / f"{text_hash}.f16"

    def _entries(self) -> list[tuple[int, int, Path]]:
        entries = []
        for path in self._directory.glob("*/*.f16"):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = path.stat()
                entries.append((status.st_mtime_ns, status.st_size, path))
        return entries

    def _scan_total(self) -> int:
        return sum(size for _, size, _ in self._entries())

    def _evict(self) -> None:
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self._max_bytes * _KEPT_SHARE:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        self._total = total


class CachedTokenVectors:
    """Token vectors of an embedder through a cache: the same values, fresh or cached."""

    def __init__(self, embedder: Embedder, cache: TokenVectorCache) -> None:
        """Connect an embedder with the cache of its fingerprint."""
        self._embedder = embedder
        self._cache = cache

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return the token vectors of each text; only those not cached are computed."""
        hashes = [sha256_hex(text) for text in texts]
        cached = {h: self._cache.get(h) for h in dict.fromkeys(hashes)}
        vectors = {h: rows for h, rows in cached.items() if rows is not None}
        missing = {h: t for h, t in zip(hashes, texts, strict=True) if h not in vectors}
        fresh = self._embedder.token_vectors(list(missing.values())) if missing else []
        for text_hash, rows in zip(missing, fresh, strict=True):
            vectors[text_hash] = rows.astype(np.float16, copy=False)  # as it will come back
            self._cache.put(text_hash, vectors[text_hash])
        return [vectors[h] for h in hashes]


def _encode(rows: F16) -> bytes:
    body = np.ascontiguousarray(rows, dtype="<f2").tobytes()
    shape = struct.pack("<II", *rows.shape)
    return body + shape + struct.pack("<I", zlib.crc32(body + shape))


def _decode(data: bytes) -> F16 | None:
    if len(data) < _TRAILER.size:
        return None
    rows, dimension, crc = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    if zlib.crc32(data[:-4]) != crc or len(data) - _TRAILER.size != rows * dimension * 2:
        return None
    flat = np.frombuffer(data, dtype="<f2", count=rows * dimension)
    values: F16 = flat.astype(np.float16, copy=False).reshape(rows, dimension)
    return values
