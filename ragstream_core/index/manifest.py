"""``file_manifest.json``: the files of the newest generation, for people and tools.

It is derived from the committed generation; the catalog holds the truth. Times are mtimes in
seconds since the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragstream_core.index.rows import FileEntry
from ragstream_core.platform.files import replace_text

MANIFEST_NAME = "file_manifest.json"
MANIFEST_VERSION = 1


def manifest_stamp(generation: int, digest: str) -> str:
    """Return the head of a manifest file that was written for a generation."""
    return f'{{"version": {MANIFEST_VERSION}, "generation": {generation}, "digest": "{digest}"'


def manifest_text(
    entries: Iterable[FileEntry], refused: Iterable[tuple[str, str]], *, stamp: str
) -> str:
    """Return the content of ``file_manifest.json``.

    Args:
        entries: Documents, read or skipped.
        refused: (path, reason) of files that are no documents.
        stamp: As from `manifest_stamp`.
    """
    rows: list[dict[str, Any]] = [
        {"path": e.path, "rel_path": e.path, "sha256": e.sha256, "size": e.size,
         "mtime": e.mtime_ns / 1e9, "type": e.type, "decision": e.decision, "reason": e.reason}
        for e in entries
    ]  # fmt: skip
    rows += [
        {"path": p, "rel_path": p, "decision": "refused", "reason": reason} for p, reason in refused
    ]
    lines = ",\n".join(
        json.dumps(row, ensure_ascii=False) for row in sorted(rows, key=lambda r: r["path"])
    )
    return f'{stamp}, "files": [\n{lines}\n]}}\n'


def write_manifest(
    path: Path, entries: Iterable[FileEntry], refused: Iterable[tuple[str, str]], *, stamp: str
) -> None:
    """Replace ``file_manifest.json`` atomically by its `manifest_text`.

    Raises:
        OSError: Disk full, permission denied; the old file is untouched.
    """
    replace_text(path, manifest_text(entries, refused, stamp=stamp))


def refused_rows(path: Path) -> list[tuple[str, str]]:
    """Return (path, reason) of the files that were no documents, as far as they can be read."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    files = data.get("files") if isinstance(data, dict) else None
    rows = [row for row in files if isinstance(row, dict)] if isinstance(files, list) else []
    refused = [row for row in rows if row.get("decision") == "refused"]
    return [(str(row.get("path", "")), str(row.get("reason", ""))) for row in refused]


def manifest_is(path: Path, stamp: str) -> bool:
    """Say whether the manifest file was written for the generation of ``stamp``."""
    try:
        with path.open("rb") as handle:
            return handle.read(len(stamp.encode())) == stamp.encode()
    except OSError:
        return False
