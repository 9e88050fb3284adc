"""Settings of what is read and indexed, and of how long it is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

import ragstream_core.settings.confirmation as asks
from ragstream_core.settings.values import Names, Section

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class PathsConfig(Section):
    """Where things lie."""

    data_dir: Annotated[str, asks.ROOT] = Field(
        "data", description="The data root; relative to the working directory."
    )
    index_dir: Annotated[str, asks.ROOT] = Field(
        "", description="Where the indexes lie; empty: `<data_dir>/index`."
    )
    logs: Annotated[str, asks.PATH] = Field(
        "",
        description="Where `conversation.log` and the debug logs lie; empty: "
        "`<data_dir>/history/logs`.",
    )
    agent_logs: Annotated[Names, asks.LOGS] = Field(
        (),
        description="Folders in which coding agents keep their session logs, such as "
        "`~/.claude/projects` and `~/.codex/sessions`: followed in the background, only read.",
    )


class DiscoveryConfig(Section):
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
        description="Encoding of files without a mark that are not UTF-8; empty: the likeliest.",
    )  # fmt: skip
    secrets: Annotated[Literal["warn", "skip", "redact", "off"], asks.SECRETS] = Field(
        "warn",
        description="Secrets found in documents: name the place, skip the file, index "
        "`[redacted:KIND]` instead, or do not look.",
    )


class ChunkingConfig(Section):
    """How a document is cut."""

    profile: Literal["default", "recursive_1024", "sentence_400"] = Field(
        "default", description="Named chunk profile; a change re-chunks and re-uses equal texts."
    )
    size: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Largest chunk, 16 or more, in `chunking.unit`; 0: that of the profile.",
    )
    overlap: int = Field(
        -1,
        ge=-1,
        le=100_000,
        description="The most that a chunk repeats of the one before, below the size; -1: the "
        "profile's share of the size.",
    )
    unit: Literal["", "tokens", "characters"] = Field(
        "",
        description="What size and overlap are counted in; empty: as the profile (tokens).",
    )
    strip_markdown: bool = Field(
        default=False, description="Leave the markup of Markdown out of the chunks' texts."
    )


class EmbeddingsConfig(Section):
    """Which model makes the vectors."""

    backend: Annotated[str, asks.EMBEDDER] = Field(
        "onnx",
        description="`onnx`, `sentence_transformers`, `fastembed` (an extra), `openai` (an "
        "OpenAI-compatible endpoint), `hashed`, a registered name or a path.",
    )
    model: Annotated[str, asks.PATH] = Field(
        MINILM, description="Model name; another one is another vector space."
    )
    precision: Literal["float32", "int8"] = Field(
        "float32",
        description="Of the default model under `onnx`: int8 embeds 0.9 to 2.1 times as many texts "
        "a CPU second, by the processor, in a vector space of its own; a change embeds everything "
        "anew.",
    )
    base_url: Annotated[str, asks.ADDRESS] = Field(
        "",
        description="For `openai`: the endpoint, https or on this machine; empty: that of "
        "`provider`, whose key is sent to no other host.",
    )
    timeout_s: float = Field(
        60.0, gt=0, le=600, description="For `openai`: seconds one attempt may take."
    )
    budget_s: float = Field(
        180.0,
        gt=0,
        le=3600,
        description="For `openai`: seconds a request may take, retries included.",
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="Where torch computes: auto tries cuda, mps, cpu."
    )
    workers: int = Field(0, ge=0, le=256, description="Encoding threads; 0: one a core.")
    shared: Annotated[SecretStr, asks.ADDRESS] = Field(
        SecretStr(""),
        description="A PostgreSQL database in which several machines share the vectors of texts, "
        "`postgresql://USER@HOST:5432/NAME`; a password in it comes from the environment or `.env` "
        "only. Empty: none.",
    )
    fan_out_at: int = Field(
        2_000,
        ge=0,
        description="With a worker at the database of `embeddings.shared`, an ingest of so many "
        "new texts or more has them embedded by the workers first; 0: only with `--fan-out`.",
    )
    queue: str = Field(
        "cpu",
        pattern="^[a-z0-9-]{1,32}$",
        description="The queue to which an ingest gives its batches, and from which a worker takes "
        "them: `cpu`, `gpu` or another name.",
    )
    batch_texts: int = Field(
        64,
        ge=1,
        le=10_000,
        description="Texts that a worker embeds at a time; a graphics card wants some thousand.",
    )
    batch_timeout_s: float = Field(
        120.0,
        ge=5,
        le=86_400,
        description="Seconds without a finished batch after which an ingest embeds the rest "
        "itself; well above what the slowest worker needs for a batch.",
    )


class IngestionConfig(Section):
    """What an ingest keeps."""

    delete_replaced: Annotated[bool, asks.KEPT] = Field(
        default=False,
        description="Drop replaced and deleted rows immediately (keeps one generation).",
    )
    retain_generations: Annotated[int, asks.KEPT] = Field(
        20, ge=1, description="Generations that prompts can be replayed from."
    )
    gold_k: int = Field(
        10, ge=1, le=100, description="First chunks that count for `gold.jsonl` questions."
    )
    min_recall: float = Field(
        0.0, ge=0, le=1, description="Minimum recall on `gold.jsonl` of a generation to commit."
    )
    recall_tolerance: float = Field(
        0.05,
        ge=0,
        le=1,
        description="How far recall and MRR on `gold.jsonl` may fall below the last generation's.",
    )


class VectorStoreConfig(Section):
    """Which vector stores stand beside the index."""

    backend: Annotated[str, asks.CODE] = Field(
        "catalog", description="Another name of `retrieval.store`, which takes precedence."
    )
    collection: bool = Field(
        default=True,
        description="Keep a sealed Chroma collection of each project, if Chroma is installed.",
    )
    url: Annotated[SecretStr, asks.ADDRESS] = Field(
        SecretStr(""), description="For `pgvector`: the address of a PostgreSQL database, "
        "`postgresql://USER@HOST:5432/NAME`; a password from the environment or `~/.pgpass` only.",
    )  # fmt: skip


class RetentionConfig(Section):
    """How long prompts and recorded runs stay that were not kept with `ragstream keep`."""

    prompt_days: Annotated[int, asks.KEPT] = Field(
        30, ge=1, le=36_500, description="Days until such a prompt is removed."
    )
    prompt_count: Annotated[int, asks.KEPT] = Field(
        2_000, ge=1, description="How many of the newest of them are kept."
    )
    run_days: Annotated[int, asks.KEPT] = Field(
        30, ge=1, le=36_500, description="Days until a recorded run or a debug log is removed."
    )
    run_count: Annotated[int, asks.KEPT] = Field(
        2_000, ge=1, description="How many of the newest runs are kept."
    )
