"""`ragstream history append`, `show`, `sessions`, `tag`, `adopt`, `export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import Refused, UsageError

if TYPE_CHECKING:
    from ragstream_core.conversations.sessions import HistoryTurn

APPEND_EPILOG = """**Examples**

ragstream history append --session demo --user "Which port?" --assistant "8503." --tag GOLD

ragstream history append --external --answers 4cf016 --assistant-file reply.md

The command exits with 0 only once the turn is on disk."""
ADOPT_EPILOG = """**Examples**

ragstream history adopt my_project --tag GOLD --days 30

ragstream history adopt my_project --session chatgpt-20240601-a6f7ef47

The turns stay where they are; a tag `project:NAME` is added, and `--undo` takes it away."""
EXPORT_EPILOG = """**Examples**

ragstream history export --out conversations.jsonl (comes back equal by `history import`)

ragstream history export --session demo --format md"""

SEARCH_EPILOG = """**Examples**

ragstream history search "name for the grey cat"

ragstream history search "IBAN regex" -k 3 --json"""
LINE_CHARS = 300

OneSession = Annotated[
    str, typer.Option("--session", metavar="NAME", help="Only this conversation.")
]


def append(
    ctx: typer.Context,
    session: options.TurnSession = "",
    user: options.User = "",
    assistant: options.Assistant = "",
    user_file: options.UserFile = None,
    assistant_file: options.AssistantFile = None,
    external: options.External = False,
    answers: options.Answers = "",
    tags: options.TurnTags = None,
    projects: options.TurnProjects = None,
    importance: options.Importance = 0.0,
    as_json: options.Json = False,
) -> None:
    """Keep one turn of a conversation; it is on the disk when the command ends with 0.

    Raises:
        UsageError: No text, or a value that is not valid.
        UnknownPrompt: No prompt under that key.
        Refused: `history.persist` is off.
        ProjectLocked: Another process kept writing for 5 seconds.
        OperationFailed: Disk full or failing; the turn is not kept.
    """
    from ragstream_core.conversations.journal.records import OWN_PROJECTS, Turn
    from ragstream_core.services import external_reply
    from ragstream_core.wiring import journal

    if answers and not external:
        raise UsageError("--answers goes with --external", hint="give both")
    question, answer = _text("user", user, user_file), _text("assistant", assistant, assistant_file)
    if "-" in (user, assistant) and user == assistant:
        raise UsageError("stdin cannot be both sides", hint="give one of them as a file")
    workspace = session_of(ctx).workspace()
    session = session or (external_reply.prompt_session(workspace, answers) if answers else "")
    turn = Turn(
        "",
        session or journal.new_session(workspace),
        "",
        question,
        answer,
        tags=tuple(tags or ()),
        projects=tuple(projects or ()),
        importance=importance,
        used_in=OWN_PROJECTS,
    )
    unknown: list[str] = []
    if external:
        entry, unknown = external_reply.append_external(workspace, turn, answers=answers)
    else:
        entry = journal.append_turn(workspace, turn)
    for line in journal.journal(workspace).warnings:
        note(line)
    if unknown:
        from ragstream_app.output.words import printable

        note(f"not issued by {answers or 'any prompt'}: {printable(', '.join(unknown))}")
    found = {"id": entry.record.id, "seq": entry.seq, "session": turn.session_id}
    if as_json:
        emit_json({**found, "unknown_citations": unknown})
        return
    typer.echo(f"turn {entry.seq} of {turn.session_id} is kept, id {entry.record.id}")


def show(
    ctx: typer.Context,
    session: OneSession = "",
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="All conversations; default: the newest one.")
    ] = False,
    tags: options.OnlyTags = None,
    last: Annotated[
        int, typer.Option(metavar="N", min=0, help="Only the newest N; 0: all of them.")
    ] = 0,
    as_json: options.Json = False,
) -> None:
    """Show turns as they were said, with their tags of now.

    Raises:
        UsageError: No conversation has that name or begins with it, or several do.
    """
    from ragstream_core.conversations.sessions import session_named
    from ragstream_core.wiring import journal

    workspace = session_of(ctx).workspace()
    if not everything or session:
        known = journal.sessions(workspace)
        session = (
            session_named(known, session) if session else known[-1].session_id if known else ""
        )
    rows = journal.show(workspace, session, tags=tags or (), last=last)
    if as_json:
        emit_json({"turns": [row.to_json() for row in rows]})
        return
    for row in rows:
        _print_turn(row)
    if not rows:
        where = f" in {session}" if session else ""
        note(f"no such turn is kept{where}; next: ragstream history sessions")


def summaries(ctx: typer.Context, as_json: options.Json = False) -> None:
    """List the summaries of old turns that prompts search, and how many answers cite them.

    One that two answers cite is tagged SILVER by the next `ragstream history embed` and ranks
    higher; `ragstream history tag ID --remove SILVER` takes that back for good.

    Raises:
        RagstreamError: The journal or the published selection cannot be read.
    """
    from ragstream_core.services.history_update import summaries as published

    rows = published(session_of(ctx).workspace())
    if as_json:
        emit_json({"summaries": rows})
        return
    for row in rows:
        tags = ", ".join(row.tags)
        typer.echo(f"{row.id}  cited by {row.answers} answers  {tags}".rstrip())
        typer.echo(f"  {row.title}")
    if not rows:
        note("no summary is published; history.summaries rolls old turns up")


def sessions(ctx: typer.Context, as_json: options.Json = False) -> None:
    """List the conversations with their titles, the newest last."""
    from ragstream_app.output.words import printable
    from ragstream_core.wiring import journal

    rows = journal.sessions(session_of(ctx).workspace())
    if as_json:
        emit_json({"sessions": rows})
        return
    wide = max((len(row.session_id) for row in rows), default=0)
    for row in rows:
        tags = ", ".join(f"{count} {tag}" for tag, count in sorted(row.tags.items()))
        turns = "turn " if row.turns == 1 else "turns"
        days = f"{row.first[:10]} to {row.last[:10]}"
        told = "  ".join(filter(None, [printable(row.title), tags]))
        typer.echo(f"{row.session_id:<{wide}}  {row.turns:>5} {turns}  {days}  {told}".rstrip())


def search(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for.")],
    session: OneSession = "",
    tags: options.OnlyTags = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many turns.")] = 10,
    as_json: options.Json = False,
) -> None:
    """Find turns by their words: titles, dates and the lines that fit best. No model is needed.

    All conversations are searched, whichever projects use them.

    Raises:
        UsageError: Nothing to look for, or no such conversation.
    """
    from ragstream_app.output.words import printable
    from ragstream_core.conversations.sessions import session_named
    from ragstream_core.services.search import best_lines, require_search, search_turns
    from ragstream_core.wiring import journal

    require_search(text, k)
    workspace = session_of(ctx).workspace()
    known = journal.sessions(workspace)
    session = session_named(known, session) if session else ""
    titles = {row.session_id: row.title for row in known}
    rows = search_turns(workspace, text, session=session, tags=tags or (), k=k)
    if as_json:
        found = [
            {**row.to_json(), "score": round(row.score, 4), "title": titles[row.session],
             "lines": best_lines(text, row)}
            for row in rows
        ]  # fmt: skip
        emit_json({"turns": found})
        return
    for row in rows:
        typer.echo(f"#{row.seq}  {row.turn.timestamp[:10]}  {printable(titles[row.session])}")
        typer.echo(f"    {row.session}")
        for line in best_lines(text, row):
            typer.echo(f"    {printable(line[:LINE_CHARS])}")
    if not rows:
        note("no turn has these words; next: ragstream history sessions")


def tag(
    ctx: typer.Context,
    turn: Annotated[str, typer.Argument(metavar="TURN", help="Its number or its id.")],
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="TAG", help="Add this tag; repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="TAG", help="Remove it; repeatable.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Add or remove tags of a turn; the next prompt obeys. The turn itself is not rewritten.

    Raises:
        UsageError: No such turn, or no tag.
        Refused: `history.persist` is off.
    """
    from ragstream_core.wiring import journal

    workspace = session_of(ctx).workspace()
    entry, now = journal.tag(workspace, turn, add=add or (), remove=remove or ())
    if as_json:
        emit_json({"id": entry.record.id, "seq": entry.seq, "turn": turn, "tags": list(now)})
        return
    typer.echo(f"turn {turn}: {', '.join(now) or 'no tags'}")


def adopt(
    ctx: typer.Context,
    project: Annotated[
        str,
        typer.Argument(
            metavar="PROJECT", autocompletion=project_names, help="The project to label with."
        ),
    ],
    tags: options.OnlyTags = None,
    days: Annotated[
        float,
        typer.Option(metavar="N", min=0, max=36_500, help="Only turns of the last N days; 0: all."),
    ] = 0.0,
    session: OneSession = "",
    undo: Annotated[
        bool, typer.Option("--undo", metavar="", help="Take the label away again.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show which turns these are.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Bring turns of any conversation into a project, e.g. all GOLD ones of the last month.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: Nothing says which turns.
        Refused: `history.persist` is off.
    """
    from ragstream_core.services.history_transfer import adopt as label
    from ragstream_core.text.plurals import counted

    rows = label(
        session_of(ctx).workspace(), project, tags=tags or (), days=days, session=session,
        undo=undo, dry_run=dry_run,
    )  # fmt: skip
    if as_json:
        emit_json({"project": project, "turns": [row.to_json() for row in rows]})
        return
    for row in rows:
        _print_turn(row)
    what = "would change" if dry_run else "no longer belong to" if undo else "belong to"
    typer.echo(f"{counted(len(rows), 'turn')} {what} {project}")


def export(
    ctx: typer.Context,
    session: OneSession = "",
    form: Annotated[
        str, typer.Option("--format", metavar="FORM", help="jsonl, or md for people.")
    ] = "jsonl",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a file; default: stdout.")
    ] = None,
    force: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write conversations out, verbatim; cleared turns are not in it.

    Raises:
        UsageError: No such form, or --json without a file.
        Refused: The file already exists.
    """
    from ragstream_core.platform.files import replace_text
    from ragstream_core.services import history_transfer

    if form not in ("jsonl", "md") or (as_json and out is None):
        raise UsageError("the form is jsonl or md, and --json goes with --out")
    if out is not None and out.exists() and not force:
        raise Refused(f"{out} already exists", hint="--force, or another name")
    workspace = session_of(ctx).workspace()
    if form == "md":
        text, count = history_transfer.export_markdown(workspace, session)
    else:
        lines = list(history_transfer.export_jsonl(workspace, session))
        text, count = "".join(lines), len(lines)
    if out is None:
        typer.echo(text, nl=False)
        return
    replace_text(out, text)
    if as_json:
        emit_json({"path": str(out), "records": count, "bytes": len(text.encode("utf-8"))})
        return
    typer.echo(f"{out}: {len(text.encode('utf-8')):,} bytes; `history clear` cannot reach it")


def _text(side: str, text: str, file: Path | None) -> str:
    """Return what one side said, from an option, stdin or a file; one last newline is dropped.

    Raises:
        UsageError: Both were given, or the file cannot be read.
    """
    if text and file is not None:
        raise UsageError(f"--{side} and --{side}-file exclude each other")
    if text != "-" and file is None:
        return text
    try:
        said = file.read_bytes() if file is not None else sys.stdin.buffer.read()
        words = said.decode("utf-8")  # nothing is translated: what was said stays as it is
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file or 'stdin'} cannot be read: {error}") from None
    return words.removesuffix("\n").removesuffix("\r")


def _print_turn(row: HistoryTurn) -> None:
    from ragstream_app.output.words import printable

    tags = " ".join(row.tags)
    status = "" if row.turn.status == "complete" else f"  ({row.turn.status})"
    status += f"  Origin: {row.turn.origin}" if row.turn.origin else ""
    status += f" from turn {row.turn.origin_turn}" if row.turn.origin_turn else ""
    typer.echo(f"#{row.seq}  {row.session}  {row.turn.timestamp[:19]}  {tags}{status}")
    sides = zip(row.turn.speakers, (row.user, row.assistant), strict=True)
    for name, text in sides:
        if text:
            typer.echo(f"  {printable(name)}:")
            for line in text.split("\n"):
                typer.echo(f"    {printable(line)}")
