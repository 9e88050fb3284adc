"""Settings that a prompt's bytes depend on; they are part of its key."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

import ragstream_core.settings.confirmation as asks
from ragstream_core.settings.values import Names, Section, Template, Voice, Wording

MS_MARCO = "cross-encoder/ms-marco-MiniLM-L-6-v2"
NLI = "cross-encoder/nli-MiniLM2-L6-H768"

# How an agent decides; with `llm` the deterministic form takes over whenever the model fails.
Form = Literal["deterministic", "llm"]


class RetrievalConfig(Section):
    """How candidates are found and how much context they may fill."""

    store: Annotated[str, asks.CODE] = Field(
        "catalog",
        description="What proposes dense candidates: `catalog` (all rows), `chroma`, `faiss`, "
        "`faiss_ivf`, `pgvector`, a registered name or a path; the scores are exact with each.",
    )
    approximate_at: int = Field(
        1_000_000, ge=0, description="Chunks of a project from which `catalog` has candidates "
        "proposed by inverted lists, if the extra `faiss` is installed; 0: never.",
    )  # fmt: skip
    nprobe: int = Field(
        256, ge=1, le=65_536, description="Inverted lists that a question looks at; `ragstream "
        "index check` shows which share of the nearest chunks they hold.",
    )  # fmt: skip
    ef_search: int = Field(
        400, ge=10, le=1000, description="For `pgvector`: rows that a search of its graph keeps in "
        "view; more find more and take longer.",
    )  # fmt: skip
    top_k: int = Field(50, ge=1, le=1000, description="Candidates that go on to the reranker.")
    depth: int = Field(100, ge=1, le=1000, description="Length of each signal's list.")
    dense_weight: float = Field(
        0.5, ge=0, le=1, description="0: pure BM25, 1: pure dense, between: a mix."
    )
    k3: float = Field(
        2.0, ge=0, le=1000, description="BM25: how late a word that a question repeats stops to "
        "count more; 0: words count once.",
    )  # fmt: skip
    tau: float = Field(9.0, gt=0, le=100, description="Sharpness of LogAvgExp over the pieces.")
    mix_a: float = Field(
        0.25, ge=0, le=1, description="Weight of the reading as a whole for a list of questions."
    )
    mix_coherence: float = Field(
        1.5, ge=0, le=10, description="What is added to `mix_a` if a question tells one thing "
        "at length, times the mean cosine of two pieces that both ask nothing; 0: none.",
    )  # fmt: skip
    fusion: Literal["convex", "rrf"] = Field("convex", description="How signals are fused.")
    rrf_k: int = Field(60, ge=1, description="Constant of reciprocal rank fusion.")
    max_pieces: int = Field(
        10, ge=1, le=10, description="Maximum number of query pieces a prompt is cut into."
    )
    min_score: float = Field(
        -1.0, ge=-1, le=1, description="Drop candidates whose absolute cosine is lower; -1: none."
    )
    max_context_chars: int = Field(
        24_000, ge=200, description="Maximum number of characters in attachments."
    )
    max_context_tokens: int = Field(
        4_000, ge=50, description="Maximum number of tokens in attachments."
    )
    evidence: Literal["full", "tight"] = Field(
        "tight", description="Where attachments end. full: where the budget does; tight: where "
        "the evidence for a single question does, unless its best passage is code or data; of long "
        "passages behind the third one only the sentences around what is asked are shown."
    )  # fmt: skip
    token_overhead: int = Field(
        200, ge=0, description="Tokens set aside for headings, frames and the answer's preamble."
    )


class RerankConfig(Section):
    """How the best candidates are put in order."""

    backend: Literal["auto", "cross_encoder", "flashrank", "maxsim", "reembed", "none"] = Field(
        "auto", description="auto: the cross-encoder if its weights are present, else MaxSim."
    )
    model: Annotated[str, asks.PATH] = Field(MS_MARCO, description="Cross-encoder model.")
    flashrank_model: Annotated[str, asks.PATH] = Field(
        "ms-marco-MiniLM-L-12-v2", description="For `flashrank`: its folder in `<data>/models`."
    )
    top_k: int = Field(
        20, ge=1, le=200, description="How many candidates MaxSim or `reembed` looks at."
    )
    weight: float = Field(
        0.46,
        ge=0,
        le=1,
        description="MaxSim's share of the score beside retrieval's; less if "
        "a question of several pieces asks nothing.",
    )
    cross_encoder_top_k: int = Field(
        50, ge=1, le=200, description="How many candidates the cross-encoder or FlashRank looks at."
    )
    passes: int = Field(
        1, ge=1, le=5, description="Reranking passes; each one after the first ranks what was kept."
    )
    keep: int = Field(
        0, ge=0, le=1000, description="Candidates that go on to the gate, best first; 0: all."
    )


class GateConfig(Section):
    """When a candidate is relevant enough."""

    backend: Literal["auto", "similarity", "nli"] = Field(
        "auto",
        description="auto: the NLI model if its weights are present and `ragstream eval gate` "
        "has measured that it is better, else `similarity`.",
    )
    model: Annotated[str, asks.PATH] = Field(
        NLI, description="NLI cross-encoder; its labels must name an entailment."
    )
    nli_theta: float = Field(
        0.5, ge=0, le=1, description="Minimum score by a model: `nli`, or `agents.a3_form: llm`."
    )
    theta: float = Field(
        0.25, ge=-1, le=1, description="Minimum best cosine over the pieces; higher is stricter."
    )
    words: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of the best BM25 at which words stand in for `theta`.",
    )
    relative: float = Field(
        0.42, ge=0, le=1, description="Minimum mean share of the best cosine and the best BM25."
    )
    keep_top: int = Field(
        5,
        ge=0,
        description="How many best-ranked candidates are always kept, and shown if it is not sure "
        "that they answer.",
    )


class FilesConfig(Section):
    """How named files are injected."""

    full_max_tokens: int = Field(
        1_500, ge=50, description="A longer file is injected as PACK: signatures, head, tail."
    )
    line_numbers: bool = Field(
        False, description="Number the lines of whole files too; those of a PACK always are."
    )


class PromptConfig(Section):
    """What the Super-Prompt looks like."""

    budget_tokens: int = Field(6_000, ge=200, description="Token budget of the whole prompt.")
    max_facts: int = Field(12, ge=1, le=100, description="Maximum number of facts in S_ctx.")
    block_order: Literal["authority", "classic"] = Field(
        "authority", description="Order of the blocks; classic is seed 001's listing."
    )
    recent_history: bool = Field(
        default=True, description="Show the non-authoritative RECENT HISTORY block if there is one."
    )
    model_target: Annotated[str, asks.WORDS] = Field(
        "", description="The model the prompt is meant for: shown, and the budget stays within "
        "three quarters of its context window if that is known.",
    )  # fmt: skip
    model_window: int = Field(
        0, ge=0, description="Its context window in tokens; 0: as the installed price table says."
    )
    token_counter: Literal["auto", "estimate", "o200k_base", "cl100k_base"] = Field(
        "auto", description="auto: with the tokenizer of `model_target` if its file is here, "
        "else estimated by script; or an encoding of tiktoken (`ragstream models pull NAME`).",
    )  # fmt: skip
    chars_per_token: float = Field(
        0.0, ge=0, le=100, description="Estimate by so many characters a token instead; 0: off."
    )
    system: Annotated[Voice, asks.WORDS] = Field(
        "", description="Who answers, if the prompt does not say; empty: `consultant`."
    )
    role: Annotated[Voice, asks.WORDS] = Field(
        "", description="The role of who answers, if the prompt does not say; empty: A2's."
    )
    tone: Annotated[Voice, asks.WORDS] = Field(
        "", description="The tone, if the prompt does not say; empty: `neutral`."
    )
    user_template: Annotated[Template, asks.WORDS] = Field(
        "", description="Text around the task; must hold `{task}` once, may hold `{role}`, "
        "`{tone}`, `{audience}`, `{depth}`; empty: the task alone.",
    )  # fmt: skip
    answer_rules: Annotated[Wording, asks.WORDS] = Field(
        "", description="How a model is told to answer from documents; must hold `{refusal}`; "
        "empty: our wording.",
    )  # fmt: skip
    memory_rules: Annotated[Wording, asks.WORDS] = Field(
        "", description="Likewise if there is no document, only memory and conversation."
    )


class HistoryConfig(Section):
    """What is kept of conversations, and what prompts see of them."""

    persist: Annotated[bool, asks.NOT_KEPT] = Field(
        default=True, description="Off: nothing of a prompt or turn is written anywhere."
    )
    enabled: bool = Field(default=True, description="Search older turns beside the documents.")
    recency_k: int = Field(4, ge=0, le=50, description="Newest pairs shown verbatim (Layer G).")
    recent_max_tokens: int = Field(
        2_000, ge=0, description="Token budget of Layer G, at most half of the prompt's; what does "
        "not fit is cut at a sentence and stays in the search.",
    )  # fmt: skip
    recent_fill: Literal["none", "projects", "all"] = Field(
        "none", description="Whose newest turns fill up a session that has fewer: nobody's, those "
        "of the prompt's own projects, or those of all.",
    )  # fmt: skip
    follow_ups: bool = Field(
        default=True, description="Search \"And its weight?\" with what was asked before it in the "
        "same conversation; the prompt says how it was read.",
    )  # fmt: skip
    max_tokens: int = Field(1_000, ge=0, description="Token budget of older turns (Layer E).")
    sessions: Names = Field(
        (), description="Search only these sessions; `current` is the prompt's own; empty: all."
    )
    tags: Names = Field((), description="Search only turns with one of these tags.")
    projects: Names = Field(
        (), description="Search only turns of these projects; `current`: the prompt's own."
    )
    days: float = Field(
        0.0, ge=0, le=36_500, description="Search only turns of so many days; 0: all."
    )
    since: str = Field(
        "", description="Search only turns from this date or time on (ISO; UTC if it names no "
        "zone); empty: all.",
    )  # fmt: skip
    always_tags: Names = Field(
        (),
        description="Turns with these tags pass the session and project filters: `GOLD`, or "
        "`GOLD@30d` for those of 30 days.",
    )
    exclude_tags: Names = Field(("BLUE",), description="Turns with these tags are never selected.")
    gold_bias: float = Field(0.3, ge=0, le=1, description="Added to the score of GOLD turns.")
    silver_bias: float = Field(0.1, ge=0, le=1, description="Added to the score of SILVER turns.")
    around: bool = Field(
        default=True, description="Let a turn's rank count the turns beside it, its sitting, the "
        "speaker and the day that the question names, and rare words of the best turns.",
    )  # fmt: skip
    importance_weight: float = Field(
        0.1, ge=0, le=1, description="Share of a turn's importance in its score."
    )
    recency_weight: float = Field(
        0.0, ge=0, le=1, description="Soft preference for newer turns; 0.05 is gentle, 0: none."
    )
    damping: float = Field(
        0.0, ge=0, le=1, description="How much a long pause fades older turns; 0: not at all."
    )
    lexicon: Annotated[str, asks.PATH] = Field(
        "", description="YAML file of acronyms and synonyms, beside the built-in one."
    )
    allow_in_s_ctx: bool = Field(
        default=False, description="Let facts be quoted from the conversation."
    )
    chunk_size: int = Field(
        200, ge=32, le=4_000, description="Longest piece of a turn, in `chunk_unit`; a turn up to "
        "a quarter longer stays whole. A change cuts all turns again.",
    )  # fmt: skip
    chunk_overlap: int = Field(
        20, ge=0, le=2_000, validate_default=True,
        description="The most that a piece repeats of the one before, in whole sentences; "
        "less than half.",
    )  # fmt: skip
    chunk_unit: Literal["tokens", "characters"] = Field(
        "tokens", description="What these two count: tokens, at most those that the model reads at "
        "once, or characters.",
    )  # fmt: skip
    max_chunks: int = Field(
        20_000, ge=1, description="Cap of the published selection; the catalog stays complete."
    )
    summaries: bool = Field(
        default=False, description="Roll old spans into titled extractive summaries (never G)."
    )
    summarise_after_days: float = Field(
        180.0, ge=1, le=36_500, description="Age of a span to be rolled up."
    )

    @field_validator("since", mode="before")
    @classmethod
    def _a_moment(cls, since: object) -> object:
        if isinstance(since, dt.date):  # YAML reads a bare date as one
            return since.isoformat()
        if since and isinstance(since, str):
            try:
                dt.datetime.fromisoformat(since)
            except ValueError:
                raise ValueError("write a date or a time, 2026-03-31 or 2026-03-31T12:00") from None
        return since

    @field_validator("chunk_overlap")
    @classmethod
    def _less_than_half(cls, overlap: int, info: ValidationInfo) -> int:
        size = info.data.get("chunk_size", overlap * 2 + 1)
        if overlap * 2 >= size:
            raise ValueError(f"must be less than half of history.chunk_size, which is {size}")
        return overlap


class MemoryConfig(Section):
    """Memory beyond the newest turns: earlier answers, a digest, a budget; off by default."""

    enabled: bool = Field(
        default=False, description="Use the digest, the memory's own budget and the answer cache."
    )
    cache: bool = Field(
        default=True, description="In a chat, give an earlier answer to the same question again."
    )
    index_name: str = Field(
        "memory_context",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="Name of its files in `<data>/history/index/memory`.",
    )
    top_k: int = Field(5, ge=1, description="Maximum number of pieces of older turns in a prompt.")
    max_tokens: int = Field(
        512, ge=0, description="Maximum tokens of digest and older turns together; they come first."
    )
    max_chars: int = Field(
        0,
        ge=0,
        description="Maximum characters of both, frames not counted; 0: no limit of its own.",
    )
    summary_tokens: int = Field(256, ge=0, description="Maximum tokens of the rolling digest.")
    summary_form: Annotated[Literal["extractive", "llm"], asks.SENDS] = Field(
        "extractive", description="`llm`: the language model words the digest after each turn."
    )
    rolling_window: int = Field(
        6, ge=1, le=100, description="How many of the newest turns the digest tells of."
    )
    cache_min_score: float = Field(
        0.95, ge=0, le=1, description="Minimum cosine of two questions that get one answer."
    )
    cache_match: Literal["words", "paraphrase", "score"] = Field(
        "paraphrase", description="What their words must be besides: the same; all of one in the "
        "other, and no number or `not` more; or anything.",
    )  # fmt: skip


class AgentsConfig(Section):
    """Which agents take part and how; a switched-off agent passes its input through."""

    a1: bool = Field(default=True, description="A1 injects files you name.")
    a2: bool = Field(default=True, description="A2 shapes intent, domain and headers.")
    a3: bool = Field(default=True, description="A3 drops candidates that are not relevant.")
    a4: bool = Field(default=True, description="A4 condenses the kept chunks into S_ctx.")
    a2_form: Annotated[Form, asks.SENDS] = Field(
        "deterministic", description="`llm`: the language model classifies what is asked."
    )
    a3_form: Annotated[Form, asks.SENDS] = Field(
        "deterministic", description="`llm`: the language model judges each candidate."
    )
    a4_form: Annotated[Form, asks.SENDS] = Field(
        "deterministic", description="`llm`: the language model points at the sentences of S_ctx."
    )
    audit_form: Annotated[Form, asks.SENDS] = Field(
        "deterministic", description="`llm`: the language model says whether the scope changes."
    )
