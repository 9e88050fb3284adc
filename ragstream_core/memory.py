"""Cached answers, the digest and remembered facts of one data root; its four names (C-52)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.index.snapshot import HistoryView as EpisodicIndex
    from ragstream_core.wiring.ragstack_memory import RagstackMemory
    from ragstream_core.wiring.remembered_facts import FactMemory

__all__ = ["EpisodicIndex", "FactMemory", "Journal", "RagstackMemory"]
_HOMES = {
    "EpisodicIndex": ("ragstream_core.index.snapshot", "HistoryView"),
    "FactMemory": ("ragstream_core.wiring.remembered_facts", "FactMemory"),
    "Journal": ("ragstream_core.conversations.journal.journal", "Journal"),
    "RagstackMemory": ("ragstream_core.wiring.ragstack_memory", "RagstackMemory"),
}


def __getattr__(name: str) -> Any:
    """Return one of the four, imported when it is first asked for.

    Raises:
        AttributeError: It is none of them.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)
