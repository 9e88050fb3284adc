"""The page behind our guard: `python -P -m ragstream_app.server.page`, as `ragstream up` starts it.

Streamlit's own checks are not enough. It takes a WebSocket from any page of this machine, answers
any Host by HTTP, and asks an address on the internet when a foreign page knocks, to learn its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_app.server.access import Login, PageAccess, page_access
from ragstream_app.server.guard import Guard
from ragstream_core.config import AppConfig, quiet_environment
from ragstream_core.errors import told_at_the_end

if TYPE_CHECKING:
    from streamlit import App

SCRIPT = Path(__file__).parents[1] / "page" / "main.py"

# Given here so that they hold from any directory; as `.streamlit/config.toml`.
OPTIONS: dict[str, Any] = {
    "server.headless": True,
    "server.enableXsrfProtection": True,
    "server.enableCORS": True,
    "server.enableStaticServing": False,
    "server.enableAgentApi": False,
    "server.maxUploadSize": 100,
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": False,
    "global.disableWidgetStateDuplicationWarning": True,  # Reset sets what begins with a value
    "client.allowedOrigins": [],  # by default, a dozen foreign ones that may press its buttons
    "client.showErrorDetails": "none",
    "client.toolbarMode": "viewer",
    "theme.light.primaryColor": "#1f6f8b",
    "theme.dark.primaryColor": "#3389a8",
}
_doors: list[PageAccess] = []


def is_guarded() -> bool:
    """Whether a guard, and a password where one is due, stand before the page of this process."""
    return bool(_doors)


def ignore_the_working_directory() -> None:
    """Let Streamlit read no settings and no secrets of the folder that it is started in.

    They could fetch a theme from an address and have browsers load fonts from there. The person's
    own in the home folder count.
    """
    from streamlit import file_util

    file_util.get_project_streamlit_file_path = file_util.get_streamlit_file_path


def guarded_app(door: PageAccess) -> App:
    """Return the page as an application with its guard, and its login where one is due."""
    import streamlit
    from starlette.middleware import Middleware

    ignore_the_working_directory()
    guards = [Middleware(Guard, hosts=door.hosts)]  # the first is the outermost
    if door.password is not None:
        guards.append(Middleware(Login, password=door.password))
    return streamlit.App(SCRIPT, middleware=guards)


def options(door: PageAccess) -> dict[str, Any]:
    """Return Streamlit's settings for a door."""
    hosts = sorted({host.rpartition(":")[0] or host for host in door.hosts})
    return {
        **OPTIONS,
        "server.address": door.address,
        "server.port": door.port,
        "server.allowedHosts": hosts,
    }


def serve(config: AppConfig) -> None:
    """Serve the page until a signal ends the process.

    Raises:
        Refused: The settings would open it to the network without protection.
        UnknownSetting: Its address is none.
    """
    door = page_access(config)
    app = guarded_app(door)
    _doors.append(door)
    app.run(config=options(door))


if __name__ == "__main__":
    quiet_environment()
    with told_at_the_end():
        serve(AppConfig.load())
