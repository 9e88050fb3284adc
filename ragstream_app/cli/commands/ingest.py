"""`ragstream ingest` and `ragstream status`: light commands, nothing heavy until it is needed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.session import (
    describe,
    emit_json,
    exit_code,
    note,
    session_of,
    show,
)
from ragstream_core.errors import RagstreamError, RunCommand, UnknownProject, UsageError
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.wiring.ingestion import ProjectStatus
    from ragstream_core.wiring.workspace import Workspace

INGEST_EPILOG = """**Examples**

ragstream ingest (all projects)

ragstream ingest handbook --json

ragstream ingest handbook --rebuild (after a change of the embedding model)

ragstream ingest handbook --fan-out (let workers embed, see `ragstream worker`)"""
LAST_PROMPTS = 5
REFUSED = 3

Projects = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PROJECT]...",
        autocompletion=project_names,
        help="Names of projects; none: all of them.",
    ),
]


def ingest(
    ctx: typer.Context,
    projects: Projects = None,
    verify: Annotated[
        bool, typer.Option("--verify", metavar="", help="Hash every file and check every vector.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", metavar="", help="Start a new index; after a new model or damage."
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            metavar="",
            help="Take documents of a missing or empty folder in place for deleted.",
        ),
    ] = False,
    sync: Annotated[
        bool,
        typer.Option(
            "--sync", metavar="", help="First fetch what is new at the addresses of the projects."
        ),
    ] = False,
    fan_out: Annotated[
        bool,
        typer.Option(
            "--fan-out",
            metavar="",
            help="Have workers embed the new texts first; continues an interrupted ingest.",
        ),
    ] = False,
    dagster: options.InDagster = False,
    no_record: options.NoRecord = False,
    as_json: options.Json = False,
) -> None:
    """Bring the index of projects up to date with their folders.

    Only what changed is read and only new texts are embedded. A file that cannot be read is
    skipped with its reason. One bad file or project never stops the rest.

    Raises:
        RagstreamError: The only project failed.
        Exit: One of several failed, or the quality gate refused; the code is the worst.
    """
    if verify and rebuild:
        raise UsageError("--verify and --rebuild exclude each other", hint="give one of them")
    if fan_out and dagster:
        raise UsageError("--fan-out and --dagster exclude each other", hint="give one of them")
    if yes and not projects:
        raise UsageError("--yes needs the names of projects", hint="ragstream project list")
    if sync and not projects:
        raise UsageError("--sync needs the names of projects", hint="ragstream project list")
    workspace = session_of(ctx).workspace()
    how = _How(workspace, verify, rebuild, yes, sync, fan_out, dagster)
    if fan_out:
        from ragstream_core.services.shared_embeddings import workers_database

        workers_database(workspace)
    wanted = _wanted(workspace, projects, workspace.own_projects())
    unsynced = _sync_each(workspace, wanted, as_json=as_json) if sync and not dagster else 0
    results, worst = _ingest_each(how, wanted, as_json=as_json)
    worst = max(worst, unsynced)
    if as_json:
        emit_json(results if len(wanted) > 1 else results[0])
    elif not worst:
        note(f'next: ragstream prompt "your question" -p {wanted[0]}')
    if worst:
        raise typer.Exit(worst)


def status(
    ctx: typer.Context,
    projects: Projects = None,
    skipped: Annotated[
        bool,
        typer.Option("--skipped", metavar="", help="List the files that are left out, and why."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show what is indexed, what an ingest would do, and the last prompts; writes nothing.

    A project that cannot be read is named and never hides the others.

    Raises:
        RagstreamError: The only project cannot be read.
        Exit: One of several cannot; the code is the worst.
    """
    workspace = session_of(ctx).workspace()
    rows, unusable = _states(workspace, _wanted(workspace, projects, workspace.projects()))
    worst = max(map(exit_code, unusable.values()), default=0)
    prompts = _last_prompts(workspace.layout.prompts)
    if as_json:
        emit_json(
            {
                "data_dir": str(workspace.data_dir),
                "projects": [*(row.to_json() for row in rows), *_errors(unusable)],
                "prompts": prompts,
                "not_projects": [list(row) for row in workspace.unfit_folders()],
            }
        )
    else:
        from ragstream_app.output.tables import print_skipped, print_status

        print_status(rows, prompts)
        if skipped:
            print_skipped(rows)
        for project, error in unusable.items():
            note(f"{project}:")
            show(error)
    if worst:
        raise typer.Exit(worst)


def _states(
    workspace: Workspace, wanted: list[str]
) -> tuple[list[ProjectStatus], dict[str, RagstreamError]]:
    """Return the status of each project, and why there is none of some."""
    from ragstream_core.wiring import ingestion

    rows: list[ProjectStatus] = []
    unusable: dict[str, RagstreamError] = {}
    for project in wanted:
        try:
            rows.append(ingestion.status(workspace, project))
        except RagstreamError as error:
            if len(wanted) == 1:
                raise
            unusable[project] = error
    return rows, unusable


def _errors(unusable: Mapping[str, RagstreamError]) -> list[dict[str, Any]]:
    """Return what `--json` prints of projects that cannot be read."""
    return [
        {"project": project, "error": describe(error).to_json()}
        for project, error in unusable.items()
    ]


def _sync_each(workspace: Workspace, wanted: list[str], *, as_json: bool) -> int:
    """Fetch what is new at the addresses of each project; return the worst exit code.

    Raises:
        RagstreamError: The only project could not be synced.
    """
    from ragstream_app.cli.commands.project import sync_and_note

    worst = 0
    for project in wanted:
        try:
            done = sync_and_note(workspace, project, quiet=as_json)
        except (RagstreamError, OSError) as error:
            if len(wanted) == 1:
                raise
            worst = max(worst, exit_code(error))
            note(f"{project}:")
            show(error)
        else:
            worst = max(worst, 0 if done else 1)
    return worst


@dataclass(frozen=True, slots=True)
class _How:
    """How this call ingests one project."""

    workspace: Workspace
    verify: bool = False
    rebuild: bool = False
    accept: bool = False
    sync: bool = False
    fan_out: bool = False
    dagster: bool = False

    def ingest(self, project: str) -> tuple[IngestionStats, str]:
        """Return the statistics and the Dagster run, empty where there is none.

        Raises:
            RagstreamError: It cannot be ingested.
        """
        from ragstream_app.output.progress import ingest_progress
        from ragstream_core.wiring import ingestion

        if not (self.verify or self.rebuild or self.accept or self.sync):
            unchanged = ingestion.unchanged(self.workspace, project)
            if unchanged is not None:
                return unchanged, ""
        with ingest_progress(project) as progress:
            if self.dagster:
                dagster_runs = options.execution()
                how = dagster_runs.IngestConfig(
                    verify=self.verify,
                    rebuild=self.rebuild,
                    accept_missing=self.accept,
                    sync=self.sync,
                )
                done: tuple[IngestionStats, str] = dagster_runs.ingest(
                    self.workspace, project, how, progress=progress
                )
                return done
            from ragstream_core.services.ingest import ingest

            stats = ingest(
                self.workspace,
                project,
                verify=self.verify,
                rebuild=self.rebuild,
                accept_missing=self.accept,
                fan_out=self.fan_out,
                progress=progress,
            )
            return stats, ""


def bring_up_to_date(workspace: Workspace, project: str, *, dagster: bool) -> IngestionStats:
    """Ingest one project with progress, for a command that goes on from there.

    Args:
        workspace: The data root.
        project: Its name.
        dagster: Execute the Dagster job.

    Raises:
        RagstreamError: It cannot be ingested.
    """
    return _How(workspace, dagster=dagster).ingest(project)[0]


def _ingest_each(
    how: _How, wanted: list[str], *, as_json: bool
) -> tuple[list[dict[str, Any]], int]:
    """Ingest one project after the other; return what to say of each, and the worst exit code."""
    results: list[dict[str, Any]] = []
    worst = 0
    for project in wanted:
        try:
            stats, run_id = how.ingest(project)
        except (RagstreamError, OSError) as error:
            if len(wanted) == 1:
                raise
            worst = max(worst, exit_code(error))
            results.append({"project": project, "error": describe(error).to_json()})
            if not as_json:
                note(f"{project}:")
                show(error)
            continue
        if stats.refused:
            worst = max(worst, REFUSED)
        results.append({**stats.to_json(), "run_id": run_id})
        if not as_json:
            _print(stats, run_id)
    return results, worst


def _wanted(workspace: Workspace, projects: list[str] | None, known: list[str]) -> list[str]:
    wanted = list(dict.fromkeys(projects or known))
    if not wanted and workspace.projects():
        raise UnknownProject(
            f"every project under {workspace.data_dir} is pulled; none is ingested here",
            hint=(RunCommand("index pull"), " brings them up to date"),
        )
    if not wanted:
        folder = workspace.layout.doc_raw
        raise UnknownProject(
            "; ".join([f"there is no project under {folder}", *unfit_lines(workspace)]),
            hint=(
                RunCommand("project add", "NAME PATH"),
                f" reads a folder where it is; or put documents into {folder}/PROJECT/, "
                "or name another root with --data DIR",
            ),
        )
    if not projects:
        for line in unfit_lines(workspace):
            note(line)
    return wanted


def unfit_lines(workspace: Workspace) -> list[str]:
    """Return a line for each folder that cannot be a project, for people."""
    rows = workspace.unfit_folders()
    return [f"no project: {name!r}: {reason}" for name, reason in rows]


def _print(stats: IngestionStats, run_id: str) -> None:
    if not (stats.committed or stats.skipped_reasons or stats.warnings or stats.refused):
        live = counted(stats.chunks.get("live", 0), "chunk")
        counts = f"{counted(stats.files['unchanged'], 'file')}, {live}"
        others = ((kind, stats.files.get(kind, 0)) for kind in ("touched", "skipped"))
        also = "".join(f", {count} {kind}" for kind, count in others if count)
        typer.echo(
            f"{stats.project}: nothing to do ({counts}{also}; generation {stats.generation}, "
            f"{stats.seconds:.2f} s)"
        )
        return
    from ragstream_app.output.tables import print_ingest

    print_ingest(stats, run_id)


def _last_prompts(folder: Path) -> list[dict[str, str]]:
    """Return key and time of the newest kept prompts, from their folders alone."""
    records = [(path.stat().st_mtime, path.parent.name) for path in folder.glob("*/record.json")]
    newest = sorted(records, reverse=True)[:LAST_PROMPTS]
    return [{"prompt_key": key, "when": _local_time(at)} for at, key in newest]


def _local_time(at: float) -> str:
    return dt.datetime.fromtimestamp(at).astimezone().isoformat("T", "seconds")
