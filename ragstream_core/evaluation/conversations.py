"""Judged conversations: their turns as records of a journal, their questions with their session.

A corpus is one of conversations if every row has ``meta.conv`` and ``meta.turn``. A row is one
turn of one speaker; a question is asked against its own conversation.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UsageError
from ragstream_core.evaluation.retrieval import Row

METRICS = ("R@10", "MRR", "nDCG@10", "MRR@10")

# Category of questions whose premise is false: nothing there is to be found.
ADVERSARIAL = 5
_DATES = ("%I:%M %p on %d %B, %Y", "%Y-%m-%d %H:%M", "%Y/%m/%d (%a) %H:%M", "%Y/%m/%d")

# What the history takes for no time at all: such a turn is shown without a date.
NO_TIME = "1970-01-01T00:00:00+00:00"


def is_conversations(documents: Sequence[Row]) -> bool:
    """Return whether a corpus is one of conversations."""
    metas = [document.get("meta") for document in documents]
    return bool(metas) and all(
        isinstance(meta, dict) and "conv" in meta and "turn" in meta for meta in metas
    )


def sessions_of(documents: Sequence[Row]) -> dict[str, str]:
    """Return conversation → the name of the session that holds it."""
    names = dict.fromkeys(str(document["meta"]["conv"]) for document in documents)
    return {name: f"conversation-{number}" for number, name in enumerate(names, 1)}


def turns_of(documents: Sequence[Row]) -> list[Turn]:
    """Return the turns of all conversations in order; a row without a text has none."""
    sessions = sessions_of(documents)
    return [
        Turn(
            id=str(document["id"]),
            session_id=sessions[str(document["meta"]["conv"])],
            timestamp=timestamp_of(str(document["meta"].get("date") or "")),
            user_text=str(document["text"]),
            speakers=(str(document["meta"].get("speaker") or "user"), "assistant"),
        )
        for document in _in_order(documents)
        if str(document["text"]).strip()
    ]


def _in_order(documents: Sequence[Row]) -> list[Row]:
    try:
        return sorted(documents, key=lambda d: (str(d["meta"]["conv"]), int(d["meta"]["turn"])))
    except (TypeError, ValueError):
        raise UsageError("meta.turn must be the number of the turn in its conversation") from None


def timestamp_of(date: str) -> str:
    """Return a date as the journal writes it; one that cannot be read is no time."""
    with contextlib.suppress(ValueError):
        when = dt.datetime.fromisoformat(date)
        return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).isoformat()
    for form in _DATES:
        with contextlib.suppress(ValueError):
            return dt.datetime.strptime(date, form).replace(tzinfo=dt.UTC).isoformat()
    return NO_TIME


def questions_of(queries: Sequence[Row], documents: Sequence[Row]) -> list[Row]:
    """Return the questions that can be answered, each with its session in ``meta``."""
    sessions = sessions_of(documents)
    times: dict[str, str] = {}
    for document in _in_order(documents):
        time = timestamp_of(str(document["meta"].get("date") or ""))
        if time != NO_TIME:
            times[str(document["meta"]["conv"])] = time
    found = []
    for query in queries:
        meta = dict(query.get("meta") or {})
        session = sessions.get(str(meta.get("conv")))
        if session is None:
            raise UsageError(f"question {query['id']!r}: meta.conv names no conversation")
        if meta.get("category") == ADVERSARIAL:
            continue
        if "category" in meta:
            meta.setdefault("kind", f"category {meta['category']}")
        asked = query.copy()
        asked["meta"] = {**meta, "session": session, "now": times.get(str(meta["conv"]), NO_TIME)}
        found.append(asked)
    return found
