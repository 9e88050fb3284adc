"""The commands of a chat: `/files`, `/lock`, `/sources`, `/why`, `/save`, `/task`, `/model`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_app.chatting.passages import sources
from ragstream_app.chatting.reasons import why
from ragstream_app.chatting.said import transcript
from ragstream_app.chatting.screens import Told
from ragstream_core.atomic import create_bytes
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_app.chatting.talk import Talk


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
    act: Callable[[Talk, str], Told]


def carried_out(talk: Talk, line: str) -> Told:
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


def _files(talk: Talk, rest: str) -> Told:
    verb, _, path = rest.partition(" ")
    path, options = path.strip(), talk.options
    if not verb:
        return _files_now(talk)
    if verb not in ("add", "drop") or not path:
        raise UsageError(f"/files {rest}: unknown argument", hint=VERBS["/files"].usage)
    if verb == "add":
        kept = tuple(dict.fromkeys((*options.files, *_named(talk, path))))
    else:
        gone = [name for name in options.files if name in (path, *_named_among(path, options))]
        if not gone:
            raise UsageError(f"{path} is not injected", hint="/files lists the injected files")
        kept = tuple(name for name in options.files if name not in gone)
    talk.options = replace(options, files=kept)
    return _files_now(talk)


def _files_now(talk: Talk) -> Told:
    options = talk.options
    lines = [f"❖ {name}" for name in options.files] or ["no file is injected"]
    lines += [f"off: {name}" for name in options.off]
    lines += ["lock on: only the injected files are used"] if options.lock else []
    data = {"files": list(options.files), "off": list(options.off), "lock": options.lock}
    return Told(lines, data)


def _named(talk: Talk, path: str) -> list[str]:
    """Return the files that a name means, as A1 reads it.

    Raises:
        UsageError: None, or several; near ones are named.
    """
    from ragstream_core.agents.a1_file_injector import forced_paths
    from ragstream_core.build.file_sources import injectable

    projects = talk.options.projects
    several = len(projects) > 1
    names = [
        f"{project}/{name}" if several else name
        for project in projects
        for name in injectable(talk.workspace, project)
    ]
    return forced_paths(path, names)


def _named_among(path: str, options: object) -> list[str]:
    names: tuple[str, ...] = getattr(options, "files", ())
    return [name for name in names if name.endswith(f"/{path}")]


def _lock(talk: Talk, rest: str) -> Told:
    if rest not in ("on", "off", ""):
        raise UsageError(f"/lock {rest}: unknown argument", hint=VERBS["/lock"].usage)
    if rest:
        talk.options = replace(talk.options, lock=rest == "on")
    now = "on" if talk.options.lock else "off"
    lines = [f"lock {now}"]
    if talk.options.lock and not talk.options.files:
        lines.append("no file is injected yet: /files add PATH")
    return Told(lines, {"lock": talk.options.lock})


def _save(talk: Talk, rest: str) -> Told:
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
    return Told([f"{count} turn{'s' * (count > 1)} written to {path}"], {"path": str(path)})


def _task(talk: Talk, rest: str) -> Told:
    config = talk.workspace.config
    if rest:
        chosen = "" if rest == "none" else rest
        config.with_task(chosen)
        talk.options = replace(talk.options, task=chosen)
    known = ", ".join(sorted(config.tasks)) or "none"
    lines = [f"task {talk.options.task or 'none'}; known: {known}"]
    return Told(lines, {"task": talk.options.task, "tasks": sorted(config.tasks)})


def _model(talk: Talk, rest: str) -> Told:
    from ragstream_app.chatting.models import listed

    names = listed(talk.workspace.config)
    if rest:
        number = int(rest) if rest.isascii() and rest.isdigit() else 0
        name = names[number - 1] if 1 <= number <= len(names) else rest
        if names and name not in names:
            near = ", ".join(get_close_matches(name, names) or names[:3])
            raise UsageError(f"the endpoint has no model {name}", hint=f"one of: {near}")
        talk.options = replace(talk.options, model=name)
    now = talk.options.model or talk.workspace.config.settings.provider.model
    lines = [f"model {now or 'none'}"]
    lines += [f"{n:>3} {'*' if name == now else ' '} {name}" for n, name in enumerate(names, 1)]
    lines += [] if names else ["the endpoint does not respond: answers are extracts"]
    return Told(lines, {"model": now, "models": names})


def _help(talk: Talk, rest: str) -> Told:
    width = max(len(verb.usage) for verb in VERBS.values())
    lines = [f"{verb.usage:<{width}}  {verb.help}" for verb in VERBS.values()]
    return Told([*lines, "Everything else is a question. Ctrl-C ends an answer, Ctrl-D the chat."])


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
