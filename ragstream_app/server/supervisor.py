"""Keeps the servers of `ragstream up` running: one that dies is started again, within reason."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstream_app.server.orphan_reaper import OrphanReaper
from ragstream_app.server.processes import Server, answers, direct, held_back, start, stop_all
from ragstream_core.errors import OperationFailed

QUERY = """{ repositoriesOrError { ... on RepositoryConnection { nodes {
  sensors { name sensorState { status } }
  schedules { name scheduleState { status } }
} } } }"""
TIMEOUT_S = 30.0
POLL_S = 0.3


@dataclass(frozen=True)
class Triggers:
    """The names of what starts runs by itself, and of what is switched off, each sorted."""

    sensors: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


def triggers_at(url: str, *, timeout_s: float = TIMEOUT_S) -> Triggers:
    """Ask Dagster's web server, which answers before it knows; nothing where it does not say.

    Args:
        url: Of the web server, without a slash at the end.
        timeout_s: How long to ask again while it names nothing.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            found = _read(_asked(url))
        except (OSError, ValueError, LookupError, TypeError):
            found = Triggers()
        if found != Triggers() or time.monotonic() > deadline:
            return found
        time.sleep(POLL_S)


def _asked(url: str) -> Any:
    """Return the server's answer.

    Raises:
        OSError: It does not answer.
        ValueError: Not in JSON.
    """
    import urllib.request

    request = urllib.request.Request(
        f"{url}/graphql",
        data=json.dumps({"query": QUERY}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with direct().open(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def _read(answer: dict[str, Any]) -> Triggers:
    found: dict[str, list[str]] = {"sensor": [], "schedule": [], "off": []}
    for node in answer["data"]["repositoriesOrError"]["nodes"]:
        for kind in ("sensor", "schedule"):
            for one in node[f"{kind}s"]:
                running = one[f"{kind}State"]["status"] == "RUNNING"
                found[kind if running else "off"].append(one["name"])
    return Triggers(*(tuple(sorted(found[kind])) for kind in ("sensor", "schedule", "off")))


START_TIMEOUT_S = 180.0
MOST_DEATHS = 6
WINDOW_S = 60.0
LONGEST_PAUSE_S = 8.0


@dataclass
class Supervisor:
    """The servers of one `ragstream up`.

    Attributes:
        servers: In the order of their start.
        environment: Of all of them.
        logs: The folder of their output.
        say: Takes a line for people.
    """

    servers: list[Server]
    environment: dict[str, str]
    logs: Path
    say: Callable[[str], None]
    _deaths: dict[str, list[float]] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)
    _reaper: OrphanReaper = field(default_factory=OrphanReaper)

    def start(self) -> None:
        """Start all of them, at the same time.

        Raises:
            OSError: One cannot be started.
        """
        for server in self.servers:
            self._start(server)

    def wait_until(self, server: Server) -> None:
        """Return once a server answers.

        Raises:
            OperationFailed: One of them ended, or this one is silent for `START_TIMEOUT_S`.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(server.probe):
            for one in self.servers:
                if one.died():
                    raise self._failed(one, "ended")
            if time.monotonic() > deadline:
                raise OperationFailed(
                    f"{server.name} does not answer after {START_TIMEOUT_S:.0f} s",
                    hint=f"its output is in {server.log}",
                )
            time.sleep(POLL_S)

    def watch(self) -> None:
        """Start again what dies, until a signal unwinds.

        Raises:
            OperationFailed: One dies `MOST_DEATHS` times in `WINDOW_S` seconds.
            OSError: One cannot be started.
        """
        while True:
            self.look(time.monotonic())
            time.sleep(POLL_S)

    def look(self, now: float) -> None:
        """Look once: note what died since the last look, start what is due.

        What a dead server had started goes on, for it may be a run that finishes its work; the end
        of everything ends that too.

        Args:
            now: Seconds of a monotonic clock.

        Raises:
            OperationFailed: One dies `MOST_DEATHS` times in `WINDOW_S` seconds.
            OSError: One cannot be started.
        """
        self._tell()
        for server in self.servers:
            server.forget_ended()
            if server.name in self._due:
                if now >= self._due[server.name]:
                    del self._due[server.name]
                    self._start(server)
            elif server.died():
                self._note_death(server, now)

    def stop(self) -> None:
        """End all of them and what they started; a second Ctrl-C waits for it too."""
        with held_back():
            stop_all(self.servers)
            self._reaper.dismiss()

    def _start(self, server: Server) -> None:
        with held_back():
            start(server, self.environment, self.logs)
            self._tell()

    def _tell(self) -> None:
        """Tell the reaper of every group, so that a kill of this process ends them as well."""
        self._reaper.tell([process.pid for one in self.servers for process in one.groups()])

    def _note_death(self, server: Server, now: float) -> None:
        recent = [at for at in self._deaths.get(server.name, []) if now - at < WINDOW_S] + [now]
        self._deaths[server.name] = recent
        if len(recent) >= MOST_DEATHS:
            raise self._failed(server, f"ended {len(recent)} times within a minute, last")
        pause = pause_before(len(recent))
        after = f" in {pause:.0f} s" if pause else ""
        self.say(f"{server.name} ended {cause(server)}; it is started again{after}")
        self._due[server.name] = now + pause

    def _failed(self, server: Server, what: str) -> OperationFailed:
        said, _, next_ = server.last_words().partition("\nnext: ")
        return OperationFailed(
            f"{server.name} {what} {cause(server)}: {said.removeprefix('error: ')}",
            hint=f"{next_}{'; ' if next_ else ''}its output is in {server.log}",
        )


def pause_before(attempt: int) -> float:
    """Return the seconds before a start: none before the first, then 1, 2, 4 and 8.

    Args:
        attempt: Deaths within the window, this one included; from 1.
    """
    return 0.0 if attempt < 2 else min(2.0 ** (attempt - 2), LONGEST_PAUSE_S)


def cause(server: Server) -> str:
    """Say how a server that died came to its end."""
    code = server.process.returncode if server.process is not None else None
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with code {code}"
