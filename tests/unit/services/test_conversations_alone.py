"""Without any project, prompts, answers and chats work over conversations alone."""

import pytest

from ragstream_core.conversations.journal.records import OWN_PROJECTS, Turn
from ragstream_core.errors import UsageError
from ragstream_core.library import RAGstream
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.chat import ChatSession
from ragstream_core.services.explain import explanation
from ragstream_core.services.history_update import embed
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.journal import append_turn, show
from tests.unit.services.memory.conftest import unreachable
from tests.workspaces import ask, ask_and_keep, hashed_workspace

ASKED = "Which name did we choose for the grey cat?"
SAID = "We take Dis as the name of the grey cat!"


@pytest.fixture
def space(tmp_path):
    found = hashed_workspace(tmp_path)
    when = "2025-04-18T10:00:00+00:00"
    told = "A name for the grey cat?", "Dis or Frigg would suit a grey cat."
    append_turn(found, Turn("", "cats", when, *told, used_in=OWN_PROJECTS))
    append_turn(found, Turn("", "cats", when, SAID, "Good choice.", used_in=OWN_PROJECTS))
    append_turn(found, Turn("", "bread", when, "Flour?", "Rye.", used_in=OWN_PROJECTS))
    embed(found)
    return found


def test_a_prompt_quotes_the_turn_and_is_replayed_and_explained(space):
    key = ask_and_keep(space, ASKED, ())
    prompt = ask(space, ASKED, ())
    assert SAID in prompt.extras.super_prompt and not prompt.extras.inputs.pins
    assert replay_prompt(space, key).verdict == "identical"
    assert explanation(space, key)
    rag = RAGstream(space.data_dir, settings={"embeddings.backend": "hashed"})
    assert SAID in str(rag.prompt(ASKED, ()))


def test_a_chat_answers_from_it_and_goes_on(space):
    model = ScriptedChat(entries=[{"say": "Dis."}])
    talk = ChatSession(space, PromptRequest("any", ()), model=model)
    assert talk.ask(ASKED).answer.text == "Dis." and SAID in model.asked[0][-1].text
    assert talk.ask("Since when?").origin == "model"
    assert "Dis." in model.asked[1][-1].text
    assert show(space)[-1].to_json()["used_in"] == ["nowhere"]
    away = ChatSession(space, PromptRequest("any", ()), model=unreachable()).ask(ASKED)
    assert away.origin == "extract" and SAID in away.answer.text


def test_where_there_is_no_conversation_either_it_says_so(tmp_path):
    with pytest.raises(UsageError, match="no project given"):
        ask(hashed_workspace(tmp_path), ASKED, ())
    for more in ({"files": ("a.md",)}, {"lock": True}, {"as_of": 1}, {"diffs": ("a.md",)}):
        with pytest.raises(UsageError, match="no project given"):
            PromptRequest(ASKED, (), **more)
