"""Re-embedding: the head sorted anew by the query's vectors (R-136)."""

import numpy as np
import pytest

from ragstream_core.errors import UsageError
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.models.rerankers import ReembedReranker
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.retrieval.scoring import log_avg_exp
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import ingested_workspace

PASSAGES = ["The catalog is a database.", "Cosines are scaled.", "A lock is held by one writer."]


def test_scores_are_the_cosines_of_fresh_vectors_joined_over_the_pieces():
    embedder = HashedEmbedder()
    fresh = ReembedReranker(embedder, tau=9.0)
    pieces = ["Which database is the catalog?", "Who holds the lock?"]
    cosines = embedder.embed_documents(PASSAGES) @ embedder.embed_queries(pieces).T
    expected = log_avg_exp(cosines.astype(np.float64), 9.0)
    assert fresh.score(pieces, PASSAGES) == pytest.approx(expected.tolist(), abs=2e-6)
    one = fresh.score(pieces[:1], PASSAGES)
    assert one == pytest.approx(cosines[:, 0].tolist(), abs=2e-6)
    assert fresh.score(pieces, PASSAGES[::-1]) == fresh.score(pieces, PASSAGES)[::-1]
    assert [fresh.score(pieces, [p])[0] for p in PASSAGES] == fresh.score(pieces, PASSAGES)
    assert (fresh.score([], PASSAGES), fresh.score(pieces, [])) == ([0.0] * 3, [])


def test_an_endpoint_is_not_asked_again():
    class Endpoint(HashedEmbedder):
        reproducible = False

    with pytest.raises(UsageError, match="differently tomorrow"):
        ReembedReranker(Endpoint()).score(["q"], ["p"])


def test_through_the_chain_the_order_changes_and_replays(tmp_path):
    space = ingested_workspace(tmp_path)
    question = "How are long questions cut, and what is the catalog?"
    request = PromptRequest(question, ("demo",), task="reembed", settings={"rerank.top_k": 3})
    prompt = run_prompt(space, pin_inputs(space, request))
    before, after = (prompt.views_by_stage[s] for s in ("retrieval", "reranked"))
    assert set(before[:3]) == set(after[:3]) and before[3:] == after[3:]
    assert before != after
    rows = [r for r in prompt.extras.decisions if r.stage == "reranked"]
    assert [r.rule for r in rows[:4]] == ["reembed"] * 3 + ["below_head"]
    scores = [r.score for r in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    record = save_prompt(space, prompt)
    assert record.inputs["models"]["reranker"] == "reembed"
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
