"""The file manifest: one row a document, and the pure diff between two manifests.

``file_manifest.json`` is derived from the committed generation, for people and tools; the catalog
holds the truth. Times are mtimes in ns since the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragstream_core.ingestion.parsers.engines import untagged
from ragstream_core.platform.files import replace_text

MANIFEST_NAME = "file_manifest.json"
MANIFEST_VERSION = 1

FileClass = Literal["new", "updated", "touched", "unchanged", "skipped"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One document as it was read.

    Attributes:
        path: POSIX path relative to the project.
        sha256: Of the bytes read, 64 hex digits; empty where the file was refused unread.
        size: Bytes.
        mtime_ns: Modification time.
        type: Extension without dot, lower case.
        decision: ``ingested`` or ``skipped``.
        reason: Why it was skipped, or how it was decoded; one phrase.
    """

    path: str
    sha256: str
    size: int
    mtime_ns: int
    type: str
    decision: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ManifestDiff:
    """Every path in exactly one class; each sorted. ``skipped`` has (path, reason)."""

    new: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    def is_empty(self) -> bool:
        """Say whether the two manifests name the same bytes."""
        return not (self.new or self.updated or self.deleted)


def same_content(old: FileEntry, new: FileEntry) -> bool:
    """Say whether two versions of a file put the same rows into the index."""
    return (old.sha256, old.decision) == (new.sha256, new.decision)


def classify(old: FileEntry | None, new: FileEntry) -> FileClass:
    """Return the class of one present file.

    Content decides: equal bytes with another mtime are ``touched``, whatever the clock says.
    """
    if new.decision == "skipped":
        return "skipped"
    if old is None:
        return "new"
    if not same_content(old, new):
        return "updated"
    return "unchanged" if old.mtime_ns == new.mtime_ns else "touched"


def diff(old: Mapping[str, FileEntry], current: Mapping[str, FileEntry]) -> ManifestDiff:
    """Compare two manifests by content hash; pure.

    Args:
        old: Rows of the last committed generation by path.
        current: Rows of what is on disk now.
    """
    classes: dict[str, list[str]] = {"new": [], "updated": [], "touched": [], "unchanged": []}
    skipped = []
    for path in sorted(current):
        kind = classify(old.get(path), current[path])
        if kind == "skipped":
            skipped.append((path, untagged(current[path].reason)))
        else:
            classes[kind].append(path)
    return ManifestDiff(
        deleted=tuple(sorted(set(old) - set(current))),
        skipped=tuple(skipped),
        **{name: tuple(paths) for name, paths in classes.items()},
    )


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
