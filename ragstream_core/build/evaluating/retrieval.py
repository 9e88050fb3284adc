"""Connects the evaluation with the models, stages and settings that prompts use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.build import models, searching, stages
from ragstream_core.evaluation.conversations import is_conversations
from ragstream_core.evaluation.corpus_view import CorpusView
from ragstream_core.evaluation.retrieval import (
    EvaluationResult,
    evaluate,
    read_jsonl,
    read_qrels,
)
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.ports import Progress


def evaluate_retrieval(
    workspace: Workspace,
    corpus: Path,
    *,
    queries: Path,
    qrels: Path,
    progress: Progress | None = None,
) -> EvaluationResult:
    """Measure retrieval and reranking with this workspace's settings.

    A corpus of conversations goes through the history: journal, worker, published selection, and
    each question is asked against its own conversation.

    Args:
        workspace: Its settings decide; its data root keeps the corpus vectors for the next call.
        corpus: ``corpus.jsonl``.
        queries: ``queries.jsonl``.
        qrels: ``qrels.tsv``.
        progress: Called with (done, total), first while embedding, then for the queries.

    Raises:
        UsageError: A file is missing or malformed.
        RagstreamError: A model is not available.
    """
    questions, judgements = read_jsonl(queries), read_qrels(qrels)
    documents = read_jsonl(corpus)
    if is_conversations(documents):
        from ragstream_core.build.evaluating.conversations import evaluate_conversations

        return evaluate_conversations(
            workspace, documents, queries=questions, qrels=judgements, progress=progress
        )
    return _evaluate_documents(
        workspace, documents, queries=questions, qrels=judgements, progress=progress
    )


def _evaluate_documents(
    workspace: Workspace,
    documents: list[dict[str, Any]],
    *,
    queries: list[dict[str, Any]],
    qrels: dict[str, dict[str, int]],
    progress: Progress | None,
) -> EvaluationResult:
    from ragstream_core.build.ingesting import profile_of
    from ragstream_core.chunking.words import word_offsets
    from ragstream_core.ingestion.chunker import Chunker

    embedder = models.embedder(workspace.config)
    settings = workspace.config.chain()
    profile = profile_of(workspace)
    view = CorpusView.build(
        documents,
        chunker=Chunker(profile, token_offsets=getattr(embedder, "token_offsets", word_offsets)),
        embedder=embedder,
        cache=workspace.data_dir / "evaluation",
        progress=progress,
    )
    search = searching.retrieval_stage(workspace, settings, lambda: [view])
    rerank = searching.reranker_stage(workspace, settings, workspace.data_dir / "evaluation")

    def rank(query: dict[str, Any]) -> list[str]:
        prompt = stages.preprocessed(workspace, settings, query["text"])
        return view.documents(rerank(search(prompt)).views_by_stage["reranked"])

    fingerprint = digest_of(
        {
            "embed_fp": embedder.fingerprint,
            "chunker": profile.version,
            "settings": settings.model_dump(),
            "reranker": models.reranker_name(workspace.config, settings.rerank),
        }
    )
    return evaluate(rank, queries=queries, qrels=qrels, fingerprint=fingerprint, progress=progress)
