"""Turns and conversations as rows for people: the journal with its tags of now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragstream_core.history.fold import fold
from ragstream_core.history.journal import Journal
from ragstream_core.history.records import Asked, Entry, Turn


def turn_rows(
    log: Journal, session: str = "", *, tags: Sequence[str] = (), last: int = 0
) -> list[dict[str, Any]]:
    """Return turns in the order of the journal, with their tags of now; cleared ones never.

    Args:
        log: The journal.
        session: Only this conversation; "": all.
        tags: Only turns with all of these.
        last: Only so many, the newest; 0: all.

    Returns:
        Rows ``id, seq, session_id, timestamp, user_text, assistant_text, tags, source, projects,
        active_dbs, importance, status, prompt_key, speakers, citations, versions, origin,
        origin_turn``; a question without an answer has the status ``unanswered``.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    rows = list(_rows(log, session, set(tags)))
    return rows[-last:] if last else rows


def session_rows(log: Journal) -> list[dict[str, Any]]:
    """Return the conversations, the one with the newest turn last.

    Returns:
        Rows ``session_id, turns, first, last`` (timestamps), ``seq`` (newest), ``tags`` (counted).

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    return sessions_of(turn_rows(log))


def sessions_of(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the conversations of some turns; see `session_rows`.

    Args:
        rows: Of `turn_rows`, in their order.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row["session_id"]
        known = found.pop(name, {"session_id": name, "turns": 0, "first": row["timestamp"]})
        counts = dict(known.get("tags", {}))
        for label in row["tags"]:
            counts[label] = counts.get(label, 0) + 1
        new = {"turns": known["turns"] + 1, "last": row["timestamp"], "seq": row["seq"]}
        found[name] = {**known, **new, "tags": counts}
    return list(found.values())


def _rows(log: Journal, session: str, tags: set[str]) -> Iterator[dict[str, Any]]:
    entries = [e for e in log.entries() if isinstance(e.record, Turn | Asked)]
    folded = fold(log.entries())
    answered = {e.record.asked for e in entries if isinstance(e.record, Turn) and e.record.asked}
    for entry in entries:
        record = entry.record
        if folded.is_hidden(entry.seq) or record.id in answered:
            continue
        turn = _as_turn(record) if isinstance(record, Asked) else record
        if isinstance(turn, Turn) and session in ("", turn.session_id):
            now = folded.tags(turn.id, turn.tags)
            if tags <= set(now):
                yield _row(entry, turn, now)


def _as_turn(asked: Asked) -> Turn:
    return Turn(
        asked.id,
        asked.session_id,
        asked.timestamp,
        asked.user_text,
        projects=asked.projects,
        prompt_key=asked.prompt_key,
        status="unanswered",
    )


def _row(entry: Entry, turn: Turn, tags: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": turn.id,
        "seq": entry.seq,
        "session_id": turn.session_id,
        "timestamp": turn.timestamp,
        "user_text": turn.user_text,
        "assistant_text": turn.assistant_text,
        "tags": list(tags),
        "source": turn.source,
        "projects": list(turn.projects),
        "active_dbs": list(turn.active_dbs),
        "importance": turn.importance,
        "status": turn.status,
        "prompt_key": turn.prompt_key,
        "speakers": list(turn.speakers),
        "citations": [dict(c) for c in turn.citations],
        "versions": [dict(v) for v in turn.versions],
        "origin": turn.origin,
        "origin_turn": turn.origin_turn,
    }
