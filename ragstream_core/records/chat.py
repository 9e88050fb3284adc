"""What goes to a language model and what comes back, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message.

    Attributes:
        role: Who speaks.
        text: What is said.
    """

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """What one answer took.

    Attributes:
        input_tokens: Tokens sent.
        output_tokens: Tokens answered.
        cached_tokens: Those of the sent ones that the endpoint had kept.
        reported: Whether the endpoint counted them; otherwise they are estimated, rather too many.
        cost_usd: US dollars; 0 for a model on this machine, None where no price is known.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reported: bool = True
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
    """One answer.

    Attributes:
        text: What the model said; never empty.
        status: ``complete``, or ``partial`` where the end is missing.
        model: The model that answered, as the endpoint names it.
        usage: Tokens and cost.
        reason: Why it is partial, for people; empty otherwise.
        parsed: The validated value where a schema was given (a pydantic model), else None.
    """

    text: str
    status: Literal["complete", "partial"]
    model: str
    usage: ChatUsage
    reason: str = ""
    parsed: Any = None


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """One piece of a streamed answer.

    Attributes:
        text: The next characters; empty in the last delta.
        reply: The whole answer; in the last delta and in no other.
    """

    text: str
    reply: ChatReply | None = None
