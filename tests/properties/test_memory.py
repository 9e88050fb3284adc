"""Memory's laws: its budget comes first and the sum never exceeds the prompt's; no index drifts."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.digest import DigestLine, extract, fitted, rendered, turns_of
from ragstream_core.conversations.journal.records import Cleared, Turn
from ragstream_core.conversations.question_index import Asked, QuestionIndex, from_bytes, to_bytes
from ragstream_core.conversations.question_match import same_words, stands_alone
from ragstream_core.errors import BudgetExceeded
from ragstream_core.prompts.blocks import digest_tokens, history_texts
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.history_update import embed
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from ragstream_core.wiring import answer_cache
from ragstream_core.wiring.journal import append_turn, journal, tag
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.ragstack_memory import RagstackMemory
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import ingested_workspace

count = HeuristicTokenCounter().count
QUESTION = "Who holds the project lock of the catalog, and which gate is open?"


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    root = tmp_path_factory.mktemp("memory")
    found = ingested_workspace(root, {"rerank.backend": "none"})
    for n in range(30):
        words = " ".join(f"gate {n} lock {k} of the catalog" for k in range(3 + n % 7))
        said = f"The project lock number {n} is held: {words}. It rained."
        append_turn(found, Turn("", f"s{n % 4}", "", f"Which lock is number {n}?", said))
    embed(found)
    return found


@settings(max_examples=60, deadline=None)
@given(
    budget=st.integers(400, 3_000), max_tokens=st.integers(0, 900),
    summary=st.integers(0, 400), window=st.integers(1, 20), top_k=st.integers(1, 8),
    recency_k=st.integers(0, 3), context=st.integers(50, 4_000),
    chars=st.one_of(st.just(0), st.integers(1, 2_500)),
)  # fmt: skip
def test_memory_takes_at_most_its_share_and_the_sum_is_never_exceeded(
    space, budget, max_tokens, summary, window, top_k, recency_k, context, chars
):
    chosen = {
        "memory.enabled": True, "memory.max_tokens": max_tokens, "memory.summary_tokens": summary,
        "memory.rolling_window": window, "memory.top_k": top_k, "prompt.budget_tokens": budget,
        "history.recency_k": recency_k, "retrieval.max_context_tokens": context,
        "memory.max_chars": chars,
    }  # fmt: skip
    request = PromptRequest(QUESTION, ("demo",), settings=chosen, session="s1")
    try:
        prompt = run_prompt(space, pin_inputs(space, request))
    except BudgetExceeded:  # the fixed parts alone are over it: refused, never exceeded
        return
    assert count(prompt.extras.super_prompt) <= budget
    digest = str(prompt.recentConversation.get("digest", ""))
    assert count(digest) <= summary and len(turns_of(digest)) <= window
    rows = [row for row in prompt.extras.decisions if row.stage == "a4" and row.kept]
    older = [row for row in rows if row.chunk_id.startswith("history::")]
    assert len(older) <= top_k
    assert digest_tokens(digest, count) + sum(row.tokens for row in older) <= max_tokens
    shown = [text for source, text in history_texts(prompt) if source.id != "recent"]
    assert not chars or sum(map(len, shown)) <= chars


def test_memory_comes_before_the_documents(space):
    chosen = {"memory.enabled": True, "memory.max_tokens": 700, "prompt.budget_tokens": 1_500,
              "history.recency_k": 0}  # fmt: skip
    shares = {}
    for name, more in (("first", {}), ("off", {"memory.enabled": False})):
        request = PromptRequest(QUESTION, ("demo",), settings={**chosen, **more}, session="s1")
        prompt = run_prompt(space, pin_inputs(space, request))
        rows = [row for row in prompt.extras.decisions if row.stage == "a4"]
        shares[name] = [
            sum(row.tokens for row in rows if row.chunk_id.startswith("history::") is past)
            for past in (True, False)
        ]
    assert shares["first"][0] > shares["off"][0] > 0
    assert 0 < shares["first"][1] <= shares["off"][1]
    request = PromptRequest(QUESTION, ("demo",), settings=chosen, session="s1")
    assert 0 < count(RagstackMemory(space, request).build_memory_context(QUESTION)) <= 700


class Embedder:
    """Vectors of the text alone; counts what it is given."""

    fingerprint = "toy"

    def __init__(self):
        self.given: list[str] = []

    def embed_queries(self, texts):
        self.given += texts
        rows = [np.random.default_rng(abs(hash(text))).normal(size=8) for text in texts]
        return np.asarray([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_an_index_brought_up_step_by_step_is_the_one_made_at_once(make_journal, seed):
    """Turns, tags and clearings in any order: what was read in parts is what is read as a whole."""
    dice, here = random.Random(seed), make_journal()
    embedder = Embedder()
    known: list[Turn] = []
    for step in range(dice.randrange(1, 25)):
        what = dice.random()
        if what < 0.6 or not known:
            scope = dice.choice(("", "a", "b"))
            turn = Turn("", "s", "", f"question {step}?", "answer", scope=scope,
                        origin=dice.choice(("", "", "cached")),
                        status=dice.choice(("complete", "complete", "partial")))  # fmt: skip
            known.append(append_turn(here, turn).record)
        elif what < 0.85:
            tag(here, dice.choice(known).id, **{dice.choice(("add", "remove")): ["BLUE"]})
        else:
            seq = dice.randrange(1, journal(here).newest().seq + 1)
            journal(here).append([Cleared(f"c{step}", "2026-10-05T10:00:00Z", ((seq, seq),), "x")])
            known = [turn for turn in known if turn.id in visible(here)]
        if dice.random() < 0.5:
            answer_cache.questions(here, "m", embedder)
        if dice.random() < 0.3:
            answer_cache.write(here, "m", embedder)
        if dice.random() < 0.3:
            here.caches.questions.pop("m", None)
    parts = answer_cache.questions(here, "m", embedder)
    here.caches.questions.clear()
    answer_cache.index_path(here, "m").unlink(missing_ok=True)
    whole = answer_cache.questions(here, "m", Embedder())
    assert parts.rows == whole.rows
    assert np.array_equal(parts.vectors, whole.vectors) or not whole.rows


def visible(here):
    from ragstream_core.wiring.journal import show

    return {row.id for row in show(here)}


@pytest.fixture(scope="module")
def make_journal(tmp_path_factory):
    def make():
        return open_workspace(tmp_path_factory.mktemp("journal"))

    return make


WORDS = ("lock", "prompt", "not", "from", "to", "5", "top_k=5", "top_k=6", "Alice", "Bob", "the",
         "enable", "disable", "catalog", "ingest", "without", "<5", ">5")  # fmt: skip
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)


@given(questions, questions)
def test_questions_of_the_same_words_are_an_equivalence(one, other):
    assert same_words(one, one) and same_words(one, f"  {one} ?")
    assert same_words(one, other) == same_words(other, one)
    small = {"the", "to"}
    if [w for w in one.split() if w not in small] != [w for w in other.split() if w not in small]:
        assert not same_words(one, other)


@given(st.lists(st.sampled_from(WORDS[:6]), min_size=3, max_size=6).map(" ".join))
def test_a_question_that_points_back_never_stands_alone(text):
    for back in (f"And {text}", f"What about {text}?", f"{text} with it?", f"{text} like that",
                 f"Does the same hold of {text}?", f"{text} today?"):  # fmt: skip
        assert not stands_alone(back)


texts = st.text(max_size=400)


@given(texts, texts)
def test_a_line_of_the_digest_is_one_line_of_bounded_length(question, answer):
    line = DigestLine(7, "2026-10-05", extract(question, answer)).line
    assert "\n" not in line and len(line) <= 500 and turns_of(line) == [7]


@given(st.lists(st.tuples(st.integers(1, 10**6), texts), max_size=12), st.integers(0, 300))
def test_a_digest_keeps_its_budget_and_its_newest_lines(rows, budget):
    told = [DigestLine(seq, "2026-10-05", extract(text, text)) for seq, text in rows]
    text = rendered(told, count=count, budget_tokens=budget)
    assert count(text) <= budget
    kept = turns_of(text)
    assert kept == [row.seq for row in told][len(told) - len(kept) :]
    assert fitted(text, count=count, budget_tokens=budget) == text


@given(st.integers(0, 20), st.randoms(use_true_random=False))
def test_a_file_of_questions_is_read_as_written_or_not_at_all(n, dice):
    vectors = np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32)
    rows = [Asked(f"t{i}", i + 1, "ab" * 32, dice.choice("ab"), bool(i % 2)) for i in range(n)]
    index = QuestionIndex("m").moved(seq=n, chain="c", added=zip(rows, vectors, strict=True))
    data = to_bytes(index)
    again = from_bytes(data)
    assert (again.model, again.seq, again.chain, again.rows) == ("m", n, "c", tuple(rows))
    assert np.array_equal(again.vectors, index.vectors)
    at = dice.randrange(len(data))
    broken = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    with pytest.raises(Exception, match="damaged"):
        from_bytes(broken)


def test_the_newest_of_equals_comes_first_and_other_scopes_never():
    unit = np.array([[1, 0], [1, 0], [0, 1], [1, 0]], dtype=np.float32)
    rows = [Asked("a", 1, "x", "s"), Asked("b", 2, "x", "s"), Asked("c", 3, "x", "s"),
            Asked("d", 4, "x", "other")]  # fmt: skip
    index = QuestionIndex("m").moved(seq=4, chain="c", added=zip(rows, unit, strict=True))
    found = index.nearest(unit[0], scope="s", least=0.5)
    assert [match.asked.turn for match in found] == ["b", "a"]
    assert index.nearest(unit[0], scope="s", least=1.0) == found  # the least score still counts
    assert len(index.nearest(unit[0], scope="s", least=0.0)) == 3
