"""A3 and the reranker: one decision a candidate, files first, orders and fusions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a3_nli_gate import NliGate, nearness
from ragstream_core.agents.reranker import RerankerStage, fused
from ragstream_core.prompts.render import pack
from ragstream_core.records import Chunk, Extras, SuperPrompt, to_json
from ragstream_core.records.stage_results import QueryPiece, Scores

SPACE = {
    "a": (0.9, 0.8, "Alpha text"), "b": (0.6, 0.1, "Beta text"), "c": (0.5, 0.4, "Gamma text"),
    "d": (0.3, 0.4, "Alpha   text"), "e": (0.1, 0.2, "Epsilon text"),
}  # fmt: skip


def candidates(**extras):
    prompt = SuperPrompt(body={"task": "Which text?"})
    prompt.base_context_chunks = [
        Chunk(f"{k}.md::x::0", f"{k}.md", text, (0, len(text)), {"project": "demo"})
        for k, (_, _, text) in SPACE.items()
    ]
    ids = [c.id for c in prompt.base_context_chunks]
    prompt.views_by_stage = {"retrieval": ids}
    prompt.extras = Extras.from_json(
        {
        "scores": {
            f"{k}.md::x::0": {"score": s, "best_cosine": c, "piece_cosines": [c]}
            for k, (s, c, _) in SPACE.items()
        },
        "query_pieces": [{"id": "q1", "text": "Which text?"}], **extras,
        }
    )  # fmt: skip
    return prompt


def letters(ids):
    return "".join(i[0] for i in ids)


UNIT = st.floats(0, 1)


def rules(prompt, stage):
    return {d.chunk_id[0]: d.rule for d in prompt.extras.decisions if d.stage == stage}


def test_the_gate_keeps_by_cosine_or_rank_and_says_why():
    prompt = NliGate(0.3, keep_top=2)(candidates())
    assert letters(prompt.views_by_stage["a3"]) == "abc"
    assert rules(prompt, "a3") == {
        "a": "similarity_gate", "b": "keep_top", "c": "similarity_gate", "d": "duplicate_text",
        "e": "similarity_gate",
    }  # fmt: skip
    assert all(d.reason for d in prompt.extras.decisions)


def test_an_injected_file_suppresses_its_own_chunks_and_history_that_repeats_it():
    said = "the very long line of configuration that was pasted in the chat before"
    prompt = candidates(files=[{"path": "a.md", "home": ["demo", "a.md"], "text": f"x\n{said}\ny"}])
    prompt.base_context_chunks.append(
        Chunk("history::chat::1-1::0", "log", said, (0, 9), {"turn_id_end": 1})
    )
    prompt.views_by_stage["retrieval"].append("history::chat::1-1::0")
    done = NliGate(-1.0)(prompt)
    assert letters(done.views_by_stage["a3"]) == "bcde"
    assert rules(done, "a3")["a"] == rules(done, "a3")["h"] == "duplicates_files"


def test_a_packed_file_suppresses_only_the_chunks_whose_lines_it_shows():
    lines = [f"value_{n} = {n}" for n in range(200)]
    row = {"home": ["demo", "big.txt"], "path": "big.txt", "mode": "PACK", "numbered": True}
    row["text"] = pack("\n".join(lines), "big.txt")
    parts = {"head": lines[:9], "middle": lines[60:70], "edge": lines[25:35], "tail": lines[190:]}
    chunks = [
        Chunk(f"{name}::{'0' * 64}::0", "big.txt", "\n".join(part), (0, 9), {"project": "demo"})
        for name, part in parts.items()
    ]
    prompt = candidates(files=[row])
    prompt.base_context_chunks = chunks
    prompt.views_by_stage = {"retrieval": [chunk.id for chunk in chunks]}
    done = NliGate(-1.0)(prompt)
    assert [i.split("::")[0] for i in done.views_by_stage["a3"]] == ["middle", "edge"]
    reasons = [d.reason for d in done.extras.decisions if not d.kept]
    assert reasons == ["big.txt holds every line of it"] * 2


def test_the_same_path_in_another_project_stays():
    prompt = candidates(files=[{"path": "a.md", "home": ["other", "a.md"], "text": "zzz"}])
    assert "a" in letters(NliGate(-1.0)(prompt).views_by_stage["a3"])


def test_locked_gives_an_empty_view_and_the_reason():
    prompt = NliGate(0.0)(candidates(pool={"lock": True}))
    assert prompt.views_by_stage["a3"] == []
    assert prompt.extras.events[0].message == "locked"


def test_switched_off_keeps_all_but_duplicates():
    assert letters(NliGate(0.99, 0, enabled=False)(candidates()).views_by_stage["a3"]) == "abce"


def backwards(prompt_md, pieces, passages):
    return [float(i) for i in range(len(passages))]


def test_a_cross_encoder_gives_its_pure_order_of_the_head():
    spy = []

    def score(prompt_md, pieces, passages):
        spy.append((prompt_md, list(passages)))
        return backwards(prompt_md, pieces, passages)

    prompt = RerankerStage(score, "cross_encoder", "ce", top_k=3)(candidates())
    assert letters(prompt.views_by_stage["reranked"]) == "cbade"
    assert spy == [("Which text?", ["Alpha text", "Beta text", "Gamma text"])]
    assert rules(prompt, "reranked")["e"] == "below_head"


def test_maxsim_counts_less_for_a_question_that_only_tells_and_the_event_says_so():
    prompt = candidates()
    prompt.extras.query_pieces = (QueryPiece("q1", "A."), QueryPiece("q2", "B."))
    asked = []

    def share(pieces):
        asked.append(list(pieces))
        return 0.5

    stage = RerankerStage(backwards, "maxsim", "MaxSim", top_k=5, weight=0.4, share=share)
    done = stage(prompt)
    assert asked == [["A.", "B."]]
    scores = {d.chunk_id[0]: d.score for d in done.extras.decisions}
    assert (scores["a"], scores["e"]) == (pytest.approx(0.8), pytest.approx(0.2))
    told = "MaxSim reranked the first 5 with weight 0.2: the question only tells"
    assert done.extras.events[-1].message == told


def test_maxsim_is_fused_half_and_half():
    prompt = RerankerStage(backwards, "maxsim", "MaxSim", top_k=5)(candidates())
    scores = {d.chunk_id[0]: d.score for d in prompt.extras.decisions}
    assert scores["a"] == pytest.approx(0.5)
    assert scores["e"] == pytest.approx(0.5)
    assert scores["b"] == pytest.approx(0.5 * 0.25 + 0.5 * (0.6 - 0.1) / 0.8)
    ranked = [d.score for d in prompt.extras.decisions]
    assert ranked == sorted(ranked, reverse=True)


@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=9), UNIT)
def test_fusion_follows_the_side_that_weighs_and_leaves_a_single_candidate_alone(rows, weight):
    retrieval, closer = (list(side) for side in zip(*rows, strict=True))
    mixed = fused(retrieval, closer, weight)
    assert all(0 <= score <= 1 for score in mixed)
    if len(rows) == 1:
        assert mixed == [round(retrieval[0], 6)]
        return
    for side, share in ((retrieval, 0.0), (closer, 1.0)):
        pure = fused(retrieval, closer, share)
        assert all(pure[i] <= pure[j] + 1e-6 for i, a in enumerate(side)
                   for j, b in enumerate(side) if a <= b)  # fmt: skip


@pytest.mark.parametrize(
    ("score", "kind", "order"),
    [(backwards, "cross_encoder", "cba"), (None, "none", "abc"), (backwards, "reembed", "cba")],
)
def test_what_is_behind_the_first_few_goes_and_the_ledger_says_so(score, kind, order):
    prompt = RerankerStage(score, kind, "some", top_k=3, keep=2)(candidates())
    assert letters(prompt.views_by_stage["reranked"]) == order[:2]
    rows = {d.chunk_id[0]: d for d in prompt.extras.decisions}
    assert [i for i, d in rows.items() if not d.kept] == [order[2], "d", "e"]
    assert {d.rule for d in rows.values() if not d.kept} == {"keep"}
    assert rows["e"].reason == "rank 5 is behind the first 2"
    assert prompt.extras.events[-1].message == "the first 2 of 5 go on"


RANKINGS = st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=9)


@given(RANKINGS, UNIT, st.integers(0, 9), st.integers(1, 4))
def test_each_pass_ranks_what_the_one_before_kept(rows, weight, keep, passes):
    prompt = SuperPrompt(body={"task": "Which text?"})
    ids = [f"{n}.md::x::0" for n in range(len(rows))]
    prompt.base_context_chunks = [Chunk(i, i[:4], i, (0, 9), {"project": "demo"}) for i in ids]
    prompt.views_by_stage = {"retrieval": ids}
    prompt.extras = Extras.from_json(
        {
            "scores": {i: {"score": s} for i, (s, _) in zip(ids, rows, strict=True)},
            "query_pieces": [{"id": "q1", "text": "Which text?"}],
        }
    )
    own = dict(zip(ids, (round(c, 6) for _, c in rows), strict=True))
    stage = RerankerStage(
        lambda _md, _pieces, texts: [own[text] for text in texts],
        "maxsim", "MaxSim", weight=weight, keep=keep, passes=passes,
    )  # fmt: skip
    once = stage(prompt)
    left, scores = ids, {i: s for i, (s, _) in zip(ids, rows, strict=True)}
    for _ in range(passes):
        left = left if left is ids else left[: keep or None]
        mixed = fused([scores[i] for i in left], [own[i] for i in left], weight)
        scores = dict(zip(left, mixed, strict=True))
        left = sorted(left, key=lambda i: (-scores[i], i))
    assert once.views_by_stage["reranked"] == left[: keep or None]
    assert to_json(stage(once)) == to_json(once)
    decided = once.extras.decisions
    assert sorted(d.chunk_id for d in decided) == ids
    if passes > 1:
        assert all("pass_1" in d.scores for d in decided)
        shown = [d for d in decided if d.kept]
        assert all(d.score == d.scores[f"pass_{passes}"] for d in shown)


def test_a_pure_order_stays_as_it_is_in_another_pass():
    one, two = (
        RerankerStage(backwards, "cross_encoder", "ce", top_k=4, keep=3, passes=n)(candidates())
        for n in (1, 2)
    )
    assert one.views_by_stage == two.views_by_stage
    assert "in 2 passes" in two.extras.events[0].message


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_pure_ranking_is_left_alone(weight):
    stage = RerankerStage(backwards, "maxsim", "MaxSim", dense_weight=weight)
    assert letters(stage(candidates()).views_by_stage["reranked"]) == "abcde"


@pytest.mark.parametrize(
    "stage",
    [
        RerankerStage(None, "none", "none"),
        RerankerStage(backwards, "maxsim", "MaxSim", top_k=3),
        NliGate(0.3),
    ],
)
def test_one_decision_a_candidate_and_twice_is_once(stage):
    once = stage(candidates())
    ids = [d.chunk_id for d in once.extras.decisions]
    assert sorted(ids) == sorted(once.views_by_stage["retrieval"])
    assert to_json(stage(once)) == to_json(once)


def test_no_candidates_no_error():
    empty = candidates()
    empty.views_by_stage["retrieval"] = []
    for stage in (RerankerStage(backwards, "maxsim", "x"), NliGate(0.3)):
        empty = stage(empty)
    assert empty.views_by_stage["a3"] == []


def test_a_candidate_far_below_the_best_goes_unless_it_is_among_the_first():
    done = NliGate(-1.0, keep_top=2, relative=0.5)(candidates())
    assert letters(done.views_by_stage["a3"]) == "abc"
    assert rules(done, "a3")["e"] == "relative_score"


def test_nearness_is_absolute_and_the_best_piece_counts():
    scores = {
        "x": Scores(piece_cosines=(0.8, 0.1)),
        "y": Scores(piece_cosines=(0.4, 0.5)),
        "z": Scores(piece_cosines=(0.2, 0.1)),
    }
    assert {i: near.both for i, near in nearness(scores).items()} == {"x": 1.0, "y": 1.0, "z": 0.25}
    same = {
        i: Scores(piece_cosines=(0.7 - n / 1000,), bm25=9 - n / 100) for n, i in enumerate("abcdef")
    }  # near-identical passages stay together
    assert all(near.both > 0.99 and near.words > 0.99 for near in nearness(same).values())
    assert nearness({"x": Scores(best_cosine=0.3)}) == {}


def scores_of(cosine, bm25):
    return Scores(piece_cosines=(cosine,), bm25=bm25)


def test_words_count_as_meaning_does_and_stand_in_for_theta():
    scores = dict(zip("xy", (scores_of(0.8, 10.0), scores_of(0.2, 8.0)), strict=True))
    assert nearness(scores) == {"x": (1.0, 1.0), "y": (0.8, pytest.approx(0.525))}
    said = candidates()
    found = zip(said.extras.scores.items(), (4.0, 10.0, 2.0, 1.0, 4.9), strict=True)
    said.extras.scores = {i: replace(scores, bm25=bm25) for (i, scores), bm25 in found}
    done = NliGate(0.3, keep_top=0, relative=0.3, words=0.5)(said)
    assert letters(done.views_by_stage["a3"]) == "abc"
    assert rules(done, "a3") | {"d": ""} == {
        "a": "similarity_gate", "b": "words_gate", "c": "similarity_gate", "d": "",
        "e": "similarity_gate",
    }  # fmt: skip
    strict = NliGate(0.3, keep_top=0, relative=0.5, words=0.5)(said)
    assert rules(strict, "a3")["c"] == "relative_score"  # half as near by meaning, few of the words


def test_where_no_candidate_holds_a_word_meaning_alone_counts():
    scores = dict(zip("xy", (scores_of(0.8, 0.0), scores_of(0.4, 0.0)), strict=True))
    assert nearness(scores) == {"x": (0.0, 1.0), "y": (0.0, 0.5)}
