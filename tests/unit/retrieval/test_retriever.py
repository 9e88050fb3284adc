"""Laws of the candidate lists: pools, projects, pure modes, ties."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import ModelMismatch
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.retrieval.retriever import Fusion, Retriever
from ragstream_core.text.bm25 import LexicalArrays, build_lexical
from ragstream_core.text.terms import term_blob

EMBEDDER = HashedEmbedder()
WORDS = [
    "catalog", "vector", "file", "gate", "ledger", "replay",
    "budget", "citation", "fence", "prompt", "chunk", "journal",
]  # fmt: skip


@dataclass
class View:
    project: str
    texts: dict[str, str]
    embed_fp: str = EMBEDDER.fingerprint
    generation: int = 1
    digest: str = "d"
    chunk_ids: list = field(default_factory=list)
    paths: list = field(default_factory=list)
    vectors: np.ndarray = None
    lexical: LexicalArrays = None

    def __post_init__(self):
        self.chunk_ids = sorted(self.texts)
        self.paths = [i.split("::")[0] for i in self.chunk_ids]
        bodies = [self.texts[i] for i in self.chunk_ids]
        self.vectors = EMBEDDER.embed_documents(bodies)
        self.lexical = build_lexical([[term_blob(b)] for b in bodies])


def corpus(n, seed=3):
    rng = np.random.default_rng(seed)
    return {f"f{i:03d}.md::{i}": " ".join(rng.choice(WORDS, size=12)) for i in range(n)}


def search(views, text, *, off=(), fusion=None, pieces=None):
    return Retriever(EMBEDDER, fusion or Fusion()).search(
        views, text, pieces=pieces or [text], off=off
    )


def test_scores_are_independent_of_how_rows_are_split_over_projects():
    texts = corpus(160)
    ids = sorted(texts)
    one = search([View("one", texts)], "catalog and replay of a prompt")
    two = search(
        [View("a", {i: texts[i] for i in ids[::2]}), View("b", {i: texts[i] for i in ids[1::2]})],
        "catalog and replay of a prompt",
    )
    assert one == two


def test_a_chunk_that_two_projects_hold_comes_once():
    texts = corpus(5)
    hits = search([View("a", texts), View("b", texts)], "catalog")
    assert len(hits) == len({hit.chunk_id for hit in hits})


@pytest.mark.parametrize("left", [0, 1, 2])
def test_small_pools_keep_the_scale_of_the_whole(left):
    texts = corpus(150)
    view = View("p", texts)
    whole = {h.chunk_id: h for h in search([view], "catalog replay")}
    names = sorted(whole, key=lambda i: -whole[i].score)
    off = {f"p/{i.split('::')[0]}" for i in texts if i not in names[60 : 60 + left]}
    hits = search([view], "catalog replay", off=off)
    assert {h.chunk_id for h in hits} <= set(names[60 : 60 + left])
    for hit in hits:  # a pool of one must not score 1.0 for being alone
        assert hit.score == pytest.approx(whole[hit.chunk_id].score, abs=1e-6)
        assert hit.cosine == whole[hit.chunk_id].cosine


def test_the_slider_ends_are_the_pure_rankings():
    view = View("p", corpus(140))
    dense = search([view], "catalog replay gate", fusion=Fusion(dense_weight=1.0))
    assert [h.cosine for h in dense] == sorted((h.cosine for h in dense), reverse=True)
    lexical = search([view], "catalog replay gate", fusion=Fusion(dense_weight=0.0))
    assert [h.bm25 for h in lexical] == sorted((h.bm25 for h in lexical), reverse=True)
    assert all(h.bm25 > 0 for h in lexical)


def test_several_pieces_are_mixed_and_one_piece_is_the_plain_hybrid():
    view = View("p", corpus(120))
    single = search([view], "catalog replay")
    assert all("b" not in hit.scores for hit in single)
    several = search([view], "catalog replay gate", pieces=["catalog replay", "gate"])
    assert all({"a", "b"} <= set(hit.scores) for hit in several)
    assert all(0 <= hit.score <= 1 for hit in several)


def test_rrf_ranks_what_both_lists_like_first():
    view = View("p", corpus(120))
    fused = search([view], "catalog replay", fusion=Fusion(method="rrf"))
    best = fused[0]
    assert best.score == max(hit.score for hit in fused)
    assert best.bm25 > 0


@pytest.mark.parametrize("k", [1, 60])
def test_rrf_adds_one_over_k_and_the_rank_in_each_list(k):
    fused = search([View("p", corpus(80))], "catalog replay", fusion=Fusion(method="rrf", rrf_k=k))
    ranks = []
    for name in ("cosine", "bm25"):
        listed = sorted(fused, key=lambda hit: (-getattr(hit, name), hit.chunk_id))
        listed = [hit for hit in listed if name == "cosine" or hit.bm25 > 0]
        ranks.append({hit.chunk_id: n for n, hit in enumerate(listed, start=1)})
    for hit in fused:
        places = [rank[hit.chunk_id] for rank in ranks if hit.chunk_id in rank]
        assert hit.score == pytest.approx(sum(1 / (k + place) for place in places), abs=1e-6)


def test_a_store_of_another_model_is_refused_with_the_command():
    view = View("p", corpus(3), embed_fp="f" * 64)
    with pytest.raises(ModelMismatch, match="rebuild"):
        search([view], "catalog")


def test_a_mismatch_of_models_names_a_precision_that_is_not_the_usual_one():
    class Coarse(HashedEmbedder):
        precision = "int8"

    view = View("p", corpus(3), embed_fp="f" * 64)
    with pytest.raises(ModelMismatch, match=rf"\({EMBEDDER.name}, int8\)"):
        Retriever(Coarse(), Fusion()).search([view], "catalog", pieces=["catalog"])
    with pytest.raises(ModelMismatch, match=rf"\({EMBEDDER.name}\)"):
        search([view], "catalog")


def test_an_empty_pool_asks_no_embedder():
    class Silent(HashedEmbedder):
        def embed_queries(self, texts):
            raise AssertionError("called")

    view = View("p", corpus(2))
    off = {f"p/{path}" for path in view.paths}
    assert Retriever(Silent()).search([view], "x", pieces=["x"], off=off) == []
    assert Retriever(Silent()).search([], "x", pieces=["x"]) == []


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.data())
def test_a_pool_never_lets_a_closed_file_through_and_never_moves_a_cosine(seed, data):
    texts = corpus(40, seed)
    view = View("p", texts)
    whole = {h.chunk_id: h for h in search([view], "gate budget")}
    paths = sorted({i.split("::")[0] for i in texts})
    closed = data.draw(st.sets(st.sampled_from(paths)))
    hits = search([view], "gate budget", off={f"p/{path}" for path in closed})
    assert not {h.chunk_id.split("::")[0] for h in hits} & closed
    assert all(h.cosine == whole[h.chunk_id].cosine for h in hits if h.chunk_id in whole)


def test_more_rows_than_the_margin_tie_and_ids_decide():
    same = {f"f{i:03d}.md::{i}": "catalog replay" for i in range(150)}
    hits = search([View("p", same)], "catalog replay")
    assert [h.chunk_id for h in hits] == sorted(same)[:100]


def test_the_mix_is_mix_a_of_a_and_the_rest_of_b():
    from ragstream_core.retrieval.scoring import convex, min_max

    view, pieces = View("p", corpus(140)), ["catalog replay", "gate ledger"]
    for share in (0.0, 0.3, 1.0):
        fusion = Fusion(mix_a=share, mix_coherence=0.0)
        hits = search([view], " ".join(pieces), pieces=pieces, fusion=fusion)
        a, b = (np.array([h.scores[name] for h in hits]) for name in "ab")
        wanted = convex(min_max(a), min_max(b), share)
        assert np.allclose([h.score for h in hits], wanted, atol=2e-6)


@pytest.mark.parametrize(("weight", "name"), [(1.0, "cosine"), (0.0, "bm25")])
def test_the_slider_ends_stay_pure_with_several_pieces(weight, name):
    pieces = ["catalog replay", "gate ledger fence"]
    hits = search([View("p", corpus(140))], " ".join(pieces), pieces=pieces,
                  fusion=Fusion(dense_weight=weight))  # fmt: skip
    assert all("b" not in h.scores for h in hits)
    values = [getattr(h, name) for h in hits]
    assert values == sorted(values, reverse=True)


def test_the_stage_asks_with_all_pieces_as_the_whole_and_gates_by_the_aggregate():
    from ragstream_core.agents.retrieval import RetrievalStage
    from ragstream_core.records import Hit, SuperPrompt
    from ragstream_core.records.stage_results import QueryPiece

    asked = []

    def find(whole, pieces, off):
        asked.append((whole, pieces))
        return [Hit("a.md::x::0", 1.0, cosine=0.2, best_cosine=0.9, bm25=0.0, scores={},
                    piece_cosines=(0.9, 0.0))]  # fmt: skip

    prompt = SuperPrompt()
    prompt.extras.query_pieces = (QueryPiece("q1", "one"), QueryPiece("q2", "two"))
    done = RetrievalStage(find, lambda ids: [], min_score=0.5)(prompt)
    assert asked == [("one two", ["one", "two"])]
    assert done.extras.decisions[0].rule == "min_score"


@given(st.integers(0, 9), st.integers(1, 9), st.floats(-1, 1))
def test_what_goes_on_is_the_first_few_that_are_near_enough(count, top_k, least):
    from ragstream_core.agents.retrieval import RetrievalStage
    from ragstream_core.records import Chunk, Hit, SuperPrompt

    near = [round(0.9 - n / 5, 6) for n in range(count)]
    hits = [Hit(f"{n}::x::0", 1.0 - n / 10, cosine=c, best_cosine=c, bm25=0.0, scores={},
                piece_cosines=(c,)) for n, c in enumerate(near)]  # fmt: skip
    stage = RetrievalStage(lambda *_: hits, lambda ids: [Chunk(i, i, "", (0, 0), {}) for i in ids],
                           top_k, least)  # fmt: skip
    done = stage(SuperPrompt())
    kept = [hit.chunk_id for hit in hits[:top_k] if hit.cosine >= least]
    assert done.views_by_stage["retrieval"] == kept
    assert [chunk.id for chunk in done.base_context_chunks] == kept == list(done.extras.scores)
    assert [row.kept for row in done.extras.decisions] == [h.chunk_id in kept for h in hits]
    low = sum(hit.cosine < least for hit in hits[:top_k])
    said = done.extras.events[-1].message
    assert (f", {low} below retrieval.min_score" in said) == (low > 0)


def test_a_file_off_in_one_project_stays_eligible_in_another():
    texts = {"same.md::1": "catalog vector file", "z.md::2": "gate ledger"}
    views = [View("a", texts), View("b", texts)]
    assert "same.md::1" in [h.chunk_id for h in search(views, "catalog", off=("a/same.md",))]
    both = search(views, "catalog", off=("a/same.md", "b/same.md"))
    assert "same.md::1" not in [h.chunk_id for h in both]


@pytest.mark.parametrize("left", [1, 2, 3])
def test_small_pools_keep_the_scale_of_the_whole_with_several_pieces(left):
    view, pieces = View("p", corpus(150)), ["catalog replay", "gate ledger fence"]
    whole = {h.chunk_id: h for h in search([view], " ".join(pieces), pieces=pieces)}
    names = sorted(whole, key=lambda i: -whole[i].score)
    stays = names[20 : 20 + left]
    off = {f"p/{i.split('::')[0]}" for i in view.chunk_ids if i not in stays}
    hits = search([view], " ".join(pieces), pieces=pieces, off=off)
    assert {h.chunk_id for h in hits} == set(stays)
    for hit in hits:
        assert hit.score == pytest.approx(whole[hit.chunk_id].score, abs=1e-5)
