"""`ragstream models`: list what the endpoint has, pull what is missing, verify the files."""

from __future__ import annotations

import difflib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import Refused, UsageError
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.ports import Progress


def _embedder(config: AppConfig) -> str:
    """Return the repository that the embedder's files come from."""
    settings = config.settings.embeddings
    if settings.backend != "fastembed":
        return settings.model
    from ragstream_core.models.embedders.fastembed import hub_source

    return hub_source(settings.model)


# Names for the models of the settings.
ROLES = {
    "reranker": lambda config: config.settings.rerank.model,
    "gate": lambda config: config.settings.gate.model,
    "embedder": _embedder,
}


def pulled_by_name(config: AppConfig, name: str, *, yes: bool) -> Path:
    """Fetch a model or a token file and return where it lies.

    Args:
        config: Says where models lie and where the hub is.
        name: A role of `ROLES`, a token file, or ``organisation/model`` with or without
            ``@revision``.
        yes: Do not ask.

    Raises:
        UsageError: No such name, or there is no terminal to ask at.
        Refused: Somebody said no, or what the hub offers is refused.
        OperationFailed: It cannot be had.
    """
    from ragstream_core.models.downloads import pull_model, pull_token_file
    from ragstream_core.models.hub import Hub
    from ragstream_core.models.token_counters import TOKEN_FILES

    directory = config.layout.models
    directory.mkdir(parents=True, exist_ok=True)
    if name in TOKEN_FILES:
        file = TOKEN_FILES[name]
        _ask(f"{file.file_name}, {_mb(file.size)}, from {file.url}", yes)
        return _done(pull_token_file(file, directory, progress=_shown(name)))
    if name not in ROLES and "/" not in name:
        known = [*ROLES, *TOKEN_FILES]
        near = difflib.get_close_matches(name, known, n=1)
        raise UsageError(
            f"no model is called {name!r}",
            hint=f"did you mean {near[0]}?"
            if near
            else f"{', '.join(known)}, or organisation/model",
        )
    repo, _, revision = str(ROLES[name](config) if name in ROLES else name).partition("@")
    settings = config.settings.hub
    hub = Hub(settings.url)
    model = hub.model(repo, revision=revision or "main", most_bytes=int(settings.max_gb * 1e9))
    licence = f", licence {model.licence}" if model.licence else ", licence not stated"
    said = f"{counted(len(model.files), 'file')}, {_mb(model.size)}{licence}"
    _ask(f"{repo} at {model.commit[:12]} from {hub.host}: {said}, into {directory / repo}", yes)
    return _done(pull_model(hub, model, directory, progress=_shown(repo)))


def _ask(what: str, yes: bool) -> None:
    """Ask for consent.

    Raises:
        UsageError: Nobody is there.
        Refused: They did not.
    """
    note(what)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "nothing was fetched: there is no terminal to confirm on", hint="say --yes"
        )
    if not typer.confirm("Fetch it?", err=True):
        raise Refused("nothing was fetched")


def _shown(name: str) -> Progress:
    """Return what shows on a terminal how far a transfer is, at each tenth."""
    seen = [-1]

    def told(done: int, total: int) -> None:
        tenth = done * 10 // max(total, 1)
        if tenth > seen[0] and sys.stderr.isatty():
            seen[0] = tenth
            note(f"{name}: {_mb(done)} of {_mb(total)}")

    return told


def _done(path: Path) -> Path:
    note(f"it lies in {path}")
    return path


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


FAILED = 1
REFUSED = 3

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        help="`reranker`, `gate`, `embedder` (the model of your settings), `organisation/model` "
        "with `@revision` if need be, or a token file: `o200k_base`, `cl100k_base`.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", metavar="", help="Fetch without asking.")]


def list_(ctx: typer.Context, as_json: options.Json = False) -> None:
    """List the chat models of the endpoint, with an asterisk at the one that is taken.

    That is `provider.model`; if you did not set it and the endpoint does not have it, the first
    one that chats. A price is shown if it is known.

    Raises:
        ChatFailed: The endpoint cannot be asked.
        UnknownSetting: Its address is refused.
    """
    from ragstream_app.output.words import printable
    from ragstream_core.models.chat.endpoint_chat import chosen_model, is_there
    from ragstream_core.wiring.models import chat_model

    config = session_of(ctx).workspace().config
    wanted = config.settings.provider.model
    model = chat_model(config)
    names = model.list_models()
    choice = chosen_model(wanted, names) if names else ""
    prices = {name: _prices(config, name) for name in names}
    if as_json:
        rows = [{"name": name, "usd_per_mtok": prices[name]} for name in names]
        emit_json({"host": model.host, "wanted": wanted, "choice": choice, "models": rows})
        return
    typer.echo(f"{len(names)} models at {model.host or 'this process'}")
    for name in names:
        mark = "*" if name == choice else " "
        typer.echo(f"{mark} {printable(name)}{_price_text(prices[name])}")
    if not names:
        typer.echo("  next: ragstream models pull")
    elif wanted and not is_there(wanted, names):
        step = f"set provider.model to one of these; {printable(wanted)} is not among them"
        typer.echo(f"  next: {step}")


def pull(
    ctx: typer.Context,
    names: Names = None,
    yes: Yes = False,
    as_json: options.Json = False,
) -> None:
    """Fetch models into the data root, after asking; without a NAME say which ones are missing.

    Only safetensors and ONNX files are taken, checked by their digest, and put in place as a whole.
    The same command goes on where it was stopped.

    Raises:
        Exit: With 1, where something is missing.
        UsageError: Nobody can be asked: say --yes.
        Refused: Somebody said no, or what the hub offers is refused.
        OperationFailed: The hub cannot be reached, or has no such model.
    """
    config = session_of(ctx).workspace().config
    if names:
        folders = [str(pulled_by_name(config, name, yes=yes)) for name in dict.fromkeys(names)]
        if as_json:
            emit_json(folders)
        return
    missing = _missing(config)
    if as_json:
        emit_json([{"model": name, "command": command} for name, command in missing])
    for name, command in [] if as_json else missing:
        typer.echo(f"{name}: {command}")
    if missing:
        raise typer.Exit(FAILED)
    if not as_json:
        typer.echo("nothing is missing")


def verify(ctx: typer.Context, as_json: options.Json = False) -> None:
    """Check the files of the models on this machine by their sha256.

    Raises:
        Exit: With 3, where a file is missing or is not what it must be.
    """
    from ragstream_app.cli.doctor import examine_models
    from ragstream_app.output.tables import print_checks

    checks = examine_models(session_of(ctx).workspace().config)
    if as_json:
        emit_json([asdict(check) for check in checks])
    else:
        print_checks(checks)
    if any(check.level == "fail" for check in checks):
        raise typer.Exit(REFUSED)


def _prices(config: AppConfig, name: str) -> tuple[float, float] | None:
    """Return the prices of a million tokens sent and answered; None where they are not known."""
    from ragstream_core.models.chat.prices import Prices
    from ragstream_core.platform.endpoint_address import endpoint_at

    provider = config.settings.provider
    where = endpoint_at(provider.base_url)
    prices = Prices(where, provider.input_usd_per_mtok, provider.output_usd_per_mtok)
    sent, answered = prices.cost(name, 1_000_000, 0), prices.cost(name, 0, 1_000_000)
    return None if sent is None or answered is None else (sent, answered)


def _price_text(price: tuple[float, float] | None) -> str:
    if price is None:
        return ""
    sent, answered = price
    return f"  ${sent:g} / ${answered:g} a million tokens" if sent or answered else "  free"


def _missing(config: AppConfig) -> list[tuple[str, str]]:
    """Return the models that are not here, each with the command that fetches it."""
    from ragstream_app.cli.doctor import examine_models
    from ragstream_core.errors import ChatFailed
    from ragstream_core.models.chat.endpoint_chat import is_there
    from ragstream_core.wiring.models import chat_model

    made_for_tests = config.settings.embeddings.backend == "hashed"
    checks = [check for check in examine_models(config) if check.level != "ok" and check.next_step]
    missing = [
        (check.detail, check.next_step)
        for check in checks
        if not (made_for_tests and check.name == "embedding model")
    ]
    wanted = config.settings.provider.model
    model = chat_model(config)
    if not model.is_local or not model.host or not wanted:
        return missing
    try:
        here = is_there(wanted, model.list_models())
    except ChatFailed as error:
        return [*missing, (error.message, f"ollama serve, then ollama pull {wanted}")]
    return missing if here else [*missing, (f"{wanted} at {model.host}", f"ollama pull {wanted}")]
