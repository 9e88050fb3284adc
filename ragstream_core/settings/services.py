"""Settings around a prompt: the language model, documents written, Dagster, the page, the log."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

import ragstream_core.settings.confirmation as asks
from ragstream_core.settings.values import Names, Section


class ProviderConfig(Section):
    """The language model; contacted only if one is asked for, and by `openai` embeddings."""

    backend: Annotated[str, asks.PROVIDER] = Field(
        "openai",
        description="`openai` (any OpenAI-compatible endpoint), `scripted` (made for tests), a "
        "registered name or a path.",
    )
    base_url: Annotated[str, asks.ADDRESS] = Field(
        "http://127.0.0.1:11434/v1", description="The endpoint: https, or on this machine."
    )
    model: str = Field(
        "llama3.2", description="Chat model; empty: the first one that the endpoint lists."
    )
    api_key: Annotated[SecretStr, asks.KEY] = Field(
        SecretStr(""), description="Key of the endpoint; from the environment or `.env` only."
    )
    api_key_file: Annotated[str, asks.KEY] = Field(
        "", description="A file with the key instead, readable by you alone (mode 0600)."
    )
    timeout_s: float = Field(
        120.0, gt=0, le=3600, description="Seconds a whole answer, or a stream's silence, may take."
    )
    budget_s: float = Field(
        300.0, gt=0, le=7200, description="Seconds a request may take, retries included."
    )
    temperature: float = Field(
        0.0, ge=-1, le=2, description="Sampling temperature; -1: not sent, the model's own."
    )
    max_output_tokens: int = Field(
        0, ge=0, description="Maximum tokens of an answer; 0: the model's own limit."
    )
    input_usd_per_mtok: float = Field(
        -1.0, ge=-1, description="Price of a million tokens sent; -1: as the price table has it."
    )
    output_usd_per_mtok: float = Field(
        -1.0, ge=-1, description="Likewise of a million tokens answered."
    )
    script: Annotated[str, asks.PROVIDER] = Field(
        "", description="For `scripted`: a YAML file of answers."
    )


class HubConfig(Section):
    """Where `ragstream models pull` fetches models; nothing else ever goes there."""

    url: Annotated[str, asks.ADDRESS] = Field(
        "https://huggingface.co",
        description="A hub that speaks Hugging Face's protocol; https, or on this machine.",
    )
    max_gb: float = Field(2.0, gt=0, le=1000, description="Maximum gigabytes of one model.")


class RemoteConfig(Section):
    """Documents that `ragstream project sync` fetches; their addresses stand in `project.yaml`."""

    max_files: int = Field(50_000, ge=1, description="Maximum files that one address may list.")
    max_file_mb: float = Field(
        100.0, gt=0, le=100_000, description="Maximum megabytes of one file; larger ones are left."
    )
    max_gb: float = Field(
        5.0, gt=0, le=10_000, description="Maximum gigabytes of documents of one address."
    )


class DocumentationConfig(Section):
    """Test specifications, `ragstream spec`."""

    id_format: str = Field(
        "TC-{number:03d}", description="Identifier of a test case: one number between characters."
    )
    requirement_pattern: str = Field(
        r"[A-Z]{1,6}-\d{1,5}", description="Regular expression of a whole requirement id."
    )
    form: Annotated[Literal["deterministic", "llm"], asks.SENDS] = Field(
        "deterministic", description="`llm`: the language model writes the cases, from passages."
    )
    embed_json: bool = Field(default=False, description="Embed the raw JSON in the Markdown.")


class FactsConfig(Section):
    """What is remembered of what you say: `USER_MEMORY.md` and `COMPANY_MEMORY.md`."""

    form: Annotated[Literal["off", "rules", "llm"], asks.SENDS] = Field(
        "off",
        description="Look for facts in each new turn: by rules, or by the language model; `off`: "
        "only when you ask.",
    )
    accept: Annotated[Literal["ask", "auto"], asks.FACTS] = Field(
        "ask", description="`ask`: a fact waits until you accept it; `auto`: it is written at once."
    )
    min_confidence: float = Field(
        0.7, ge=0, le=1, description="Minimum confidence of a fact, inclusive."
    )
    max_overlap: float = Field(
        0.6, gt=0, le=1, description="Share of known keywords at which a fact is not new."
    )
    max_tokens: int = Field(
        400, ge=0, description="Maximum tokens that prompts show of each file, the newest facts."
    )


class EvaluationConfig(Section):
    """How answers are judged, `ragstream eval faithfulness`."""

    judge: Annotated[Literal["auto", "nli", "quote", "llm"], asks.SENDS] = Field(
        "auto",
        description="Who judges: the entailment model of `gate.model`, the rule by quote and "
        "agreement, or the language model; `auto`: the first if it is on this machine.",
    )
    min_faithfulness: float = Field(
        0.8, ge=0, le=1, description="Minimum score for the check of `evaluation/faithfulness`."
    )


class DagsterConfig(Section):
    """Dagster: its web server, and where its records lie."""

    port: int = Field(3000, ge=1, le=65535, description="Port of Dagster's web server.")
    storage: Annotated[SecretStr, asks.ADDRESS] = Field(
        SecretStr(""), description="A PostgreSQL database for Dagster's runs, events and "
        "schedules, `postgresql://USER@HOST:5432/NAME`, a password from the environment only; "
        "empty: SQLite in the data root.",
    )  # fmt: skip
    max_runs: int = Field(
        2, ge=1, le=100, description="Runs that Dagster's queue starts beside each other; of one "
        "project there is always one.",
    )  # fmt: skip


class PageConfig(Section):
    """The prompt page."""

    port: int = Field(8503, ge=1, le=65535, description="Port of the page.")
    address: Annotated[str, asks.DOOR] = Field(
        "127.0.0.1", description="What the page listens on; another one needs `page.allow_remote`."
    )
    allow_remote: Annotated[bool, asks.DOOR] = Field(
        default=False,
        description="Let other machines reach the page, behind the password of "
        "`ragstream password`.",
    )
    hosts: Annotated[Names, asks.DOOR] = Field(
        (), description="Names it is reached by, with the port: `notes.example:8503`."
    )
    weather: bool = Field(default=False, description="Show the weather tool in the sidebar.")


class ApiConfig(Section):
    """The HTTP server for programs: `ragstream serve`."""

    enabled: Annotated[bool, asks.DOOR] = Field(
        default=False, description="Start it with `ragstream up`; `ragstream serve` always does."
    )
    port: int = Field(8510, ge=1, le=65535, description="Its port, on this machine alone.")
    hosts: Annotated[Names, asks.DOOR] = Field(
        (),
        description="Further names that a proxy on this machine may ask for, with the port: "
        "`host.docker.internal:8510`.",
    )
    workers: int = Field(4, ge=1, le=64, description="Maximum requests that are at work at once.")
    queue: int = Field(
        64, ge=0, le=10_000, description="Maximum requests that wait; a further one gets 429."
    )
    sources: bool = Field(
        default=True,
        description="End an answer with the list of its sources, for clients that show text only.",
    )


class McpConfig(Section):
    """What programs may do that speak the Model Context Protocol, `ragstream mcp`."""

    allow_remember: Annotated[bool, asks.DOOR] = Field(
        default=False, description="Offer the tool `remember`, which keeps a turn."
    )
    allow_ingest: Annotated[bool, asks.DOOR] = Field(
        default=False, description="Offer the tool `ingest`, which brings an index up to date."
    )
    result_tokens: int = Field(
        4000, ge=200, le=100_000, description="Maximum tokens of a result; a call may ask for less."
    )


class DebugConfig(Section):
    """The Debug Logger, for developers."""

    enabled: Annotated[bool, asks.KEPT] = Field(
        default=False, description="Write what each step does to `debug_trace_…` in `paths.logs`."
    )
    vars_enabled: Annotated[bool, asks.KEPT] = Field(
        default=False,
        description="Also values, to `debug_vars_…`: they show prompts and what was found.",
    )
    min_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Less urgent lines are not written."
    )
    max_chars: int = Field(
        200, ge=10, le=100_000, description="Maximum number of characters of a message or value."
    )
    rotate_mb: float = Field(
        0.0, ge=0, le=10_000, description="A file that grows beyond it is moved to `.1`; 0: never."
    )
    rotate_keep: int = Field(5, ge=1, le=99, description="How many moved files are kept.")
