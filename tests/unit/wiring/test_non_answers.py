"""Extracts, refusals and answers given again: kept with their origin, and no prompt's evidence."""

import pytest

from ragstream_core.answers.answer import REFUSAL
from ragstream_core.answers.extract import EXTRACT
from ragstream_core.conversations import non_answers
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.index import selection, snapshot
from ragstream_core.index.check import WHOLE
from ragstream_core.ingestion import history_worker
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.blocks import history_texts
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records import evolve
from ragstream_core.services.chat import ChatSession
from ragstream_core.services.external_reply import append_external
from ragstream_core.services.history_update import embed
from ragstream_core.services.search import search_turns
from ragstream_core.wiring import conversation_memory
from ragstream_core.wiring.answering import answer, prepare
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import append_turn, show
from tests.unit.services.memory.conftest import unreachable
from tests.workspaces import ask, ingested_workspace

ASKED = "Which zebra paints the harbour crane at night?"
EXTRACTED = "No language model answered (connection refused). This is what they say.\n\n- A zebra."
KINDS = {
    "extract": {"assistant_text": EXTRACTED, "origin": "extract"},
    "extract before origins": {"assistant_text": EXTRACTED},
    "refused": {"assistant_text": REFUSAL, "origin": "refused"},
    "refused before origins": {"assistant_text": REFUSAL},
    "cached": {"assistant_text": "The striped zebra paints it.", "origin": "cached"},
    "failed": {"assistant_text": "The zebra paints", "origin": "failed"},
    "broken off": {"assistant_text": "The zebra paints", "status": "partial"},
}


@pytest.fixture
def space(tmp_path):
    return ingested_workspace(tmp_path)


def say(space, session="s", **fields):
    return append_turn(space, Turn("", session, "", ASKED, **fields))


def past(prompt):
    return [i for i in prompt.views_by_stage["retrieval"] if i.startswith("history::")]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_kept_and_found_nowhere(space, kind):
    entry = say(space, **KINDS[kind])
    stats = embed(space)
    assert (stats.turns, History(space).status().pending) == (0, 0)
    assert [row.seq for row in show(space)] == [entry.seq]
    prompt = ask(space, ASKED)
    assert past(prompt) == [] and not history_texts(prompt)
    assert search_turns(space, ASKED) == ()
    assert not any("not searched yet" in w.message for w in prompt.extras.warnings)
    assert History(space).check(WHOLE) == []


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "broken off"])
def test_an_index_and_a_selection_that_hold_it_already_leave_it_out(space, kind, monkeypatch):
    """They were made before: the worker embedded every whole turn, the file said nothing of it."""
    say(space, **KINDS[kind])
    kept = say(space, "other", assistant_text="The zebra Erna paints the crane.")
    with monkeypatch.context() as before:
        before.setattr(history_worker, "is_evidence", lambda turn: turn.status == "complete")
        for name in ("is_non_answer", "is_non_answer_text"):
            before.setattr(selection, name, lambda _: False)
        made = selection.build
        before.setattr(selection, "RULES", 1)

        def silent(*args, **more):
            view = made(*args, **more)
            view.meta.pop("non_answers")
            view.non_answers = None
            return view

        before.setattr(selection, "build", silent)
        assert embed(space).turns == 2
    snapshot.forget_snapshots()
    view = snapshot.open_snapshot(space.layout.history_snapshot)
    assert view.non_answers is None and len(view.chunk_ids) == 2
    old = past(ask(space, ASKED))
    assert [i.split("::")[2] for i in old] == [f"{kept.seq}-{kept.seq}"]
    assert History(space).check(WHOLE) == []
    embed(space)
    snapshot.forget_snapshots()
    view = snapshot.open_snapshot(space.layout.history_snapshot)
    assert len(view.non_answers) == 1 and past(ask(space, ASKED)) == old


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "broken off"])
def test_recent_history_shows_the_question_alone(space, kind):
    say(space, assistant_text="The zebra Erna paints it.")
    say(space, **KINDS[kind])
    body = ask(space, "And by day?", session="s").recentConversation["body"]
    assert body.count(ASKED) == 2 and body.count("assistant:") == 1 and "Erna" in body


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "broken off"])
def test_where_nothing_else_is_there_no_model_is_asked(space, kind):
    say(space, **KINDS[kind])
    embed(space)
    for session in ("", "s"):
        prompt = ask(space, ASKED, session=session)
        bare = evolve(prompt, final_selection_ids=[])
        model = ScriptedChat(entries=[{"say": "A zebra."}])
        prepared = prepare(space, bare, model=model, session="s")
        assert prepared.grounding == "nothing"
        assert answer(space, prepared).text == REFUSAL and not model.asked
    assert show(space)[-1].turn.origin == "refused"


def test_an_answer_says_where_it_comes_from(space):
    """Also of a model that refuses as it is told to, and of one that cannot be reached."""
    talk = ChatSession(space, PromptRequest("any", ("demo",), session="s"), model=unreachable())
    talk.ask("Who holds the project lock?")
    refusing = ScriptedChat(entries=[{"say": REFUSAL}])
    ChatSession(space, PromptRequest("any", ("demo",), session="s"), model=refusing).ask(
        "Who else?"
    )
    assert [row.turn.origin for row in show(space)] == [EXTRACT, "refused"]
    append_external(space, Turn("", "s", "", "And who else?", REFUSAL))
    assert non_answers.is_non_answer(show(space)[-1].turn)


def test_it_is_looked_for_in_the_journal_only_for_a_file_that_says_nothing(space, monkeypatch):
    say(space, assistant_text="The zebra Erna paints it.")
    embed(space)

    def asked(*_):
        raise AssertionError("the file says it")

    monkeypatch.setattr(conversation_memory, "non_answers_in", asked)
    assert past(ask(space, ASKED))
