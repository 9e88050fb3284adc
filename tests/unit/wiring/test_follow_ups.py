"""A follow-up in a session is searched with what was asked before; shown, pinned, switched off."""

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.prompts.inputs import inputs_of
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.journal import append_turn
from tests.workspaces import ask, ask_and_keep, ingested_workspace

SUMS = {
    "K-10": ("12 kg", "199 euros"),
    "K-20": ("18 kg", "249 euros"),
    "K-30": ("25 kg", "310 euros"),
}
DOCS = {
    f"{name}.md": f"# Pump {name}\n\n## Weight\n\nThe pump {name} weighs {weight}.\n\n"
    f"## Price\n\nThe pump {name} costs {price}.\n"
    for name, (weight, price) in SUMS.items()
}
FIRST = ("What is the warranty of the K-20 pump?", "Five years.")
QUESTION = "And its weight?"


@pytest.fixture
def space(tmp_path):
    made = ingested_workspace(tmp_path / "data", docs=DOCS)
    append_turn(made, Turn("", "s", "2026-10-01T10:00:00+00:00", *FIRST))
    return made


def queries(prompt):
    return [piece.text for piece in prompt.extras.query_pieces]


def test_it_is_searched_with_what_it_is_about_and_the_prompt_says_so(space):
    prompt = ask(space, QUESTION, session="s")
    assert queries(prompt) == ["K-20 pump weight?"]
    told = prompt.extras.super_prompt
    assert told.rstrip().endswith("And its weight?\n\n(read as: And its weight? (K-20 pump))")
    assert any(
        "'K-20 pump weight?' (history.follow_ups)" in n.message for n in prompt.extras.events
    )
    assert "18 kg" in told.partition("RECENT HISTORY")[0]


def test_a_given_conversation_counts_the_same(space):
    prompt = ask(space, QUESTION, conversation=(FIRST,))
    assert queries(prompt) == ["K-20 pump weight?"]
    shown = ask(space, QUESTION, conversation=(FIRST,), settings={"history.recency_k": 0})
    assert queries(shown) == ["K-20 pump weight?"]


def test_without_a_session_or_switched_off_it_is_searched_as_it_stands(space):
    off = ask(space, QUESTION, session="s", settings={"history.follow_ups": False})
    for prompt in (off, ask(space, QUESTION), ask(space, QUESTION, session="other")):
        assert queries(prompt) == [QUESTION]
        assert "read as" not in prompt.extras.super_prompt
        assert "follow_up" not in inputs_of(prompt).texts


def test_a_question_of_its_own_has_the_same_inputs_with_and_without(space):
    own = "What does the pump K-30 cost?"
    assert "follow_up" not in inputs_of(ask(space, own, session="s")).texts
    assert queries(ask(space, own, session="s")) == [own]


def test_a_chain_goes_on_over_turns(space):
    append_turn(space, Turn("", "s", "2026-10-01T10:01:00+00:00", QUESTION, "18 kg."))
    assert queries(ask(space, "And the price?", session="s")) == ["the price K-20 pump?"]


def test_it_is_replayed_to_the_byte_after_the_conversation_went_on(space):
    key = ask_and_keep(space, QUESTION, session="s")
    append_turn(space, Turn("", "s", "2026-10-01T10:02:00+00:00", "Who made the K-10 pump?", "X."))
    assert replay_prompt(space, key).verdict == "identical"
