"""Task profiles, named sets of settings: those that ship, and those of a file."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

from ragstream_core.errors import UnknownSetting
from ragstream_core.settings.confirmation import Layer
from ragstream_core.settings.layers import checked_sections

CHAT_TASK = "chat"
"""The profile that chats and the page begin with."""
TASKS: dict[str, Layer] = {
    # seed 004: the best ten of BM25 and of the vectors, half and half, reranked, five passages
    CHAT_TASK: {
        "retrieval": {"depth": 10, "dense_weight": 0.5, "top_k": 20},
        "rerank": {"keep": 5},
    },
    # seed 001: dense LogAvgExp alone
    "seed_dense": {"retrieval": {"dense_weight": 1.0}},
    # seed 003: the best passages embedded anew and sorted by the question's vectors
    "reembed": {"rerank": {"backend": "reembed"}},
    # more evidence for long answers
    "long_form": {
        "retrieval": {"top_k": 80, "max_context_chars": 48000, "max_context_tokens": 9000},
        "prompt": {"budget_tokens": 12000, "max_facts": 24},
    },
    # a small context window
    "short": {
        "retrieval": {"max_context_chars": 6000, "max_context_tokens": 1200},
        "prompt": {"budget_tokens": 2500, "max_facts": 6},
    },
}
"""Task profiles that ship with RAGstream; `tasks:` in ragstream.yaml adds to them."""


def checked_tasks(tasks: object, path: Path | None) -> dict[str, Layer]:
    """Return the task profiles of a file."""
    wrong = UnknownSetting(f"{path}: tasks must map names to sections")
    if not isinstance(tasks, dict):
        raise wrong
    found: dict[str, Layer] = {}
    for name, profile in tasks.items():
        if not (isinstance(name, str) and isinstance(profile, dict | None)):
            raise wrong
        found[name] = checked_sections(profile or {}, f"{path}, task {name}")
    return found


def shipped_tasks() -> dict[str, Layer]:
    """Return the task profiles that come with RAGstream."""
    return copy.deepcopy(TASKS)


def task_layer(tasks: Mapping[str, Layer], name: str) -> Layer:
    """Return one task profile."""
    if name not in tasks:
        raise UnknownSetting(
            f"unknown task profile {name!r}", hint=f"one of: {', '.join(sorted(tasks))}"
        )
    return tasks[name]
