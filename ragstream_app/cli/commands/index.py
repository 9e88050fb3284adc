"""`ragstream index`: generations, check, gc, diff, export, and import-pkl."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.output.words import size
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import UnknownProject
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from ragstream_core.prompts.injection_scan import Tally
    from ragstream_core.services.verify import VerifyReport
    from ragstream_core.wiring.workspace import Workspace


IMPORT_EPILOG = """**Examples**

ragstream index import-pkl history_store.pkl -p old_notes

ragstream ingest old_notes (embeds the texts with this project's model)"""


def import_pkl(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pickle with texts.")],
    project: Annotated[
        str,
        typer.Option(
            "--project",
            "-p",
            metavar="PROJECT",
            autocompletion=project_names,
            help="Where the documents go.",
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Write the texts of a NumPy pickle as documents of a project.

    A pickle can run programs when it is opened. This one is read by a limited process that knows
    arrays, texts and containers and refuses everything else; nothing in it is ever executed.

    Raises:
        UsageError: The file cannot be read, or a document of that name holds another text.
        PickleRefused: The pickle is refused; nothing was written.
    """
    from ragstream_core.ingestion.pickle_import import import_pickle
    from ragstream_core.platform.data_root import checked

    layout = session_of(ctx).workspace().layout
    found = import_pickle(file, layout.doc_raw / checked(project))
    if as_json:
        emit_json({"project": project, **found._asdict()})
        return
    typer.echo(
        f"{project}: {counted(len(found.written), 'document')} written, "
        f"{len(found.unchanged)} unchanged, {found.empty} without text, "
        f"{counted(found.vectors, 'vector')} not imported"
    )
    if found.written:
        note(f"next: ragstream ingest {project}")


REFUSED = 3
SHOWN = 20
CHECK_EPILOG = """**Examples**

ragstream index check (structure of every index, seconds)

ragstream index check handbook --read-data 1/1 (every text, every vector)

ragstream index check --read-data 3/7 (a seventh a day)

ragstream index check handbook --suspicious (passages that try to command a model)"""


def generations(
    ctx: typer.Context, projects: options.IndexedProjects = None, as_json: options.Json = False
) -> None:
    """List the generations that prompts can be made from again, and what keeps each.

    Raises:
        GenerationGone: Nothing was ever ingested.
    """
    from ragstream_core.services import generations

    workspace = session_of(ctx).workspace()
    found = {
        name: generations.generations(workspace, name) for name in _wanted(workspace, projects)
    }
    if as_json:
        emit_json(found)
        return
    for name, rows in found.items():
        typer.echo(name)
        for row in rows:
            names = ", ".join(w if " " in w or w == "newest" else w[:12] for w in row.kept_by)
            names = names or "none; removed by the next gc"
            typer.echo(
                f"  {row.n:>5}  {row.created}  {row.digest[:12]}  "
                f"{row.files:>6,} files  {row.chunks:>8,} chunks  {names}"
            )


def check(
    ctx: typer.Context,
    projects: options.IndexedProjects = None,
    read_data: options.ReadData = "",
    suspicious: Annotated[
        bool,
        typer.Option(
            "--suspicious",
            metavar="",
            help="Also count passages that look like commands to a model.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Check indexes and conversations; make derived files again and name what else to run.

    Without an option: structure, ids, digests, counts and the vectors of the newest generation.
    With one: every text is hashed and every vector compared with its crc.

    Raises:
        UsageError: N/T is no part.
        Exit: With 3, where something is wrong.
    """
    from ragstream_core.index.check import parse_part
    from ragstream_core.services import verify

    part = parse_part(read_data) if read_data else None
    workspace = session_of(ctx).workspace()
    results = [
        verify.verify_project(workspace, name, part=part) for name in _wanted(workspace, projects)
    ]
    if suspicious:
        from ragstream_core.services.verify import suspicious_passages

        results = [
            replace(result, suspicious=suspicious_passages(workspace, result.project))
            if result.generation and not result.findings
            else result
            for result in results
        ]
    if not projects and verify.has_history(workspace):
        results.append(verify.verify_history(workspace, part=part))
    if as_json:
        emit_json(results)
    else:
        for result in results:
            _print_check(result)
    if any(result.findings for result in results):
        raise typer.Exit(REFUSED)


def gc(
    ctx: typer.Context,
    projects: options.IndexedProjects = None,
    dry_run: options.RemovalDryRun = False,
    as_json: options.Json = False,
) -> None:
    """Drop generations that are no longer needed, and compact what is left.

    The newest generations (ingestion.retain_generations) and those of kept prompts stay.

    Raises:
        GenerationGone: Nothing was ever ingested.
        Refused: The index of one that is named is made elsewhere.
        ProjectLocked: Another process writes the project.
    """
    from ragstream_core.services import generations
    from ragstream_core.wiring.projects import pulled

    workspace = session_of(ctx).workspace()
    elsewhere = () if projects else pulled(workspace.layout)
    wanted = [name for name in _wanted(workspace, projects) if name not in elsewhere]
    results = [generations.gc(workspace, name, dry_run=dry_run) for name in wanted]
    if as_json:
        emit_json(results)
        return
    for result in results:
        numbers = result.generations
        which = f"generations {numbers[0]} to {numbers[-1]}" if numbers else "no generation"
        verb = "would free about" if dry_run else "freed"
        typer.echo(
            f"{result.project}: {which} ({len(numbers)}), {result.chunks:,} chunk rows, "
            f"{counted(result.texts, 'text')}, {counted(result.vectors, 'vector')}; "
            f"{verb} {size(result.bytes)}"
        )


def diff(
    ctx: typer.Context,
    project: options.IndexedProject,
    before: Annotated[int, typer.Argument(metavar="N", help="The earlier generation.")],
    after: Annotated[int, typer.Argument(metavar="M", help="The later one.")],
    as_json: options.Json = False,
) -> None:
    """Show which files and how many chunks differ between two generations.

    Raises:
        GenerationGone: One of them is not kept.
    """
    from ragstream_core.services import generations

    found = generations.diff(session_of(ctx).workspace(), project, before=before, after=after)
    if as_json:
        emit_json(asdict(found))
        return
    from ragstream_app.output.words import printable

    for sign, paths in (("+", found.added), ("~", found.changed), ("-", found.removed)):
        for path in paths[:SHOWN]:
            typer.echo(f"{sign} {printable(path)}")
        if len(paths) > SHOWN:
            typer.echo(f"{sign} … and {len(paths) - SHOWN} more")
    typer.echo(
        f"{project} {before} → {after}: {counted(len(found.added), 'file')} added, "
        f"{len(found.changed)} changed, {len(found.removed)} removed; "
        f"{counted(found.chunks_added, 'chunk')} added, "
        f"{found.chunks_removed:,} removed, {found.chunks_kept:,} kept; "
        f"{counted(found.texts_added, 'new text')}"
    )


def export(
    ctx: typer.Context,
    project: options.IndexedProject,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; default: PROJECT.arrow.")
    ] = None,
    generation: Annotated[
        int, typer.Option(min=0, metavar="N", help="Which generation; 0: the newest.")
    ] = 0,
    force: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write one generation as one Arrow file: ids, places, texts, vectors, term arrays.

    The same generation gives the same bytes. The file holds the texts of your documents.

    Raises:
        GenerationGone: That generation is not kept, or holds no chunk.
        Refused: The file already exists.
        OperationFailed: Disk full, permission denied; a file that was there stays.
    """
    from ragstream_core.services.export_index import export as export_index

    done = export_index(
        session_of(ctx).workspace(),
        project,
        out or Path(f"{project}.arrow"),
        generation=generation,
        force=force,
    )
    if as_json:
        emit_json(done)
        return
    typer.echo(
        f"{done.path}: {counted(done.meta.rows, 'chunk')} of generation {done.meta.generation}, "
        f"{size(done.bytes)}; `ragstream forget` cannot reach it"
    )


def _print_check(result: VerifyReport) -> None:
    from ragstream_app.output.words import printable
    from ragstream_core.conversations.journal.records import HISTORY

    history = result.project == HISTORY
    name = "conversations" if history else result.project
    for path in result.healed:
        note(f"{name}: {path} was not what the catalog says and was made again")
    if result.finished:
        note(f"{name}: an interrupted clearing is now finished")
    if not result.findings:
        none = "the journal is sound, nothing is embedded" if history else "no index"
        what = f"generation {result.generation} is sound" if result.generation else none
        typer.echo(f"{name}: {what}")
        for sentence in (state.sentence for state in result.stores.values() if state.sentence):
            typer.echo(f"{name}: {sentence}")
    if result.suspicious:
        _print_suspicious(name, result.suspicious)
    for finding in result.findings:
        typer.echo(f"{name}: {finding.check}: {printable(finding.message)}")
    for command in dict.fromkeys(finding.run for finding in result.findings):
        note(f"  next: {command}")


def _print_suspicious(name: str, found: Tally) -> None:
    """Print what looks like commands to a model; it is quoted in prompts all the same."""
    from ragstream_app.output.words import printable
    from ragstream_core.prompts.injection_scan import KINDS

    counted = ((kind, found.kinds[kind]) for kind in KINDS)
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in counted if count)
    typer.echo(
        f"{name}: {found.suspicious:,} of {found.texts:,} passages look suspicious"
        + (f" ({kinds})" if kinds else "")
    )
    for place, shown in found.places[:SHOWN]:
        typer.echo(f"  {printable(place)}: {', '.join(shown)}")


def _wanted(workspace: Workspace, projects: list[str] | None) -> list[str]:
    from ragstream_core.wiring.projects import indexed

    known = indexed(workspace.layout)
    wanted = list(dict.fromkeys(projects or known))
    for name in wanted:
        if name not in known:
            workspace.require_project(name)  # an unknown name is named as such
    if not wanted:
        raise UnknownProject(
            f"there is no index under {workspace.layout.indexes}", hint="ragstream ingest"
        )
    return wanted
