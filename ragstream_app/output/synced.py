"""What a sync of a project's addresses did, or would do, in the words of all faces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_app.output.words import one_line, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ragstream_core.services.sync_project import ProjectSync

NAMES_SHOWN = 3


def sync_lines(done: ProjectSync) -> Iterator[str]:
    """Yield a line an address, what failed, and what is left where it is by reason.

    Args:
        done: The sync; the addresses that could not be mirrored at all are in its ``problems``.
    """
    would = "would be " if any(root.report.dry_run for root in done.roots) else ""
    for root in done.roots:
        report = root.report
        yield printable(
            f"{report.url}: {len(report.fetched):,} {would}fetched ({size(report.bytes)}), "
            f"{report.unchanged:,} unchanged, {len(report.removed):,} {would}removed"
        )
        for path, reason in report.failed:
            yield printable(f"  failed: {one_line(path)}: {reason}")
        for reason, paths in _by_reason(report.skipped).items():
            few = len(paths) <= NAMES_SHOWN
            names = ", ".join(map(one_line, paths)) if few else f"{len(paths):,} files"
            yield printable(f"  left there: {names}: {reason}")


def sync_summary(done: ProjectSync) -> str:
    """Return in a few words what came and what went."""
    totals = done.totals()
    kinds = ("fetched", "removed", "failed")
    return ", ".join(f"{totals[k]:,} {k}" for k in kinds if totals[k]) or "nothing new"


def progress_line(phase: str, done: int, total: int) -> str:
    """Return where a sync is, given its newest report."""
    return f"{phase}: {done:,} of {total:,} files" if total else f"{phase}: {done:,} files"


def _by_reason(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, reason in rows:
        found.setdefault(reason, []).append(path)
    return found
