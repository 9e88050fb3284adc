"""The no-op decision: is there anything for an ingest to do? Writes nothing, opens no document.

Imports neither numpy nor an engine: this runs before every ingest and behind every `status`.
Anything that cannot be told from signatures alone counts as pending.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.ingestion.scan import (
    DEFAULT_RULES,
    Changes,
    Scan,
    ScanRules,
    compare,
    scan,
)
from ragstream_core.ingestion.stats import FILE_KEYS, IngestionStats
from ragstream_core.stores import catalog_read
from ragstream_core.stores.derived import is_published
from ragstream_core.stores.schema import CATALOG_NAME, connect_reader, guard
from ragstream_core.stores.unfinished import is_left

UNREADABLE = "the catalog cannot be read"
"""Begins the reason of a damaged catalog; what to run stands on its second line."""


class Pending(NamedTuple):
    """Why an ingest is due.

    Attributes:
        reason: One phrase.
        changes: Differences by signature; None where the catalog could not tell.
    """

    reason: str
    changes: Changes | None


class Inspection(NamedTuple):
    """A project's folder against its catalog.

    Attributes:
        found: What the folder holds.
        newest: The newest generation, if any could be read.
        pending: Why an ingest is due; None for a no-op.
    """

    found: Scan
    newest: Generation | None
    pending: Pending | None

    def idle_stats(self, project: str, *, seconds: float) -> IngestionStats:
        """Return the stats of the ingest that is not needed."""
        scanned = len(self.found.files)
        newest = self.newest
        counts = newest.counts if newest else {}
        files = dict.fromkeys(FILE_KEYS, 0)
        # a file is "skipped" each time it is met, read or not
        skipped = scanned - counts.get("files", 0)
        files.update(scanned=scanned, unchanged=scanned - skipped, skipped=skipped)
        return IngestionStats(
            project,
            newest.n if newest else 0,
            committed=False,
            files=files,
            chunks={"embedded": 0, "reused": 0, "live": counts.get("chunks", 0)},
            documents=counts.get("files", 0),
            seconds=seconds,
            digest=newest.digest if newest else "",
        )


def inspect(
    index_dir: Path, doc_dir: Path, *, scan_fp: str, rules: ScanRules = DEFAULT_RULES
) -> Inspection:
    """Compare a project's folder with its catalog by signatures alone.

    Args:
        index_dir: The project's folder below the index root.
        doc_dir: The project's folder below ``doc_raw``.
        scan_fp: Digest of every setting that shapes the index; another one makes it pending.
        rules: Which files are documents.

    Raises:
        UnknownProject: There is no folder ``doc_dir``.
    """
    found = scan(doc_dir, rules)
    if not (index_dir / CATALOG_NAME).exists():
        return Inspection(found, None, Pending("never ingested", None))
    try:
        with guard(index_dir / CATALOG_NAME):
            db = connect_reader(index_dir)
            try:
                db.execute("BEGIN")
                newest = catalog_read.latest(db)
                stamp = catalog_read.last_scan(db)
                recorded = catalog_read.signatures(db)
                unfinished = is_left(db)
            finally:
                db.close()
    except (RagstreamError, ValueError) as error:
        return Inspection(found, None, Pending(f"{UNREADABLE}: {error}", None))
    changes = compare(found, recorded, last_started_ns=stamp.started_ns)
    reason = _reason(changes, found, same_settings=stamp.scan_fp == scan_fp)
    if not reason and unfinished:
        reason = "an earlier ingest did not finish"
    if not reason and newest is not None and not is_published(index_dir, newest):
        reason = "derived files are out of date"
    return Inspection(found, newest, Pending(reason, changes) if reason else None)


def _reason(changes: Changes, found: Scan, *, same_settings: bool) -> str:
    if not same_settings:
        return "settings changed"
    if changes.any():
        return "files changed"
    return "a folder cannot be listed" if found.unreadable else ""


def pending(
    index_dir: Path, doc_dir: Path, *, scan_fp: str, rules: ScanRules = DEFAULT_RULES
) -> Pending | None:
    """Return why an ingest is due, or None for a no-op; as `inspect`.

    Raises:
        UnknownProject: There is no folder ``doc_dir``.
    """
    return inspect(index_dir, doc_dir, scan_fp=scan_fp, rules=rules).pending
