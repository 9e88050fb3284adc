"""`ragstream up`, which runs Dagster's servers and the page together, and `ragstream password`."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstream_app.server.processes import HOST, Server, Servers, is_free
from ragstream_app.session import note, session_of
from ragstream_core.errors import Refused

if TYPE_CHECKING:
    from types import FrameType

    from ragstream_app.server.access import PageAccess
    from ragstream_core.config import AppConfig


def password(ctx: typer.Context) -> None:
    """Set a password for the page, needed before other machines can open it.

    It is asked for, never given as a word of the command; from a pipe, the first line is taken.
    Only a hash of it is kept, in the data root. `page.allow_remote` says how to open the page.

    Raises:
        Refused: It is too short, or the two inputs differ.
        OSError: The data root cannot be written.
    """
    from ragstream_app.server.access import make_password, password_file, write_password
    from ragstream_core.platform.files import make_private_dir

    path = password_file(session_of(ctx).workspace().config)
    kept = make_password(_asked())
    make_private_dir(path.parent)
    write_password(path, kept)
    note(f"kept in {path}; a running page uses it after a restart")


def _asked() -> str:
    """Return the password that a person types twice, or a pipe's first line."""
    from getpass import getpass

    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass("Password: ")
    if getpass("Again: ") != first:
        raise Refused("the two inputs differ", hint="ragstream password")
    return first


def up(
    ctx: typer.Context,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", metavar="", help="Dagster's pages cannot launch or change anything."
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="N", min=1, max=65535, help="Dagster's port; default 3000."),
    ] = None,
    page_port: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=65535, help="The page's port; default 8503."),
    ] = None,
    no_page: Annotated[
        bool, typer.Option("--no-page", metavar="", help="Start Dagster only.")
    ] = False,
    no_daemon: Annotated[
        bool,
        typer.Option(
            "--no-daemon",
            metavar="",
            help="Dagster's daemon runs on another machine that shares `dagster.storage`.",
        ),
    ] = False,
    write_config: Annotated[
        bool,
        typer.Option(
            "--write-config", metavar="", help="Only write Dagster's instance files, and say where."
        ),
    ] = False,
) -> None:
    """Start Dagster and the page on this machine; Ctrl-C stops them together.

    One that ends, ends them all. With `api.enabled` the server for programs runs as well.

    Raises:
        Refused: A port is in use, or the page would be open to the network without protection.
        OperationFailed: One of them did not start, or does not stay.
        UnknownSetting: The page's address is none.
    """
    from ragstream_app.server.access import page_access

    session = session_of(ctx)
    given = {"dagster.port": port, "page.port": page_port}
    explicit: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    config = session.workspace(explicit=explicit).config
    if write_config:
        _write_config(config)
        return
    door = None if no_page or not _page_is_here() else page_access(config)
    _require_free(config, door)
    servers = [
        *([_page(door)] if door else []),
        *_dagster(config, read_only=read_only, with_daemon=not no_daemon),
    ]
    servers += [_api(config)] if config.settings.api.enabled else []
    environment = _environment(config)
    with _signals_stop(), _running(servers, environment, config) as running:
        _announce(running, config)
        running.watch()


def _write_config(config: AppConfig) -> None:
    from ragstream_assets.instance import ready_home
    from ragstream_core.platform.postgres import database_at

    home = ready_home(config)
    address = config.settings.dagster.storage.get_secret_value()
    shown = database_at(address, setting="dagster.storage").shown if address else ""
    _line("instance", str(home / "dagster.yaml"))
    _line("workspace", str(home / "workspace.yaml"))
    _line("records", shown or f"SQLite in {home}")
    _line("environment", "DAGSTER_POSTGRES_URL, for Dagster's own commands" if shown else "")


def _page_is_here() -> bool:
    """Return whether the page is installed; say how to install it if it is not."""
    from ragstream_core.platform import extras

    if extras.is_here("page"):
        return True
    note(f"the page is not installed; it comes with: {extras.install('page').line}")
    return False


def _require_free(config: AppConfig, door: PageAccess | None) -> None:
    wanted = [("--port", HOST, config.settings.dagster.port)]
    if door is not None:
        wanted.append(("--page-port", door.address, door.port))
    if config.settings.api.enabled:
        wanted.append(("api.port", HOST, config.settings.api.port))
    if len({port for _, _, port in wanted}) < len(wanted):
        raise Refused(
            "two servers cannot share a port", hint="--port N --page-port M, or set api.port"
        )
    for option, address, port in wanted:
        if not is_free(port, address):
            way = f"ragstream up {option} {port + 1}" if option.startswith("-") else f"set {option}"
            raise Refused(
                f"port {port} is in use",
                hint=f"is `ragstream up` running already? otherwise: {way}",
            )


def _dagster(config: AppConfig, *, read_only: bool, with_daemon: bool) -> list[Server]:
    from ragstream_assets.instance import ready_home
    from ragstream_core.platform.import_path import python

    ready_home(config)
    flags = ["--read-only"] if read_only else []
    web = python("-m", "ragstream_app.server.dagster_servers", "web", *flags)
    daemon = python("-m", "ragstream_app.server.dagster_servers", "daemon")
    url = f"http://{HOST}:{config.settings.dagster.port}"
    servers = [Server("Dagster", web, url, f"{url}/server_info")]
    return servers + ([Server("Dagster daemon", daemon)] if with_daemon else [])


def _page(door: PageAccess) -> Server:
    from ragstream_core.platform.import_path import python

    command = python("-m", "ragstream_app.server.page")
    return Server("page", command, door.url, f"{door.url}/_stcore/health")


def _api(config: AppConfig) -> Server:
    """Return the server for programs; its token is made here, so that it can be asked for."""
    from ragstream_app.api.token import ensure_token, token_file
    from ragstream_core.platform.import_path import python

    ensure_token(token_file(config))
    url = f"http://{HOST}:{config.settings.api.port}"
    return Server("API", python("-m", "ragstream_app.api.server"), url, f"{url}/health")


def _environment(config: AppConfig) -> dict[str, str]:
    """Return the servers' environment: they read the same settings, the ports of this call too."""
    from ragstream_core.config import child_environment

    environment = child_environment(config)
    environment["RAGSTREAM_DAGSTER__PORT"] = str(config.settings.dagster.port)
    environment["RAGSTREAM_PAGE__PORT"] = str(config.settings.page.port)
    return environment


@contextlib.contextmanager
def _running(
    servers: list[Server], environment: dict[str, str], config: AppConfig
) -> Iterator[Servers]:
    """Start the servers, and stop all of them at the end, also after an error."""
    from ragstream_core.platform.files import make_private_dir

    running = Servers(servers, environment, make_private_dir(config.layout.server_logs))
    note("starting " + ", ".join(server.name for server in servers) + " …")
    try:
        running.start()
        yield running
    finally:
        note("stopping …")
        running.stop()


@contextlib.contextmanager
def _signals_stop() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop us as Ctrl-C does: by unwinding."""

    def unwind(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announce(running: Servers, config: AppConfig) -> None:
    """Say where each server is as soon as it answers, then what runs by itself."""
    from ragstream_app.server.dagster_servers import triggers_at

    for server in running.servers:
        if server.probe:
            running.wait_until(server)
        _line(server.name, server.url or "running")
    for server in running.servers:
        if server.name == "Dagster":
            for heading, names in triggers_at(server.url).items():
                _line(heading, ", ".join(names))
    _line("data root", str(config.data_dir))
    _line("Ctrl-C", "stops them all; a run in progress is marked as failed and continues next time")


def _line(name: str, text: str) -> None:
    if text:
        typer.echo(f"{name:<15} {text}")
        sys.stdout.flush()
