"""Every setting with its default, range and meaning; the reference page is generated from here."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from ragstream_core.settings.confirmation import (
    ADDRESS,
    CODE,
    EMBEDDER,
    KEY,
    PROVIDER,
    mark_of,
)
from ragstream_core.settings.documents import (
    ChunkingConfig,
    DiscoveryConfig,
    EmbeddingsConfig,
    IngestionConfig,
    PathsConfig,
    RetentionConfig,
    VectorStoreConfig,
)
from ragstream_core.settings.prompts import (
    AgentsConfig,
    FilesConfig,
    GateConfig,
    HistoryConfig,
    MemoryConfig,
    PromptConfig,
    RerankConfig,
    RetrievalConfig,
)
from ragstream_core.settings.services import (
    ApiConfig,
    DagsterConfig,
    DebugConfig,
    DocumentationConfig,
    EvaluationConfig,
    FactsConfig,
    HubConfig,
    McpConfig,
    PageConfig,
    ProviderConfig,
    RemoteConfig,
)
from ragstream_core.settings.values import Section


class Settings(Section):
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
    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    agents: AgentsConfig = Field(default_factory=AgentsConfig)
    provider: ProviderConfig = Field(default_factory=ProviderConfig)
    hub: HubConfig = Field(default_factory=HubConfig)
    remote: RemoteConfig = Field(default_factory=RemoteConfig)
    vector_store: VectorStoreConfig = Field(default_factory=VectorStoreConfig)
    facts: FactsConfig = Field(default_factory=FactsConfig)
    documentation: DocumentationConfig = Field(default_factory=DocumentationConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    dagster: DagsterConfig = Field(default_factory=DagsterConfig)
    page: PageConfig = Field(default_factory=PageConfig)
    api: ApiConfig = Field(default_factory=ApiConfig)
    mcp: McpConfig = Field(default_factory=McpConfig)
    debug: DebugConfig = Field(default_factory=DebugConfig)


SECTIONS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type)
}


# The sections a prompt's result depends on; they are part of its key.
CHAIN_SECTIONS = (
    "retrieval", "rerank", "gate", "files", "prompt", "history", "memory", "agents",
)  # fmt: skip


class ChainSettings(Section):
    """The settings of one stage, complete and frozen."""

    retrieval: RetrievalConfig = Field(default_factory=RetrievalConfig)
    rerank: RerankConfig = Field(default_factory=RerankConfig)
    gate: GateConfig = Field(default_factory=GateConfig)
    files: FilesConfig = Field(default_factory=FilesConfig)
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    history: HistoryConfig = Field(default_factory=HistoryConfig)
    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    agents: AgentsConfig = Field(default_factory=AgentsConfig)

    def pinned(self) -> dict[str, Any]:
        """Return the settings as keys and digests hold them.

        A setting that came later is left out while it is as it was before, so that keys stay.
        """
        found = self.model_dump()
        for section, key, before in _CAME_LATER:
            if found[section][key] == before:
                del found[section][key]
        return found

    @classmethod
    def of_pins(cls, pinned: Mapping[str, Mapping[str, Any]]) -> ChainSettings:
        """Return the settings of pinned ones: what they leave out is as it was before."""
        return cls.model_validate(cls.completed(pinned))

    @staticmethod
    def completed(pinned: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return pinned settings with what `pinned` leaves out."""
        found = {section: dict(values) for section, values in pinned.items()}
        for section, key, before in _CAME_LATER:
            if section in found:
                found[section].setdefault(key, before)
        return found


_CAME_LATER = (
    ("retrieval", "evidence", "full"),
    ("retrieval", "approximate_at", 1_000_000),
    ("retrieval", "nprobe", 256),
    ("retrieval", "ef_search", 400),
)


@functools.cache
def known_keys() -> tuple[str, ...]:
    """Return every dotted setting name, sorted."""
    return tuple(
        sorted(f"{s}.{key}" for s, model in SECTIONS.items() for key in model.model_fields)
    )


def decides_where(dotted: str, value: object) -> bool:
    """Return whether a value says where texts or keys go, or names code that is not built in."""
    section, _, key = dotted.partition(".")
    field = SECTIONS[section].model_fields.get(key) if section in SECTIONS else None
    mark = mark_of(field) if field else None
    return mark in (ADDRESS, KEY, CODE, EMBEDDER, PROVIDER) and value not in mark.free


def chain_keys() -> list[str]:
    """Return the dotted names of the settings that stages read, sorted."""
    return [key for key in known_keys() if key.split(".")[0] in CHAIN_SECTIONS]
