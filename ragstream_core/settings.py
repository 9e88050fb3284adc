"""Every setting with its default, range and meaning; the reference page is generated from here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MS_MARCO = "cross-encoder/ms-marco-MiniLM-L-6-v2"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class PathsConfig(_Section):
    """Where things lie."""

    data_dir: str = Field("data", description="The data root; relative to the working directory.")
    index_dir: str = Field("", description="Where the indexes lie; empty: `<data_dir>/index`.")


class DiscoveryConfig(_Section):
    """Which files of a project are documents."""

    include: list[str] = Field(["**"], description="Git-style globs of files to take.")
    exclude: list[str] = Field([], description="Git-style globs of files to leave out.")
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

    backend: Literal["auto", "cross_encoder", "maxsim", "none"] = Field(
        "auto", description="auto: the cross-encoder where its weights are present, else MaxSim."
    )
    model: str = Field(MS_MARCO, description="Cross-encoder model.")
    top_k: int = Field(20, ge=1, le=200, description="How many candidates MaxSim looks at.")
    weight: float = Field(
        0.45, ge=0, le=1, description="MaxSim's share of the score beside retrieval's."
    )
    cross_encoder_top_k: int = Field(
        50, ge=1, le=200, description="How many candidates the cross-encoder looks at."
    )
    passes: int = Field(1, ge=1, le=1, description="Reranking passes.")


class GateConfig(_Section):
    """When a candidate is relevant enough."""

    theta: float = Field(
        0.25, ge=-1, le=1, description="Least best cosine over the pieces; higher is stricter."
    )
    relative: float = Field(
        0.6, ge=0, le=1, description="Least cosine for some piece, as a share of the best one."
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


class AgentsConfig(_Section):
    """Which agents take part; a switched-off agent passes its input through."""

    a1: bool = Field(default=True, description="A1 injects files you name.")
    a2: bool = Field(default=True, description="A2 shapes intent, domain and headers.")
    a3: bool = Field(default=True, description="A3 drops candidates that are not relevant.")
    a4: bool = Field(default=True, description="A4 condenses the kept chunks into S_ctx.")


class ProviderConfig(_Section):
    """The OpenAI-compatible endpoint; contacted only by the `openai` embedding backend."""

    base_url: str = Field("http://127.0.0.1:11434/v1", description="OpenAI-compatible endpoint.")
    model: str = Field("llama3.2", description="Chat model.")
    api_key: SecretStr = Field(
        SecretStr(""), description="Key of the endpoint; from the environment or `.env` only."
    )


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


class Settings(_Section):
    """All sections; an unknown one is refused."""

    paths: PathsConfig = PathsConfig()
    discovery: DiscoveryConfig = DiscoveryConfig()
    chunking: ChunkingConfig = ChunkingConfig()
    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    ingestion: IngestionConfig = IngestionConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    rerank: RerankConfig = RerankConfig()
    gate: GateConfig = GateConfig()
    files: FilesConfig = FilesConfig()
    prompt: PromptConfig = PromptConfig()
    agents: AgentsConfig = AgentsConfig()
    provider: ProviderConfig = ProviderConfig()
    vector_store: VectorStoreConfig = VectorStoreConfig()
    memory: MemoryConfig = MemoryConfig()
    documentation: DocumentationConfig = DocumentationConfig()
    dagster: DagsterConfig = DagsterConfig()
    page: PageConfig = PageConfig()


SECTIONS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type)
}

CHAIN_SECTIONS = ("retrieval", "rerank", "gate", "files", "prompt", "agents")
"""The sections a prompt's result depends on; they are part of its key."""


class ChainSettings(_Section):
    """The settings of one stage, complete and frozen."""

    retrieval: RetrievalConfig = RetrievalConfig()
    rerank: RerankConfig = RerankConfig()
    gate: GateConfig = GateConfig()
    files: FilesConfig = FilesConfig()
    prompt: PromptConfig = PromptConfig()
    agents: AgentsConfig = AgentsConfig()


def known_keys() -> list[str]:
    """Return every dotted setting name, sorted."""
    return sorted(f"{s}.{key}" for s, model in SECTIONS.items() for key in model.model_fields)


def chain_keys() -> list[str]:
    """Return the dotted names of the settings that stages read, sorted."""
    return [key for key in known_keys() if key.split(".")[0] in CHAIN_SECTIONS]
