"""`ragstream spec`: test cases for the requirements that a project's documents hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_core.services.specifications import WrittenSpec
    from ragstream_core.testspecs.specification import Specification

FORMS = ("", "deterministic", "llm")
SPEC_EPILOG = """**Examples**

ragstream spec handbook --dry-run

ragstream spec handbook --out test-spec.md

ragstream spec handbook --requirement EX-2 --embed-json

An existing file is continued: its cases and ids stay. Without --out the Markdown goes to
stdout."""

Requirements = Annotated[
    list[str] | None,
    typer.Option("--requirement", metavar="ID", help="Only this requirement; repeatable."),
]
Pattern = Annotated[
    str, typer.Option(metavar="REGEX", help="What a requirement id looks like, e.g. 'REQ-[0-9]+'.")
]
Start = Annotated[
    int, typer.Option(min=0, help="Number of the first case; 0: after the highest in the file.")
]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the Markdown there.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force", metavar="", help="Write cases again, with the ids they have; replace any file."
    ),
]
EmbedJson = Annotated[
    bool, typer.Option("--embed-json", metavar="", help="Put the raw JSON below each case.")
]
Form = Annotated[str, typer.Option(metavar="FORM", help="`deterministic`, by rules, or `llm`.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", metavar="", help="Only show what would be written."),
]


def spec(
    ctx: typer.Context,
    project: Annotated[
        str,
        typer.Argument(metavar="PROJECT", help="A project with requirements in its documents."),
    ],
    requirements: Requirements = None,
    pattern: Pattern = "",
    start: Start = 0,
    out: Out = None,
    force: Force = False,
    embed_json: EmbedJson = False,
    form: Form = "",
    task: options.Task = "",
    assignments: options.Assignments = None,
    dry_run: DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Write test cases for the requirements of a project, each with its sources.

    Ids such as `REQ-12` are found where a table row, heading, list item or paragraph begins with
    them. Steps and expected results are the documents' own words; what states nothing that could
    be checked is listed as such.

    Raises:
        RagstreamError: An unknown project, id, form or pattern; nothing is ingested; the file is
            not ours; or the chain failed.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.services import specifications
    from ragstream_core.services.specifications import SpecRequest, generate
    from ragstream_core.wiring.ingestion import changed_files

    if form not in FORMS:
        raise UsageError(f"--form {form}: no such form", hint="--form deterministic or --form llm")
    workspace = session_of(ctx).workspace(task=task, explicit=options.setting_values(assignments))
    for warning in changed_files(workspace, (project,)):
        _note(f"warning: {warning}")
    sections = specifications.read_sections(out, force=force) if out else []
    request = SpecRequest(
        project,
        tuple(dict.fromkeys(requirements or ())),
        pattern,
        start,
        form,
        task,
        embed_json=embed_json or None,
        renew=force,
        dry_run=dry_run,
    )
    with ingest_progress("spec") as progress:
        made = generate(
            workspace,
            request,
            sections=sections,
            progress=lambda done, total: progress("requirements", done, total),
        )
    written = _written(made, out, dry_run=dry_run)
    if as_json:
        emit_json({**made.spec.to_json(), **written})
    else:
        _tell(made, out, changed=written["changed"])


def _written(made: WrittenSpec, out: Path | None, *, dry_run: bool) -> dict[str, Any]:
    """Write the file where there is one and something to write; say what came of it."""
    from ragstream_core.services import specifications

    due = out is not None and not dry_run and (made.spec.cases or made.spec.kept)
    changed = specifications.write(out, made.markdown) if due and out is not None else False
    return {"out": str(out) if due else "", "changed": changed}


def _tell(made: WrittenSpec, out: Path | None, *, changed: bool) -> None:
    from ragstream_app.output.words import printable
    from ragstream_core.services.spec_drafts import NOT_TAKEN

    found = made.spec
    if not found.coverage:
        note(printable(nothing_found(found)))
        return
    if out is None:
        typer.echo(printable(made.markdown.rstrip("\n")))
    counts = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    _note(f"{found.project}: {len(found.coverage)} requirements: {counts}")
    if found.cases:
        ends = dict.fromkeys([found.cases[0].id, found.cases[-1].id])
        _note(f"{len(found.cases)} cases written: {' … '.join(ends)}")
    untaken = [n for case in found.cases for n in case.notes if n.startswith(NOT_TAKEN)]
    if untaken:
        _note(f"{len(untaken)} of them by rules: {untaken[0]}")
    if out is not None:
        _note(f"{out}: {'written' if changed else 'nothing to write'}")
    traced = next((s for case in found.cases for s in case.sources if s.prompt_key), None)
    if traced is not None:
        _note(f'next: ragstream trace "{traced.marker}" {traced.prompt_key[:12]}')


def nothing_found(found: Specification) -> str:
    """Return what to say of a project without requirement ids."""
    return (
        f"{found.project}: no document defines a requirement id like {found.pattern}\n"
        "  next: --pattern REGEX, or begin rows, headings or items with an id"
    )


def _note(text: str) -> None:
    from ragstream_app.output.words import printable

    note(printable(text))
