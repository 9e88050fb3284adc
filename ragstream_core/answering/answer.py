"""What is sent for a finished prompt, and the answer to it, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ragstream_core.answering.citations import Citation
from ragstream_core.answering.grounding import Grounding
from ragstream_core.answering.issued import Issued
from ragstream_core.records.chat import ChatMessage, ChatUsage

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel
    from ragstream_core.records import SuperPrompt

Status = Literal["complete", "partial", "refused", "failed"]
Origin = Literal["model", "cached", "extract", "refused"]
"""Where an answer comes from: a model, an earlier turn, the documents alone, or nowhere."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What would be sent, before anything is.

    Attributes:
        prompt: The finished prompt.
        prompt_key: Its key; empty where it is not kept.
        grounding: What the answer may rest on.
        messages: What is sent.
        issued: Citation id → what the prompt shows under it.
        model: Who is asked; None where nobody is, since there is nothing to answer from.
        session: The conversation that question and answer are kept in; empty: nothing is kept.
        scope: Under what a later question may be given the same answer; empty: none may.
        secrets: Places that seem to hold a secret and would leave this machine.
        input_tokens: Tokens of the messages, estimated.
        estimate_usd: What they cost without the answer; None where no price is known.
    """

    prompt: SuperPrompt
    prompt_key: str
    grounding: Grounding
    messages: tuple[ChatMessage, ...]
    issued: dict[str, Issued]
    model: ChatModel | None
    session: str
    scope: str = ""
    secrets: tuple[str, ...] = ()
    input_tokens: int = 0
    estimate_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as people see it, and what is known about it.

    Attributes:
        text: Clean text, without markers.
        raw: As the model wrote it; this is what the conversation keeps.
        status: ``complete``; ``partial`` where it broke off; ``refused`` where there was nothing
            to answer from and no model was asked; ``failed`` where the model gave no answer.
        citations: What it cites, checked.
        usage: Tokens and cost; None where no model was asked or it broke off before saying so.
        model: Who answered; empty for nobody.
        prompt_key: The prompt; empty where it is not kept.
        session: The conversation that it is kept in; empty where it is not.
        warnings: For people.
        agents: What the agents took that asked a language model for the prompt; None: none did.
        origin: Where it comes from.
        source_turn: Id of the turn whose answer was given again; empty for any other origin.
    """

    text: str
    raw: str
    status: Status
    citations: tuple[Citation, ...] = ()
    usage: ChatUsage | None = None
    model: str = ""
    prompt_key: str = ""
    session: str = ""
    warnings: tuple[str, ...] = ()
    agents: ChatUsage | None = None
    origin: Origin = "model"
    source_turn: str = ""

    @property
    def cost_usd(self) -> float | None:
        """What the answer cost, US dollars; None where nobody knows."""
        return self.usage.cost_usd if self.usage else (0.0 if self.status == "refused" else None)

    @property
    def total_cost_usd(self) -> float | None:
        """What answer and prompt cost together; None where one of both is unknown."""
        costs = [self.cost_usd, self.agents.cost_usd if self.agents else 0.0]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "answer": self.text,
            "citations": [citation.to_json() for citation in self.citations],
            "cost": self.cost_usd,
            "usage": _counted(self.usage),
            "agents": {**_counted(self.agents), "cost": self.agents.cost_usd if self.agents else 0},
            "total_cost": self.total_cost_usd,
            "prompt_key": self.prompt_key,
            "status": self.status,
            "origin": self.origin,
            "source_turn": self.source_turn,
            "model": self.model,
            "session": self.session,
            "warnings": list(self.warnings),
        }


def _counted(usage: ChatUsage | None) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
        "reported": bool(usage and usage.reported),
    }
