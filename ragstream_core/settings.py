"""Every setting with its default, range and meaning; the reference page is generated from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MS_MARCO = "cross-encoder/ms-marco-MiniLM-L-6-v2"
NLI = "cross-encoder/nli-MiniLM2-L6-H768"


def _listed(value: Any) -> Any:
    """Read ``a, b`` as a list: on the command line and in the environment nobody writes JSON."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""A list of names or globs; from a text, separated by commas."""


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), defer_build=True
    )


class PathsConfig(_Section):
    """Where things lie."""

    data_dir: str = Field("data", description="The data root; relative to the working directory.")
    index_dir: str = Field("", description="Where the indexes lie; empty: `<data_dir>/index`.")


class DiscoveryConfig(_Section):
    """Which files of a project are documents."""

    include: Names = Field(("**",), description="Git-style globs of files to take.")
    exclude: Names = Field((), description="Git-style globs of files to leave out.")
    max_text_bytes: int = Field(
        20_000_000, ge=1, description="Larger text files are skipped before they are read."
    )
    max_pdf_bytes: int = Field(
        100_000_000, ge=1, description="Likewise larger PDF and Office files."
    )
    fallback_encoding: Literal[
        "", "latin-1", "iso8859-15", "cp1250", "cp1251", "cp1252", "koi8-r", "shift_jis", "gb18030",
        "big5", "euc_kr",
    ] = Field(
        "",
        description="Encoding of text files without a mark that are not UTF-8; empty: skip them.",
    )  # fmt: skip
    secrets: Literal["warn", "skip", "redact", "off"] = Field(
        "warn",
        description="Secrets found in documents: name the place, skip the file, index "
        "`[redacted:KIND]` instead, or do not look.",
    )


class ChunkingConfig(_Section):
    """How a document is cut."""

    profile: Literal["default", "recursive_1024", "sentence_400"] = Field(
        "default", description="Named chunk profile; a change re-chunks and re-uses equal texts."
    )
    strip_markdown: bool = Field(
        default=False, description="Leave the markup of Markdown out of the chunks' texts."
    )


class EmbeddingsConfig(_Section):
    """Which model makes the vectors."""

    backend: str = Field(
        "onnx",
        description="`onnx`, `sentence_transformers`, `openai` (an OpenAI-compatible endpoint), "
        "`hashed`, a registered name or a path.",
    )
    model: str = Field(MINILM, description="Model name; another one is another vector space.")
    base_url: str = Field(
        "",
        description="For `openai`: the endpoint, https or on this machine; empty: that of "
        "`provider`, whose key is sent to no other host.",
    )
    timeout_s: float = Field(60.0, gt=0, le=600, description="For `openai`: seconds a request.")
    budget_s: float = Field(
        180.0, gt=0, le=3600, description="For `openai`: seconds a request with its repetitions."
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="For `sentence_transformers`: auto tries cuda, mps, cpu."
    )
    workers: int = Field(0, ge=0, le=256, description="Encoding threads; 0: one a core.")


class IngestionConfig(_Section):
    """What an ingest keeps."""

    delete_replaced: bool = Field(
        default=False, description="Drop replaced and deleted rows at once (keeps one generation)."
    )
    retain_generations: int = Field(
        20, ge=1, description="Generations that prompts can be replayed from."
    )
    gold_k: int = Field(
        10, ge=1, le=100, description="First chunks that count for `gold.jsonl` questions."
    )
    min_recall: float = Field(
        0.0, ge=0, le=1, description="Least recall on `gold.jsonl` of a generation to commit."
    )
    recall_tolerance: float = Field(
        0.05,
        ge=0,
        le=1,
        description="How far recall and MRR on `gold.jsonl` may fall below the last generation's.",
    )


class RetentionConfig(_Section):
    """How long prompts and recorded runs stay that nobody keeps with `ragstream keep`."""

    prompt_days: int = Field(30, ge=1, le=36_500, description="Days until such a prompt goes.")
    prompt_count: int = Field(2_000, ge=1, description="So many of the newest of them stay.")
    run_days: int = Field(
        30, ge=1, le=36_500, description="Days until a recorded run or a debug log goes."
    )
    run_count: int = Field(2_000, ge=1, description="So many of the newest runs stay.")


class RetrievalConfig(_Section):
    """How candidates are found and how much context they may fill."""

    store: str = Field(
        "catalog",
        description="What proposes dense candidates: `catalog` (all rows), `chroma`, `faiss`, "
        "a registered name or a path; the scores are exact with each of them.",
    )
    top_k: int = Field(50, ge=1, le=1000, description="Candidates that go on to the reranker.")
    depth: int = Field(100, ge=1, le=1000, description="Length of each signal's list.")
    dense_weight: float = Field(
        0.5, ge=0, le=1, description="0: pure BM25, 1: pure dense, between: a mix."
    )
    tau: float = Field(9.0, gt=0, le=100, description="Sharpness of LogAvgExp over the pieces.")
    mix_a: float = Field(
        0.3, ge=0, le=1, description="Weight of whole-query scoring where there are several pieces."
    )
    fusion: Literal["convex", "rrf"] = Field("convex", description="How signals are fused.")
    rrf_k: int = Field(60, ge=1, description="Constant of reciprocal rank fusion.")
    max_pieces: int = Field(10, ge=1, le=10, description="Most query pieces a prompt is cut into.")
    min_score: float = Field(
        -1.0, ge=-1, le=1, description="Drop candidates whose absolute cosine is lower; -1: none."
    )
    max_context_chars: int = Field(24_000, ge=200, description="Most characters of attachments.")
    max_context_tokens: int = Field(4_000, ge=50, description="Most tokens of attachments.")
    token_overhead: int = Field(
        200, ge=0, description="Tokens set aside for headings, frames and the answer's preamble."
    )


class RerankConfig(_Section):
    """How the best candidates are put in order."""

    backend: Literal["auto", "cross_encoder", "flashrank", "maxsim", "reembed", "none"] = Field(
        "auto", description="auto: the cross-encoder where its weights are present, else MaxSim."
    )
    model: str = Field(MS_MARCO, description="Cross-encoder model.")
    flashrank_model: str = Field(
        "ms-marco-MiniLM-L-12-v2", description="For `flashrank`: its folder in `<data>/models`."
    )
    top_k: int = Field(
        20, ge=1, le=200, description="How many candidates MaxSim or `reembed` looks at."
    )
    weight: float = Field(
        0.45, ge=0, le=1, description="MaxSim's share of the score beside retrieval's."
    )
    cross_encoder_top_k: int = Field(
        50, ge=1, le=200, description="How many candidates the cross-encoder or FlashRank looks at."
    )
    passes: int = Field(1, ge=1, le=1, description="Reranking passes.")


class GateConfig(_Section):
    """When a candidate is relevant enough."""

    backend: Literal["auto", "similarity", "nli"] = Field(
        "auto", description="auto: the NLI model where its weights are present, else `similarity`."
    )
    model: str = Field(NLI, description="NLI cross-encoder; its labels must name an entailment.")
    nli_theta: float = Field(
        0.5, ge=0, le=1, description="Least score by a model: `nli`, or `agents.a3_form: llm`."
    )
    theta: float = Field(
        0.25, ge=-1, le=1, description="Least best cosine over the pieces; higher is stricter."
    )
    words: float = Field(
        0.5, ge=0, le=1, description="Share of the best BM25 from which words stand in for `theta`."
    )
    relative: float = Field(
        0.42, ge=0, le=1, description="Least mean share of the best cosine and the best BM25."
    )
    keep_top: int = Field(3, ge=0, description="So many best-ranked candidates always stay.")


class FilesConfig(_Section):
    """How named files are injected."""

    full_max_tokens: int = Field(
        1_500, ge=50, description="A longer file is injected as PACK: signatures, head, tail."
    )


class PromptConfig(_Section):
    """What the Super-Prompt looks like."""

    budget_tokens: int = Field(6_000, ge=200, description="Token budget of the whole prompt.")
    max_facts: int = Field(12, ge=1, le=100, description="Most facts in S_ctx.")
    block_order: Literal["authority", "classic"] = Field(
        "authority", description="Order of the blocks; classic is seed 001's listing."
    )
    recent_history: bool = Field(
        default=True, description="Show the non-authoritative RECENT HISTORY block if there is one."
    )
    model_target: str = Field("", description="The model the prompt is meant for; shown, not used.")


class HistoryConfig(_Section):
    """What is kept of conversations, and what prompts see of them."""

    persist: bool = Field(
        default=True, description="Off: nothing of a prompt or turn is written anywhere."
    )
    enabled: bool = Field(default=True, description="Search older turns beside the documents.")
    recency_k: int = Field(4, ge=0, le=50, description="Newest pairs shown verbatim (Layer G).")
    recent_max_tokens: int = Field(
        1_500, ge=0, description="Token budget of Layer G; whole pairs, the newest first."
    )
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
    always_tags: Names = Field(
        (),
        description="Turns with these tags pass the session and project filters: `GOLD`, or "
        "`GOLD@30d` for those of 30 days.",
    )
    exclude_tags: Names = Field(("BLUE",), description="Turns with these tags are never selected.")
    gold_bias: float = Field(0.3, ge=0, le=1, description="Added to the score of GOLD turns.")
    silver_bias: float = Field(0.1, ge=0, le=1, description="Added to the score of SILVER turns.")
    importance_weight: float = Field(
        0.1, ge=0, le=1, description="Share of a turn's importance in its score."
    )
    recency_weight: float = Field(
        0.0, ge=0, le=1, description="Soft preference for newer turns; 0.05 is gentle, 0: none."
    )
    damping: float = Field(
        0.0, ge=0, le=1, description="How much a long pause fades older turns; 0: not at all."
    )
    lexicon: str = Field(
        "", description="YAML file of acronyms and synonyms, beside the built-in one."
    )
    allow_in_s_ctx: bool = Field(
        default=False, description="Let facts be quoted from the conversation."
    )
    max_chunks: int = Field(
        20_000, ge=1, description="Cap of the published selection; the catalog stays complete."
    )
    summaries: bool = Field(
        default=False, description="Roll old spans into titled extractive summaries (never G)."
    )
    summarise_after_days: float = Field(
        180.0, ge=1, le=36_500, description="Age of a span to be rolled up."
    )


Form = Literal["deterministic", "llm"]
"""How an agent decides; with `llm` the deterministic form takes over whenever the model fails."""


class AgentsConfig(_Section):
    """Which agents take part and how; a switched-off agent passes its input through."""

    a1: bool = Field(default=True, description="A1 injects files you name.")
    a2: bool = Field(default=True, description="A2 shapes intent, domain and headers.")
    a3: bool = Field(default=True, description="A3 drops candidates that are not relevant.")
    a4: bool = Field(default=True, description="A4 condenses the kept chunks into S_ctx.")
    a2_form: Form = Field(
        "deterministic", description="`llm`: the language model classifies what is asked."
    )
    a3_form: Form = Field(
        "deterministic", description="`llm`: the language model judges each candidate."
    )
    a4_form: Form = Field(
        "deterministic", description="`llm`: the language model points at the sentences of S_ctx."
    )
    audit_form: Form = Field(
        "deterministic", description="`llm`: the language model says whether the scope changes."
    )


class ProviderConfig(_Section):
    """The language model; contacted only where one is asked for, and by `openai` embeddings."""

    backend: str = Field(
        "openai",
        description="`openai` (any OpenAI-compatible endpoint), `scripted` (made for tests), a "
        "registered name or a path.",
    )
    base_url: str = Field(
        "http://127.0.0.1:11434/v1", description="The endpoint: https, or on this machine."
    )
    model: str = Field(
        "llama3.2", description="Chat model; empty: the first one that the endpoint lists."
    )
    api_key: SecretStr = Field(
        SecretStr(""), description="Key of the endpoint; from the environment or `.env` only."
    )
    api_key_file: str = Field(
        "", description="A file with the key instead, readable by you alone (mode 0600)."
    )
    timeout_s: float = Field(
        120.0, gt=0, le=3600, description="Seconds a whole answer, or a stream's silence, may last."
    )
    budget_s: float = Field(
        300.0, gt=0, le=7200, description="Seconds a request may last with its repetitions."
    )
    temperature: float = Field(
        0.0, ge=-1, le=2, description="Sampling temperature; -1: not sent, the model's own."
    )
    max_output_tokens: int = Field(
        0, ge=0, description="Most tokens of an answer; 0: the model's own limit."
    )
    input_usd_per_mtok: float = Field(
        -1.0, ge=-1, description="Price of a million tokens sent; -1: as the price table has it."
    )
    output_usd_per_mtok: float = Field(
        -1.0, ge=-1, description="Likewise of a million tokens answered."
    )
    script: str = Field("", description="For `scripted`: a YAML file of answers.")


class VectorStoreConfig(_Section):
    """Which vector stores stand beside the index."""

    backend: str = Field(
        "catalog", description="Another name of `retrieval.store`, which comes first."
    )
    collection: bool = Field(
        default=True, description="Keep a sealed Chroma collection of each project."
    )


class MemoryConfig(_Section):
    """Persistent memory; read by nothing in this version."""

    enabled: bool = Field(default=False, description="Use the answer cache and the digest.")
    index_name: str = Field("memory_context", description="Name of the memory index.")
    top_k: int = Field(5, ge=1, description="Memories per prompt.")
    max_tokens: int = Field(512, ge=0, description="Token budget of memory.")
    summary_tokens: int = Field(256, ge=0, description="Token budget of the rolling digest.")
    rolling_window: int = Field(6, ge=1, description="Turns the digest covers.")
    cache_min_score: float = Field(0.95, ge=0, le=1, description="Least similarity of a cache hit.")


class DocumentationConfig(_Section):
    """Test-spec generation; read by nothing in this version."""

    id_format: str = Field("TC-{number:03d}", description="Identifier of a test case.")
    embed_json: bool = Field(default=False, description="Embed the raw JSON in the Markdown.")


class DagsterConfig(_Section):
    """How runs are recorded."""

    record: Literal["dagster", "none"] = Field(
        "dagster", description="Record ingests and prompts as Dagster runs, or not at all."
    )
    port: int = Field(3000, ge=1, le=65535, description="Port of Dagster's web server.")


class PageConfig(_Section):
    """The prompt page."""

    port: int = Field(8503, ge=1, le=65535, description="Port of the page.")
    address: str = Field(
        "127.0.0.1", description="What the page listens on; another one needs `page.allow_remote`."
    )
    allow_remote: bool = Field(
        default=False,
        description="Let other machines reach the page, behind the password of "
        "`ragstream password`.",
    )
    hosts: Names = Field(
        (), description="Names it is reached by, with the port: `notes.example:8503`."
    )


class DebugConfig(_Section):
    """The Debug Logger, for developers."""

    enabled: bool = Field(
        default=False, description="Write what each step does to `<data_dir>/logs/debug_trace_…`."
    )
    vars_enabled: bool = Field(
        default=False,
        description="Also values, to `debug_vars_…`: they show prompts and what was found.",
    )
    min_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Less urgent lines are not written."
    )
    max_chars: int = Field(
        200, ge=10, le=100_000, description="Most characters of a message or value."
    )
    rotate_mb: float = Field(
        0.0, ge=0, le=10_000, description="A file that grows beyond it is moved to `.1`; 0: never."
    )
    rotate_keep: int = Field(5, ge=1, le=99, description="So many moved files stay.")


class Settings(_Section):
    """All sections; an unknown one is refused."""

    paths: PathsConfig = Field(default_factory=PathsConfig)
    discovery: DiscoveryConfig = Field(default_factory=DiscoveryConfig)
    chunking: ChunkingConfig = Field(default_factory=ChunkingConfig)
    embeddings: EmbeddingsConfig = Field(default_factory=EmbeddingsConfig)
    ingestion: IngestionConfig = Field(default_factory=IngestionConfig)
    retention: RetentionConfig = Field(default_factory=RetentionConfig)
    retrieval: RetrievalConfig = Field(default_factory=RetrievalConfig)
    rerank: RerankConfig = Field(default_factory=RerankConfig)
    gate: GateConfig = Field(default_factory=GateConfig)
    files: FilesConfig = Field(default_factory=FilesConfig)
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    history: HistoryConfig = Field(default_factory=HistoryConfig)
    agents: AgentsConfig = Field(default_factory=AgentsConfig)
    provider: ProviderConfig = Field(default_factory=ProviderConfig)
    vector_store: VectorStoreConfig = Field(default_factory=VectorStoreConfig)
    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    documentation: DocumentationConfig = Field(default_factory=DocumentationConfig)
    dagster: DagsterConfig = Field(default_factory=DagsterConfig)
    page: PageConfig = Field(default_factory=PageConfig)
    debug: DebugConfig = Field(default_factory=DebugConfig)


SECTIONS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type)
}

CHAIN_SECTIONS = ("retrieval", "rerank", "gate", "files", "prompt", "history", "agents")
"""The sections a prompt's result depends on; they are part of its key."""


class ChainSettings(_Section):
    """The settings of one stage, complete and frozen."""

    retrieval: RetrievalConfig = Field(default_factory=RetrievalConfig)
    rerank: RerankConfig = Field(default_factory=RerankConfig)
    gate: GateConfig = Field(default_factory=GateConfig)
    files: FilesConfig = Field(default_factory=FilesConfig)
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    history: HistoryConfig = Field(default_factory=HistoryConfig)
    agents: AgentsConfig = Field(default_factory=AgentsConfig)


def known_keys() -> list[str]:
    """Return every dotted setting name, sorted."""
    return sorted(f"{s}.{key}" for s, model in SECTIONS.items() for key in model.model_fields)


def chain_keys() -> list[str]:
    """Return the dotted names of the settings that stages read, sorted."""
    return [key for key in known_keys() if key.split(".")[0] in CHAIN_SECTIONS]
