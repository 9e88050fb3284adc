"""Laws of the chain's stages: idempotence, monotone θ, order, citations, budget, one decision."""

import copy
import random
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_core.agents import a4_condenser
from ragstream_core.agents.a0_preprocessing import Preprocessing
from ragstream_core.agents.a1_file_injector import FileInjector
from ragstream_core.agents.a2_audit import Audit
from ragstream_core.agents.a2_prompt_shaper import PromptShaper
from ragstream_core.agents.a3_nli_gate import NliGate
from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import FormatEnforcer
from ragstream_core.agents.filters import read_filters
from ragstream_core.agents.headers import default_alias_text, parse_aliases
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.agents.reranker import RerankerStage
from ragstream_core.errors import BudgetExceeded, EmptyPrompt
from ragstream_core.prompts.blocks import Layout, compose
from ragstream_core.prompts.citations import parse_markers
from ragstream_core.records import Chunk, SuperPrompt, evolve, from_json, to_json
from ragstream_core.records.stage_results import Scores
from ragstream_core.text.token_estimates import HeuristicTokenCounter

COUNTER = HeuristicTokenCounter()
OVERHEAD = 80
ALIASES = parse_aliases(default_alias_text())
SUBJECTS = ["gate", "index", "journal", "retriever", "cache", "Kafka", "fence", "token budget"]
VERBS = ["drops", "writes", "must never exceed", "reads at most 20 of", "ranks", "requires"]
OBJECTS = ["candidates", "vectors", "turns", "the manifest", "5 chunks", "the high-water mark"]
QUESTIONS = [
    "How does the gate rank candidates?",
    "Hello! What limits the token budget? Which file holds the journal?",
    "# Task\nFix the cache in app.py\n# Context\nIt drops turns.\n# Format\na table",
    "Write unit tests for the retriever. Compare it with Kafka. Explain the fence too.",
    "task: why\ncontext: the index writes vectors",
    '{"task": "Explain the index.", "tone": "dry"}',
]


class Files:
    """One small and one large file."""

    def names(self, project):
        return ["app.py", "big.yml"]

    def read(self, project, path):
        return b"x = 1\n" if path == "app.py" else b"key: value\n" * 2000


def corpus(seed):
    rng = random.Random(seed)

    def sentence():
        return f"The {rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} each day."

    chunks = []
    for i in range(rng.randrange(0, 14)):
        text = "\n\n".join(
            [f"## {rng.choice(SUBJECTS)}", " ".join(sentence() for _ in range(rng.randrange(1, 9)))]
        )
        text = rng.choice([text, text, chunks[-1].snippet if chunks else text])
        source = rng.choice([f"doc{i}.md", "app.py"])
        chunk_id = f"{source}::{i:064x}::{i}"
        meta = {"sha256": f"{i:064x}", "heading": rng.choice(SUBJECTS), "project": "demo"}
        chunks.append(Chunk(chunk_id, source, text, (0, len(text)), meta))
    scores = {c.id: drawn(rng) for c in chunks}
    return chunks, scores


def drawn(rng):
    cosines = [round(rng.uniform(-0.2, 0.9), 6) for _ in range(2)]
    score, bm25 = round(rng.random(), 6), round(max(0.0, rng.uniform(-4, 12)), 6)
    return Scores(score, 0.0, max(cosines), bm25, piece_cosines=tuple(cosines))


def retrieved(prompt, seed):
    chunks, scores = corpus(seed)
    if prompt.extras.pool.lock:
        chunks = []
    result = prompt if prompt.stage == "retrieval" else evolve(prompt, stage="retrieval")
    result.base_context_chunks = sorted(chunks, key=lambda c: -scores[c.id].score)
    result.views_by_stage["retrieval"] = [c.id for c in result.base_context_chunks]
    result.extras.scores = scores
    return result


def overlap(prompt_md, pieces, passages):
    words = set(prompt_md.lower().split())
    return [float(len(words & set(p.lower().split()))) for p in passages]


def front(lock=False):
    return [
        Preprocessing(ALIASES, lambda t: len(t.split()), 50),
        PromptShaper("We build RAGstream."),
        FileInjector(Files(), ["demo"], COUNTER, lock=lock, full_max_tokens=100),
    ]


def back(theta=0.2, budget=1500, kind="maxsim", layout=None, relative=0.42, words=0.5):
    layout = layout or Layout("Never guess.", "Memory line.")
    return [
        RerankerStage(overlap, kind, kind, top_k=6),
        NliGate(theta, relative=relative, words=words),
        Condenser(
            COUNTER, layout, budget_tokens=budget, max_context_tokens=budget // 2, token_overhead=20
        ),
        Audit(["app.py", "big.yml"]),
        FormatEnforcer(COUNTER, layout, budget),
        PromptBuilder(COUNTER, layout),
    ]


def run(question, seed, *, lock=False, **kwargs):
    prompt = SuperPrompt(body={"text": question})
    for stage in front(lock):
        prompt = stage(prompt)
    prompt = retrieved(prompt, seed)
    for stage in back(**kwargs):
        prompt = stage(prompt)
    return prompt


CASES = st.tuples(st.sampled_from(QUESTIONS), st.integers(0, 10_000))
LIMITS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@LIMITS
@given(CASES, st.booleans(), st.sampled_from(["maxsim", "cross_encoder"]))
def test_every_stage_twice_is_once_and_survives_json(case, lock, kind):
    question, seed = case
    prompt = SuperPrompt(body={"text": question})
    for stage in [*front(lock), None, *back(kind=kind)]:
        if stage is None:
            prompt = retrieved(prompt, seed)
            continue
        before = copy.deepcopy(to_json(prompt))  # to_json shares the prompt's values
        once = stage(prompt)
        assert to_json(prompt) == before, "a stage changed its input"
        assert to_json(stage(once)) == to_json(once), type(stage).__name__
        assert to_json(stage(from_json(before))) == to_json(once)
        prompt = once


@LIMITS
@given(CASES, st.floats(-1, 1), st.floats(-1, 1))
def test_a_higher_theta_never_keeps_more(case, one, other):
    low, high = sorted((one, other))
    kept = [set(run(*case, theta=theta).views_by_stage["a3"]) for theta in (low, high)]
    assert kept[1] <= kept[0]


@LIMITS
@given(CASES, st.sampled_from(["relative", "words"]), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_share_never_keeps_more(case, name, one, other):
    low, high = sorted((one, other))
    kept = [set(run(*case, **{name: share}).views_by_stage["a3"]) for share in (low, high)]
    assert kept[1] <= kept[0]


@LIMITS
@given(CASES, st.booleans())
def test_every_candidate_has_exactly_one_decision_a_stage(case, lock):
    prompt = run(*case, lock=lock)
    views = prompt.views_by_stage
    seen = {"reranked": "retrieval", "a3": "reranked", "a4": "a3"}
    for stage, source in seen.items():
        rows = [d for d in prompt.extras.decisions if d.stage == stage and d.pass_no == 1]
        assert sorted(d.chunk_id for d in rows) == sorted(views[source])
        assert all(d.rule and d.reason for d in rows)
        assert [d.chunk_id for d in rows if d.kept] == views[stage]
    base = {c.id for c in prompt.base_context_chunks}
    assert all(set(view) <= base and len(set(view)) == len(view) for view in views.values())


@LIMITS
@given(CASES, st.integers(300, 3000))
def test_the_budget_is_never_exceeded_or_the_prompt_is_refused(case, budget):
    try:
        prompt = run(*case, budget=budget)
    except BudgetExceeded:
        return
    tree = prompt.extras.token_tree
    assert tree.total == COUNTER.count(prompt.extras.super_prompt) <= budget
    assert sum(block.tokens for block in tree.blocks) == tree.total
    shown = [part for block in tree.blocks for part in block.parts or ()]
    assert len(shown) == prompt.extras.super_prompt.count("\n<<DOC ")
    assert all(
        sum(part.tokens for part in block.parts or ()) <= block.tokens for block in tree.blocks
    )


def condensed(case, budget, most, fillings):
    """Return the prompt after A4, and the tokens of its attachments."""
    question, seed = case
    prompt = SuperPrompt(body={"text": question})
    for stage in front():
        prompt = stage(prompt)
    condenser = Condenser(
        COUNTER, Layout("Never guess.", "Memory line."), budget_tokens=budget,
        max_context_tokens=budget, token_overhead=OVERHEAD, max_facts=most,
        max_context_chars=100_000,
    )  # fmt: skip
    prompt = retrieved(prompt, seed)
    with mock.patch.object(a4_condenser, "MOST_FILLINGS", fillings):
        for stage in (RerankerStage(None, "none", "none"), NliGate(-1.0), condenser):
            prompt = stage(prompt)
    rows = [d for d in prompt.extras.decisions if d.stage == "a4" and d.kept]
    return prompt, sum(d.tokens for d in rows)


@LIMITS
@given(CASES, st.integers(450, 1800), st.integers(1, 40))
def test_what_facts_leave_of_their_reserve_goes_to_the_attachments(case, budget, most):
    plain, before = condensed(case, budget, most, 0)
    prompt, tokens = condensed(case, budget, most, 4)
    view, picked = prompt.views_by_stage["a3"], prompt.final_selection_ids
    assert picked == view[: len(picked)]  # by rank, no gap
    assert list(prompt.extras.cuts) in ([], picked[-1:])
    assert tokens >= before and set(plain.final_selection_ids) <= set(picked)
    if tokens > before:
        layout = Layout("Never guess.", "Memory line.")
        bare = evolve(prompt, final_selection_ids=[])
        assert COUNTER.count(compose(bare, layout).text) + tokens + OVERHEAD <= budget


def test_what_is_given_back_is_used():
    cases = [(QUESTIONS[0], seed) for seed in range(30)]
    more = [condensed(c, 900, 12, 4)[1] - condensed(c, 900, 12, 0)[1] for c in cases]
    assert sum(more) > 500


@LIMITS
@given(CASES, st.integers(400, 3000))
def test_citations_are_issued_and_facts_stand_in_their_source(case, budget):
    try:
        prompt = run(*case, budget=budget)
    except BudgetExceeded:
        return
    issued = prompt.extras.citations
    markers = [m for m in parse_markers(prompt.extras.super_prompt) if m.id != "<id>"]
    assert {m.id for m in markers} <= set(issued)
    texts = {c.id: " ".join(c.snippet.split()) for c in prompt.base_context_chunks}
    for part in ("facts", "constraints"):
        for item in getattr(prompt.extras.s_ctx, part):
            assert item.citations
            assert all(item.text in texts[c.chunk_id] for c in item.citations)
            assert all(c.chunk_id in prompt.final_selection_ids for c in item.citations)


@LIMITS
@given(CASES, st.booleans())
def test_authority_order_and_the_lock(case, lock):
    prompt = run(*case, lock=lock)
    text = prompt.extras.super_prompt
    names = [b.name for b in prompt.extras.token_tree.blocks]
    order = ["HARD RULES", "PROJECT MEMORY", "SYSTEM", "❖ FILES", "S_CTX", "ATTACHMENTS", "TASK"]
    assert names == [name for name in order if name in names]
    assert text.split("\n")[1] == "Never guess."
    assert text.index("Never guess.") < text.index("Memory line.") < text.index(prompt.Prompt_MD)
    if lock:
        assert not {"S_CTX", "ATTACHMENTS"} & set(names)
        assert all(prompt.views_by_stage[s] == [] for s in ("retrieval", "reranked", "a3", "a4"))
    else:
        assert text.count("### Facts\n") == text.count("### Open Issues\n") == 1


@LIMITS
@given(CASES)
def test_the_same_inputs_give_the_same_prompt(case):
    assert to_json(run(*case)) == to_json(run(*case))


def test_the_trail_names_each_stage_once():
    prompt = run(QUESTIONS[0], 3)
    assert prompt.history_of_stages == [
        "raw", "preprocessed", "a2", "retrieval", "reranked", "a3", "a4", "a5"
    ]  # fmt: skip


@LIMITS
@given(st.text(max_size=400))
def test_any_text_is_preprocessed_or_refused(text):
    try:
        prompt = front()[0](SuperPrompt(body={"text": text}))
    except EmptyPrompt:
        left = read_filters(text, ALIASES).text
        assert not any(c.isalnum() or c == "_" for c in left)
        return
    pieces = prompt.extras.query_pieces
    assert prompt.body["task"].strip()
    assert 1 <= len(pieces) <= 10
    if prompt.extras.format != "json":
        assert all(text[slice(*p.span)] == p.text for p in pieces)


@pytest.mark.parametrize("question", QUESTIONS)
def test_chunks_are_never_changed(question):
    prompt = run(question, 7)
    fresh = {c.id: c for c in corpus(7)[0]}
    assert all(fresh[c.id] == c for c in prompt.base_context_chunks)
