"""`SuperPrompt`, the record that travels through the chain, and its JSON form (R-111…R-122)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ragstream_core.records.chunk import Chunk
from ragstream_core.records.extras import Extras
from ragstream_core.records.json_form import Json

# The audit's rows about headers: their ``chunk_id`` is the header's name.
HEADERS = "headers"

# A4's rows about query pieces: their ``chunk_id`` is the id of the piece.
ANSWERS = "answers"

STAGES = ("raw", "preprocessed", "a2", "retrieval", "reranked", "a3", "a4", "a5")
BODY_DEFAULTS = {"system": "consultant", "tone": "neutral", "depth": "high"}
BODY_KEYS = (
    "system",
    "task",
    "audience",
    "role",
    "tone",
    "depth",
    "context",
    "purpose",
    "format",
    "text",
)
JSON_VERSION = 1
_CONTAINERS = (dict, list, Extras)


class SuperPrompt:
    """One prompt on its way from raw text to the rendered Super-Prompt.

    Authoritative are ``body``, ``recentConversation``, ``base_context_chunks`` and the id lists;
    the four ``*_MD`` strings are derived at render time and empty until then.

    What has no field of its own stands in ``extras``, one typed entry each.
    """

    __slots__ = (
        "Attachments_MD",
        "Prompt_MD",
        "S_CTX_MD",
        "System_MD",
        "base_context_chunks",
        "body",
        "extras",
        "final_selection_ids",
        "history_of_stages",
        "model_target",
        "recentConversation",
        "stage",
        "views_by_stage",
    )

    stage: str
    model_target: str
    history_of_stages: list[str]
    body: dict[str, str]
    extras: Extras
    base_context_chunks: list[Chunk]
    views_by_stage: dict[str, list[str]]
    final_selection_ids: list[str]
    recentConversation: dict[str, Any]  # noqa: N815 - the seed's own name
    System_MD: str
    Prompt_MD: str
    S_CTX_MD: str
    Attachments_MD: str

    def __init__(self, *, body: dict[str, str] | None = None, model_target: str = "") -> None:
        self.stage = "raw"
        self.model_target = model_target
        self.history_of_stages = ["raw"]
        self.body = {**BODY_DEFAULTS, **(body or {})}
        self.extras = Extras()
        self.base_context_chunks = []
        self.views_by_stage = {}
        self.final_selection_ids = []
        self.recentConversation = {"body": "", "pairs_count": 0, "range": (0, 0)}
        self.System_MD = ""
        self.Prompt_MD = ""
        self.S_CTX_MD = ""
        self.Attachments_MD = ""

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep the two invariants: known stages only, and a trail that only grows."""
        if name == "stage" and value not in STAGES:
            raise ValueError(f"unknown stage {value!r}; one of {', '.join(STAGES)}")
        if name == "history_of_stages":
            before = getattr(self, "history_of_stages", ["raw"])
            if list(value[: len(before)]) != before:
                raise ValueError(f"history_of_stages only grows: {before} → {list(value)}")
        object.__setattr__(self, name, value)


def evolve(prompt: SuperPrompt, **changes: Any) -> SuperPrompt:
    """Return a copy with some fields replaced; the original stays as it was.

    The containers of the fields are copied, so a stage may put and remove their entries. The
    entries themselves are shared and never changed in place: a stage replaces them. A changed
    ``stage`` is appended to ``history_of_stages``.
    """
    result = SuperPrompt.__new__(SuperPrompt)
    for name in SuperPrompt.__slots__:  # the values were checked when the prompt got them
        value = getattr(prompt, name)
        held = copy.copy(value) if isinstance(value, _CONTAINERS) else value
        object.__setattr__(result, name, held)
    for name, value in changes.items():
        setattr(result, name, value)
    if "stage" in changes:
        result.history_of_stages = [*result.history_of_stages, changes["stage"]]
    return result


def to_json(prompt: SuperPrompt) -> dict[str, Json]:
    """Return the JSON form of a prompt, versioned; it shares the prompt's containers.

    `from_json` is the inverse.
    """
    data = {name: getattr(prompt, name) for name in SuperPrompt.__slots__}
    data["extras"] = prompt.extras.to_json()
    data["base_context_chunks"] = [
        {"id": c.id, "source": c.source, "snippet": c.snippet, "span": list(c.span),
         "meta": dict(c.meta)}
        for c in prompt.base_context_chunks
    ]  # fmt: skip
    recent = prompt.recentConversation
    data["recentConversation"] = {**recent, "range": list(recent["range"])}
    return {"version": JSON_VERSION, **data}


def from_json(data: Mapping[str, Json]) -> SuperPrompt:
    """Rebuild a prompt from its JSON form."""
    if data.get("version") != JSON_VERSION:
        raise ValueError(f"SuperPrompt JSON version {data.get('version')!r}, need {JSON_VERSION}")
    prompt = SuperPrompt()
    for name in SuperPrompt.__slots__:
        value = data[name]
        setattr(prompt, name, copy.copy(value) if isinstance(value, _CONTAINERS) else value)
    prompt.extras = Extras.from_json(data["extras"])
    prompt.base_context_chunks = [
        Chunk(c["id"], c["source"], c["snippet"], (c["span"][0], c["span"][1]), c["meta"])
        for c in data["base_context_chunks"]
    ]
    recent = prompt.recentConversation
    prompt.recentConversation = {**recent, "range": tuple(recent["range"])}
    return prompt
