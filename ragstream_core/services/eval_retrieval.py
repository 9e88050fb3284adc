"""Measures the search of documents and of older turns, with the models and settings of prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import UsageError
from ragstream_core.evaluation import conversations
from ragstream_core.evaluation.conversations import is_conversations
from ragstream_core.evaluation.retrieval import (
    CorpusView,
    EvaluationResult,
    Row,
    evaluate,
    read_jsonl,
    read_qrels,
)
from ragstream_core.models.token_counters import resolved_counter
from ragstream_core.platform.files import make_private_dir
from ragstream_core.records.identity import digest_of
from ragstream_core.records.prompt_inputs import HistoryPin, PromptInputs
from ragstream_core.services.history_update import embed
from ragstream_core.text.chunker import Chunker
from ragstream_core.text.tokenizer import word_offsets
from ragstream_core.wiring import models, stages
from ragstream_core.wiring.conversation_memory import ConversationMemory
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.ingestion import profile_of
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.search import reranker_stage, retrieval_stage

if TYPE_CHECKING:
    from ragstream_core.index.snapshot import HistoryView
    from ragstream_core.ports import Progress
    from ragstream_core.wiring.workspace import Workspace


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
    """
    questions, judgements = read_jsonl(queries), read_qrels(qrels)
    documents = read_jsonl(corpus)
    if is_conversations(documents):
        return evaluate_conversations(
            workspace, documents, queries=questions, qrels=judgements, progress=progress
        )
    return _evaluate_documents(
        workspace, documents, queries=questions, qrels=judgements, progress=progress
    )


def _evaluate_documents(
    workspace: Workspace,
    documents: list[Row],
    *,
    queries: list[Row],
    qrels: dict[str, dict[str, int]],
    progress: Progress | None,
) -> EvaluationResult:
    embedder = models.embedder(workspace.config)
    settings = workspace.config.chain()
    chunker = Chunker(
        profile_of(workspace),
        strip_markdown=workspace.config.settings.chunking.strip_markdown,
        token_offsets=getattr(embedder, "token_offsets", word_offsets),
    )
    view = CorpusView.build(
        documents,
        chunker=chunker,
        embedder=embedder,
        cache=workspace.layout.evaluation,
        progress=progress,
    )
    search = retrieval_stage(workspace, settings, lambda: [view])
    rerank = reranker_stage(workspace, settings, workspace.layout.evaluation, lambda: [view])

    def rank(query: Row) -> list[str]:
        prompt = stages.preprocessed(workspace, settings, query["text"])
        return view.documents(rerank(search(prompt)).views_by_stage["reranked"])

    fingerprint = digest_of(
        {
            "embed_fp": embedder.fingerprint,
            "chunker": chunker.version,
            "settings": settings.pinned(),
            "reranker": models.reranker_name(workspace.config, settings.rerank),
        }
    )
    return evaluate(rank, queries=queries, qrels=qrels, fingerprint=fingerprint, progress=progress)


# What a question is asked under; all other settings are those of the workspace.
OWN_CONVERSATION = {
    "history.persist": True,
    "history.enabled": True,
    "history.recency_k": 0,  # what RECENT HISTORY shows is not searched
    "history.sessions": ["current"],
    "history.projects": [],
    "history.tags": [],
    "history.days": 0.0,
    "prompt.recent_history": True,
}


def evaluate_conversations(
    workspace: Workspace,
    documents: list[Row],
    *,
    queries: list[Row],
    qrels: dict[str, dict[str, int]],
    progress: Progress | None = None,
) -> EvaluationResult:
    """Measure the search of older turns and its reranking with a workspace's settings.

    Args:
        workspace: Its settings decide; its data root keeps the conversations for the next call.
        documents: The corpus, see `evaluation.conversations`.
        queries: The questions.
        qrels: Judgements.
        progress: Called with (done, total), first while embedding, then for the questions.

    Raises:
        UsageError: A row is not what it must be.
    """
    questions = conversations.questions_of(queries, documents)
    space = _recorded(workspace, documents, progress)
    view = _selection(space)
    settings = space.config.chain()
    rerank = reranker_stage(space, settings, space.data_dir, lambda: [view])

    def rank(query: Row) -> list[str]:
        memory = ConversationMemory(space, _inputs(space, view, query), "retrieval")
        search = retrieval_stage(space, settings, lambda: [], memory=memory)
        prompt = rerank(search(stages.preprocessed(space, settings, query["text"])))
        found = {chunk.id: chunk.meta["turn_id"] for chunk in prompt.base_context_chunks}
        return list(dict.fromkeys(found[i] for i in prompt.views_by_stage["reranked"]))

    fingerprint = digest_of(
        {
            "embed_fp": view.embed_fp,
            "index_fp": view.mark.index_fp,
            "words": view.meta["lexical"],
            "settings": settings.pinned(),
            "reranker": models.reranker_name(space.config, settings.rerank),
        }
    )
    return evaluate(
        rank,
        queries=questions,
        qrels=qrels,
        fingerprint=fingerprint,
        metrics=conversations.METRICS,
        progress=progress,
    )


def _recorded(workspace: Workspace, documents: list[Row], progress: Progress | None) -> Workspace:
    """Return a data root of its own in which the conversations were held and embedded."""
    turns = conversations.turns_of(documents)
    told = [[t.id, t.session_id, t.timestamp, *t.speakers, t.user_text] for t in turns]
    model = models.fingerprint(workspace.config)
    name = f"conversations-{digest_of(told)[:16]}-{model[:16]}"
    space = _apart(workspace, name)
    log = journal(space)
    log.append(turns[log.newest().seq :])  # a call that was killed goes on where it was
    total = len(turns)
    embed(
        space,
        publish=False,
        progress=lambda phase, done, _: progress(done, total) if progress else None,
    )
    History(space).publish()
    return space


def _apart(workspace: Workspace, name: str) -> Workspace:
    root = workspace.layout.evaluation / name
    space = workspace.with_settings({**OWN_CONVERSATION, "paths.data_dir": str(root)})
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    shared = space.layout.models
    if not shared.is_symlink():
        own = make_private_dir(workspace.layout.models)  # or the link leads nowhere
        shared.symlink_to(own.resolve(), target_is_directory=True)
    return space


def _selection(space: Workspace) -> HistoryView:
    view = History(space).selection()
    if view is None or not view.chunk_ids:
        raise UsageError("the conversations hold no text")
    view.verify()
    return view


def _inputs(space: Workspace, view: HistoryView, query: Row) -> PromptInputs:
    """Return what a question asked in its own conversation would pin."""
    position = view.mark.position
    pin = HistoryPin(
        query["meta"]["session"], position.seq, position.chain, view.digest, position.seq
    )
    settings = space.config.chain()
    counter = resolved_counter(settings.prompt, space.layout.models)
    return PromptInputs(
        text=query["text"],
        pins=(),
        named=(),
        names=(),
        off=(),
        lock=False,
        settings=settings.pinned(),
        texts={},
        now=query["meta"]["now"],
        time_zone="UTC",
        models={"counter": counter.name},
        code={},
        history=pin,
    )
