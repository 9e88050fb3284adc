"""What was made in a data root since one last looked, in order: prompts, answers, syncs.

Whoever made it: a person at the command line or the page, a program, or Dagster. Figures and keys
only; what people asked and read is in none of it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import RagstreamError
from ragstream_core.prompts.store import raw_record
from ragstream_core.records.identity import Json
from ragstream_core.services import sync_project
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragstream_core.wiring.workspace import Workspace

# What is younger waits for the next look: a file written a moment earlier may still get its name
# after it, and a run of Dagster has told of what it made by then.
SETTLED_S = 5.0
# Written when a prompt is made; the record's own time moves when it answers again.
TEXT_NAME = "super_prompt.md"


@dataclass(frozen=True, slots=True)
class Made:
    """One thing that was made."""

    id: str  # its own, the same at each look
    at: str  # where to look on from: what came after it is after this
    figures: Mapping[str, Json] = field(default_factory=dict)  # what it is in numbers and keys
    folder: Path | None = None  # where it lies; None if it is a line of the conversations
    run_id: str = ""  # dagster's run that made it; empty if another face did


def prompts_since(workspace: Workspace, at: str) -> Iterator[Made]:
    """Yield the kept prompts that were made after a place, oldest first.

    Args:
        workspace: The data root.
        at: Of the last one that is known; empty: from the beginning.
    """
    known, _, key = at.partition(" ")
    since = (int(known), key) if known.isdigit() else (0, "")
    found = []
    for path in workspace.store.root.glob(f"*/{TEXT_NAME}"):
        with contextlib.suppress(FileNotFoundError):  # cleared just now
            found.append((path.stat().st_mtime_ns, path.parent.name))
    for made_ns, name in sorted(found):
        if since < (made_ns, name) and is_settled(made_ns):
            folder = workspace.store.root / name
            with contextlib.suppress(LookupError, TypeError):
                record = raw_record(folder)
                yield Made(
                    f"{name}@{made_ns}", f"{made_ns} {name}", _of_prompt(record), folder,
                    str(record["run_id"]),
                )  # fmt: skip


def _of_prompt(record: Mapping[str, Any]) -> dict[str, Json]:
    """Return the figures of a prompt's record."""
    return {
        "prompt_key": record["prompt_key"],
        "projects": ", ".join(pin["project"] for pin in record["inputs"]["pins"]),
        "tokens": record["tokens"],
        "seconds": round(sum(record["timings_ms"].values()) / 1000, 3),
        "language_model_calls": len(record.get("exchanges", ())),
        "edits_by_hand": len(record.get("edits", ())),
        "output_sha256": record["output_sha256"],
    }


def answers_since(workspace: Workspace, at: str) -> Iterator[Made]:
    """Yield the kept answers to prompts that came after a place, oldest first.

    Args:
        workspace: The data root.
        at: The number of the last record that is known; empty: from the beginning.
    """
    if not workspace.layout.history.is_dir():
        return
    seq = int(at) if at.isdigit() else 0
    for entry in journal(workspace).entries(seq + 1):
        turn = entry.record
        if not (isinstance(turn, Turn) and turn.prompt_key and turn.source == "chat"):
            continue
        if 0 <= _age_s(turn.timestamp) < SETTLED_S:
            return
        figures: dict[str, Json] = {
            "prompt_key": turn.prompt_key,
            "session": turn.session_id,
            "status": turn.status,
            "origin": turn.origin or "model",
            "citations": len(turn.citations),
            "unverified_citations": sum(not row.get("known", True) for row in turn.citations),
            "characters": len(turn.assistant_text),
        }
        yield Made(turn.id, str(entry.seq), figures)


def last_answer(workspace: Workspace, prompt_key: str, session: str) -> str:
    """Return the id of the newest answer to a prompt in a conversation; empty if none is kept."""
    for entry in journal(workspace).backwards():
        turn = entry.record
        if isinstance(turn, Turn) and (turn.prompt_key, turn.session_id) == (prompt_key, session):
            return turn.id
    return ""


def _age_s(timestamp: str) -> float:
    """Return how old a turn is, in seconds; times are for people, so any text may stand there."""
    try:
        when = dt.datetime.fromisoformat(timestamp)
    except ValueError:
        return SETTLED_S
    when = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
    return (dt.datetime.now(dt.UTC) - when).total_seconds()


def mirror_changed(workspace: Workspace, project: str) -> str:
    """Return when the mirrors of a project changed last, ns since the epoch; empty for none.

    Syncs between two looks are seen as one: a mirror has one state.
    """
    times = [path.stat().st_mtime_ns for path, _ in _states(workspace, project)]
    return str(max(times)) if times else ""


def mirror_of(workspace: Workspace, project: str) -> Made:
    """Return what the mirrors of a project hold now."""
    from ragstream_core.remote.state import load_state

    at = mirror_changed(workspace, project)
    states = [load_state(path, url) for path, url in _states(workspace, project)]
    rows = [row for state in states for row in state.rows.values()]
    figures: dict[str, Json] = {
        "files": sum(row is not None for row in rows),
        "being_fetched": sum(row is None for row in rows),
        "bytes": sum(row.size for row in rows if row),
    }
    return Made(f"{project}@{at}", at, figures)


def _states(workspace: Workspace, project: str) -> list[tuple[Path, str]]:
    """Return the file of each mirror of a project that is there, and its address."""
    from ragstream_core.remote.state import STATE  # not where folders are all there is

    try:
        roots = sync_project.roots(workspace, project)
    except RagstreamError:  # its ingest says what is wrong with it
        return []
    files = [(root.home / STATE, root.address.url) for root in roots]
    return [(path, url) for path, url in files if path.is_file()]


def not_to_come(at: str) -> str:
    """Return a place among prompts that is not behind now: a clock may have been put back."""
    ns, now = at.partition(" ")[0], time.time_ns()
    return f"{now} " if ns.isdigit() and int(ns) > now else at


def is_settled(ns: int) -> bool:
    """Whether something of a time is old enough to be told of."""
    return ns < time.time_ns() - SETTLED_S * 1e9
