"""What every importer yields: exchanges of a conversation, and records that could not be read.

An importer turns one conversation of its format into messages with parents; `exchanges` makes
questions with their answers of these, on every branch.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ragstream_core.conversations.journal.records import Turn, uuid7

Role = Literal["user", "assistant", "none"]
"""``none``: a message that only links others (a tool's result, a hidden instruction)."""
SHOWN_TOOLS = 12
"""Tool calls of one answer that are named one by one; the rest is counted."""
_ID_LETTERS = 8


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        id: Unique in its conversation.
        parent: Id of the message before it; one that is not there makes it a first one.
        role: Who wrote it.
        text: Its words; may be empty.
        timestamp: ISO 8601 with a zone; "" if the format has none.
        model: Name of the model that wrote it, if known.
        named: Attachments, tool calls and the like, one line each, in their order.
        finished: Whether the format says that the answer ended with it.
    """

    id: str
    parent: str
    role: Role
    text: str = ""
    timestamp: str = ""
    model: str = ""
    named: tuple[str, ...] = ()
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as it was exported.

    Attributes:
        format: Name of the importer.
        id: Its id there.
        title: Its title; may be empty.
        messages: All of them, of all branches, parents before children.
        current: Id of the newest message of the branch that is shown; "": the last one.
        project: Project or folder that it belongs to; may be empty.
        problems: What could not be read of it, a line each.
    """

    format: str
    id: str
    title: str
    messages: Sequence[Message]
    current: str = ""
    project: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question with one of its answers.

    Attributes:
        question: The message of the user; None where the conversation begins with an answer.
        answer: Messages of the answer, oldest first; may be empty.
        is_current: Whether it lies on the branch that is shown.
        is_last: Whether nothing follows it on its branch.
    """

    question: Message | None
    answer: tuple[Message, ...]
    is_current: bool
    is_last: bool

    @property
    def timestamp(self) -> str:
        """When it was asked, else when it was answered; "" if the format has no times."""
        parts = [*([self.question] if self.question else []), *self.answer]
        return next((part.timestamp for part in parts if part.timestamp), "")

    @property
    def is_finished(self) -> bool:
        """Whether no more of the answer can come."""
        return not self.is_last or any(part.finished for part in self.answer)


def exchanges(conversation: Conversation) -> Iterator[Exchange]:
    """Yield every question with every answer it got, in the order of the messages.

    An edited question or an answer that was asked for again makes a branch of its own; what
    stands before the branching is yielded once.

    Args:
        conversation: Parents may be missing or go round in a circle: such a message is a first
            one, and none is yielded twice.
    """
    by_id: dict[str, Message] = {}
    for message in conversation.messages:
        by_id.setdefault(message.id, message)
    parents = _parents(by_id)
    children = _children(by_id, parents)
    written = [m.id for m in by_id.values() if m.role != "none"]
    leaf = conversation.current if conversation.current in by_id else (written or [""])[-1]
    shown = _branch(leaf, parents)
    greetings = [m for m in by_id.values() if m.id not in parents and m.role != "user"]
    questions = [m for m in by_id.values() if m.role == "user"]
    for question, first in [(None, greetings), *((m, children.get(m.id, [])) for m in questions)]:
        answering = [message for message in first if message.role != "user"]
        ways = [way for message in answering for way in _ways(message, children)]
        found: dict[tuple[str, ...], Exchange] = {}
        for way in ways or [()]:
            end = way[-1] if way else question
            leads_on = bool(end and children.get(end.id))
            answers = list(_answers(question, way))
            for number, (asked, part) in enumerate(answers, 1):
                ids = tuple(message.id for message in (*asked, *part))
                is_current = all(message.id in shown for message in (*asked, *part))
                if ids and (is_current or ids not in found):  # ways may share their beginning
                    is_last = number == len(answers) and not leads_on
                    found[ids] = Exchange(asked[0] if asked else None, part, is_current, is_last)
        yield from found.values()


def _answers(
    question: Message | None, way: tuple[Message, ...]
) -> Iterator[tuple[tuple[Message, ...], tuple[Message, ...]]]:
    """Yield the question with its answer, and what was said after the answer had ended.

    A program may go on by itself; an answer that was finished stays as it was.
    """
    asked: tuple[Message, ...] = (question,) if question else ()
    part: list[Message] = []
    for message in way:
        if message.role == "assistant" and (message.text or message.named):
            part.append(message)
            if message.finished:
                yield asked, tuple(part)
                asked, part = (), []
    if asked or part:
        yield asked, tuple(part)


def _parents(by_id: dict[str, Message]) -> dict[str, str]:
    """Return message → the one before it; a circle is cut where it was entered first."""
    parents = {m.id: m.parent for m in by_id.values() if m.parent in by_id}
    known: set[str] = set()
    for start in by_id:
        way: dict[str, None] = {}
        at = start
        while at in parents and at not in known and at not in way:
            way[at] = None
            at = parents[at]
        if at in way:
            del parents[at]
        known.update(way)
    return parents


def _children(by_id: dict[str, Message], parents: dict[str, str]) -> dict[str, list[Message]]:
    """Return message → those behind it, without ends that nobody wrote, such as tools' results."""
    behind = Counter(parents.values())
    empty = [m.id for m in by_id.values() if m.role == "none" and not behind[m.id]]
    left: set[str] = set()
    while empty:
        leaf = empty.pop()
        left.add(leaf)
        parent = parents.get(leaf, "")
        behind[parent] -= 1
        if parent and not behind[parent] and by_id[parent].role == "none":
            empty.append(parent)
    children: dict[str, list[Message]] = {}
    for id_, parent in parents.items():
        if id_ not in left:
            children.setdefault(parent, []).append(by_id[id_])
    return children


def _branch(leaf: str, parents: dict[str, str]) -> set[str]:
    found = {leaf}
    while leaf in parents:
        leaf = parents[leaf]
        found.add(leaf)
    return found


def _ways(first: Message, children: dict[str, list[Message]]) -> Iterator[tuple[Message, ...]]:
    """Yield each way from a message down to where the next question, or nothing, follows."""
    ways: list[tuple[Message, ...]] = [(first,)]
    while ways:
        way = ways.pop()
        then = children.get(way[-1].id, [])
        further = [message for message in then if message.role != "user"]
        if len(further) < len(then) or not then:
            yield way
        ways += [(*way, message) for message in reversed(further)]


def turn_of(conversation: Conversation, exchange: Exchange, *, now: dt.datetime) -> Turn:
    """Return the journal's record of an exchange; the same export makes the same record.

    Args:
        conversation: Where it stands.
        exchange: One of `exchanges`.
        now: Time of an exchange without one, with a zone.
    """
    parts = exchange.answer
    when = exchange.timestamp
    model = next((part.model for part in parts if part.model), "")
    told = {
        "format": conversation.format,
        "conversation": conversation.id,
        "title": conversation.title,
        "message": exchange.question.id if exchange.question else "",
        "model": model,
        "project": conversation.project,
        "branch": "" if exchange.is_current else "other",
    }
    return Turn(
        turn_ids(conversation, exchange)[-1],
        session_of(conversation),
        when or now.isoformat(),
        _text([exchange.question] if exchange.question else []),
        _text(parts),
        source="file",
        status="complete" if exchange.is_finished else "partial",
        speakers=("user", clean(model) or "assistant"),
        imported=tuple((name, clean(value)) for name, value in told.items() if value),
    )


def turn_ids(conversation: Conversation, exchange: Exchange) -> list[str]:
    """Return the ids of an exchange as it grew, message by message; the last one is that of all.

    Args:
        conversation: Where it stands.
        exchange: One of `exchanges`, or what is left of one.
    """
    grown = hashlib.sha256(_utf8(conversation.format))
    alone = hashlib.sha256(_utf8(conversation.id))
    found: list[str] = []
    when, named = "", False
    for part in (exchange.question, *exchange.answer):
        grown.update(b"\x00" + _utf8(part.id if part else ""))
        if part is not None:
            when, named = when or part.timestamp, named or bool(part.id)
            found.append(uuid7(_ms(when), (grown if named else alone).digest()[:10]))
    return found


def not_kept(
    conversation: Conversation, exchange: Exchange, is_kept: Callable[[str], bool]
) -> Exchange:
    """Return what is to be kept of an exchange of which a beginning may have been kept before.

    An answer that was taken unfinished and then went on adds what it went on with, without the
    question: what is kept never changes, and nothing comes twice.

    Args:
        conversation: Where it stands.
        exchange: One of `exchanges`.
        is_kept: Whether there is a turn of that id.

    Returns:
        The exchange if no beginning of it is kept; its last part if all of it is.
    """
    while not is_kept((ids := turn_ids(conversation, exchange))[-1]):
        kept = next((at for at in reversed(range(len(ids))) if is_kept(ids[at])), None)
        if kept is None:
            break
        answered = kept if exchange.question else kept + 1
        exchange = replace(exchange, question=None, answer=exchange.answer[answered:])
    return exchange


def session_of(conversation: Conversation) -> str:
    """Return the name under which a conversation is kept: format, first day and digits of its id.

    The title is no part of it: it may be changed, and may hold what nobody should read.
    """
    times = [message.timestamp for message in conversation.messages if message.timestamp]
    day = min(times, default="")[:10].replace("-", "")
    digest = hashlib.sha256(_utf8(conversation.id)).hexdigest()
    return "-".join(filter(None, [conversation.format, day, digest[:_ID_LETTERS]]))


def iso_time(value: object) -> str:
    """Return a time of an export as ISO 8601 with a zone; "" for what is no time.

    Args:
        value: Seconds since the epoch, or ISO 8601; one without a zone is taken as UTC.
    """
    try:
        if isinstance(value, bool):
            return ""
        if isinstance(value, int | float):
            return dt.datetime.fromtimestamp(value, dt.UTC).isoformat()
        when = dt.datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return ""
    return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).isoformat()


def _ms(timestamp: str) -> int:
    try:
        return max(0, int(dt.datetime.fromisoformat(timestamp).timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(messages: Iterable[Message]) -> str:
    """Return the words of messages and, in brackets, what came with them."""
    blocks, calls = [], Counter[str]()
    for message in messages:
        for line in message.named:
            calls["shown"] += 1
            if calls["shown"] <= SHOWN_TOOLS:
                blocks.append(f"[{line}]")
            else:
                calls["more"] += 1
        if message.text.strip():
            blocks.append(message.text.strip("\n"))
    if calls["more"]:
        blocks.append(f"[and {calls['more']} more tool calls]")
    return clean("\n\n".join(blocks))


def clean(text: str) -> str:
    """Return a text without halves of characters, which no file can hold: U+FFFD in their place."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
