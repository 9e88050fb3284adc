"""Nothing of a conversation is lost between RECENT HISTORY and the search (R-217, R-218, R-224).

Ten conversations of 60 turns, a fact planted in each: whatever the budget, it is shown or searched.
"""

import itertools
import random

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.index.view import open_view
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.history_update import embed
from ragstream_core.wiring import search
from ragstream_core.wiring.conversation_memory import G_OP, ConversationMemory
from ragstream_core.wiring.journal import append_records
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import ingested_workspace

SESSIONS = [f"talk-{n}" for n in range(10)]
TURNS = 60
BUDGETS = (200, 350, 600, 1_000, 1_500, 2_000, 3_000, 5_000, 8_000)
SYLLABLES = ("ba", "de", "ki", "lo", "mu", "ra", "se", "ti", "vo", "zu")
SMALL_TALK = (
    "We spoke about the weather for a while.",
    "Nobody had an opinion on the menu of the week!",
    "As far as anyone could tell, the meeting went on; it ended late.",
    "Is there more coffee?",
)


def name_of(session, n):
    return "".join(SYLLABLES[int(digit)] for digit in f"{SESSIONS.index(session)}{n:03}") + "x"


def fact_of(session, n):
    return f"The pump {name_of(session, n)} runs at {n} bar in hall {SESSIONS.index(session)}."


def turn_of(session, n, chance):
    """A turn with its fact somewhere in the question or in an answer of up to 900 tokens."""
    said = [chance.choice(SMALL_TALK) for _ in range(chance.choice((1, 3, 10, 40, 80)))]
    said.insert(chance.randrange(len(said) + 1), fact_of(session, n))
    told = (" ".join(said), "Noted.") if chance.random() < 0.2 else ("And then?", " ".join(said))
    return Turn("", session, f"2026-10-{1 + n // 3:02}T10:00:00+00:00", *told)


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    root = tmp_path_factory.mktemp("talks")
    found = ingested_workspace(root, {"rerank.backend": "none"})
    chance = random.Random(7)
    pairs = itertools.product(range(1, TURNS + 1), SESSIONS)
    append_records(found, [turn_of(session, n, chance) for n, session in pairs])
    embed(found)
    return found


@pytest.fixture(scope="module")
def pinned(space):
    def pin(session, budget, k=4):
        request = PromptRequest("What of the pumps?", ("demo",), session=session)
        changes = {"history.recent_max_tokens": budget, "history.recency_k": k}
        return pin_inputs(space, request).with_changes(G_OP, changes)

    return pin


@pytest.fixture(scope="module")
def rows_of(space, pinned):
    """The rows of the selection that hold each fact."""
    texts = list(ConversationMemory(space, pinned(SESSIONS[0], 200)).view.text("text"))
    facts = [fact_of(session, n) for session in SESSIONS for n in range(1, TURNS + 1)]
    return {fact: [row for row, text in enumerate(texts) if fact in text] for fact in facts}


@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize("k", [0, 1, 4, 12])
def test_every_fact_is_shown_or_searched(space, pinned, rows_of, session, k):
    for budget in BUDGETS:
        memory = ConversationMemory(space, pinned(session, budget, k))
        shown, found = memory.rendered()[0].get("body", ""), memory.eligible.mask
        lost = [
            n
            for n in range(1, TURNS + 1)
            if (fact := fact_of(session, n)) not in shown and not found[rows_of[fact]].any()
        ]
        assert lost == []


def test_every_fact_that_is_not_shown_is_found(space, pinned, rows_of):
    retriever = search.retriever(space, space.config.chain())
    documents = [open_view(space.index_dir("demo"), generation=0)]
    for session in SESSIONS:
        memory = ConversationMemory(space, pinned(session, 600), "retrieval")
        shown, past = memory.rendered()[0]["body"], memory.past()
        for n in range(1, TURNS + 1):
            fact = fact_of(session, n)
            asked = f"At how many bar does the pump {name_of(session, n)} run?"
            hits = retriever.search(documents, asked, pieces=[asked], past=past)[:50]
            ids = {memory.view.chunk_ids[row] for row in rows_of[fact]}
            assert fact in shown or not ids.isdisjoint(hit.chunk_id for hit in hits)


@pytest.mark.parametrize("budget", [200, 2_000, 8_000])
def test_every_fact_is_in_the_prompt_that_asks_for_it(space, budget):
    chance = random.Random(budget)
    settings = {"history.recent_max_tokens": budget}
    for session in SESSIONS:
        for n in (chance.randrange(1, TURNS - 4), chance.randrange(TURNS - 4, TURNS + 1)):
            asked = f"At how many bar does the pump {name_of(session, n)} run?"
            request = PromptRequest(asked, ("demo",), session=session, settings=settings)
            assert (
                fact_of(session, n)
                in run_prompt(space, pin_inputs(space, request)).extras.super_prompt
            )
