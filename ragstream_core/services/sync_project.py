"""`ragstream project sync`: fetch what is new at the addresses of a project, if a person asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.errors import Advice, RagstreamError, RunCommand, Stopped, UsageError, worded
from ragstream_core.index.schema import require_own
from ragstream_core.records.identity import Json

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.remote.mirror import MirrorReport
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RootSync:
    """What became of one address."""

    label: str
    report: MirrorReport


@dataclass(frozen=True, slots=True)
class RootProblem:
    """Why one address could not be mirrored; what was fetched of it before stays."""

    url: str
    message: str
    advice: Advice = ()


@dataclass(frozen=True, slots=True)
class ProjectSync:
    """What a sync did."""

    project: str
    roots: tuple[RootSync, ...]
    problems: tuple[RootProblem, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every wanted file of every address is here."""
        return not self.problems and not any(root.report.failed for root in self.roots)

    @property
    def is_changed(self) -> bool:
        """Whether a document came or went."""
        return any(root.report.fetched or root.report.removed for root in self.roots)

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream project sync --json` prints."""
        return {
            "project": self.project,
            "complete": self.is_complete,
            "roots": [{"label": root.label, **root.report.to_json()} for root in self.roots],
            "problems": [[row.url, row.message, worded(row.advice)] for row in self.problems],
        }

    def totals(self) -> dict[str, int]:
        """Return how many files were fetched, unchanged, removed, skipped and failed, and bytes."""
        reports = [root.report for root in self.roots]
        return {
            "fetched": sum(len(report.fetched) for report in reports),
            "unchanged": sum(report.unchanged for report in reports),
            "removed": sum(len(report.removed) for report in reports),
            "skipped": sum(len(report.skipped) for report in reports),
            "failed": sum(len(report.failed) for report in reports),
            "bytes": sum(report.bytes for report in reports),
        }


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """What is to be synced, and how."""

    labels: tuple[str, ...] = ()
    empty_ok: bool = False  # whether a place that lists nothing may empty its mirror
    dry_run: bool = False


def addresses(workspace: Workspace, project: str) -> tuple[str, ...]:
    """Return the addresses of a project; none if it has only folders. Contacts nobody.

    Raises:
        UnknownProject: There is no such project.
        UsageError: Its ``project.yaml`` cannot be used.
    """
    from ragstream_core.wiring import mirrors

    return tuple(root.address.url for root in mirrors.roots(workspace, project))


def sync_if_remote(
    workspace: Workspace,
    project: str,
    request: SyncRequest | None = None,
    *,
    progress: PhaseProgress | None = None,
) -> ProjectSync:
    """As `sync_project`, but a project without an address is complete as it is.

    Raises:
        RagstreamError: As `sync_project`.
    """
    from ragstream_core.wiring import mirrors

    if not mirrors.roots(workspace, project):
        return ProjectSync(project, ())
    return sync_project(workspace, project, request, progress=progress)


def sync_project(
    workspace: Workspace,
    project: str,
    request: SyncRequest | None = None,
    *,
    progress: PhaseProgress | None = None,
) -> ProjectSync:
    """Make the mirrors of a project equal to its addresses. Contacts them and nobody else.

    One that fails does not stop the others; if it is the only one, its error is raised. A stop
    ends all of it: no further address is contacted, and the whole files that came stay.

    Args:
        workspace: The data root.
        project: Its name.
        request: Which addresses, and how.
        progress: Called with (phase, files done, files in all), also before each address.

    Raises:
        UnknownProject: There is no such project.
        UsageError: It has no address, or none under that label.
        Stopped: `progress` asked for the end.
        RagstreamError: The only address could not be mirrored.
    """
    from ragstream_core.wiring import mirrors

    request = request or SyncRequest()
    found = mirrors.roots(workspace, project)
    if not found:
        require_own(workspace.index_dir(project))
        raise UsageError(
            f"project {project} has no address to fetch from",
            hint=RunCommand("project add", f"{project} URL"),
        )
    known = {root.label for root in found}
    if unknown := sorted(set(request.labels) - known):
        raise UsageError(
            f"project {project} has no address under the label {', '.join(unknown)}",
            hint=f"its labels: {', '.join(sorted(known))}",
        )
    wanted = [root for root in found if not request.labels or root.label in request.labels]
    done: list[RootSync] = []
    problems: list[RootProblem] = []
    for root in wanted:
        if progress is not None:  # an address with nothing new reports nothing of its own
            progress("listing", 0, 0)
        try:
            report = mirrors.sync_root(
                workspace, project, root, empty_ok=request.empty_ok, dry_run=request.dry_run,
                progress=progress,
            )  # fmt: skip
        except Stopped:
            raise
        except RagstreamError as error:
            if len(wanted) == 1:
                raise
            problems.append(RootProblem(root.address.url, error.message, error.advice))
            continue
        done.append(RootSync(root.label, report))
    return ProjectSync(project, tuple(done), tuple(problems))
