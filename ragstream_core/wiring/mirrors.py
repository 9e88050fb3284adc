"""The addresses of a project, and by which rules their files are mirrored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import RunCommand
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
from ragstream_core.remote.address import Address, parse
from ragstream_core.remote.mirror import MirrorReport, MirrorRules, mirror, opened
from ragstream_core.wiring import project_files, projects

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.project_files import ProjectFile
    from ragstream_core.wiring.workspace import Workspace

MB, GB = 1_000_000, 1_000_000_000


class MirroredRoot(NamedTuple):
    """One address of a project."""

    label: str
    address: Address
    home: Path
    prefix: str  # of the paths of its documents: "" or LABEL/


def roots(workspace: Workspace, project: str) -> tuple[MirroredRoot, ...]:
    """Return the addresses of a project; none if it has only folders."""
    workspace.require_project(project)
    if not projects.is_in_place(workspace.layout, project):
        return ()
    said = project_files.read(workspace.layout, project)
    found = []
    for entry in said.roots:
        if entry.url:
            home = project_files.mirror_home(workspace.layout, project, entry)
            prefix = f"{entry.label}/" if len(said.roots) > 1 else ""
            found.append(MirroredRoot(entry.label, parse(entry.url), home, prefix))
    return tuple(found)


def sync_root(
    workspace: Workspace,
    project: str,
    root: MirroredRoot,
    *,
    empty_ok: bool = False,
    dry_run: bool = False,
    progress: PhaseProgress | None = None,
) -> MirrorReport:
    """Make the mirror of one address equal to it."""
    said = project_files.read(workspace.layout, project)
    rules = _rules(workspace, said, root)
    only = f" --label {root.label}" if root.prefix else ""
    with opened(root.address, root.home / "work", max_bytes=rules.max_bytes) as source:
        return mirror(
            source, root.home, url=root.address.url, rules=rules, empty_ok=empty_ok,
            dry_run=dry_run, to_empty=RunCommand("project sync", f"{project}{only} --yes"),
            progress=progress,
        )  # fmt: skip


def _rules(workspace: Workspace, said: ProjectFile, root: MirroredRoot) -> MirrorRules:
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
