"""What `ragstream index check` says of the conversations, and what it finishes by itself.

How the history stands: what is damaged, what waits, and for how long.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import RagstreamError
from ragstream_core.index.verify import Finding
from ragstream_core.wiring.chroma_collections import Left
from ragstream_core.wiring.journal import holds_journal, journal

if TYPE_CHECKING:
    from ragstream_core.index.verify import Part
    from ragstream_core.wiring.workspace import Workspace


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
    from ragstream_core.wiring import history_collection
    from ragstream_core.wiring.history_check import check_history
    from ragstream_core.wiring.history_embedding import history_status

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


CLEARING = "an interrupted clearing"
SELECTION = "the published selection"
COLLECTION_STEP = "the Chroma collection"
_CURES = {
    "clearing": "ragstream history check",
    "journal": "ragstream backup DIR; what verifies is read as before, the rest is damaged",
    "snapshot": "ragstream history embed",
    "collection": "ragstream index check",
}
_REBUILD = "ragstream history backfill --rebuild"


def check(workspace: Workspace, *, part: Part | None = None) -> dict[str, Any]:
    """Check the conversations as `care.check` checks a project; finish what was being cleared.

    A selection that is missing or behind is published again, and so is the Chroma collection.

    Args:
        workspace: The data root.
        part: Also read this part of all texts and vectors, and compare every turn.

    Returns:
        ``project`` (``~history``), ``findings`` (check, message, run), ``healed``, ``finished``
        (a clearing was), ``generation``.
    """
    from ragstream_core.wiring.history_check import check_history

    healed, findings = repair(workspace)
    findings += check_history(workspace, part)
    if not findings:
        more, findings = _collection(workspace)
        healed += more
    return {
        "project": HISTORY,
        "findings": [
            {"check": f.check, "message": f.message, "run": _CURES.get(f.check, _REBUILD)}
            for f in dict.fromkeys(findings)
        ],
        "healed": [what for what in healed if what != CLEARING],
        "finished": CLEARING in healed,
        "generation": _generation(workspace),
    }


def is_there(workspace: Workspace) -> bool:
    """Say whether anything was ever recorded."""
    return holds_journal(journal(workspace).folder)


def repair(workspace: Workspace) -> tuple[list[str], list[Finding]]:
    """Finish what was being cleared and publish a selection that is missing or behind.

    Returns:
        What was made good, and what could not be.
    """
    from ragstream_core.wiring.erase_turns import finish, is_due
    from ragstream_core.wiring.history_embedding import history_status
    from ragstream_core.wiring.history_publishing import publish

    healed = []
    try:
        if is_due(workspace):
            finish(workspace)
            healed.append(CLEARING)
        now = history_status(workspace)
        published = now["snapshot"]["generation"] if now["snapshot"] else 0
        if now["generation"] != published and publish(workspace) is not None:
            healed.append(SELECTION)
    except (RagstreamError, OSError) as error:
        return healed, [Finding("clearing" if not healed else "snapshot", str(error))]
    return healed, []


def _collection(workspace: Workspace) -> tuple[list[str], list[Finding]]:
    from ragstream_core.wiring.history_collection import kept

    done = kept(workspace, again=True)
    if isinstance(done, Left):
        return [], [Finding("collection", done.why)] if done.failed else []
    return ([COLLECTION_STEP] if done.made != "unchanged" else []), []


def _generation(workspace: Workspace) -> int:
    from ragstream_core.index.history_rows import newest
    from ragstream_core.wiring.journal import history_index_dir

    try:
        found = newest(history_index_dir(workspace))
    except RagstreamError:
        return 0
    return found[0].generation if found is not None else 0
