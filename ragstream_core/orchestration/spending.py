"""What the agents' questions to a language model took, while a prompt was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ragstream_core.orchestration.chain import OPS
from ragstream_core.orchestration.exchanges import Exchange
from ragstream_core.records import SuperPrompt
from ragstream_core.records.chat import ChatUsage, total_usage

LLM_USAGE = "llm_usage"
"""The entry of ``extras`` that holds a prompt's usage: stage and pass → row, as `usage_row`."""
_UNANSWERED = ChatUsage(0, 0, reported=False)
_FIELDS = tuple(asdict(_UNANSWERED))


def usage_row(exchange: Exchange) -> dict[str, Any]:
    """Return what one exchange took.

    Args:
        exchange: With or without an answer; without one nobody knows what it cost.

    Returns:
        ``op, model, taken`` (whether the stage took the answer), where it did not ``instead`` (the
        form it took, e.g. ``SAF-A1``) and ``reason``, and the fields of `ChatUsage`.
    """
    took = exchange.usage or asdict(_UNANSWERED)
    row = {"op": exchange.op, "model": exchange.model, "taken": exchange.validated, **took}
    return row | {"instead": exchange.fallback, "reason": exchange.reason}


def llm_usage(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up what a prompt's exchanges took.

    Args:
        rows: As of `usage_row`.

    Returns:
        ``calls``, the rows in the order of the chain, and the fields of `ChatUsage` for all of
        them; ``cost_usd`` is None where one of the costs is unknown, 0 where nobody was asked.
    """
    calls = sorted((dict(row) for row in rows), key=_place)
    usages = [ChatUsage(**{name: row[name] for name in _FIELDS}) for row in calls]
    return {"calls": calls, **asdict(total_usage(usages))}


def _place(row: Mapping[str, Any]) -> tuple[str, int, str]:
    op, _, again = str(row["op"]).partition("#")
    return again, OPS.index(op) if op in OPS else len(OPS), op


def usage_of(prompt: SuperPrompt) -> ChatUsage | None:
    """Return what all of a prompt's agents took, None where none asked a language model."""
    rows = prompt.extras.get(LLM_USAGE, {}).values()
    found = llm_usage(rows)
    return ChatUsage(**{name: found[name] for name in _FIELDS}) if found["calls"] else None
