"""What runs by itself in Dagster: its sensors and schedules, as its web server knows them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ragstream_app.serving.ports import direct

QUERY = """{ repositoriesOrError { ... on RepositoryConnection { nodes {
  sensors { name sensorState { status } }
  schedules { name scheduleState { status } }
} } } }"""
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Triggers:
    """The names of what starts runs by itself, and of what is switched off, each sorted."""

    sensors: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


def triggers_at(url: str) -> Triggers:
    """Ask Dagster's web server; nothing is named where it does not say.

    Args:
        url: Of the web server, without a slash at the end.
    """
    import urllib.request

    request = urllib.request.Request(
        f"{url}/graphql",
        data=json.dumps({"query": QUERY}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with direct().open(request, timeout=TIMEOUT_S) as answer:
            return _read(json.load(answer))
    except (OSError, ValueError, LookupError, TypeError):
        return Triggers()


def _read(answer: dict[str, Any]) -> Triggers:
    found: dict[str, list[str]] = {"sensor": [], "schedule": [], "off": []}
    for node in answer["data"]["repositoriesOrError"]["nodes"]:
        for kind in ("sensor", "schedule"):
            for one in node[f"{kind}s"]:
                running = one[f"{kind}State"]["status"] == "RUNNING"
                found[kind if running else "off"].append(one["name"])
    return Triggers(*(tuple(sorted(found[kind])) for kind in ("sensor", "schedule", "off")))
