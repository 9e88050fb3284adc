"""`ragstream chat`: questions one after the other, each answered from the documents."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.session import FAILED, session_of

if TYPE_CHECKING:
    from rich.console import Console

    from ragstream_app.cli.chat.repl import ChatRepl
    from ragstream_app.cli.chat.screens import Screen

CHAT_EPILOG = """**Examples**

ragstream chat -p handbook

ragstream chat -p handbook --file "citations.md" --lock

printf 'How do I lock a prompt?\\nAnd with two files?\\n' | ragstream chat -p handbook --json

In a chat, /help lists its commands. If stdin or stdout is not a terminal, each line of stdin is a
question or a command; the exit code is 1 if a question got no complete answer."""
PROMPT = "you> "

# `settings.task_profiles.CHAT_TASK`, which would load all settings.
DEFAULT_TASK = "chat"
NO_TASK = "none"

ChatTask = Annotated[
    str,
    typer.Option(
        "--task",
        metavar="NAME",
        help=f"A task profile: a named set of settings; {NO_TASK}: the settings as they are.",
    ),
]
Markers = Annotated[
    bool,
    typer.Option(
        "--markers/--clean",
        help="Show answers with their citation markers, or clean with a list of what they cite.",
    ),
]
EnableMemory = Annotated[
    bool,
    typer.Option(
        "--enable-memory", metavar="", help="Use the answer cache and the digest (memory.enabled)."
    ),
]
MemoryTokens = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Token budget of memory (memory.max_tokens)."),
]
MemoryChars = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Its budget in characters, 0: none (memory.max_chars)."),
]
MemoryTopK = Annotated[
    int | None,
    typer.Option("--memory-top-k", metavar="N", min=1, help="Maximum memories (memory.top_k)."),
]
JsonLines = Annotated[
    bool, typer.Option("--json", metavar="", help="Print one JSON object a line on stdout.")
]


def chat(
    ctx: typer.Context,
    projects: options.Projects = None,
    files: options.Files = None,
    lock: options.Lock = False,
    off: options.Off = None,
    task: ChatTask = DEFAULT_TASK,
    session: options.Session = "",
    model: options.Model = "",
    assignments: options.Assignments = None,
    enable_memory: EnableMemory = False,
    memory_max_tokens: MemoryTokens = None,
    memory_max_chars: MemoryChars = None,
    memory_top_k: MemoryTopK = None,
    markers: Markers = False,
    allow_secrets: options.AllowSecrets = False,
    no_persist: options.NoPersist = False,
    no_record: options.NoRecord = False,
    as_json: JsonLines = False,
) -> None:
    """Chat with a language model about documents; every answer cites what it rests on.

    Without a language model, answers are extracts of the documents, and say so.

    Raises:
        RagstreamError: No or an unknown project, a wrong setting, task or session.
        Exit: With 1, where a question of a pipe got no whole answer.
    """
    from ragstream_app.cli.chat.repl import ChatRepl
    from ragstream_app.cli.chat.screens import picked
    from ragstream_app.session import console
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.services.chat import with_session
    from ragstream_core.services.choose_model import ensure_model
    from ragstream_core.wiring.ingestion import changed_files

    space = session_of(ctx).workspace()
    wanted = space.with_settings({"provider.model": model} if model else {}).config
    flags = {
        "memory.enabled": "true" if enable_memory else None,
        "memory.max_tokens": memory_max_tokens,
        "memory.max_chars": memory_max_chars,
        "memory.top_k": memory_top_k,
        "history.persist": "false" if no_persist else None,
    }
    given = {name: str(value) for name, value in flags.items() if value is not None}
    request = PromptRequest(
        text="any question",
        projects=options.read_projects(space, projects),
        files=tuple(files or []),
        off=tuple(off or []),
        lock=lock,
        task="" if task == NO_TASK else task,
        settings={**options.setting_values(assignments), **given},
        session=session,
    )
    options.tell_of_earlier_turns(space)
    space.config.with_task(request.task, explicit=request.settings)  # refuses a wrong one at once
    changed = changed_files(space, request.projects)
    watched = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    screen = _screen(console(), watched=watched, as_json=as_json, markers=markers)
    for warning in changed:
        screen.aside(f"warning: {warning}")
    asks = ensure_model(wanted, partial(picked, console()) if watched else None)
    talk = ChatRepl(space, with_session(space, request), screen, asks, allow_secrets)
    if not watched:
        talk.run(_piped())
        raise typer.Exit(FAILED if talk.failures else 0)
    screen.aside(_greeting(talk))
    talk.run(_typed(screen))
    if talk.said and talk.said[-1].turn.answer.session:
        screen.aside(f"kept; go on with --session {talk.request.session}")


def _screen(terminal: Console, *, watched: bool, as_json: bool, markers: bool) -> Screen:
    from ragstream_app.cli.chat.screens import JsonScreen, PlainScreen

    if as_json:
        return JsonScreen(markers)
    if not watched:
        return PlainScreen(markers)
    from ragstream_app.cli.chat.screens import TerminalScreen

    return TerminalScreen(terminal, markers)


def _greeting(talk: ChatRepl) -> str:
    """Return who answers, from what, and where to learn more."""
    model = talk.model(threading.Event())
    here = "on this machine" if model.is_local else "another machine: what prompts show goes there"
    who = f"{talk.model_name or 'no model set'} at {model.host} ({here})" if model.host else (
        talk.model_name
    )  # fmt: skip
    return f"{', '.join(talk.request.projects) or 'your conversations'} · {who} · /help"


def _typed(screen: Screen) -> Iterator[str]:
    """Yield lines as a person types them; what was typed is remembered in this process alone."""
    with contextlib.suppress(ImportError):
        import readline

        readline.set_auto_history(True)
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            screen.aside("\nCtrl-D or /quit ends the chat")


def _piped() -> Iterator[str]:
    """Yield the lines of stdin, each as soon as it is there."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", "replace")
