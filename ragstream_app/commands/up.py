"""`ragstream up`: Dagster's web server, its daemon and the page, started and stopped together."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.ports import HOST, answers, is_free
from ragstream_app.session import note, session_of
from ragstream_core.errors import OperationFailed, Refused

if TYPE_CHECKING:
    from types import FrameType

    from ragstream_app.servers import Server
    from ragstream_core.config import AppConfig

START_TIMEOUT_S = 180.0
POLL_S = 0.3
WORKSPACE = """# how Dagster finds RAGstream's definitions; the repository holds the same file
load_from:
  - python_module:
      module_name: ragstream_assets.definitions
      location_name: ragstream
"""
PAGE_FLAGS = (
    f"--server.address={HOST}",
    "--server.headless=true",
    "--server.enableXsrfProtection=true",
    "--server.enableCORS=true",
    "--server.enableStaticServing=false",
    "--server.maxUploadSize=100",
    "--server.fileWatcherType=none",
    "--browser.gatherUsageStats=false",
    "--client.showErrorDetails=none",
    "--client.toolbarMode=viewer",
    "--theme.primaryColor=#1f6f8b",
)
"""The page's settings as flags, so that they hold from any directory; as .streamlit/config.toml."""


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
) -> None:
    """Start Dagster and the page on this machine; Ctrl-C stops them together.

    Raises:
        Refused: A port is in use.
        OperationFailed: One of them did not start, or ended.
    """
    session = session_of(ctx)
    config = session.workspace().config
    dagster_port = port or config.settings.dagster.port
    ports = {"--port": dagster_port}
    if not no_page:
        ports["--page-port"] = page_port or config.settings.page.port
    _require_free(ports)
    servers = _dagster(config, dagster_port, read_only=read_only)
    if not no_page:
        servers.append(_page(ports["--page-port"]))
    with _signals_stop(), _running(servers, config, session.config) as running:
        _wait_until_they_answer(running)
        _announce(running, config)
        _watch(running)


def _require_free(ports: dict[str, int]) -> None:
    if len(set(ports.values())) < len(ports):
        raise Refused("Dagster and the page cannot share a port", hint="--port N --page-port M")
    for option, port in ports.items():
        if not is_free(port):
            raise Refused(
                f"port {port} is in use",
                hint=f"is `ragstream up` running already? else: ragstream up {option} {port + 1}",
            )


def _dagster(config: AppConfig, port: int, *, read_only: bool) -> list[Server]:
    from ragstream_app.servers import Server
    from ragstream_assets.instance import dagster_home
    from ragstream_core.atomic import replace_text

    path = dagster_home(config.data_dir) / "workspace.yaml"
    replace_text(path, WORKSPACE, durable=False)
    web = [sys.executable, "-m", "dagster_webserver", "-h", HOST, "-p", str(port), "-w", str(path)]
    daemon = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(path)]
    url = f"http://{HOST}:{port}"
    return [
        Server("Dagster", web + (["--read-only"] if read_only else []), url, f"{url}/server_info"),
        Server("Dagster daemon", daemon),
    ]


def _page(port: int) -> Server:
    from ragstream_app.servers import Server

    page = Path(__file__).parents[1] / "page.py"
    command = [sys.executable, "-m", "streamlit", "run", str(page), f"--server.port={port}"]
    url = f"http://{HOST}:{port}"
    return Server("page", [*command, *PAGE_FLAGS], url, f"{url}/_stcore/health")


@contextlib.contextmanager
def _running(
    servers: list[Server], config: AppConfig, config_file: Path | None
) -> Iterator[list[Server]]:
    """Start the servers, and stop all of them whatever happens afterwards."""
    from ragstream_app.servers import start, stop_all
    from ragstream_core.atomic import make_private_dir
    from ragstream_core.config import child_environment

    environment = child_environment(config)
    if config_file is not None:
        environment["RAGSTREAM_CONFIG"] = str(config_file.absolute())
    logs = make_private_dir(config.data_dir / "logs")
    try:
        for server in servers:
            start(server, environment, logs)
        yield servers
    finally:
        note("stopping …")
        stop_all(servers)


@contextlib.contextmanager
def _signals_stop() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop us as Ctrl-C does: by unwinding."""

    def unwind(number: int, _: FrameType | None) -> None:
        """Unwind.

        Raises:
            SystemExit: Always.
        """
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_until_they_answer(servers: list[Server]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    waiting = [server for server in servers if server.probe]
    note("starting " + ", ".join(server.name for server in servers) + " …")
    while waiting:
        _require_alive(servers)
        waiting = [server for server in waiting if not answers(server.probe)]
        if waiting and time.monotonic() > deadline:
            raise OperationFailed(
                f"{waiting[0].name} does not answer after {START_TIMEOUT_S:.0f} s",
                hint=f"its output is in {waiting[0].log}",
            )
        time.sleep(POLL_S)


def _announce(servers: list[Server], config: AppConfig) -> None:
    for server in servers:
        typer.echo(f"{server.name:<15} {server.url or 'running'}")
    typer.echo(f"{'data root':<15} {config.data_dir}")
    typer.echo("Ctrl-C stops them all")
    sys.stdout.flush()


def _watch(servers: list[Server]) -> None:
    while True:
        _require_alive(servers)
        time.sleep(POLL_S)


def _require_alive(servers: list[Server]) -> None:
    for server in servers:
        code = server.process.poll() if server.process else None
        if code is not None:
            raise OperationFailed(
                f"{server.name} ended with code {code}: {server.last_words()}",
                hint=f"its output is in {server.log}",
            )
