"""Derived files that are not what the catalog says are made again, by content and not by stamp."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from ragstream_core.errors import ProjectLocked, RagstreamError
from ragstream_core.index import derived
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.catalog_read import live_files
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.ingestion.manifest import MANIFEST_NAME, MANIFEST_VERSION


def heal_derived(index_dir: Path) -> list[str]:
    """Compare lexical arrays and manifest with the catalog; write those anew that differ.

    Returns:
        The names of the files that were made again; empty too where another process writes the
        project: its ingest publishes them.

    Raises:
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be written.
        OSError: Disk full; the old files are untouched.
    """
    if not (index_dir / "catalog.sqlite").exists():
        return []
    try:
        with open_catalog(index_dir) as catalog:
            return heal_open(catalog)
    except ProjectLocked:
        return []


def heal_open(catalog: Catalog) -> list[str]:
    """Do the same under the lock that is held already.

    Raises:
        IntegrityError: The catalog is damaged.
        OSError: Disk full; the old files are untouched.
    """
    newest, db, index_dir = catalog.latest(), catalog.db, catalog.index_dir
    if newest is None:
        return []
    healed = []
    path = index_dir / derived.LEXICAL_FILE
    if not _lexical_is_sound(db, index_dir, newest):
        path.unlink(missing_ok=True)
        derived.publish_lexical(db, index_dir, newest)
        healed.append(str(derived.LEXICAL_FILE))
    rows = manifest_rows(index_dir)
    if not _manifest_is_sound(db, newest, rows):
        derived.publish_manifest(db, index_dir, newest, refused=refused_rows(rows), force=True)
        healed.append(MANIFEST_NAME)
    return healed


def manifest_rows(index_dir: Path) -> dict[str, Any]:
    """Return what ``file_manifest.json`` holds; nothing where it is missing or damaged."""
    try:
        data = json.loads((index_dir / MANIFEST_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def refused_rows(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (path, reason) of the files that were no documents, as far as they can be read."""
    files = manifest.get("files", [])
    rows = [row for row in files if isinstance(row, dict)] if isinstance(files, list) else []
    refused = [row for row in rows if row.get("decision") == "refused"]
    return [(str(row.get("path", "")), str(row.get("reason", ""))) for row in refused]


def _lexical_is_sound(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> bool:
    wanted = derived.lexical_from_catalog(db, index_dir, newest.n).to_bytes()
    try:
        held = (index_dir / derived.LEXICAL_FILE).read_bytes()
        return held == derived.lexical_stamp(newest) + b"\n" + wanted
    except (OSError, RagstreamError):
        return False


def _manifest_is_sound(
    db: sqlite3.Connection, newest: Generation, manifest: dict[str, Any]
) -> bool:
    head = [manifest.get(key) for key in ("version", "generation", "digest")]
    if head != [MANIFEST_VERSION, newest.n, newest.digest]:
        return False
    files = manifest.get("files")
    if not isinstance(files, list) or not all(isinstance(row, dict) for row in files):
        return False
    keys = ("path", "rel_path", "sha256", "size", "mtime", "type", "decision", "reason")
    told = [tuple(r.get(k) for k in keys) for r in files if r.get("decision") != "refused"]
    wanted = [
        (e.path, e.path, e.sha256, e.size, e.mtime_ns / 1e9, e.type, e.decision, e.reason)
        for e in live_files(db, newest.n).values()
    ]
    return told == sorted(wanted)
