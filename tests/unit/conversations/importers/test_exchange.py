"""Laws of turning messages with parents into exchanges."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.importers.exchange import (
    SHOWN_TOOLS,
    Conversation,
    Message,
    exchanges,
    iso_time,
    not_kept,
    turn_of,
)

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def talk(*messages: Message, current: str = "", title: str = "") -> Conversation:
    return Conversation("chatgpt", "c1", title, messages, current)


def said(conversation: Conversation) -> list[tuple[str, str, bool]]:
    turns = [(e, turn_of(conversation, e, now=NOW)) for e in exchanges(conversation)]
    return [(turn.user_text, turn.assistant_text, e.is_current) for e, turn in turns]


@st.composite
def graphs(draw):
    """Messages whose parents are any of them, none, or one that is not there."""
    count = draw(st.integers(0, 12))
    roles = st.sampled_from(["user", "assistant", "none"])
    return [
        Message(str(n), str(draw(st.integers(-1, count))), draw(roles), f"text {n}")
        for n in range(count)
    ]


@given(graphs())
def test_no_text_of_anyone_is_lost_whatever_the_parents(messages):
    found = list(exchanges(talk(*messages)))
    asked = [e.question.id for e in found if e.question]
    answered = {part.id for e in found for part in e.answer}
    assert set(asked) == {m.id for m in messages if m.role == "user"}
    assert answered == {m.id for m in messages if m.role == "assistant"}


@given(graphs())
def test_ids_are_of_the_content_and_no_exchange_comes_twice(messages):
    conversation = talk(*messages)
    first, again = ([turn_of(conversation, e, now=NOW).id for e in exchanges(conversation)]
                    for _ in range(2))  # fmt: skip
    assert first == again
    assert len(set(first)) == len(first)


@given(st.lists(st.sampled_from(["user", "assistant"]), max_size=12), st.integers(0, 12))
def test_a_longer_export_keeps_the_ids_of_what_is_finished(roles, cut):
    messages = [Message(str(n), str(n - 1), role, f"t{n}") for n, role in enumerate(roles)]
    whole = {turn_of(talk(*messages), e, now=NOW).id for e in exchanges(talk(*messages))}
    part = talk(*messages[:cut])
    assert {turn_of(part, e, now=NOW).id for e in exchanges(part) if e.is_finished} <= whole


def taken(conversation: Conversation, kept: dict[str, list[str]], most: int) -> None:
    """Keep up to so many new turns of a conversation: id → ids of the messages in it."""
    for whole in exchanges(conversation):
        part = not_kept(conversation, whole, kept.__contains__)
        id_ = turn_of(conversation, part, now=NOW).id
        if id_ not in kept and most > 0:
            most -= 1
            asked = [part.question] if part.question else []
            kept[id_] = [message.id for message in (*asked, *part.answer)]


@st.composite
def looks(draw):
    """At which message each look at a growing conversation ends, and how many turns it keeps."""
    cuts = sorted(draw(st.lists(st.integers(0, 12), max_size=4)))
    return [(cut, draw(st.integers(0, 3))) for cut in cuts]


LINES = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.booleans()), max_size=12)


@given(LINES, looks())
def test_each_message_comes_once_however_often_a_conversation_was_taken_unfinished(lines, looks):
    messages = [
        Message(str(n), str(n - 1), role, f"t{n}", finished=ends and role == "assistant")
        for n, (role, ends) in enumerate(lines)
    ]
    kept: dict[str, list[str]] = {}
    for cut, most in [*looks, (len(messages), 99)]:  # a look that breaks off keeps a first part
        taken(talk(*messages[:cut]), kept, most)
    assert sorted(map(int, sum(kept.values(), []))) == list(range(len(messages)))


@given(graphs(), looks())
def test_of_branches_that_grew_no_message_is_lost(messages, looks):
    kept: dict[str, list[str]] = {}
    for cut, most in [*looks, (len(messages), 99)]:
        taken(talk(*messages[:cut]), kept, most)
    written = {message.id for message in messages if message.role != "none"}
    assert set(sum(kept.values(), [])) == written


def test_an_edited_question_and_an_answer_asked_for_again_are_branches():
    conversation = talk(
        Message("q", "", "user", "How?"),
        Message("a1", "q", "assistant", "So."),
        Message("a2", "q", "assistant", "Better so."),
        Message("q2", "a2", "user", "And then?"),
        Message("q2b", "a2", "user", "And now?"),
        Message("b", "q2b", "assistant", "Now this."),
        current="b",
    )
    assert said(conversation) == [
        ("How?", "So.", False),
        ("How?", "Better so.", True),
        ("And then?", "", False),
        ("And now?", "Now this.", True),
    ]


def test_results_of_parallel_tools_make_no_branches():
    conversation = talk(
        Message("q", "", "user", "Look."),
        Message("t1", "q", "assistant", named=("tool: Read a.py",)),
        Message("t2", "t1", "assistant", named=("tool: Read b.py",)),
        Message("r1", "t1", "none"),
        Message("r2", "t2", "none"),
        Message("a", "r2", "assistant", "Done."),
    )
    assert said(conversation) == [
        ("Look.", "[tool: Read a.py]\n\n[tool: Read b.py]\n\nDone.", True)
    ]


def test_an_answer_that_ends_with_a_call_is_still_being_written():
    conversation = talk(
        Message("q", "", "user", "Count."),
        Message("a", "q", "assistant", "Let me count."),
        Message("c", "a", "assistant"),
    )
    assert [e.is_finished for e in exchanges(conversation)] == [False]


def test_many_tool_calls_are_counted():
    calls = tuple(f"tool: Read {n}.py" for n in range(SHOWN_TOOLS + 5))
    question = Message("q", "", "user", "?")
    ((_, answer, _),) = said(talk(question, Message("a", "q", "assistant", "Done.", named=calls)))
    assert answer.count("[tool: Read") == SHOWN_TOOLS
    assert answer.endswith("Done.\n\n[and 5 more tool calls]")


def test_half_a_character_becomes_a_mark():
    ((asked, _, _),) = said(talk(Message("q", "", "user", "a \ud83d b")))
    assert asked == "a \ufffd b"


def test_a_name_says_format_day_and_id_and_stays_if_the_title_changes():
    first = Message("q", "", "user", "?", "2025-03-01T10:00:00+00:00")
    name = talk(first, title="Locks").session
    assert name.startswith("chatgpt-20250301-")
    assert talk(first, title="Other", current="q").session == name
    assert Conversation("chatgpt", "c2", "Locks", (first,)).session != name


def test_what_follows_a_finished_answer_is_another_one():
    first = [Message("q", "", "user", "Two?"), Message("a", "q", "assistant", "2", finished=True)]
    later = [Message("c", "a", "none"), Message("b", "c", "assistant", "Reviewed.", finished=True)]
    assert said(talk(*first)) == [("Two?", "2", True)]
    assert said(talk(*first, *later)) == [("Two?", "2", True), ("", "Reviewed.", True)]


def test_times_of_exports():
    assert iso_time(0) == "1970-01-01T00:00:00+00:00"
    assert iso_time("2025-05-26T07:27:40.079Z") == "2025-05-26T07:27:40.079000+00:00"
    assert iso_time("2025-05-26") == "2025-05-26T00:00:00+00:00"
    assert [iso_time(v) for v in (None, "soon", 1e30, True, [])] == [""] * 5
