"""`ragstream history embed`, `backfill`, `check`, `clear`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.output.history_ways import Way, confirm, what
from ragstream_app.session import Session, emit_json, note, session_of
from ragstream_core.errors import UsageError

REFUSED = 3
BACKFILL_EPILOG = """**Examples**

ragstream history backfill (what is new, and whatever derived file is missing)

ragstream history backfill 2026-09 2026-10 (these months again)

ragstream history backfill --rebuild (after a change of the embedding model, or damage)"""
CLEAR_EPILOG = """**Examples**

ragstream history clear --session demo --dry-run

ragstream history clear --since 2026-10-01 --until 2026-10-08 --archive

ragstream history clear --session salaries --anonymise --mask "Ada Lovelace"

ragstream history clear --session demo --inactive

ragstream history clear --all --yes

Backups, exports and what was sent to a language model cannot be reached."""


def embed(ctx: typer.Context, as_json: options.Json = False) -> None:
    """Embed the turns that are new, and publish them for the next prompts.

    Raises:
        ModelMismatch: The turns were embedded by another model.
        ProjectLocked: Another process embeds at the moment.
    """
    _embed(session_of(ctx), (), rebuild=False, as_json=as_json)


def backfill(
    ctx: typer.Context,
    months: Annotated[
        list[str] | None,
        typer.Argument(metavar="[YYYY-MM]...", help="Months to do again; none: what is new."),
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", metavar="", help="Read the whole journal again; new model."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Embed turns again: months, or all of them; nothing that has its vector is embedded twice.

    Raises:
        UsageError: No month, or months with --rebuild.
        ModelMismatch: The turns were embedded by another model.
        ProjectLocked: Another process embeds at the moment.
    """
    if months and rebuild:
        raise UsageError("--rebuild does all months", hint="leave the months out")
    _embed(session_of(ctx), months or (), rebuild=rebuild, as_json=as_json)


def check(
    ctx: typer.Context,
    read_data: options.ReadData = "",
    as_json: options.Json = False,
) -> None:
    """Check journal, catalog and published selection; name what is wrong and what to run.

    Raises:
        UsageError: N/T is no part.
        Exit: With 3, where something is wrong.
    """
    from ragstream_core.index.check import parse_part
    from ragstream_core.services.verify import repair_history
    from ragstream_core.text.plurals import counted
    from ragstream_core.wiring.history_index import History

    part = parse_part(read_data) if read_data else None
    workspace = session_of(ctx).workspace()
    repaired, findings = repair_history(workspace)
    history = History(workspace)
    findings += history.check(part)
    status = history.status()
    if as_json:
        rows = [{"check": f.check, "message": f.message} for f in findings]
        emit_json({"findings": rows, "status": status})
    else:
        for what in repaired:
            note(f"repaired: {what}")
        for finding in findings:
            typer.echo(f"{finding.check}: {finding.message}")
        typer.echo(
            f"{status.records:,} records, embedded up to {status.seq:,}, "
            f"{counted(status.pending, 'turn')} pending; "
            f"{len(findings)} findings" + ("" if findings else ", all is sound")
        )
    if findings:
        raise typer.Exit(REFUSED)


OfSession = Annotated[str, typer.Option("--session", metavar="NAME", help="This conversation.")]
Since = Annotated[str, typer.Option(metavar="DATE", help="Turns from this date or time on.")]
Until = Annotated[str, typer.Option(metavar="DATE", help="Turns before this date or time.")]
Everything = Annotated[bool, typer.Option("--all", metavar="", help="All conversations.")]
DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Only show what would happen.")]
Yes = Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask.")]


def clear(
    ctx: typer.Context,
    session: OfSession = "",
    since: Since = "",
    until: Until = "",
    everything: Everything = False,
    archive: Annotated[
        bool,
        typer.Option("--archive", metavar="", help="First put a copy aside that nothing reads."),
    ] = False,
    inactive: Annotated[
        bool,
        typer.Option("--inactive", metavar="", help="Keep the turns; no prompt uses them."),
    ] = False,
    vectors: Annotated[
        bool,
        typer.Option("--vectors", metavar="", help="The same, and delete their vectors."),
    ] = False,
    anonymise: Annotated[
        bool,
        typer.Option("--anonymise", metavar="", help="Put anonymous copies in their place."),
    ] = False,
    mask: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="With --anonymise: a name to mask; repeat for more."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: options.Json = False,
) -> None:
    """Erase turns from the journal and from everything that was made of them.

    They are hidden at once and gone when the command ends. A kill at any moment is harmless: run
    it again. What stays is a notice of when and how many, without any text. With --inactive or
    --vectors nothing of the journal goes: `ragstream history reactivate` brings the turns back.

    Raises:
        UsageError: Nothing to clear is named, two ways of clearing are, or it was not confirmed.
        ProjectLocked: Another process writes; the turns are hidden already.
        OperationFailed: Something still holds the text.
        Abort: The answer was no.
    """
    from ragstream_core.conversations.clearing import choice_of

    how = Way.of(
        inactive=inactive, vectors=vectors, anonymise=anonymise, archive=archive, mask=mask or []
    )
    choice = choice_of(session=session, since=since, until=until, everything=everything)
    workspace = session_of(ctx).workspace()
    if not dry_run and not yes:
        found = how.run(workspace, choice, dry_run=True)
        if found.turns or found.questions or found.facts or found.damaged:
            confirm(how.question(found))
        else:  # what an earlier clearing was killed at is finished all the same
            note("no such turn is kept; `ragstream history sessions` lists the conversations")
    done = how.run(workspace, choice, dry_run=dry_run)
    if as_json:
        emit_json(done.to_json())
        return
    for name in done.removed:
        typer.echo(f"removed {name}")
    for name in done.left:
        note(f"the same words stand in {name}, which is yours: it was not touched")
    for line in done.warnings:
        note(line)
    typer.echo(how.told(done))
    if not dry_run and done.unreachable:
        note("out of reach: " + "; ".join(done.unreachable))
    if done.archive:
        typer.echo(f"archived in {done.archive}")


def reactivate(
    ctx: typer.Context,
    session: OfSession = "",
    since: Since = "",
    until: Until = "",
    everything: Everything = False,
    dry_run: DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Let prompts use inactive turns again; those without vectors are embedded again.

    `ragstream history show --all --tag INACTIVE` lists them.

    Raises:
        UsageError: Nothing is named.
        RagstreamError: The journal cannot be written, or the model failed; run it again.
    """
    from ragstream_core.conversations.clearing import choice_of
    from ragstream_core.services.clear_history import bring_back

    choice = choice_of(session=session, since=since, until=until, everything=everything)
    done = bring_back(session_of(ctx).workspace(), choice, dry_run=dry_run)
    if as_json:
        emit_json(done.to_json())
        return
    typer.echo(f"{what(done)} {'would be' if dry_run else 'are'} active again")


def _embed(session: Session, months: Sequence[str], *, rebuild: bool, as_json: bool) -> None:
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.services.history_update import embed
    from ragstream_core.text.plurals import counted

    workspace = session.workspace()
    with ingest_progress("history") as progress:
        done = embed(workspace, months=months, rebuild=rebuild, progress=progress)
    for line in done.warnings:
        note(line)
    if as_json:
        emit_json(done.to_json())
        return
    typer.echo(
        f"{counted(done.turns, 'turn')} read, {counted(done.embedded, 'text')} embedded, "
        f"{done.reused:,} reused; "
        f"generation {done.generation}, up to record {done.seq:,}; {done.seconds:.1f} s"
    )
