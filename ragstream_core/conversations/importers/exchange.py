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
from functools import cached_property
from typing import Literal

from ragstream_core.conversations.journal.records import Turn, uuid7_at

# ``none``: a message that only links others (a tool's result, a hidden instruction).
Role = Literal["user", "assistant", "none"]
# Tool calls of one answer that are named one by one; the rest is counted.
SHOWN_TOOLS = 12
# Letters of all answers of a conversation on all of its branches; a part of several counts as often
# as it comes.
MOST_OF_ALL_WAYS = 128 << 20
_STEP = 64
_ID_LETTERS = 8


class TooManyBranches(Exception):
    """Raised for a conversation whose branches, each from its beginning, outgrow the limit."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    id: str  # unique in its conversation
    parent: str  # id of the message before it; one that is not there makes it a first one
    role: Role  # who wrote it
    text: str = ""  # its words; may be empty
    timestamp: str = ""  # ISO 8601 with a zone; "" if the format has none
    model: str = ""  # name of the model that wrote it, if known
    # attachments, tool calls and the like, one line each, in their order
    named: tuple[str, ...] = ()
    finished: bool = False  # whether the format says that the answer ended with it
    # texts that belong to it: a pasted text, a document, what a program printed
    given: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # kinds of what is not kept of it, once each time
    # what earlier versions took it for, where that was another role; by that the turns that they
    # kept are known again
    role_before: Role | None = None


@dataclass(frozen=True)
class Conversation:
    """A conversation as it was exported."""

    format: str  # name of the importer
    id: str  # its id there
    title: str  # its title; may be empty
    messages: Sequence[Message]  # all of them, of all branches, parents before children
    current: str = ""  # id of the newest message of the branch that is shown; "": the last one
    project: str = ""  # project or folder that it belongs to; may be empty
    problems: tuple[str, ...] = ()  # what could not be read of it, a line each

    @cached_property
    def session(self) -> str:
        """The name under which it is kept: format, first day and digits of its id.

        The title is no part of it: it may be changed, and may hold what nobody should read.
        """
        times = [message.timestamp for message in self.messages if message.timestamp]
        day = min(times, default="")[:10].replace("-", "")
        digest = hashlib.sha256(_utf8(self.id)).hexdigest()
        return "-".join(filter(None, [self.format, day, digest[:_ID_LETTERS]]))

    @cached_property
    def newest(self) -> str:
        """Time of its newest message; "" if the format has no times."""
        return max((m.timestamp for m in self.messages if m.timestamp), default="")

    @cached_property
    def left_out(self) -> dict[str, int]:
        """Kind of what is not kept of it → how often."""
        return dict(sorted(Counter(k for m in self.messages for k in m.left_out).items()))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question with one of its answers."""

    # the message of the user; None where the conversation begins with an answer
    question: Message | None
    answer: tuple[Message, ...]  # messages of the answer, oldest first; may be empty
    is_current: bool  # whether it lies on the branch that is shown
    is_last: bool  # whether nothing follows it on its branch

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
    """
    budget = [MOST_OF_ALL_WAYS]
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
        ways = [way for message in answering for way in _ways(message, children, budget)]
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
        if message.role == "assistant" and (message.text or message.named or message.given):
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


def _ways(
    first: Message, children: dict[str, list[Message]], budget: list[int]
) -> Iterator[tuple[Message, ...]]:
    """Yield each way from a message down to where the next question, or nothing, follows."""
    way: list[Message] = []
    waiting = [(0, first)]
    while waiting:
        depth, message = waiting.pop()
        del way[depth:]
        way.append(message)
        then = children.get(message.id, [])
        further = [m for m in then if m.role != "user"]
        if len(further) < len(then) or not then:
            budget[0] -= sum(_STEP + len(m.text) + sum(map(len, m.given)) for m in way)
            if budget[0] < 0:
                raise TooManyBranches
            yield tuple(way)
        waiting += [(depth + 1, m) for m in reversed(further)]


def turn_of(conversation: Conversation, exchange: Exchange, *, now: dt.datetime) -> Turn:
    """Return the journal's record of an exchange; the same export makes the same record."""
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
        conversation.session,
        when or now.isoformat(),
        _text([exchange.question] if exchange.question else []),
        _text(parts),
        source="file",
        status="complete" if exchange.is_finished else "partial",
        speakers=("user", clean(model) or "assistant"),
        imported=tuple((name, clean(value)) for name, value in told.items() if value),
    )


def turn_ids(conversation: Conversation, exchange: Exchange) -> list[str]:
    """Return the ids of an exchange as it grew, message by message; the last one is that of all."""
    grown = hashlib.sha256(_utf8(conversation.format))
    alone = hashlib.sha256(_utf8(conversation.id))
    found: list[str] = []
    when, named = "", False
    for part in (exchange.question, *exchange.answer):
        grown.update(b"\x00" + _utf8(part.id if part else ""))
        if part is not None and part.given:
            grown.update(b"\x00given")  # earlier versions kept it without that
        if part is not None:
            when, named = when or part.timestamp, named or bool(part.id)
            found.append(uuid7_at(when, (grown if named else alone).digest()[:10]))
    return found


def not_kept(
    conversation: Conversation, exchange: Exchange, is_kept: Callable[[str], bool]
) -> Exchange:
    """Return what is to be kept of an exchange of which a beginning may have been kept before.

    An answer that was taken unfinished and then went on adds what it went on with, without the
    question: what is kept never changes, and nothing comes twice. Where no beginning is kept it is
    the exchange itself, where all is its last part.
    """
    while not is_kept((ids := turn_ids(conversation, exchange))[-1]):
        kept = next((at for at in reversed(range(len(ids))) if is_kept(ids[at])), None)
        if kept is None:
            break
        answered = kept if exchange.question else kept + 1
        exchange = replace(exchange, question=None, answer=exchange.answer[answered:])
    return exchange


def kept_before(conversation: Conversation, is_kept: Callable[[str], bool]) -> frozenset[str]:
    """Return the ids of the messages that stand in turns which an earlier version kept.

    Earlier versions left out some messages and the texts that belong to others, so that their
    turns have other ids.
    """
    messages = conversation.messages
    before = [replace(m, role=m.role_before or m.role, given=()) for m in messages]
    earlier = replace(conversation, messages=before)
    found: set[str] = set()
    if before == list(messages):
        return frozenset()
    for whole in exchanges(earlier):
        left = whole
        while True:
            ids = turn_ids(earlier, left)
            kept = next((at for at in reversed(range(len(ids))) if is_kept(ids[at])), None)
            if kept is None:
                break
            asked = [left.question] if left.question else []
            found |= {message.id for message in [*asked, *left.answer][: kept + 1]}
            if kept == len(ids) - 1:
                break
            left = replace(left, question=None, answer=left.answer[kept + 1 - len(asked) :])
    return frozenset(found)


def beyond(exchange: Exchange, covered: frozenset[str], *, texts: bool) -> Exchange:
    """Return what an exchange holds beyond messages that are kept already."""

    def rest(message: Message) -> Message | None:
        if message.id not in covered:
            return message
        return replace(message, text="", named=()) if texts and message.given else None

    answer = tuple(left for part in exchange.answer if (left := rest(part)))
    question = rest(exchange.question) if exchange.question else None
    return replace(exchange, question=question, answer=answer)


def iso_time(value: object) -> str:
    """Return a time of an export as ISO 8601 with a zone; "" for what is no time."""
    try:
        if isinstance(value, bool):
            return ""
        if isinstance(value, int | float):
            return dt.datetime.fromtimestamp(value, dt.UTC).isoformat()
        when = dt.datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return ""
    return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).isoformat()


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
        blocks += [text.strip("\n") for text in message.given if text.strip()]
    if calls["more"]:
        blocks.append(f"[and {calls['more']} more tool calls]")
    return clean("\n\n".join(blocks))


def clean(text: str) -> str:
    """Return a text without halves of characters, which no file can hold: U+FFFD in their place."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
