"""A chat over 10,000 random splits: no marker is shown, no text is lost, no citation invented."""

import random
from dataclasses import replace

import pytest

from ragstream_core.answers.answer import REFUSAL
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records import evolve
from ragstream_core.records.chat import ChatDelta, ChatReply, ChatUsage
from ragstream_core.services.chat import ChatSession
from ragstream_core.wiring.make_prompt import make_prompt
from tests.properties.test_answering import FRAME, GAPS, LEAK, WORDS
from tests.workspaces import ingested_workspace

SPLITS = 10_000
QUESTION = "Who holds the project lock of the catalog?"


class Pieces:
    """A language model that says what it is given, in these pieces."""

    name, host, is_local = "pieces", "127.0.0.1:1", True

    def __init__(self):
        self.pieces, self.calls = [], 0

    def list_models(self):
        return [self.name]

    def price(self, input_tokens, output_tokens):
        return 0.0

    def stream(self, messages):
        self.calls += 1
        yield from map(ChatDelta, self.pieces)
        text = "".join(self.pieces)
        yield ChatDelta("", ChatReply(text, "complete", self.name, ChatUsage(1, 1)))


@pytest.fixture(scope="module")
def talk_of(tmp_path_factory):
    """Chats over one real prompt, made once; nothing is kept, so only the stream is at work."""
    root = tmp_path_factory.mktemp("stream")
    space = ingested_workspace(root, {"rerank.backend": "none"})
    request = PromptRequest("any", ("demo",), settings={"history.persist": "false"})
    made = make_prompt(space, replace(request, text=QUESTION))

    def talk(*, shown=True):
        model = Pieces()
        prompt = made.super_prompt if shown else evolve(made.super_prompt, final_selection_ids=[])
        shows = replace(made, super_prompt=prompt)
        patch.setattr("ragstream_core.services.chat.make_prompt", lambda workspace, request: shows)
        return ChatSession(space, request, model=model), model

    with pytest.MonkeyPatch.context() as patch:
        yield talk


def cut(text, dice):
    places = sorted(dice.randrange(len(text) + 1) for _ in range(dice.randrange(40)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def said(dice, markers):
    """Return an answer, and the words in it that are no marker."""
    parts, words = [], []
    for _ in range(dice.randrange(1, 20)):
        if dice.random() < 0.4:
            parts.append(dice.choice(markers))
        else:
            words.append(dice.choice(WORDS))
            parts.append(words[-1])
        parts.append(dice.choice(GAPS))
    return "".join(parts), words


def test_no_marker_is_shown_and_no_text_lost_in_ten_thousand_splits(talk_of):
    dice = random.Random(20261005)
    talk, model = talk_of()
    model.pieces = ["x"]
    talk.ask(QUESTION)
    issued = talk.prepared.issued
    markers = [answer_marker(one.source, one.id) for one in issued.values()]
    markers += [answer_marker("nowhere.md", "deadbeef"), FRAME[0], FRAME[-1], "[source: a.md]"]
    markers += [f"[{identifier}]" for identifier in issued]
    done = 0
    while done < SPLITS:
        text, words = said(dice, markers)
        if not any(c.isalnum() for c in "".join(words)):
            continue
        model.pieces, shown = [text], []
        whole = talk.ask(QUESTION).answer
        for _ in range(25):
            model.pieces, shown = cut(text, dice), []
            answer = talk.ask(QUESTION, show=shown.append).answer
            assert "".join(shown) == answer.text == whole.text, text
            assert not LEAK.search(answer.text), text
            assert answer.citations == whole.citations
            assert answer.raw == text
            assert not [c for c in answer.citations if c.verified and c.id not in issued]
            done += 1
        kept = "".join(c for c in whole.text if c.isalnum())
        assert all("".join(c for c in word if c.isalnum()) in kept for word in words), text


def test_the_refusal_is_exactly_the_sentence_and_asks_nobody(talk_of):
    dice = random.Random(3)
    talk, model = talk_of(shown=False)
    for _ in range(20):
        shown = []
        turn = talk.ask(QUESTION + " " + dice.choice(WORDS), show=shown.append)
        assert "".join(shown) == turn.answer.text == REFUSAL
        assert (turn.origin, turn.answer.citations, model.calls) == ("refused", (), 0)


def test_a_model_that_refuses_cites_nothing_wherever_it_is_cut(talk_of):
    dice = random.Random(5)
    talk, model = talk_of()
    model.pieces = ["x"]
    talk.ask(QUESTION)
    one = next(iter(talk.prepared.issued.values()))
    for text in (REFUSAL, f"{REFUSAL} {answer_marker(one.source, one.id)}"):
        for _ in range(50):
            model.pieces, shown = cut(text, dice), []
            answer = talk.ask(QUESTION, show=shown.append).answer
            assert "".join(shown).strip() == answer.text.strip() == REFUSAL
            assert answer.citations == () and answer.raw == REFUSAL
