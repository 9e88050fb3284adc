"""Conversations as files: JSONL that comes back equal, Markdown for people.

An exported row is ``{"v": 1, "seq": n, "sha256": …, "rec": {…}}``: the record as the journal holds
it and the digest of its canonical JSON. Cleared turns are not exported, nor are notices of
clearing: they speak of numbers of this journal. Plain rows ``{"user", "assistant", "timestamp",
"session", "speakers", "tags"}`` can be read as well.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import (
    Asked,
    Entry,
    Fact,
    TagEdit,
    Turn,
    record_from,
    record_json,
    uuid7_at,
)
from ragstream_core.conversations.sessions import HistoryTurn
from ragstream_core.conversations.use import UNSAID, Use
from ragstream_core.errors import IntegrityError, UsageError
from ragstream_core.records.identity import canonical_json, sha256_hex

FORMAT = 1
_PLAIN = {"user", "assistant", "timestamp", "session", "speakers", "tags", "id", "source"}
Imported = Turn | Asked | TagEdit | Fact


def exported(log: Journal, session: str = "") -> Iterator[Entry]:
    """Yield what an export holds: turns, questions, tag edits and facts, none that was cleared."""
    folded = apply_edits(log.entries())
    turns: set[str] = set()
    for entry in log.entries():
        record = entry.record
        if isinstance(record, Turn | Asked) and not folded.is_hidden(entry.seq):
            if session in ("", record.session_id):
                turns.add(record.id)
                yield entry
        elif isinstance(record, TagEdit | Fact) and record.turn in turns:
            yield entry
        elif isinstance(record, Fact) and not (
            session or record.turn or folded.is_hidden(entry.seq)
        ):
            yield entry  # written by hand: it belongs to no conversation


def jsonl_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield one line of JSON for each record, with its newline."""
    for entry in entries:
        rec = record_json(entry.record)
        row = {"v": FORMAT, "seq": entry.seq, "sha256": sha256_hex(canonical_json(rec)), "rec": rec}
        yield json.dumps(row, ensure_ascii=False) + "\n"


def markdown(rows: Sequence[HistoryTurn]) -> str:
    """Return turns as Markdown, a section a conversation; texts stay verbatim, quoted."""
    parts: list[str] = []
    session = None
    for row in rows:
        if row.session != session:
            session = row.session
            parts.append(f"# {session}\n")
        tags = " ".join(f"`{tag}`" for tag in row.tags)
        parts.append(f"## {row.turn.timestamp} · turn {row.seq} {tags}".rstrip() + "\n")
        sides = zip(row.turn.speakers, (row.user, row.assistant), strict=True)
        parts += [f"**{name}**\n\n{_quoted(text)}\n" for name, text in sides if text]
    return "\n".join(parts)


def imported(
    lines: Iterable[str], *, now: dt.datetime, session: str, use: Use = UNSAID
) -> list[Imported]:
    """Read records from the lines of an export, or from plain rows.

    A plain row gets an id made from its content, so that a second import finds it again.
    """
    seen: Counter[str] = Counter()
    records: list[Imported] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise UsageError(f"line {number} is not JSON") from None
            if not isinstance(row, dict):
                raise UsageError(f"line {number} is not a row of a conversation")
            if "rec" in row:
                records.append(_exported_record(row, number))
            else:
                turn = _plain_turn(row, number, seen, now=now, session=session)
                records.append(use.put(turn))
    return records


def _exported_record(row: Mapping[str, object], number: int) -> Imported:
    if row.get("v") != FORMAT:
        raise IntegrityError(
            f"line {number} has format {row.get('v')!r}, this program knows {FORMAT}",
            hint="use the newer version of RAGstream; nothing was imported",
        )
    if not isinstance(row["rec"], dict) or sha256_hex(canonical_json(row["rec"])) != row.get(
        "sha256"
    ):
        raise IntegrityError(f"line {number} is not what was exported; nothing was imported")
    record = record_from(row["rec"])
    if not isinstance(record, Imported):
        raise UsageError(f"line {number} holds a record that cannot be imported")
    if isinstance(record, Turn):  # an answer from elsewhere is never given again as ours
        return replace(record, scope="")
    return record


def _plain_turn(
    row: Mapping[str, Any], number: int, seen: Counter[str], *, now: dt.datetime, session: str
) -> Turn:
    unknown = sorted(set(row) - _PLAIN)
    if unknown or not ("user" in row or "assistant" in row):
        what = f"unknown keys {', '.join(unknown)}" if unknown else "neither user nor assistant"
        raise UsageError(f"line {number}: {what}", hint=f"keys are {', '.join(sorted(_PLAIN))}")
    texts = {key: row.get(key, "") for key in ("user", "assistant", "timestamp", "session", "id")}
    speakers, tags = row.get("speakers", ["user", "assistant"]), row.get("tags", [])
    lists = isinstance(speakers, list) and isinstance(tags, list) and len(speakers) == 2
    if not lists or not all(isinstance(v, str) for v in [*texts.values(), *speakers, *tags]):
        raise UsageError(f"line {number}: a value has another type than text or list of texts")
    content = canonical_json(row)
    seen[content] += 1
    return Turn(
        texts["id"] or _content_id(f"{seen[content]} {content}", texts["timestamp"]),
        texts["session"] or session,
        _zoned(texts["timestamp"], number) if texts["timestamp"] else now.isoformat(),
        texts["user"],
        texts["assistant"],
        tags=tuple(tags),
        source=str(row.get("source", "file")),
        speakers=(speakers[0], speakers[1]),
    )


def _content_id(content: str, timestamp: str) -> str:
    """Return an id that depends on the content alone, so that it is the same at every import."""
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
    return uuid7_at(timestamp, digest[:10])


def _zoned(timestamp: str, number: int) -> str:
    """Return a time with a zone; one without is taken as UTC."""
    try:
        when = dt.datetime.fromisoformat(timestamp)
    except ValueError:
        raise UsageError(
            f"line {number}: not a time: {timestamp!r}", hint="2026-10-05T14:07:09+02:00"
        ) from None
    return timestamp if when.tzinfo else when.replace(tzinfo=dt.UTC).isoformat()


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
