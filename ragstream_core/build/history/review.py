"""How the history stands: what is damaged, what waits, and for how long."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragstream_core.stores.health import Finding

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace

JOURNAL, CATALOG, MARK, SNAPSHOT = "journal", "catalog", "mark", "snapshot"
WAITING, AGE, COLLECTION = "waiting", "age", "collection"
PARTS = (JOURNAL, CATALOG, MARK, SNAPSHOT, WAITING, AGE, COLLECTION)
LONGEST_WAIT = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Review:
    """The history at one moment.

    Attributes:
        findings: Part → what is not as it should be; every part is there.
        status: As `history_embedding.history_status`.
    """

    findings: Mapping[str, Sequence[Finding]]
    status: Mapping[str, Any]


def review(workspace: Workspace, now: dt.datetime) -> Review:
    """Check journal, catalog, snapshot and collection, one against another; read-only.

    Args:
        workspace: The data root.
        now: The present moment, with a zone.

    Raises:
        RagstreamError: The collection cannot be compared.
    """
    from ragstream_core.build.history import collection as history_collection
    from ragstream_core.build.history.check import check_history
    from ragstream_core.build.history.embedding import history_status

    status = history_status(workspace)
    found: dict[str, list[Finding]] = {part: [] for part in PARTS}
    for finding in check_history(workspace):
        found[finding.check if finding.check in found else CATALOG].append(finding)
    found[WAITING] += waiting(status, now)
    found[AGE] += aged(status)
    faults = history_collection.compare(workspace)
    found[COLLECTION] += [Finding(COLLECTION, fault) for fault in faults]
    return Review(found, status)


def waiting(status: Mapping[str, Any], now: dt.datetime) -> list[Finding]:
    """Return a finding where turns have waited for more than a day; a wrong clock is no reason."""
    since = _time(status["oldest_pending"])
    if not status["pending"] or (since is not None and now - since <= LONGEST_WAIT):
        return []
    return [Finding(WAITING, f"{status['pending']} turns wait since {status['oldest_pending']}")]


def aged(status: Mapping[str, Any]) -> list[Finding]:
    """Return a finding where prompts read a selection of more than a day ago while turns wait."""
    snapshot = status["snapshot"]
    if not status["pending"]:
        return []
    if snapshot is None:
        return [Finding(AGE, "nothing is published")]
    if snapshot["age_s"] <= LONGEST_WAIT.total_seconds():
        return []
    hours = snapshot["age_s"] / 3600
    return [Finding(AGE, f"published {hours:.0f} hours ago, {status['pending']} turns wait")]


def _time(text: str) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
