"""`ragstream project sync`: fetch what is new at the addresses of a project, if a person asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import Advice, RagstreamError, RunCommand, Stopped, UsageError, worded
from ragstream_core.index.schema import require_own
from ragstream_core.ingestion.file_types import TYPES, denial, encode_name
from ragstream_core.ingestion.folder_files import IGNORE_NAMES
from ragstream_core.ingestion.ignore import (
    IgnoreRules,
    ignored_by,
    not_chosen,
    rules_of,
    taken_back,
)
from ragstream_core.ingestion.junk import FILES, FOLDERS, junk_file, junk_folder
from ragstream_core.ingestion.scan import unsupported
from ragstream_core.platform.data_root import PROJECT_FILE
from ragstream_core.records.identity import Json
from ragstream_core.wiring import project_files, projects

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.remote.address import Address
    from ragstream_core.remote.mirror import MirrorReport, MirrorRules
    from ragstream_core.wiring.project_files import ProjectFile
    from ragstream_core.wiring.workspace import Workspace

MB, GB = 1_000_000, 1_000_000_000


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
    roots: tuple[RootSync, ...] = ()
    problems: tuple[RootProblem, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every wanted file of every address is here."""
        return not self.problems and not any(root.report.failed for root in self.roots)

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


class MirroredRoot(NamedTuple):
    """One address of a project."""

    label: str
    address: Address
    home: Path
    prefix: str  # of the paths of its documents: "" or LABEL/


def roots(workspace: Workspace, project: str) -> tuple[MirroredRoot, ...]:
    """Return the addresses of a project; none if it has only folders. Contacts nobody.

    Raises:
        UnknownProject: There is no such project.
        UsageError: Its ``project.yaml`` cannot be used.
    """
    workspace.require_project(project)
    if not projects.is_in_place(workspace.layout, project):
        return ()
    from ragstream_core.remote.address import parse  # not where folders are all there is

    content = project_files.read(workspace.layout, project)
    several = len(content.roots) > 1
    return tuple(
        MirroredRoot(
            entry.label,
            parse(entry.url),
            project_files.mirror_home(workspace.layout, project, entry),
            f"{entry.label}/" if several else "",
        )
        for entry in content.roots
        if entry.url
    )


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
    request = request or SyncRequest()
    wanted = _wanted(workspace, project, request.labels)
    done: list[RootSync] = []
    problems: list[RootProblem] = []
    for root in wanted:
        if progress is not None:  # an address with nothing new reports nothing of its own
            progress("listing", 0, 0)
        try:
            report = _sync_root(workspace, project, root, request, progress)
        except Stopped:
            raise
        except RagstreamError as error:
            if len(wanted) == 1:
                raise
            problems.append(RootProblem(root.address.url, error.message, error.advice))
            continue
        done.append(RootSync(root.label, report))
    return ProjectSync(project, tuple(done), tuple(problems))


def _wanted(workspace: Workspace, project: str, labels: Sequence[str]) -> list[MirroredRoot]:
    found = roots(workspace, project)
    if not found:
        require_own(workspace.index_dir(project))
        raise UsageError(
            f"project {project} has no address to fetch from",
            hint=RunCommand("project add", f"{project} URL"),
        )
    known = {root.label for root in found}
    if unknown := sorted(set(labels) - known):
        raise UsageError(
            f"project {project} has no address under the label {', '.join(unknown)}",
            hint=f"its labels: {', '.join(sorted(known))}",
        )
    return [root for root in found if not labels or root.label in labels]


def _sync_root(
    workspace: Workspace,
    project: str,
    root: MirroredRoot,
    request: SyncRequest,
    progress: PhaseProgress | None,
) -> MirrorReport:
    from ragstream_core.remote.mirror import mirror, opened

    rules = _rules(workspace, project_files.read(workspace.layout, project), root)
    only = f" --label {root.label}" if root.prefix else ""
    with opened(root.address, root.home / "work", max_bytes=rules.max_bytes) as source:
        return mirror(
            source, root.home, url=root.address.url, rules=rules, empty_ok=request.empty_ok,
            dry_run=request.dry_run, progress=progress,
            to_empty=RunCommand("project sync", f"{project}{only} --yes"),
        )  # fmt: skip


def _rules(workspace: Workspace, said: ProjectFile, root: MirroredRoot) -> MirrorRules:
    from ragstream_core.remote.mirror import MirrorRules

    settings = workspace.config.settings
    chosen = (
        said.include, said.exclude, tuple(settings.discovery.include),
        tuple(settings.discovery.exclude),
    )  # fmt: skip
    limits = settings.remote
    return MirrorRules(
        _left_out(chosen, root.prefix),
        repr((chosen, root.prefix, sorted(TYPES), unsupported("a.png"), FILES, FOLDERS)),
        limits.max_files,
        int(limits.max_file_mb * MB),
        int(limits.max_gb * GB),
    )


def _left_out(
    chosen: tuple[Sequence[str], ...], prefix: str
) -> Callable[[Sequence[str]], dict[str, str]]:
    """Return what says which files an ingest would not take: they need not be fetched."""
    include, exclude, include_all, exclude_all = chosen

    def left_out(paths: Sequence[str]) -> dict[str, str]:
        names = {f"{prefix}{encode_name(path)}": path for path in paths}
        globs = dict(not_chosen(names, include or ("**",), ()))
        globs.update(not_chosen(names, include_all, exclude_all))
        excluded = (rules_of(PROJECT_FILE, exclude),) if exclude else ()
        settings = (rules_of("discovery.exclude", exclude_all),) if exclude_all else ()
        listed = frozenset(chain.from_iterable(accumulate(p.split("/"), _joined) for p in paths))
        junk_of = partial(_junk, listed=listed, chains=(excluded, settings))
        found = {}
        for name, path in names.items():
            reason = _unfit(path) or (ignored_by(name, excluded) and f"excluded by {PROJECT_FILE}")
            if path.rpartition("/")[2] not in IGNORE_NAMES:
                reason = reason or globs.get(name, "") or junk_of(name, path)
            if reason:
                found[path] = reason
        return found

    return left_out


def _junk(
    name: str, path: str, *, listed: frozenset[str], chains: tuple[tuple[IgnoreRules, ...], ...]
) -> str:
    """Return why a file is left out as junk, for its name or a folder's; "" if it is wanted."""
    *folders, last = path.split("/")
    within, above = name.removesuffix(encode_name(path)), ""
    for folder in folders:
        reason = junk_folder(folder, partial(_is_listed, above, listed))
        above += f"{folder}/"
        if reason and not taken_back(f"{within}{encode_name(above)}", *chains):
            return reason
    reason = junk_file(last)
    return "" if not reason or taken_back(name, *chains) else reason


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}"


def _is_listed(above: str, listed: frozenset[str], beside: str) -> bool:
    return above + beside in listed


def _unfit(path: str) -> str:
    if reason := next(filter(None, map(denial, path.split("/"))), ""):
        return reason
    return "" if path.rpartition("/")[2] in IGNORE_NAMES else unsupported(path)
