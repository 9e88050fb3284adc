"""Verify the indexes and the conversations, repair what is derived, and name what else to run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import Advice, RagstreamError, RunCommand, quoted
from ragstream_core.index import look
from ragstream_core.index.check import Finding, repair_derived, verify_data, verify_structure
from ragstream_core.index.schema import CATALOG_NAME, is_pulled
from ragstream_core.index.view import open_view
from ragstream_core.prompts.injection_scan import Tally, tally
from ragstream_core.proposers import kept
from ragstream_core.proposers.collections import COLLECTION as CHROMA
from ragstream_core.proposers.collections import compare
from ragstream_core.wiring.erase_turns import finish, finish_aside, is_due
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import holds_journal, journal

if TYPE_CHECKING:
    from ragstream_core.index.check import Part
    from ragstream_core.index.rows import Generation
    from ragstream_core.proposers.derived_store import Outcome, StoreState
    from ragstream_core.records.json_form import Json
    from ragstream_core.wiring.history_index import HistoryStatus
    from ragstream_core.wiring.workspace import Workspace


JOURNAL, CATALOG, MARK, SNAPSHOT = "journal", "catalog", "mark", "snapshot"
WAITING, AGE, COLLECTION = "waiting", "age", "collection"
PARTS = (JOURNAL, CATALOG, MARK, SNAPSHOT, WAITING, AGE, COLLECTION)
BATCH = 512
LONGEST_WAIT = dt.timedelta(days=1)

CLEARING = "an interrupted clearing"
SELECTION = "the published selection"
_OF_HISTORY: Mapping[str, Advice] = {
    "clearing": (RunCommand("history check"),),
    JOURNAL: (
        RunCommand("backup", "DIR"),
        "; what verifies is read as before, the rest is damaged",
    ),
    SNAPSHOT: (RunCommand("history embed"),),
}
_REBUILD = (RunCommand("history backfill", "--rebuild"),)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found in one project or in the conversations."""

    project: str
    findings: Sequence[Finding] = ()  # what is not as it should be and was not repaired
    healed: Sequence[str] = ()
    generation: int = 0  # the newest; 0 if there is none or it cannot be read
    # how what is made from its index stands, by its key in reports; empty if nothing is ingested,
    # and of conversations
    stores: Mapping[str, StoreState] = field(default_factory=dict)
    finished: bool = False  # whether an interrupted clearing of conversations was
    # counts of passages that look like commands to a model, if asked for
    suspicious: Tally | None = None

    def to_json(self) -> dict[str, Json]:
        """Return it as `ragstream index check --json` writes it."""
        row: dict[str, Json] = {
            "project": self.project,
            "findings": self.findings,
            "healed": self.healed,
            "generation": self.generation,
        }
        if self.project == HISTORY:
            row["finished"] = self.finished
        else:
            row |= {store.report: self.stores.get(store.report, {}) for store in kept.STORES}
        return row | ({"suspicious": self.suspicious} if self.suspicious else {})


def verify_project(workspace: Workspace, project: str, *, part: Part | None = None) -> VerifyReport:
    """Verify one project's index; make derived files again if they differ.

    Args:
        workspace: The data root.
        project: Its name.
        part: Also read all data of this part of the texts.
    """
    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists() and not any(index_dir.glob("vectors-*.f32")):
        return VerifyReport(project)
    repaired: list[str] = []
    findings = list(verify_structure(index_dir, read_texts=False))
    if part is not None:
        findings += verify_data(index_dir, part)
    outcomes: list[Outcome] = []
    if not findings:  # of a damaged index its stores would be made wrong as well
        repaired, findings = _repair_derived(index_dir)
        outcomes = kept.bring_up_to_date(workspace, project, again=True)
    newest = _newest(index_dir)
    return VerifyReport(
        project=project,
        findings=_with_remedies(findings, lambda f: _remedy(index_dir, f), outcomes),
        healed=[*repaired, *_repaired(outcomes)],
        generation=newest.n if newest else 0,
        stores=kept.states(workspace, project, newest),
    )


def _with_remedies(
    findings: Sequence[Finding], remedy: Callable[[Finding], Advice], outcomes: Sequence[Outcome]
) -> list[Finding]:
    """Return findings, each once, with what makes them good; stores that were not made last."""
    rows = [finding._replace(remedy=remedy(finding)) for finding in dict.fromkeys(findings)]
    unmade = [done for done in outcomes if done.problem]
    return [*rows, *(Finding(d.store.check, d.problem, remedy=(d.next,)) for d in unmade)]


def _repaired(outcomes: Sequence[Outcome]) -> list[str]:
    return [done.store.healed for done in outcomes if done.is_repaired]


def _repair_derived(index_dir: Path) -> tuple[list[str], list[Finding]]:
    try:
        return repair_derived(index_dir), []
    except (RagstreamError, OSError) as error:
        return [], [Finding("derived", f"derived files cannot be made again: {error}")]


def _remedy(index_dir: Path, finding: Finding) -> Advice:
    project = index_dir.name
    if is_pulled(index_dir):
        return (RunCommand("index pull", f"{project} --verify"),)
    if finding.subject:
        return (RunCommand("forget", quoted(finding.subject, "-p", project)),)
    return (RunCommand("ingest", project + (" --rebuild" * (finding.check != "derived"))),)


def _newest(index_dir: Path) -> Generation | None:
    try:
        kept_ones = look.kept_generations(index_dir)
    except RagstreamError:
        return None
    return kept_ones[-1] if kept_ones else None


def suspicious_passages(
    workspace: Workspace, project: str, paths: Collection[str] | None = None
) -> Tally:
    """Read a project's live passages and count what looks suspicious; nothing is changed.

    Args:
        workspace: The data root.
        project: Its name.
        paths: Only passages of these files; None: all.

    Raises:
        GenerationGone: Nothing is ingested.
        IntegrityError: The index is damaged.
    """
    view = open_view(workspace.index_dir(project))
    rows = zip(view.chunk_ids, view.paths, strict=True)
    wanted = [i for i, path in rows if paths is None or path in paths]

    def texts() -> Iterator[tuple[str, str]]:
        for at in range(0, len(wanted), BATCH):
            for chunk in view.chunks(wanted[at : at + BATCH]):
                yield f"{chunk.source} #{chunk.meta['chunk_index']}", chunk.snippet

    return tally(texts())


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The history at one moment."""

    # part → what is not as it should be; every part is there
    findings: Mapping[str, Sequence[Finding]]
    status: HistoryStatus


def history_report(workspace: Workspace, now: dt.datetime) -> HistoryReport:
    """Verify journal, catalog, snapshot and collection, one against another; read-only.

    Args:
        workspace: The data root.
        now: The present moment, with a zone.
    """
    history = History(workspace)
    status = history.status()
    found: dict[str, list[Finding]] = {part: [] for part in PARTS}
    for finding in history.check():
        found[finding.check if finding.check in found else CATALOG].append(finding)
    found[WAITING] += waiting(status, now)
    found[AGE] += aged(status)
    faults = compare(workspace, HISTORY)
    found[COLLECTION] += [Finding(COLLECTION, fault) for fault in faults]
    return HistoryReport(found, status)


def waiting(status: HistoryStatus, now: dt.datetime) -> list[Finding]:
    """Return a finding if turns have waited for more than a day."""
    if not status.pending:
        return []
    try:
        since = dt.datetime.fromisoformat(status.oldest_pending)
    except ValueError:  # what cannot be read has waited too long
        since = dt.datetime.min
    since = since if since.tzinfo else since.replace(tzinfo=dt.UTC)
    if now - since <= LONGEST_WAIT:
        return []
    return [Finding(WAITING, f"{status.pending} turns wait since {status.oldest_pending}")]


def aged(status: HistoryStatus) -> list[Finding]:
    """Return a finding if prompts read a selection of more than a day ago while turns wait."""
    snapshot = status.snapshot
    if not status.pending:
        return []
    if snapshot is None:
        return [Finding(AGE, "nothing is published")]
    if snapshot.age_s <= LONGEST_WAIT.total_seconds():
        return []
    hours = snapshot.age_s / 3600
    return [Finding(AGE, f"published {hours:.0f} hours ago, {status.pending} turns wait")]


def verify_history(workspace: Workspace, *, part: Part | None = None) -> VerifyReport:
    """Verify the conversations as a project; finish what was being cleared.

    A selection that is missing or behind is published again, and so is the Chroma collection.

    Args:
        workspace: The data root.
        part: Also read this part of all texts and vectors, and compare every turn.

    Returns:
        With ``finished``; the project is ``~history``.
    """
    history = History(workspace)
    repaired, findings = repair_history(workspace)
    findings += history.check(part)
    outcomes: list[Outcome] = []
    if not findings:
        outcomes = kept.bring_up_to_date(workspace, HISTORY, stores=[CHROMA], again=True)
    newest = _newest(history.index_dir)
    return VerifyReport(
        project=HISTORY,
        findings=_with_remedies(findings, lambda f: _OF_HISTORY.get(f.check, _REBUILD), outcomes),
        healed=[*(what for what in repaired if what != CLEARING), *_repaired(outcomes)],
        finished=CLEARING in repaired,
        generation=newest.n if newest else 0,
    )


def has_history(workspace: Workspace) -> bool:
    """Say whether anything was ever recorded."""
    return holds_journal(journal(workspace).folder)


def repair_history(workspace: Workspace) -> tuple[list[str], list[Finding]]:
    """Finish what was being cleared and publish a selection that is missing or behind.

    Returns:
        What was repaired, and what could not be.
    """
    repaired = []
    try:
        finished = finish_aside(workspace)
        if is_due(workspace):
            finish(workspace)
            finished = True
        if finished:
            repaired.append(CLEARING)
        history = History(workspace)
        now = history.status()
        if now.generation != now.published and history.publish() is not None:
            repaired.append(SELECTION)
    except (RagstreamError, OSError) as error:
        return repaired, [Finding("clearing" if not repaired else SNAPSHOT, str(error))]
    return repaired, []
