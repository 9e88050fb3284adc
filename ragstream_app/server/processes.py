"""Child processes in groups of their own that end with us, their ports, and the signals to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.request import OpenerDirector


HOST = "127.0.0.1"


def is_free(port: int, host: str = HOST) -> bool:
    """Whether nothing listens on a port of an address, by default the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def direct() -> OpenerDirector:
    """Return what opens addresses without asking a proxy."""
    import urllib.request

    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str, *, timeout_s: float = 2.0) -> bool:
    """Whether an address answers a GET with success; proxies are not asked."""
    import urllib.error

    try:
        with direct().open(url, timeout=timeout_s) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let the block end before a signal is heeded; of several the first one counts.

    A process is there before Python has noted its number: unwinding from in between would leave one
    that nobody ends.
    """
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


GRACE_S = 10.0
"""Seconds between asking a server to end and ending it."""
_DYING_S = 5.0
"""What the system may take to clear away a killed process, a large one on a busy machine."""
_POLL_S = 0.1
_LAST_BYTES = 4_000


@dataclass
class Server:
    """One child process, started again where it died.

    Attributes:
        name: For people.
        command: Its words.
        url: Address for people, empty where it has none.
        probe: Address that answers 200 once it is ready, empty where there is none.
        process: The process once it was started.
        earlier: Processes before it that are dead, while something they started lives.
        log: The file its output goes to.
    """

    name: str
    command: list[str]
    url: str = ""
    probe: str = ""
    process: subprocess.Popen[bytes] | None = None
    earlier: list[subprocess.Popen[bytes]] = field(default_factory=list)
    log: Path = Path(os.devnull)

    def last_words(self) -> str:
        """Return the last line of its output; an error of ours with the line of what to do next."""
        text = self.log.read_bytes()[-_LAST_BYTES:].decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        with_next = bool(lines) and lines[-1].startswith("next: ")
        return "\n".join(lines[-2 if with_next else -1 :]) or "no output"

    def died(self) -> bool:
        """Whether it was started and has ended."""
        return self.process is not None and self.process.poll() is not None

    def groups(self) -> list[subprocess.Popen[bytes]]:
        """Return the leaders of the groups that it, and those before it, have."""
        return [*([self.process] if self.process else []), *self.earlier]

    def forget_ended(self) -> None:
        """Forget the groups that are empty: their numbers may be given to others."""
        self.earlier = [process for process in self.earlier if _group_lives(process)]


def start(server: Server, environment: dict[str, str], logs: Path) -> None:
    """Start a server in a new process group, its output in ``logs/<name>.log``.

    The output of one that is started again follows what the dead one wrote.

    Raises:
        OSError: It cannot be started.
    """
    server.log = logs / f"{server.name.lower().replace(' ', '-')}.log"
    if server.process is not None:
        server.earlier.append(server.process)
    with server.log.open("ab" if server.process else "wb") as output:
        server.process = subprocess.Popen(
            server.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def stop_all(servers: list[Server], *, grace_s: float = GRACE_S) -> None:
    """Ask every group to end, wait, and end what is left; returns when none is alive."""
    for server in servers:
        server.forget_ended()
    started = [process for server in servers for process in server.groups()]
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _DYING_S)):
        for process in started:
            _signal_group(process, number)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline and any(_group_lives(process) for process in started):
            time.sleep(_POLL_S)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        process.poll()


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()  # reaps the leader, which else counts as alive
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True
