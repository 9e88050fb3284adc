"""A conversation that comes with the question: pinned, shown, replayed, and in no one's journal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.given import entries_in, pairs_in, pinned_text
from ragstream_core.errors import UsageError
from ragstream_core.prompts.inputs import PromptRequest, inputs_of, request_from
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.prompt_inputs import pin_inputs
from tests.workspaces import ask, ask_and_keep, ingested_workspace

PAIRS = (
    ("Who holds the project lock?", "One writer holds it."),
    ("What is the lexical signal?", "BM25."),
)
FOLLOW_UP = "And the others?"


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ingested_workspace(tmp_path_factory.mktemp("given") / "data")


@given(st.lists(st.tuples(st.text(), st.text())), st.integers(0, 10))
def test_the_newest_pairs_are_pinned_to_the_letter(pairs, k):
    kept = tuple(pairs[-k:]) if k else ()
    text = pinned_text(pairs, k)
    assert pairs_in(text) == kept and bool(text) == bool(kept)
    said = [(e.record.user_text, e.record.assistant_text) for e in entries_in(text)]
    assert said == list(kept)


def test_it_is_shown_without_a_date_and_as_a_quotation(space):
    prompt = ask(space, FOLLOW_UP, conversation=PAIRS)
    text = prompt.extras.super_prompt
    recent = text[text.index("RECENT HISTORY") :]
    assert "| user: Who holds the project lock?" in recent and "| assistant: BM25." in recent
    assert prompt.recentConversation["pairs_count"] == 2
    assert prompt.recentConversation["range"] == (0, 0)


def test_another_conversation_is_another_prompt_and_none_is_as_before(space):
    plain, first = ask(space, FOLLOW_UP), ask(space, FOLLOW_UP, conversation=PAIRS[:1])
    assert inputs_of(plain).key != inputs_of(first).key
    assert "conversation" not in inputs_of(plain).texts
    assert "RECENT HISTORY" not in plain.extras.super_prompt
    locked = PromptRequest("What is said?", ("demo",), files=("catalog.md",), lock=True)
    with_talk = PromptRequest(
        "What is said?", ("demo",), files=("catalog.md",), lock=True, conversation=PAIRS
    )
    pinned = [pin_inputs(space, r).timeless.key for r in (locked, with_talk)]
    assert pinned[0] == pinned[1], "under the lock nothing but the files is shown"


def test_only_as_many_pairs_are_pinned_as_are_shown(space):
    many = tuple((f"question {n}?", f"answer {n}") for n in range(500))
    request = PromptRequest(
        FOLLOW_UP, ("demo",), conversation=many, settings={"history.recency_k": 3}
    )
    assert pairs_in(pin_inputs(space, request).texts["conversation"]) == many[-3:]


def test_it_replays_to_the_same_bytes_and_leaves_no_turn(space):
    key = ask_and_keep(space, FOLLOW_UP, conversation=PAIRS)
    verdict = replay_prompt(space, space.store.find(key))
    assert verdict.verdict == "identical", verdict
    assert not journal(space).newest().seq


def test_a_request_without_one_keeps_the_reference_that_it_had(space):
    plain = PromptRequest(FOLLOW_UP, ("demo",))
    told = PromptRequest(FOLLOW_UP, ("demo",), conversation=PAIRS)
    reference = space.store.put_request(plain)
    path = space.store.root / "inbox" / f"{reference.removeprefix('sha256:')}.json"
    assert "conversation" not in json.loads(path.read_text())
    for request in (plain, told):
        assert space.store.request(space.store.put_request(request)) == request


@pytest.mark.parametrize("pairs", [[["one"]], [3], ["abc"], 7])
def test_what_is_no_conversation_is_no_request(pairs):
    with pytest.raises(UsageError, match="not a prompt request"):
        request_from({"text": "What?", "projects": ["demo"], "conversation": pairs})


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(UsageError, match="not UTF-8"):
        PromptRequest("What?", ("demo",), conversation=(("\ud800", ""),))


def test_turns_of_the_journal_are_found_beside_it(space, tmp_path):
    """What comes with a question hides no turn of the search: the two have no numbers in common."""
    from ragstream_core.conversations.journal.records import Turn
    from ragstream_core.wiring.conversation_memory import ConversationMemory
    from ragstream_core.wiring.journal import append_turn

    other = ingested_workspace(tmp_path / "data")
    append_turn(other, Turn("", "talk", "", "Who holds the lock?", "One writer."))
    request = PromptRequest(FOLLOW_UP, ("demo",), conversation=PAIRS, session="talk")
    memory = ConversationMemory(other, pin_inputs(other, request))
    assert memory._turns_shown == {}
    assert [pair.entry.record.user_text for pair in memory.recent_shown] == [p[0] for p in PAIRS]
    assert "not searchable yet" in memory.rendered()[1][0], "the turn is one of the others"
