"""Immutable records shared by every layer; identity is a content hash."""

from __future__ import annotations

from ragstream_core.records.chunk import Chunk, Hit
from ragstream_core.records.extras import Extras
from ragstream_core.records.stage_results import Decision
from ragstream_core.records.super_prompt import (
    BODY_DEFAULTS,
    BODY_KEYS,
    STAGES,
    SuperPrompt,
    evolve,
    from_json,
    to_json,
)

__all__ = [
    "BODY_DEFAULTS",
    "BODY_KEYS",
    "STAGES",
    "Chunk",
    "Decision",
    "Extras",
    "Hit",
    "SuperPrompt",
    "evolve",
    "from_json",
    "to_json",
]
