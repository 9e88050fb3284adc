"""A set of documents and judged questions as files, and what an evaluation makes of them."""

import json

import pytest

from ragstream_core.services.eval_retrieval import evaluate_retrieval
from tests.workspaces import hashed_workspace


@pytest.fixture
def files(tmp_path, request):
    """The module's CORPUS, QUERIES and QRELS."""
    made, names = request.module, ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
    corpus, queries, qrels = (tmp_path / name for name in names)
    corpus.write_text("\n".join(map(json.dumps, made.CORPUS)))
    queries.write_text("\n".join(map(json.dumps, made.QUERIES)))
    qrels.write_text(made.QRELS)
    return corpus, queries, qrels


@pytest.fixture
def evaluated(tmp_path, files):
    """Evaluate them with some settings."""

    def call(**explicit):
        corpus, queries, qrels = files
        space = hashed_workspace(tmp_path / "data", explicit)
        return evaluate_retrieval(space, corpus, queries=queries, qrels=qrels)

    return call
