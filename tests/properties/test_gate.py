"""Laws of A3 in all its forms: one decision a candidate, each text once, only the model's score."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a3_nli_gate import Judged, NliGate
from ragstream_core.agents.history_conflicts import fold
from ragstream_core.records import Chunk, Extras, SuperPrompt, to_json
from ragstream_core.records.extras import entry_from

TEXTS = ["Alpha text.", "Alpha   text.", "Beta text.", "Gamma text.", "Gamma\ntext.", "Delta."]
RULES = {
    "similarity": {"similarity_gate", "words_gate", "relative_score", "keep_top"},
    "nli": {"nli_gate", "keep_top"},
    "llm": {"llm_gate", "keep_top"},
    "off": {"pass_through"},
    "locked": set(),
}
ALWAYS = {"duplicate_text", "duplicates_files"}


@st.composite
def prompts(draw):
    """Candidates with copies of one text, some of a file that is injected, perhaps none."""
    drawn = draw(st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(0, 3)), max_size=8))
    prompt = SuperPrompt(body={"task": "Which text?"})
    prompt.stage = "reranked"
    prompt.base_context_chunks = [
        Chunk(f"f{file}.md::x::{n}", f"f{file}.md", text, (0, len(text)), {"project": "demo"})
        for n, (text, file) in enumerate(drawn)
    ]
    ids = [c.id for c in prompt.base_context_chunks]
    prompt.views_by_stage["reranked"] = ids
    shares = st.floats(-1, 1)
    prompt.extras = Extras.from_json(
        {
            "query_pieces": [{"id": "q1", "text": "Which text?"}],
            "files": [{"path": "f0.md", "home": ["demo", "f0.md"], "text": "Other words."}],
            "scores": {i: {"best_cosine": (c := draw(shares)), "piece_cosines": [c]} for i in ids},
        }
    )
    return prompt


def gate(form, *, theta, keep_top, seen, answer=lambda rows: rows):
    """A gate of one form; what a model is shown is written to ``seen``."""

    def entailment(pieces, passages):
        seen.append(list(passages))
        return [len(p) % 10 / 10 for p in passages]

    def ask(messages, schema, check):
        shown = messages[-1].text.count('id="p')
        seen.append([None] * shown)
        rows = [{"passage": f"p{n}", "score": 37 * n % 101} for n in range(1, shown + 1)]
        said = Judged.model_validate({"verdicts": answer(rows)})
        wrong = check(said)
        return (None, wrong) if wrong else (said, "")

    return NliGate(
        theta, keep_top, 0.4, 0.5, enabled=form != "off",
        entailment=entailment if form == "nli" else None, nli_theta=theta,
        ask=ask if form == "llm" else None,
    )  # fmt: skip


@pytest.mark.parametrize("form", RULES)
@settings(max_examples=80, deadline=None)
@given(prompt=prompts(), theta=st.floats(0, 1), keep_top=st.integers(0, 3))
def test_each_candidate_has_one_decision_and_each_text_one_place(form, prompt, theta, keep_top):
    if form == "locked":
        prompt.extras.pool = entry_from("pool", {"lock": True})
    seen = []
    done = gate(form, theta=theta, keep_top=keep_top, seen=seen)(prompt)
    rows = [d for d in done.extras.decisions if d.stage == "a3"]
    expected = [] if form == "locked" else prompt.views_by_stage["reranked"]
    assert [row.chunk_id for row in rows] == expected
    assert {row.rule for row in rows} <= RULES[form] | ALWAYS
    assert all(row.reason for row in rows)
    assert done.views_by_stage["a3"] == [row.chunk_id for row in rows if row.kept]
    chunks = {c.id: c for c in prompt.base_context_chunks}
    texts = [fold(chunks[i].snippet) for i in done.views_by_stage["a3"]]
    assert len(set(texts)) == len(texts)
    open_ = {fold(c.snippet) for c in chunks.values() if c.source != "f0.md"}
    judged = [row for row in rows if row.rule not in ALWAYS]
    assert len(judged) == len(open_) * (form != "locked")
    kind = {"nli": "entailment", "llm": "relevance"}.get(form, "best_cosine")
    assert all(row.score == row.scores[kind] for row in judged)
    if form == "llm":
        assert [row.score for row in judged] == [
            37 * n % 101 / 100 for n in range(1, len(judged) + 1)
        ]
    assert len(seen) == (form in ("nli", "llm") and bool(open_))
    assert all(len(shown) == len(open_) for shown in seen)  # a model reads no text twice
    assert to_json(gate(form, theta=theta, keep_top=keep_top, seen=[])(done)) == to_json(done)


@settings(max_examples=80, deadline=None)
@given(prompt=prompts(), theta=st.floats(0, 1), data=st.data())
def test_a_judgement_of_not_each_passage_once_is_none(prompt, theta, data):
    def spoilt(rows):
        if not rows:
            return rows
        at = data.draw(st.integers(0, len(rows) - 1))
        how = data.draw(st.sampled_from(["missing", "twice", "unknown", "renamed"]))
        return {
            "missing": rows[:at] + rows[at + 1 :],
            "twice": [*rows, rows[at]],
            "unknown": [*rows, {"passage": "p99", "score": 1}],
            "renamed": [*rows[:at], {"passage": "p0", "score": 1}, *rows[at + 1 :]],
        }[how]

    seen = []
    done = gate("llm", theta=theta, keep_top=1, seen=seen, answer=spoilt)(prompt)
    plain = gate("similarity", theta=theta, keep_top=1, seen=[])(prompt)
    assert done.extras.decisions == plain.extras.decisions
    assert done.views_by_stage["a3"] == plain.views_by_stage["a3"]
    assert len(done.extras.warnings) == len(seen)


@pytest.mark.parametrize("form", ["similarity", "nli"])
@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=8),
    st.integers(0, 20),
    st.integers(0, 4),
)
def test_a_place_is_for_documents_and_the_threshold_itself_is_enough(form, drawn, at, keep_top):
    prompt = SuperPrompt(body={"task": "Which text?"})
    prompt.stage = "reranked"
    for n, (_, past) in enumerate(drawn):
        name = f"history::chat::{n}-{n}::0" if past else f"f{n}.md::x::0"
        meta = {"turn_id_end": n} if past else {"project": "demo"}
        prompt.base_context_chunks.append(Chunk(name, f"f{n}.md", f"text {n}", (0, 6), meta))
    ids = prompt.views_by_stage["reranked"] = [c.id for c in prompt.base_context_chunks]
    shares = [share / 20 for share, _ in drawn]
    rows = zip(ids, shares, strict=True)
    prompt.extras = Extras.from_json(
        {
            "query_pieces": [{"id": "q1", "text": "Which text?"}],
            "scores": {i: {"best_cosine": s, "piece_cosines": [s]} for i, s in rows},
        }
    )
    read = (lambda pieces, texts: shares) if form == "nli" else None
    done = NliGate(at / 20, keep_top, entailment=read, nli_theta=at / 20)(prompt)
    assert done.views_by_stage["a3"] == [
        i
        for rank, (i, (share, past)) in enumerate(zip(ids, drawn, strict=True), start=1)
        if share >= at or (rank <= keep_top and not past)
    ]
