"""The servers of `ragstream up`: child processes that start together and end together.

Each has a process group of its own, so that what it started ends with it. A killed `up` cleans
nothing up, but the system closes its pipes: a small process, the reaper, reads from one which
groups there are, and ends them when the pipe does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ragstream_core.errors import OperationFailed

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


# Seconds between asking a server to end and ending it.
GRACE_S = 10.0
# What the system may take to clear away a killed process, a large one on a busy machine.
_DYING_S = 5.0
START_TIMEOUT_S = 180.0
_POLL_S = 0.1
_LAST_BYTES = 4_000


def reaper() -> list[str]:
    """Return the words of the program that ends the servers when we are gone."""
    from ragstream_core.platform.import_path import python  # the command line starts without it

    return python("-E", "-m", "ragstream_app.server.processes")


@dataclass
class Server:
    """One child process.

    Attributes:
        name: For people.
        command: Its words.
        url: Address for people, empty where it has none.
        probe: Address that answers 200 once it is ready, empty where there is none.
        process: The process once it was started.
        log: The file its output goes to.
    """

    name: str
    command: list[str]
    url: str = ""
    probe: str = ""
    process: subprocess.Popen[bytes] | None = None
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

    def cause(self) -> str:
        """Say how it came to its end."""
        code = self.process.returncode if self.process is not None else None
        if code is not None and code < 0:
            return f"by {signal.Signals(-code).name}"
        return f"with code {code}"


class Servers:
    """The servers of one `ragstream up`.

    Args:
        servers: In the order of their start.
        environment: Of all of them.
        logs: The folder of their output, one file each.
    """

    def __init__(self, servers: list[Server], environment: dict[str, str], logs: Path) -> None:
        self.servers = servers
        self._environment, self._logs = environment, logs
        self._reaper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start all of them, at the same time."""
        with held_back():
            self._reaper = subprocess.Popen(
                reaper(),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        for server in self.servers:
            with held_back():
                self._start(server)

    def _start(self, server: Server) -> None:
        server.log = self._logs / f"{server.name.lower().replace(' ', '-')}.log"
        with server.log.open("wb") as output:
            server.process = subprocess.Popen(
                server.command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if self._reaper is not None and self._reaper.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # somebody has ended the reaper
                self._reaper.stdin.write(b"%d\n" % server.process.pid)
                self._reaper.stdin.flush()

    def wait_until(self, server: Server) -> None:
        """Return once a server answers; one that ends, or is silent for too long, is an error."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(server.probe):
            self._require_all()
            if time.monotonic() > deadline:
                raise OperationFailed(
                    f"{server.name} does not answer after {START_TIMEOUT_S:.0f} s",
                    hint=f"its output is in {server.log}",
                )
            time.sleep(_POLL_S)

    def watch(self) -> None:
        """Return never: a server that ends is an error, and a signal unwinds."""
        while True:
            self._require_all()
            time.sleep(_POLL_S)

    def _require_all(self) -> None:
        for server in self.servers:
            if server.died():
                said, _, next_ = server.last_words().partition("\nnext: ")
                raise OperationFailed(
                    f"{server.name} ended {server.cause()}: {said.removeprefix('error: ')}",
                    hint=f"{next_}{'; ' if next_ else ''}its output is in {server.log}",
                )

    def stop(self) -> None:
        """End all of them and what they started; a second Ctrl-C waits for it too."""
        with held_back():
            processes = [server.process for server in self.servers if server.process is not None]
            end_groups([process.pid for process in processes], processes)
            if self._reaper is not None:
                self._reaper.kill()
                self._reaper.communicate()


def end_groups(
    groups: Iterable[int],
    leaders: Iterable[subprocess.Popen[bytes]] = (),
    *,
    grace_s: float = GRACE_S,
) -> None:
    """Ask process groups to end, wait, and end what is left; returns when none is alive.

    Args:
        groups: Their numbers.
        leaders: Those that are our children: one that nobody waits for counts as alive.
        grace_s: How long they are waited for before they are killed.
    """
    left = set(groups)
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _DYING_S)):
        for group in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        deadline = time.monotonic() + wait_s
        while left and time.monotonic() < deadline:
            for leader in leaders:
                leader.poll()
            left = {group for group in left if _lives(group)}
            time.sleep(_POLL_S)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    end_groups(map(int, sys.stdin.read().split()))
