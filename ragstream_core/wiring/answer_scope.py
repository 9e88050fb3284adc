"""Under what an answer holds: everything that a prompt is made from, but what is asked, and when.

Two questions of one scope go to the same documents, under the same rules and settings, to the same
model. The conversation is left out: a question that leans on it is not compared at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_core.errors import ChatFailed
from ragstream_core.prompts.inputs import DIGEST
from ragstream_core.records.identity import digest_of
from ragstream_core.records.prompt_inputs import PromptInputs

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel
    from ragstream_core.wiring.workspace import Workspace

_OF_ONE_QUESTION = ("text", "now", "time_zone", "history", "receipts", "query_vectors")
_OF_THE_CACHE = ("cache", "cache_match", "cache_min_score")


def scope_of(workspace: Workspace, inputs: PromptInputs, model: ChatModel) -> str:
    """Return the digest of a scope, 64 hex digits; "" where memory is off or the model unknown."""
    memory = dict(inputs.settings.get("memory", {}))
    if not memory.get("enabled"):
        return ""
    try:
        name = model.name
    except ChatFailed:
        return ""
    kept = {k: v for k, v in inputs.to_json().items() if k not in _OF_ONE_QUESTION}
    settings = {k: v for k, v in memory.items() if k not in _OF_THE_CACHE}
    provider = workspace.config.settings.provider
    asked = [provider.backend, provider.base_url, provider.temperature, provider.max_output_tokens]
    return digest_of(
        {
            **kept,
            "settings": {**inputs.settings, "memory": settings},
            "texts": {k: v for k, v in inputs.texts.items() if k != DIGEST},
            "model": [name, model.host, *asked],
        }
    )
