"""Verify the indexes and the conversations, repair what is derived, and name what else to run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import RagstreamError, quoted
from ragstream_core.index import look
from ragstream_core.index.check import Finding
from ragstream_core.index.schema import CATALOG_NAME, is_pulled
from ragstream_core.index.view import open_view
from ragstream_core.prompts.injection_scan import Tally, tally
from ragstream_core.proposers import kept
from ragstream_core.proposers.collections import COLLECTION as CHROMA
from ragstream_core.proposers.collections import compare
from ragstream_core.wiring.journal import holds_journal, journal

if TYPE_CHECKING:
    from ragstream_core.index.check import Part
    from ragstream_core.index.rows import Generation
    from ragstream_core.proposers.derived_store import Outcome, StoreState
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.history_embedding import HistoryStatus
    from ragstream_core.wiring.workspace import Workspace


JOURNAL, CATALOG, MARK, SNAPSHOT = "journal", "catalog", "mark", "snapshot"
WAITING, AGE, COLLECTION = "waiting", "age", "collection"
PARTS = (JOURNAL, CATALOG, MARK, SNAPSHOT, WAITING, AGE, COLLECTION)
BATCH = 512
LONGEST_WAIT = dt.timedelta(days=1)

CLEARING = "an interrupted clearing"
SELECTION = "the published selection"
_HISTORY_COMMANDS = {
    "clearing": "ragstream history check",
    "journal": "ragstream backup DIR; what verifies is read as before, the rest is damaged",
    "snapshot": "ragstream history embed",
}
_REBUILD = "ragstream history backfill --rebuild"


class FindingRow(NamedTuple):
    """A finding for people: what is wrong, where, and the command to run, or what comes before."""

    check: str
    message: str
    run: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found in one project or in the conversations."""

    project: str
    findings: Sequence[FindingRow] = ()  # what is not as it should be and was not repaired
    healed: Sequence[str] = ()
    generation: int = 0  # the newest; 0 if there is none or it cannot be read
    # how what is made from its index stands, by its key in reports; empty if nothing is ingested,
    # and of conversations
    stores: Mapping[str, StoreState] = field(default_factory=dict)
    finished: bool | None = None  # whether an interrupted clearing was finished; None of projects
    # counts of passages that look like commands to a model, if asked for
    suspicious: Tally | None = None

    def to_json(self) -> dict[str, Json]:
        """Return it as `ragstream index check --json` writes it."""
        row: dict[str, Json] = {
            "project": self.project,
            "findings": [finding._asdict() for finding in self.findings],
            "healed": list(self.healed),
            "generation": self.generation,
        }
        if self.finished is None:
            states = self.stores
            row |= {
                store.report: states[store.report].to_json() if states else {}
                for store in kept.STORES
            }
        else:
            row["finished"] = self.finished
        return row | ({"suspicious": self.suspicious.to_json()} if self.suspicious else {})


def verify_project(workspace: Workspace, project: str, *, part: Part | None = None) -> VerifyReport:
    """Verify one project's index; make derived files again if they differ.

    Args:
        workspace: The data root.
        project: Its name.
        part: Also read all data of this part of the texts.
    """
    from ragstream_core.index.check import verify_data, verify_structure

    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists() and not any(index_dir.glob("vectors-*.f32")):
        return VerifyReport(project)
    repaired: list[str] = []
    findings = list(verify_structure(index_dir, read_texts=False))
    if part is not None:
        findings += verify_data(index_dir, part)
    outcomes: list[Outcome] = []
    if not findings:
        repaired, findings = _repair_derived(index_dir)
        outcomes = kept.bring_up_to_date(workspace, project, again=True)
    newest = _newest(index_dir)
    rows = [_row(index_dir, finding) for finding in dict.fromkeys(findings)]
    return VerifyReport(
        project=project,
        findings=[*rows, *_unmade(outcomes)],
        healed=[*repaired, *(done.store.healed for done in outcomes if done.is_repaired)],
        generation=newest.n if newest else 0,
        stores=kept.states(workspace, project, newest),
    )


def _unmade(outcomes: Sequence[Outcome]) -> list[FindingRow]:
    """Return what is wrong with stores made from an index and could not be repaired."""
    return [
        FindingRow(done.store.check, done.problem, done.next) for done in outcomes if done.problem
    ]


def _repair_derived(index_dir: Path) -> tuple[list[str], list[Finding]]:
    from ragstream_core.index.repair import repair_derived

    try:
        return repair_derived(index_dir), []
    except (RagstreamError, OSError) as error:
        return [], [Finding("derived", f"derived files cannot be made again: {error}")]


def _row(index_dir: Path, finding: Finding) -> FindingRow:
    """Return a finding for people, and the command to run against it."""
    project, run = index_dir.name, ""
    if is_pulled(index_dir):
        run = f"ragstream index pull {project} --verify"
    elif finding.check == "erasing":
        path = finding.message.removeprefix("the erasing of ").removesuffix(" was interrupted")
        run = f"ragstream forget {quoted(path, '-p', project)}"
    else:
        run = f"ragstream ingest {project}" + ("" if finding.check == "derived" else " --rebuild")
    return FindingRow(finding.check, finding.message, run)


def _newest(index_dir: Path) -> Generation | None:
    try:
        found = look.kept_generations(index_dir)
    except RagstreamError:
        return None
    return found[-1] if found else None


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

    Raises:
        RagstreamError: The collection cannot be compared.
    """
    from ragstream_core.wiring.history_embedding import history_status
    from ragstream_core.wiring.verify_history import history_findings

    status = history_status(workspace)
    found: dict[str, list[Finding]] = {part: [] for part in PARTS}
    for finding in history_findings(workspace):
        found[finding.check if finding.check in found else CATALOG].append(finding)
    found[WAITING] += waiting(status, now)
    found[AGE] += aged(status)
    faults = compare(workspace, HISTORY)
    found[COLLECTION] += [Finding(COLLECTION, fault) for fault in faults]
    return HistoryReport(found, status)


def waiting(status: HistoryStatus, now: dt.datetime) -> list[Finding]:
    """Return a finding if turns have waited for more than a day; a wrong clock is no reason."""
    since = _time(status.oldest_pending)
    if not status.pending or (since is not None and now - since <= LONGEST_WAIT):
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


def _time(text: str) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def verify_history(workspace: Workspace, *, part: Part | None = None) -> VerifyReport:
    """Verify the conversations as a project; finish what was being cleared.

    A selection that is missing or behind is published again, and so is the Chroma collection.

    Args:
        workspace: The data root.
        part: Also read this part of all texts and vectors, and compare every turn.

    Returns:
        With ``finished``; the project is ``~history``.
    """
    from ragstream_core.wiring.verify_history import history_findings

    repaired, findings = repair_history(workspace)
    findings += history_findings(workspace, part)
    outcomes: list[Outcome] = []
    if not findings:
        outcomes = kept.bring_up_to_date(workspace, HISTORY, stores=[CHROMA], again=True)
        repaired += [done.store.healed for done in outcomes if done.is_repaired]
    rows = [
        FindingRow(f.check, f.message, _HISTORY_COMMANDS.get(f.check, _REBUILD))
        for f in dict.fromkeys(findings)
    ]
    return VerifyReport(
        project=HISTORY,
        findings=[*rows, *_unmade(outcomes)],
        healed=[what for what in repaired if what != CLEARING],
        finished=CLEARING in repaired,
        generation=_history_generation(workspace),
    )


def has_history(workspace: Workspace) -> bool:
    """Say whether anything was ever recorded."""
    return holds_journal(journal(workspace).folder)


def repair_history(workspace: Workspace) -> tuple[list[str], list[Finding]]:
    """Finish what was being cleared and publish a selection that is missing or behind.

    Returns:
        What was repaired, and what could not be.
    """
    from ragstream_core.wiring.erase_turns import finish, finish_aside, is_due
    from ragstream_core.wiring.history_embedding import history_status
    from ragstream_core.wiring.history_publishing import publish

    repaired = []
    try:
        finished = finish_aside(workspace)
        if is_due(workspace):
            finish(workspace)
            finished = True
        if finished:
            repaired.append(CLEARING)
        now = history_status(workspace)
        if now.generation != now.published and publish(workspace) is not None:
            repaired.append(SELECTION)
    except (RagstreamError, OSError) as error:
        return repaired, [Finding("clearing" if not repaired else "snapshot", str(error))]
    return repaired, []


def _history_generation(workspace: Workspace) -> int:
    from ragstream_core.index.history import newest
    from ragstream_core.wiring.journal import history_index_dir

    try:
        found = newest(history_index_dir(workspace))
    except RagstreamError:
        return 0
    return found[0].generation if found is not None else 0
