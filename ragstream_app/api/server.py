"""The HTTP server as a process: `ragstream serve`, or one of the servers of `ragstream up`."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_app.api.token import ensure_token, token_file
from ragstream_app.server.guard import own_hosts
from ragstream_app.server.processes import HOST
from ragstream_core.config import AppConfig, quiet_environment
from ragstream_core.errors import Refused, RunCommand, told_at_the_end

if TYPE_CHECKING:
    from types import FrameType

    from starlette.types import ASGIApp

    from ragstream_core.wiring.workspace import Workspace

GRACE_S = 3
BACKLOG = 512


@dataclass(frozen=True, slots=True)
class Listening:
    """A server that has its port and serves nothing yet.

    Attributes:
        socket: Bound to an address of this machine alone.
        app: What answers.
    """

    socket: socket.socket
    app: ASGIApp

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return f"http://{HOST}:{self.socket.getsockname()[1]}"

    def run(self) -> None:
        """Serve until a signal ends the process.

        Raises:
            KeyboardInterrupt: Ctrl-C ended it.
            SystemExit: SIGTERM did, in the main thread.
        """
        import uvicorn

        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _unwind)

        config = uvicorn.Config(
            self.app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        )
        uvicorn.Server(config).run(sockets=[self.socket])


def _unwind(number: int, _: FrameType | None) -> None:
    """Unwind, so that what others cleared up at the end is done; uvicorn raises the signal again.

    Raises:
        SystemExit: Always.
    """
    raise SystemExit(128 + number)


def listen(workspace: Workspace, *, port: int, projects: Sequence[str] = ()) -> Listening:
    """Take the port and make the application; the first call makes the token.

    Args:
        workspace: The data root.
        port: Of the loopback address; 0: any that is free.
        projects: Only these; none: all of the data root.

    Raises:
        Refused: The port is in use, or others can read the token.
        UnknownProject: There is no such project.
        OSError: The data root cannot be written.
    """
    from ragstream_app.api.app import Mounted, make_app
    from ragstream_app.api.models import Models
    from ragstream_app.mcp.desk import Desk
    from ragstream_app.mcp.http import PATH, McpOverHttp

    models = Models(workspace, tuple(projects))
    models.require()
    token = ensure_token(token_file(workspace.config))
    taken = _bound(port)
    hosts = own_hosts(taken.getsockname()[1], map(str.lower, workspace.config.settings.api.hosts))
    mcp = McpOverHttp(Desk(workspace, tuple(projects)))
    mounted = (Mounted(PATH, mcp, mcp.lifespan),)
    return Listening(taken, make_app(models, hosts=hosts, token=token, mounted=mounted))


def _bound(port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        Refused: The port is in use, or not ours to take.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Refused(
            f"port {port} cannot be used: {error.strerror}",
            hint=RunCommand("serve", "--port 0"),
        ) from None
    return made


if __name__ == "__main__":
    from ragstream_core.wiring.workspace import open_workspace

    quiet_environment()
    with told_at_the_end():
        listen(open_workspace(), port=AppConfig.load().settings.api.port).run()
