"""What goes to a language model and what comes back, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message."""

    role: Role  # who speaks
    text: str  # what is said


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """What one answer took."""

    input_tokens: int  # tokens sent
    output_tokens: int  # tokens answered
    cached_tokens: int = 0  # those of the sent ones that the endpoint had kept
    # whether the endpoint counted them; otherwise they are estimated, rather too many
    reported: bool = True
    # US dollars; 0 for a model on this machine, None where no price is known
    cost_usd: float | None = None


def total_usage(usages: Iterable[ChatUsage]) -> ChatUsage:
    """Add up what several answers took; a sum with an unknown cost has none."""
    found = list(usages)
    costs = [usage.cost_usd for usage in found]
    return ChatUsage(
        sum(usage.input_tokens for usage in found),
        sum(usage.output_tokens for usage in found),
        sum(usage.cached_tokens for usage in found),
        all(usage.reported for usage in found),
        None if None in costs else sum(cost for cost in costs if cost is not None),
    )


@dataclass(frozen=True, slots=True)
class ChatReply:
    """One answer."""

    text: str  # what the model said; never empty
    status: Literal["complete", "partial"]  # ``complete``, or ``partial`` where the end is missing
    model: str  # the model that answered, as the endpoint names it
    usage: ChatUsage  # tokens and cost
    reason: str = ""  # why it is partial, for people; empty otherwise
    parsed: Any = None  # the validated value where a schema was given (a pydantic model), else None


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """One piece of a streamed answer."""

    text: str  # the next characters; empty in the last delta
    reply: ChatReply | None = None  # the whole answer; in the last delta and in no other
