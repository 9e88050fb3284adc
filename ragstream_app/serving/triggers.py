"""What runs by itself in Dagster: its sensors and schedules, as its web server knows them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from ragstream_app.serving.ports import direct

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
