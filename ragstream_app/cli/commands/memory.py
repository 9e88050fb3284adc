"""`ragstream memory`: what is remembered of what you said, and what waits for your word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.cli.commands.history import OneSession
from ragstream_app.output.words import one_line
from ragstream_app.session import emit_json, note, session_of

if TYPE_CHECKING:
    from ragstream_core.conversations.facts.records import FactState
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.fact_proposals import FoundFact
    from ragstream_core.wiring.remembered_facts import FactMemory

SCAN_EPILOG = """**Examples**

ragstream memory scan --dry-run

ragstream memory scan --session demo

ragstream memory candidates

Nothing that is found is used before you accept it, unless `facts.accept` is auto."""
ADD_EPILOG = """**Examples**

ragstream memory add "The user works in Lisbon." --target user

ragstream memory add "The company bills in euros." --target company"""

Which = Annotated[
    str, typer.Argument(metavar="ID", help="Its id, or the last digits, as they are listed.")
]


def show(ctx: typer.Context, as_json: options.Json = False) -> None:
    """Show what is remembered: the lines of USER_MEMORY.md and COMPANY_MEMORY.md.

    Raises:
        RagstreamError: The journal or a file cannot be read.
    """
    from ragstream_app.output.words import printable

    memory = _memory(ctx)
    rows = memory.remembered()
    if as_json:
        emit_json({"facts": [row._asdict() for row in rows]})
        return
    for target in ("user", "company"):
        mine = [row for row in rows if row.target == target]
        typer.echo(f"{target}:" if mine else f"{target}: nothing")
        for row in mine:
            typer.echo(f"  {row.id[-8:] or 'by hand ':<8}  {printable(row.text)}")
    waiting = len(memory.candidates())
    if waiting:
        note(f"{waiting} more wait for you; next: ragstream memory candidates")


def candidates(
    ctx: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="Also those already decided.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the facts that wait for your word, with the words of yours that they were made of.

    Raises:
        RagstreamError: The journal cannot be read.
    """
    memory = _memory(ctx)
    facts = memory.facts() if everything else memory.candidates()
    if as_json:
        emit_json({"facts": [_row(fact) for fact in facts]})
        return
    for fact in facts:
        _print(fact)
    if not facts:
        note("nothing waits; next: ragstream memory scan")


def accept(ctx: typer.Context, which: Which, as_json: options.Json = False) -> None:
    """Remember a fact: its line stands in the file, and in every prompt from now on.

    Raises:
        UsageError: No such fact, or it is accepted already.
        Refused: `history.persist` is off, or the fact seems to contain a secret.
    """
    _told(_memory(ctx).accept(which), as_json=as_json)


def reject(ctx: typer.Context, which: Which, as_json: options.Json = False) -> None:
    """Refuse a fact, or forget one that was accepted; it is not proposed again.

    Raises:
        UsageError: No such fact, or it is rejected already.
        Refused: `history.persist` is off.
    """
    _told(_memory(ctx).reject(which), as_json=as_json)


def edit(
    ctx: typer.Context,
    which: Which,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Its new text.")],
    target: Annotated[
        str, typer.Option(metavar="WHOM", help="user or company; default: as it was.")
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Change the words of a fact, waiting or accepted.

    Raises:
        UsageError: No such fact, or no such text.
        Refused: `history.persist` is off, or the text seems to contain a secret.
    """
    _told(_memory(ctx).edit(which, text, target=target), as_json=as_json)


def undo(ctx: typer.Context, which: Which, as_json: options.Json = False) -> None:
    """Take the newest step of a fact back: an acceptance, a refusal or an edit.

    Raises:
        UsageError: No such fact, or nothing was done to it.
        Refused: `history.persist` is off.
    """
    _told(_memory(ctx).undo(which), as_json=as_json)


def add(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One line.")],
    target: Annotated[str, typer.Option(metavar="WHOM", help="user or company.")] = "user",
    as_json: options.Json = False,
) -> None:
    """Remember a line that you write yourself.

    Raises:
        UsageError: No such text or target, or it is remembered already.
        Refused: `history.persist` is off, or the text seems to contain a secret.
    """
    _told(_memory(ctx).add(text, target), as_json=as_json)


def remove(
    ctx: typer.Context,
    which: Annotated[
        str, typer.Argument(metavar="ID|TEXT", help="The id of a fact, or a whole line.")
    ],
    as_json: options.Json = False,
) -> None:
    """Forget one remembered line, whoever wrote it.

    Raises:
        UsageError: Nothing like it is remembered.
        Refused: `history.persist` is off.
    """
    from ragstream_app.output.words import printable

    text = _memory(ctx).remove(which)
    if as_json:
        emit_json({"removed": text})
        return
    typer.echo(f"forgotten: {printable(text)}")


def scan(
    ctx: typer.Context,
    session: OneSession = "",
    form: Annotated[
        str, typer.Option(metavar="FORM", help="rules or llm; default: facts.form, else rules.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would be proposed.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Look through conversations for facts that are worth remembering.

    Raises:
        UsageError: No such form.
        Refused: `history.persist` is off.
        OperationFailed: Disk full or failing.
    """
    from ragstream_app.output.words import printable
    from ragstream_core.errors import UsageError
    from ragstream_core.text.plurals import counted
    from ragstream_core.wiring import fact_proposals

    if form not in ("", "rules", "llm"):
        raise UsageError(f"no form: {form!r}", hint="--form rules, or llm")
    workspace = session_of(ctx).workspace()
    analysis = fact_proposals.analyze(workspace, session=session, form=form)
    found = fact_proposals.remember(workspace, analysis, dry_run=dry_run)
    for line in analysis.notes:
        note(printable(line))
    if as_json:
        rows = [row.to_json() for row in found]
        emit_json({"dry_run": dry_run, "turns": analysis.turns, "facts": rows})
        return
    for row in found:
        _print_found(row)
    new = sum(not row.why for row in found)
    verb = "would be proposed" if dry_run else "proposed"
    read = counted(analysis.turns, "turn")
    typer.echo(f"{read} read, {counted(new, 'fact')} {verb}, {len(found) - new} skipped")


def _memory(ctx: typer.Context) -> FactMemory:
    from ragstream_core.wiring.remembered_facts import FactMemory

    return FactMemory(session_of(ctx).workspace())


def _told(fact: FactState, *, as_json: bool) -> None:
    if as_json:
        emit_json(_row(fact))
        return
    _print(fact)


def _row(fact: FactState) -> dict[str, Json]:
    from dataclasses import asdict

    return {**asdict(fact), "steps": list(fact.steps)}


def _print(fact: FactState) -> None:
    from ragstream_app.output.words import printable

    typer.echo(f"{fact.short}  {fact.status:<9}  {fact.target:<7}  {printable(fact.text)}")
    if fact.quote:
        quote = one_line(fact.quote)
        typer.echo(f"          you: {quote}  ({fact.form}, {fact.confidence:.2f})")


def _print_found(row: FoundFact) -> None:
    from ragstream_app.output.words import printable

    name, fact = row.fact[-8:] or ("passed" if row.why else "new"), row.candidate
    typer.echo(f"{name:<8}  #{row.seq:<5} {fact.target:<7}  {printable(fact.text)}")
    if row.why:
        typer.echo(f"          {printable(row.why)}")
    if row.advice:
        typer.echo(f"          if that changed: {printable(row.advice)}")
