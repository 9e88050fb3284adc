"""The rows of the newest generation in one sealed file: derived, checked whole, never trusted.

Reading a generation from the catalog hashes every row and every vector. Whoever did that may leave
ids, paths and places here, stamped with the generation's digest and sealed by a crc, with one crc
over all vectors in this order. A file that is behind or damaged is as good as none. Chunks are read
from the catalog still; the crc of each one's row is here, so what is shown is checked as well.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.atomic import replace_bytes
from ragstream_core.errors import IntegrityError
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.stores import vector_file
from ragstream_core.stores.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.ports import F32

ROWS_FILE = Path("stores", "rows-newest.bin")
"""Beside the other stores that are made from an index: erasing a file takes them all away."""
_MAGIC = b"RSROWS1\n"
_END = "\0"  # no path can hold it
_HEAD = 1024
_FILE = "SELECT epoch, dimension FROM vector_files WHERE embed_fp = ?"


def save(index_dir: Path, made_for: Generation, loaded: Loaded) -> None:
    """Write the rows of a generation that was checked; a disk that cannot take them is no error.

    Args:
        index_dir: The project's folder below the index root.
        made_for: The generation.
        loaded: Its rows.
    """
    import numpy as np

    distinct = {path: code for code, path in enumerate(dict.fromkeys(loaded.paths))}
    names = "".join(name + _END for name in (*loaded.chunk_ids, *distinct))
    if names.count(_END) != len(loaded.chunk_ids) + len(distinct):
        return
    stamp = {
        "digest": made_for.digest,
        "epoch": loaded.epoch,
        "shape": loaded.vectors.shape,
        "vectors": _crc(loaded.vectors),
    }
    body = _MAGIC + json.dumps(stamp).encode() + b"\n"
    codes = np.array([distinct[path] for path in loaded.paths], dtype="<i4")
    for column in (loaded.places.astype("<i8"), codes, loaded.crcs.astype("<u4")):
        body += column.tobytes()
    body += names.encode()
    with contextlib.suppress(OSError):
        sealed = body + zlib.crc32(body).to_bytes(4, "little")
        replace_bytes(index_dir / ROWS_FILE, sealed, durable=False)


def drop(index_dir: Path) -> None:
    """Remove the file; no error where it cannot be."""
    with contextlib.suppress(OSError):
        (index_dir / ROWS_FILE).unlink()


def load(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> Loaded | None:
    """Return the rows of a generation, checked; None where the file does not have them.

    The caller holds a read transaction.
    """
    import numpy as np

    try:
        data = memoryview((index_dir / ROWS_FILE).read_bytes())
    except OSError:
        return None
    seal = int.from_bytes(data[-4:], "little")
    if data[: len(_MAGIC)] != _MAGIC or zlib.crc32(data[:-4]) != seal:
        return None
    head = bytes(data[len(_MAGIC) : len(_MAGIC) + _HEAD]).partition(b"\n")[0]
    stamp = json.loads(head)
    if stamp["digest"] != wanted.digest:
        return None
    body, n = data[len(_MAGIC) + len(head) + 1 : -4], stamp["shape"][0]
    places, crcs = np.frombuffer(body, "<i8", n), np.frombuffer(body, "<u4", n, 12 * n)
    codes = np.frombuffer(body, "<i4", n, 8 * n)
    names = str(body[16 * n :], "utf-8").split(_END)
    vectors = _vectors(db, index_dir, wanted, stamp, places)
    if vectors is None:
        return None
    paths = tuple(map(names[n:].__getitem__, codes.tolist()))
    return Loaded(tuple(names[:n]), paths, vectors, stamp["epoch"], places, crcs)


def _vectors(
    db: sqlite3.Connection,
    index_dir: Path,
    wanted: Generation,
    stamp: dict[str, Any],
    places: npt.NDArray[np.int64],
) -> F32 | None:
    """Return the vectors at some places; None where they are no longer what they were."""
    import numpy as np

    n, dimension = stamp["shape"]
    vectors = np.zeros((0, dimension), dtype="<f4")
    if n:
        file = db.execute(_FILE, (wanted.embed_fp,)).fetchone()
        if file != (stamp["epoch"], dimension):
            return None
        path = vector_file.vector_path(index_dir, wanted.embed_fp, stamp["epoch"])
        try:
            mapped = vector_file.map_rows(path, rows=int(places.max()) + 1, dimension=dimension)
        except (OSError, IntegrityError):  # gone, or shorter than it was: the catalog says so
            return None
        vectors = np.take(mapped, places, axis=0)
    vectors.flags.writeable = False
    return vectors if _crc(vectors) == stamp["vectors"] else None


def _crc(vectors: F32) -> int:
    """Return the crc32 of the bytes of a contiguous array."""
    return zlib.crc32(vectors.data) if vectors.size else 0
