"""What language models took, in words: tokens and cost of an answer or of an agent's question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ragstream_core.records.chat import ChatUsage


def usage_text(usage: ChatUsage) -> str:
    """Return tokens and cost; a cost of 0 is said to be free, an unknown one unknown."""
    if not usage.reported and not usage.input_tokens:
        return "tokens and cost unknown"
    about = "" if usage.reported else "about "
    cost = f"${usage.cost_usd:.4f}" if usage.cost_usd else "free"
    cost = "cost unknown" if usage.cost_usd is None else cost
    return f"{about}{usage.input_tokens:,} + {usage.output_tokens:,} tokens · {cost}"


def call_text(row: Mapping[str, Any]) -> str:
    """Return whom an agent asked, what that took, and what served instead where the answer did not.

    Args:
        row: As `usage_row`.
    """
    why = f" ({row['reason']}): {row['instead']}" if row.get("reason") else ""
    taken = "" if row["taken"] else f", its answer was not taken{why}"
    return f"asked {row['model']}: {usage_text(usage_from(row))}{taken}"


def usage_from(row: Mapping[str, Any]) -> ChatUsage:
    """Return the usage that a row of `usage_row`, or their sum, holds."""
    return ChatUsage(**{item.name: row[item.name] for item in fields(ChatUsage)})
