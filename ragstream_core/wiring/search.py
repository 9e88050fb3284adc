"""The two stages that look candidates up and put them in order, and the retriever they share.

Prompts, `search`, the quality gate and the evaluation all search through here. Light to import:
what needs NumPy is loaded when a prompt reaches it.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from ragstream_core.agents.reranker import RerankerStage
from ragstream_core.agents.retrieval import RetrievalStage
from ragstream_core.models.embedders.weights import is_default
from ragstream_core.models.rerankers import ReembedReranker
from ragstream_core.proposers import choose
from ragstream_core.text.languages import other_than_english
from ragstream_core.wiring import models

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.agents.context.answer_signs import Nearness, Span
    from ragstream_core.models.embedders.token_cache import CachedTokenVectors
    from ragstream_core.ports import Embedder, IndexView
    from ragstream_core.records import Chunk, Hit
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.retrieval.max_sim import MaxSimScorer, RecentProducts
    from ragstream_core.retrieval.retriever import Retriever
    from ragstream_core.retrieval.word_nearness import WordNearness
    from ragstream_core.settings import ChainSettings
    from ragstream_core.settings.documents import EmbeddingsConfig
    from ragstream_core.wiring.conversation_memory import ConversationMemory
    from ragstream_core.wiring.workspace import Workspace


def retriever(
    workspace: Workspace,
    settings: ChainSettings,
    *,
    embedder: Embedder | None = None,
    inputs: PromptInputs | None = None,
) -> Retriever:
    """Return the retriever for these settings."""
    from ragstream_core.models.onnx_session import row_products
    from ragstream_core.retrieval.retriever import Fusion, Retriever

    chosen = settings.retrieval
    fusion = Fusion(
        chosen.dense_weight,
        chosen.tau,
        chosen.mix_a,
        chosen.mix_coherence,
        chosen.depth,
        chosen.fusion,
        chosen.rrf_k,
        chosen.k3,
    )
    proposer = choose.proposer(workspace, settings, inputs)
    embedder = embedder or models.embedder(workspace.config)
    return Retriever(embedder, fusion, proposer, row_products)


def load(views: Sequence[IndexView], chunk_ids: Sequence[str]) -> list[Chunk]:
    """Load chunks from the first generation that holds each, in the order asked for."""
    if len(views) == 1:
        return views[0].chunks(chunk_ids)
    found: dict[str, Chunk] = {}
    for view in views:
        wanted = [i for i in chunk_ids if i not in found and _holds(view.chunk_ids, i)]
        found.update({chunk.id: chunk for chunk in view.chunks(wanted)})
    return [found[i] for i in chunk_ids]


def _holds(sorted_ids: Sequence[str], identifier: str) -> bool:
    at = bisect_left(sorted_ids, identifier)
    return at < len(sorted_ids) and sorted_ids[at] == identifier


def retrieval_stage(
    workspace: Workspace,
    settings: ChainSettings,
    views: Callable[[], Sequence[IndexView]],
    *,
    memory: ConversationMemory | None = None,
    embedder: Embedder | None = None,
    inputs: PromptInputs | None = None,
) -> RetrievalStage:
    """Make the retrieval stage over some generations, opened when it runs."""

    def search(whole: str, pieces: Sequence[str], off: Collection[str]) -> list[Hit]:
        opened = views()
        alone = opened[0].project if len(opened) == 1 else ""
        closed = [f"{alone}/{path}" for path in off] if alone else off
        found = retriever(workspace, settings, embedder=embedder, inputs=inputs)
        past = memory.past() if memory else None
        if not (opened or past):
            return []
        hits = found.search(opened, whole, pieces=pieces, off=closed, past=past)
        return memory.biased(hits, whole) if memory else hits

    def loaded(ids: Sequence[str]) -> list[Chunk]:
        past = [memory.view] if memory and memory.view else []
        return load([*views(), *past], ids) if ids else []

    chosen, note = settings.retrieval, inputs.models.get("store_note", "") if inputs else ""
    return RetrievalStage(
        search,
        loaded,
        chosen.top_k,
        chosen.min_score,
        told=memory.events if memory else tuple,
        warned=tuple(filter(None, note.split("\n"))),
        limits=partial(_unknown_languages, workspace.config.settings.embeddings),
    )


def _unknown_languages(
    chosen: EmbeddingsConfig, question: str, found: Sequence[Chunk]
) -> list[str]:
    """Say that question or passages are of a language that the model was not made for."""
    if chosen.backend == "hashed" or not is_default(chosen.model):
        return []
    asked = other_than_english(question)
    others = Counter(filter(None, (other_than_english(c.snippet) for c in found[:_LOOKED_AT])))
    mostly = 2 * others.total() > min(len(found), _LOOKED_AT)
    passages = others.most_common(1)[0][0] if mostly else ""
    if not (asked or passages):
        return []
    what = f"the question is in {asked}" if asked else f"most passages are in {passages}"
    if asked and passages:
        both = asked if asked == passages else f"{asked}, {passages}"
        what = f"the question and most passages are not in English ({both})"
    name = chosen.model.rsplit("/", 1)[-1]
    return [
        f"{what}, and the embedding model {name} was made for English: what says it in other words "
        "may not be found; embeddings.model names another model"
    ]


_LOOKED_AT = 10


def word_nearness(workspace: Workspace, cache_dir: Path, *, keep: bool = True) -> Nearness:
    """Return what measures words against sentences by the embedder's token vectors."""

    def near(
        question: str, words: Sequence[Span], places: Sequence[tuple[str, Sequence[Span]]]
    ) -> list[list[float]]:
        embedder = models.embedder(workspace.config)
        return _word_nearness(cast(Hashable, embedder), cache_dir, keep)(question, words, places)

    return near


@functools.lru_cache(maxsize=4)  # it holds the passages of the last prompts
def _word_nearness(encoder: Hashable, cache_dir: Path, keep: bool) -> WordNearness:
    from ragstream_core.retrieval.word_nearness import WordNearness
    from ragstream_core.text.tokenizer import word_offsets

    embedder = cast("Embedder", encoder)
    offsets = getattr(embedder, "token_offsets", word_offsets)
    passages = _token_vectors(embedder, cache_dir, keep)
    return WordNearness(embedder, passages, offsets, _recent_products(encoder))


@functools.lru_cache(maxsize=4)
def _recent_products(encoder: Hashable) -> RecentProducts:
    """Return what the reranker worked out with a model; A4 asks for the same."""
    from ragstream_core.retrieval.max_sim import RecentProducts

    return RecentProducts()


def _token_vectors(embedder: Embedder, cache_dir: Path, keep: bool) -> CachedTokenVectors:
    from ragstream_core.models.embedders.token_cache import CachedTokenVectors, TokenVectorCache

    folder = cache_dir / f"tokens-{embedder.fingerprint[:16]}"
    return CachedTokenVectors(embedder, TokenVectorCache(folder, read_only=not keep))


def reranker_stage(
    workspace: Workspace,
    settings: ChainSettings,
    cache_dir: Path,
    views: Callable[[], Sequence[IndexView]],
    *,
    name: str = "",
    weights: str = "",
    keep: bool = True,
) -> RerankerStage:
    """Make the reranker stage that these settings resolve to on this machine."""
    chosen = settings.rerank
    name = name or models.reranker_name(workspace.config, chosen)
    stage = partial(
        RerankerStage,
        weight=chosen.weight,
        dense_weight=settings.retrieval.dense_weight,
        keep=chosen.keep,
        passes=chosen.passes,
    )
    if name == "none":
        return stage(None, "none", "none")
    if name == "reembed":
        fresh = ReembedReranker(models.embedder(workspace.config), settings.retrieval.tau)
        return stage(
            lambda prompt_md, pieces, passages: fresh.score(pieces, passages),
            "reembed",
            name,
            top_k=chosen.top_k,
        )
    if name != "maxsim":
        model = models.cross_encoder(workspace.config, name, weights=weights)
        return stage(
            lambda prompt_md, pieces, passages: model.score(prompt_md, passages),
            "flashrank" if name.startswith("flashrank:") else "cross_encoder",
            name,
            top_k=chosen.cross_encoder_top_k,
        )

    def scorer() -> MaxSimScorer:
        from ragstream_core.retrieval.max_sim import MaxSimScorer, Rarity
        from ragstream_core.text.tokenizer import word_offsets

        embedder = models.embedder(workspace.config)
        passages = _token_vectors(embedder, cache_dir, keep)
        offsets = getattr(embedder, "token_offsets", word_offsets)
        rarity = Rarity(lambda: [view.lexical for view in views()], offsets)
        recent = _recent_products(cast(Hashable, embedder))
        return MaxSimScorer(embedder, passages, settings.retrieval.tau, rarity, recent)

    return stage(
        lambda prompt_md, pieces, passages: scorer().score(pieces, passages),
        "maxsim",
        "MaxSim",
        top_k=chosen.top_k,
        share=lambda pieces: scorer().share(pieces),
    )
