"""The commands of a chat: `/files`, `/lock`, `/sources`, `/why`, `/save`, `/task`, `/model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_app.cli.chat.screens import CommandOutput
from ragstream_app.output.chat_entries import cited_line, transcript
from ragstream_app.output.explain import print_explained, print_why_not
from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.platform.files import create_bytes

if TYPE_CHECKING:
    from ragstream_app.cli.chat.repl import ChatRepl
    from ragstream_core.answers.citations import Citation
    from ragstream_core.records.identity import Json
    from ragstream_core.services.chat import ChatTurn
    from ragstream_core.wiring.workspace import Workspace


def sources(talk: ChatRepl, rest: str) -> CommandOutput:
    """Return the passages that the last answer cites, with their text.

    Args:
        talk: The chat.
        rest: The number of one citation; empty: all of them.

    Raises:
        UsageError: Nothing was answered yet, or there is no such citation.
    """
    if not talk.said:
        raise UsageError("this conversation has no answers yet", hint="ask something first")
    turn = talk.said[-1].turn
    cited = list(enumerate(turn.answer.citations, start=1))
    if rest:
        cited = [(n, c) for n, c in cited if rest in (str(n), c.id)]
        if not cited:
            raise UsageError(f"the answer has no citation {rest}", hint="/sources shows them all")
    rows = [_row(talk.workspace, turn, number, citation) for number, citation in cited]
    lines = [line for row in rows for line in (row["line"], row["text"].rstrip(), "")]
    nothing = ["the last answer cites nothing; /why shows what its prompt held"]
    return CommandOutput(lines[:-1] or nothing, {"sources": rows})


def _row(workspace: Workspace, turn: ChatTurn, number: int, citation: Citation) -> dict[str, Any]:
    row = {"number": number, **citation.to_json(), "line": f"{number}  {cited_line(citation)}"}
    return {**row, "text": words_of(workspace, turn, citation) if citation.known else ""}


def words_of(workspace: Workspace, turn: ChatTurn, citation: Citation) -> str:
    """Return the cited lines with those around them, or the words that the prompt showed.

    Args:
        workspace: The data root.
        turn: The answer's turn.
        citation: One that its prompt issued.
    """
    from ragstream_core.answers.citations import issued_by
    from ragstream_core.services import passages, trace

    if turn.answer.prompt_key:
        try:
            found = trace.trace(workspace, citation.id, turn.answer.prompt_key)
            text = passages.as_text(passages.passage(workspace, found))
            if text:
                return text
        except RagstreamError:  # the prompt expired or its index is gone: its words are left
            pass
    issued = issued_by(turn.prompt) if turn.prompt is not None else {}
    return issued[citation.id].text if citation.id in issued else citation.snippet


def why(talk: ChatRepl, rest: str) -> CommandOutput:
    """Return the way of all candidates of the last prompt, or of what is named.

    Args:
        talk: The chat.
        rest: A chunk or a file; empty: all candidates.

    Raises:
        UsageError: Nothing was asked yet, the prompt is not kept, or nothing is called so.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    from ragstream_core.prompts.explain import ways
    from ragstream_core.records.json_form import report_of
    from ragstream_core.services.why_not import why_not
    from ragstream_core.wiring.kept_prompt import KeptPrompt

    key = _last_key(talk)
    kept = KeptPrompt.of(talk.workspace, key)
    if not rest:
        everything = ways(kept.ledger)
        locked = bool(kept.record.inputs["lock"])
        show = partial(print_explained, key, everything, locked=locked, detailed=False, most_out=10)
        rows: list[Json] = [way.to_json() for way in everything]
        return CommandOutput(data={"prompt_key": key, "candidates": rows}, show=show)
    found = why_not(talk.workspace, rest, key)
    shown = {row.chunk_id for row in found.verdicts if row.kept}
    steps = [way for way in ways(kept.ledger) if way.chunk_id in shown]

    def show_one() -> None:
        print_why_not(found)
        if steps:
            print_explained(key, steps, locked=False, detailed=True)

    told: list[Json] = [way.to_json() for way in steps]
    return CommandOutput(data={**report_of(found), "candidates": told}, show=show_one)


def _last_key(talk: ChatRepl) -> str:
    """Return the key of the last prompt.

    Raises:
        UsageError: There is none.
    """
    if not talk.said:
        raise UsageError("nothing was asked yet", hint="ask something first")
    key = talk.said[-1].turn.answer.prompt_key
    if not key:
        raise UsageError(
            "the last prompt is not kept, so its ledger is not either",
            hint="chat without --no-persist to see why",
        )
    return key


@dataclass(frozen=True, slots=True)
class Verb:
    """One command.

    Attributes:
        usage: What is typed.
        help: What it does.
        act: Does it; given what follows the name.
    """

    usage: str
    help: str
    act: Callable[[ChatRepl, str], CommandOutput]


def carried_out(talk: ChatRepl, line: str) -> CommandOutput:
    """Carry a command out.

    Args:
        talk: The chat.
        line: What was typed, from its ``/`` on.

    Raises:
        UsageError: There is no such command, the nearest is named; or it cannot be done.
        RagstreamError: As what it asks for.
    """
    name, _, rest = line.partition(" ")
    verb = VERBS.get(name)
    if verb is None:
        near = get_close_matches(name, VERBS, n=1)
        raise UsageError(
            f"there is no command {name}", hint=f"did you mean {near[0]}?" if near else "/help"
        )
    return verb.act(talk, rest.strip())


def _files(talk: ChatRepl, rest: str) -> CommandOutput:
    verb, _, path = rest.partition(" ")
    path, request = path.strip(), talk.request
    if not verb:
        return _files_now(talk)
    if verb not in ("add", "drop") or not path:
        raise UsageError(f"/files {rest}: unknown argument", hint=VERBS["/files"].usage)
    if verb == "add":
        kept = tuple(dict.fromkeys((*request.files, *_named(talk, path))))
    else:
        gone = [
            name for name in request.files if name in (path, *_named_among(path, request.files))
        ]
        if not gone:
            raise UsageError(f"{path} is not injected", hint="/files lists the injected files")
        kept = tuple(name for name in request.files if name not in gone)
    talk.request = replace(request, files=kept)
    return _files_now(talk)


def _files_now(talk: ChatRepl) -> CommandOutput:
    request = talk.request
    lines = [f"❖ {name}" for name in request.files] or ["no file is injected"]
    lines += [f"off: {name}" for name in request.off]
    lines += ["lock on: only the injected files are used"] if request.lock else []
    data = {"files": list(request.files), "off": list(request.off), "lock": request.lock}
    return CommandOutput(lines, data)


def _named(talk: ChatRepl, path: str) -> list[str]:
    """Return the files that a name means, as A1 reads it.

    Raises:
        UsageError: None, or several; near ones are named.
    """
    from ragstream_core.agents.a1_file_injector import forced_paths
    from ragstream_core.wiring.file_sources import injectable

    projects = talk.request.projects
    several = len(projects) > 1
    names = [
        f"{project}/{name}" if several else name
        for project in projects
        for name in injectable(talk.workspace, project)
    ]
    return forced_paths(path, names)


def _named_among(path: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.endswith(f"/{path}")]


def _lock(talk: ChatRepl, rest: str) -> CommandOutput:
    if rest not in ("on", "off", ""):
        raise UsageError(f"/lock {rest}: unknown argument", hint=VERBS["/lock"].usage)
    if rest:
        talk.request = replace(talk.request, lock=rest == "on")
    now = "on" if talk.request.lock else "off"
    lines = [f"lock {now}"]
    if talk.request.lock and not talk.request.files:
        lines.append("no file is injected yet: /files add PATH")
    return CommandOutput(lines, {"lock": talk.request.lock})


def _save(talk: ChatRepl, rest: str) -> CommandOutput:
    if not rest:
        raise UsageError("/save needs the name of a file", hint=VERBS["/save"].usage)
    if not talk.said:
        raise UsageError("this conversation has no turns yet", hint="ask something first")
    path = Path(rest).expanduser()
    try:
        create_bytes(path, transcript(talk.said).encode("utf-8", "backslashreplace"))
    except FileExistsError:
        raise UsageError(f"{path} already exists", hint="/save under another name") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"{path} cannot be written: {reason}", hint="/save to a folder that exists"
        ) from None
    count = len(talk.said)
    return CommandOutput(
        [f"{count} turn{'s' * (count > 1)} written to {path}"], {"path": str(path)}
    )


def _task(talk: ChatRepl, rest: str) -> CommandOutput:
    config = talk.workspace.config
    if rest:
        chosen = "" if rest == "none" else rest
        config.with_task(chosen)
        talk.request = replace(talk.request, task=chosen)
    known = ", ".join(sorted(config.tasks)) or "none"
    lines = [f"task {talk.request.task or 'none'}; known: {known}"]
    return CommandOutput(lines, {"task": talk.request.task, "tasks": sorted(config.tasks)})


def _model(talk: ChatRepl, rest: str) -> CommandOutput:
    from ragstream_core.services.choose_model import listed

    names = listed(talk.workspace.config)
    if rest:
        number = int(rest) if rest.isascii() and rest.isdigit() else 0
        name = names[number - 1] if 1 <= number <= len(names) else rest
        if names and name not in names:
            near = ", ".join(get_close_matches(name, names) or names[:3])
            raise UsageError(f"the endpoint has no model {name}", hint=f"one of: {near}")
        talk.model_name = name
    now = talk.model_name or talk.workspace.config.settings.provider.model
    lines = [f"model {now or 'none'}"]
    lines += [f"{n:>3} {'*' if name == now else ' '} {name}" for n, name in enumerate(names, 1)]
    lines += [] if names else ["the endpoint does not respond: answers are extracts"]
    return CommandOutput(lines, {"model": now, "models": names})


def _help(talk: ChatRepl, rest: str) -> CommandOutput:
    width = max(len(verb.usage) for verb in VERBS.values())
    lines = [f"{verb.usage:<{width}}  {verb.help}" for verb in VERBS.values()]
    return CommandOutput(
        [*lines, "Everything else is a question. Ctrl-C ends an answer, Ctrl-D the chat."]
    )


VERBS = {
    "/files": Verb(
        "/files [add|drop PATH]", "shows or changes the files that are injected whole", _files
    ),
    "/lock": Verb(
        "/lock on|off", "turns the Exact File Lock on or off: only injected files are used", _lock
    ),
    "/sources": Verb("/sources [N]", "shows the passages that the last answer cites", sources),
    "/why": Verb(
        "/why [CHUNK|FILE]", "explains why passages are in the last prompt, or why one is not", why
    ),
    "/save": Verb("/save FILE", "writes the chat as Markdown; never overwrites a file", _save),
    "/task": Verb("/task [NAME|none]", "shows or changes the task profile", _task),
    "/model": Verb("/model [NAME|N]", "lists the models, or changes the one in use", _model),
    "/help": Verb("/help", "shows this", _help),
    "/quit": Verb("/quit", "ends the chat", _help),
}
