"""The command line `ragstream`: the tree of commands and its entry point.

Importing this module loads typer and nothing of the library: each command imports what it needs.
"""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from ragstream_app.cli.commands import (
    ask,
    care,
    chat,
    config,
    demo,
    embeddings,
    evaluate,
    evaluate_prompts,
    explain,
    history,
    history_care,
    history_import,
    index,
    ingest,
    mcp,
    memory,
    models,
    project,
    prompt,
    publish,
    serve,
    spec,
    trace,
    up,
    weather,
    worker,
)
from ragstream_app.cli.commands.inspect import NEIGHBORS_EPILOG, TSNE_EPILOG, neighbors, tsne
from ragstream_app.cli.commands.inspect import inspect as inspect_index
from ragstream_app.session import INTERRUPTED, Session, failed, open_closed_streams

if TYPE_CHECKING:
    from typer._click.core import Command

EPILOG = """**First steps**

ragstream demo

ragstream prompt "How do I lock the prompt to one file?" -p handbook

ragstream explain KEY

Exit codes: 0 ok, 1 the operation failed, 2 wrong usage, 3 refused."""

WITH_VALUE = ("--data", "--config")


def _named(parameters: list[Any]) -> list[Any]:
    """Return parameters named as the help names them: `PROJECT`, and no `<bool>` at a switch."""
    for parameter in parameters:
        if parameter.param_type_name == "argument" and parameter.metavar is None:
            parameter.metavar = parameter.name.upper()
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class _Parses:
    """What a command and a group do alike."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` too."""
        return _named(super().get_params(ctx))  # type: ignore[misc]  # of what it is mixed into

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the words; an option without its value says whose option it is."""
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except TyperException as error:
            error.ctx = getattr(error, "ctx", None) or ctx  # type: ignore[attr-defined]
            raise


class _Command(_Parses, TyperCommand):
    """A command."""


class _Group(_Parses, TyperGroup):
    """A group of commands."""


# The commands as the help groups them: what people need daily comes first.
PANELS = {
    "Ask": ("demo", "prompt", "ask", "chat", "search"),
    "Documents": ("init", "project", "ingest", "status", "index", "spec"),
    "Question a prompt": (
        "explain", "why-not", "replay", "rerun", "diff", "trace", "verify-prompt", "leave-one-out",
        "bundle", "keep",
    ),
    "Conversations": ("history", "memory"),
    "Servers": ("up", "serve", "mcp", "worker", "password"),
    "Care": (
        "doctor", "config", "models", "du", "backup", "restore", "forget", "prompts", "runs",
        "embeddings", "eval",
    ),
    "Beside documents": ("weather",),
}  # fmt: skip
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}

app = typer.Typer(
    name="ragstream",
    cls=_Group,
    help="Turn your documents into short, cited prompts that you can explain and replay.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(
    help="Show the settings, where they come from and which files count.", no_args_is_help=True
)
project_app = typer.Typer(help="Say which folders are read in place.", no_args_is_help=True)
models_app = typer.Typer(help="See which models there are and check them.", no_args_is_help=True)
index_app = typer.Typer(help="Look after the indexes.", no_args_is_help=True)
prompts_app = typer.Typer(help="Look after the recorded prompts.", no_args_is_help=True)
runs_app = typer.Typer(help="Look after the recorded runs.", no_args_is_help=True)
history_app = typer.Typer(help="Keep conversations and look after them.", no_args_is_help=True)
memory_app = typer.Typer(help="Decide what is remembered of what you say.", no_args_is_help=True)
eval_app = typer.Typer(help="Measure retrieval and the answers to it.", no_args_is_help=True)
embeddings_app = typer.Typer(
    help="Look after the vectors that machines share.", no_args_is_help=True
)
mcp_app = typer.Typer(help=mcp.MCP_HELP, epilog=mcp.MCP_EPILOG, invoke_without_command=True)
mcp_app.callback()(mcp.mcp)


def _add(group: typer.Typer, name: str, command: Callable[..., None], epilog: str = "") -> None:
    """Register a command; its docstring is its help, without the section for programmers."""
    text = inspect.cleandoc(command.__doc__ or "").partition("\n\nRaises:")[0]
    panel = _PANEL_OF[name] if group is app else None
    group.command(name, cls=_Command, help=text, epilog=epilog or None, rich_help_panel=panel)(
        command
    )


_add(app, "demo", demo.demo, demo.DEMO_EPILOG)
_add(app, "ingest", ingest.ingest, ingest.INGEST_EPILOG)
_add(app, "status", ingest.status)
_add(app, "init", project.init, project.INIT_EPILOG)
_add(app, "prompt", prompt.prompt, prompt.PROMPT_EPILOG)
_add(app, "ask", ask.ask, ask.ASK_EPILOG)
_add(app, "chat", chat.chat, chat.CHAT_EPILOG)
_add(app, "rerun", prompt.rerun, prompt.RERUN_EPILOG)
_add(app, "search", prompt.search)
_add(app, "explain", explain.explain)
_add(app, "why-not", trace.why_not, trace.WHY_NOT_EPILOG)
_add(app, "replay", explain.replay, explain.REPLAY_EPILOG)
_add(app, "diff", trace.diff, trace.DIFF_EPILOG)
_add(app, "trace", trace.trace, trace.TRACE_EPILOG)
_add(app, "verify-prompt", trace.verify_prompt, trace.VERIFY_EPILOG)
_add(app, "leave-one-out", trace.leave_one_out, trace.LEAVE_EPILOG)
_add(app, "bundle", trace.bundle, trace.BUNDLE_EPILOG)
_add(app, "spec", spec.spec, spec.SPEC_EPILOG)
_add(app, "keep", care.keep)
_add(app, "weather", weather.weather, weather.WEATHER_EPILOG)
_add(app, "up", up.up)
_add(app, "worker", worker.worker, worker.WORKER_EPILOG)
_add(app, "serve", serve.serve, serve.SERVE_EPILOG)
_add(app, "password", up.password)
_add(app, "doctor", config.doctor)
_add(app, "du", care.du)
_add(app, "backup", care.backup)
_add(app, "restore", care.restore)
_add(app, "forget", care.forget, care.FORGET_EPILOG)
app.add_typer(project_app, name="project", cls=_Group, rich_help_panel=_PANEL_OF["project"])
app.add_typer(index_app, name="index", cls=_Group, rich_help_panel=_PANEL_OF["index"])
app.add_typer(prompts_app, name="prompts", cls=_Group, rich_help_panel=_PANEL_OF["prompts"])
app.add_typer(runs_app, name="runs", cls=_Group, rich_help_panel=_PANEL_OF["runs"])
app.add_typer(history_app, name="history", cls=_Group, rich_help_panel=_PANEL_OF["history"])
app.add_typer(memory_app, name="memory", cls=_Group, rich_help_panel=_PANEL_OF["memory"])
app.add_typer(models_app, name="models", cls=_Group, rich_help_panel=_PANEL_OF["models"])
app.add_typer(
    embeddings_app, name="embeddings", cls=_Group, rich_help_panel=_PANEL_OF["embeddings"]
)
app.add_typer(config_app, name="config", cls=_Group, rich_help_panel=_PANEL_OF["config"])
app.add_typer(eval_app, name="eval", cls=_Group, rich_help_panel=_PANEL_OF["eval"])
app.add_typer(mcp_app, name="mcp", cls=_Group, rich_help_panel=_PANEL_OF["mcp"])
_add(project_app, "add", project.add, project.ADD_EPILOG)
_add(project_app, "list", project.list_, project.LIST_EPILOG)
_add(project_app, "sync", project.sync, project.SYNC_EPILOG)
_add(project_app, "remove", project.remove, project.REMOVE_EPILOG)
_add(index_app, "generations", index.generations)
_add(index_app, "check", index.check, index.CHECK_EPILOG)
_add(index_app, "diff", index.diff)
_add(index_app, "gc", index.gc)
_add(index_app, "export", index.export)
_add(index_app, "inspect", inspect_index)
_add(index_app, "neighbors", neighbors, NEIGHBORS_EPILOG)
_add(index_app, "tsne", tsne, TSNE_EPILOG)
_add(index_app, "publish", publish.publish, publish.PUBLISH_EPILOG)
_add(index_app, "pull", publish.pull, publish.PULL_EPILOG)
_add(index_app, "import-pkl", index.import_pkl, index.IMPORT_EPILOG)
_add(prompts_app, "gc", care.prompts_gc)
_add(runs_app, "gc", care.runs_gc)
_add(history_app, "append", history.append, history.APPEND_EPILOG)
_add(history_app, "show", history.show)
_add(history_app, "search", history.search, history.SEARCH_EPILOG)
_add(history_app, "sessions", history.sessions)
_add(history_app, "summaries", history.summaries)
_add(history_app, "tag", history.tag)
_add(history_app, "adopt", history.adopt, history.ADOPT_EPILOG)
_add(history_app, "import", history_import.import_, history_import.IMPORT_EPILOG)
_add(history_app, "export", history.export, history.EXPORT_EPILOG)
_add(history_app, "embed", history_care.embed)
_add(history_app, "backfill", history_care.backfill, history_care.BACKFILL_EPILOG)
_add(history_app, "check", history_care.check)
_add(history_app, "clear", history_care.clear, history_care.CLEAR_EPILOG)
_add(history_app, "reactivate", history_care.reactivate)
_add(memory_app, "show", memory.show)
_add(memory_app, "candidates", memory.candidates)
_add(memory_app, "accept", memory.accept)
_add(memory_app, "reject", memory.reject)
_add(memory_app, "edit", memory.edit)
_add(memory_app, "undo", memory.undo)
_add(memory_app, "add", memory.add, memory.ADD_EPILOG)
_add(memory_app, "remove", memory.remove)
_add(memory_app, "scan", memory.scan, memory.SCAN_EPILOG)
_add(mcp_app, "install", mcp.install, mcp.INSTALL_EPILOG)
_add(models_app, "list", models.list_)
_add(models_app, "pull", models.pull)
_add(models_app, "verify", models.verify)
_add(embeddings_app, "status", embeddings.status)
_add(embeddings_app, "clear", embeddings.clear, embeddings.CLEAR_EPILOG)
_add(config_app, "show", config.show)
_add(config_app, "reference", config.reference)
_add(config_app, "trust", config.trust)
_add(config_app, "untrust", config.untrust)
_add(eval_app, "retrieval", evaluate.retrieval, evaluate.RETRIEVAL_EPILOG)
_add(eval_app, "gold", evaluate.gold, evaluate.GOLD_EPILOG)
_add(eval_app, "sweep", evaluate.sweep, evaluate.SWEEP_EPILOG)
_add(eval_app, "gate", evaluate.gate, evaluate.GATE_EPILOG)
_add(eval_app, "faithfulness", evaluate.faithfulness, evaluate.FAITHFULNESS_EPILOG)
_add(eval_app, "prompts", evaluate_prompts.prompts, evaluate_prompts.PROMPTS_EPILOG)


def _version(value: bool) -> None:
    if not value:
        return
    from importlib import metadata

    try:
        typer.echo(f"ragstream {metadata.version('ragstream')}")
    except metadata.PackageNotFoundError:
        typer.echo("ragstream, from a source tree that is not installed")
    raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The data root; default: $RAGSTREAM_DATA_DIR, .ragstream, data."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A configuration file; default: ragstream.yaml."),
    ] = None,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", metavar="", help="Show the traceback of an error, for a report."
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Keep the global options for the command that follows."""
    ctx.obj = Session(data, config)


class Words(NamedTuple):
    """The words of a command line, told apart.

    Attributes:
        first: The global options, which people may write anywhere, each with its value.
        rest: All others, in their order.
        options: The options among all of them: neither a value of one nor what follows ``--``.
    """

    first: list[str]
    rest: list[str]
    options: list[str]


def told_apart(words: list[str], command: Command) -> Words:
    """Tell words apart as the command will read them: a value is no option, whatever it says.

    Args:
        words: Without the program's name.
        command: The program, with the command that is called at least.
    """
    found = Words([], [], [])
    left = deque(words)
    while left:
        word = left.popleft()
        name, sign, _ = word.partition("=")
        if word == "--":
            found.rest.extend([word, *left])
            break
        is_option = len(word) > 1 and word[0] == "-"
        is_global = name in WITH_VALUE or word == "--traceback"
        values = 0 if sign or not is_option else 1 if name in WITH_VALUE else _values(command, word)
        target = found.first if is_global else found.rest
        target += [word, *(left.popleft() for _ in range(min(values, len(left))))]
        if is_option:
            found.options.append(word)
        else:
            command = getattr(command, "commands", {}).get(word, command)
    return found


def _values(command: Command, word: str) -> int:
    """Return how many words after an option are its values."""
    options = {name: param for param in command.params for name in param.opts if name[0] == "-"}
    names = [word] if word in options or word.startswith("--") else [f"-{c}" for c in word[1:]]
    for place, name in enumerate(names, 1):
        option = options.get(name)
        if option is not None and not getattr(option, "is_flag", False):
            return option.nargs if place == len(names) else 0  # -k5: the value is attached
    return 0


def called(words: list[str]) -> Command:
    """Return the program with what its words call.

    The first word that is no global option names that.
    """
    left = deque(words)
    while left and left[0].startswith("-"):
        if left.popleft() in WITH_VALUE and left:
            left.popleft()
    return typer.main.get_command(only(left[0]) if left else app)


def only(name: str) -> typer.Typer:
    """Return the application with one command or group; with all of them where none is named so.

    To make them all takes longer than most commands need.
    """
    commands = [c for c in app.registered_commands if c.name == name]
    groups = [g for g in app.registered_groups if g.name == name]
    small = copy.copy(app)
    if commands or groups:
        small.registered_commands, small.registered_groups = commands, groups
    return small


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Its words without the program's name; default: those of this process.

    Returns:
        The exit code: 0 ok, 1 failed, 2 wrong usage, 3 refused, 130 interrupted.
    """
    os.umask(0o077)  # whatever is written belongs to its owner alone
    open_closed_streams()
    words = sys.argv[1:] if argv is None else argv
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # file names need not be valid UTF-8

    command = called(words)
    found = told_apart(words, command)
    try:
        if words and {"--help", "--version"}.isdisjoint(found.options):
            from ragstream_core.config import quiet_environment

            quiet_environment()
        result = command([*found.first, *found.rest], prog_name="ragstream", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # the boundary: no traceback passes it
        return failed(error, found.options)
    if result == INTERRUPTED:
        return failed(KeyboardInterrupt(), found.options)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    raise SystemExit(main())
