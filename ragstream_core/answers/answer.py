"""What is sent for a finished prompt, what may leave this machine, and the answer to it.

The messages hold our own blocks as System and everything that is quoted as user: no retrieved text
ever stands in the System message. One paragraph is added there: cite by the marker, or say the one
sentence that means "not in the documents"; the settings may word it otherwise. A text that a person
edited is sent as it stands, cut in two and nothing added: what was seen is sent. Secrets in what
would leave this machine are named by kind, source and line. An answer rests on documents, on
memory, or on nothing at all (R-209…R-211).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ragstream_core.answers.citations import Citation, Issued
from ragstream_core.errors import FenceBroken
from ragstream_core.ingestion.secrets import find_secrets
from ragstream_core.prompts.blocks import RECENT, file_texts, history_texts, selected_texts
from ragstream_core.prompts.edited_prompt import is_edited, split_system, still_shown
from ragstream_core.prompts.frames import frames
from ragstream_core.prompts.line_owners import owners
from ragstream_core.records import SuperPrompt
from ragstream_core.records.chat import ChatMessage, ChatUsage
from ragstream_core.settings.values import REFUSAL_PLACE
from ragstream_core.text.markup import answer_html, fold_html, table_html

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel
    from ragstream_core.records.identity import Json


_HEADING = re.compile(r"## \[[0-9a-f]{12,64}\] (.+)")
_FRAME_END = "<<END DOC "


def secret_places(messages: Iterable[ChatMessage]) -> list[str]:
    """Return ``KIND in SOURCE (SECTION, line N)`` of each likely secret; never the secret."""
    return [place for message in messages for place in places_of(message.text)]


def places_of(text: str) -> list[str]:
    """Return the same of one text, each place once: a prompt, or a part of one."""
    places = (f"{found.kind} in {_place(text, found.line)}" for found in find_secrets(text))
    return list(dict.fromkeys(places))


def _place(text: str, line: int) -> str:
    section, source = "the prompt", ""
    for shown in text.split("\n")[:line]:
        if heading := _HEADING.fullmatch(shown):
            section, source = heading[1], ""
        elif opened := frames(shown):
            source = opened[0].source
        elif shown.startswith(_FRAME_END):
            source = ""
    return f"{source} ({section}, line {line})" if source else f"{section} (line {line})"


Grounding = Literal["documents", "memory", "nothing"]

REFUSAL = "I don't have enough information in your documents to answer this question."

# The sentence that means "not in the documents", and how earlier versions wrote it.
REFUSALS = (
    REFUSAL,
    "I don't have enough information in the uploaded documents to answer this question.",
)


def grounding_of(
    prompt: SuperPrompt, *, project_memory: str = "", history: bool = True
) -> Grounding:
    """Return what an answer to a finished prompt may rest on.

    ``documents`` if a file or a chunk is shown; else ``memory`` if there is a Project Memory or a
    conversation; else ``nothing``. A text that a person edited and that shows none of them is
    ``memory``: it holds what the person put there.
    """
    texts = [*file_texts(prompt), *selected_texts(prompt, history=False)]
    if still_shown(prompt, (source.id for source, _ in texts)):
        return "documents"
    if is_edited(prompt):
        return "memory"
    told = project_memory.strip() or (history and _is_said(prompt))
    return "memory" if told else "nothing"


def _is_said(prompt: SuperPrompt) -> bool:
    """Return whether the conversation in a prompt says anything: questions alone do not."""
    recent = prompt.recentConversation
    asked_only = recent.get("unanswered_pairs", 0) == recent.get("pairs_count", 0)
    return any(source.id != RECENT or not asked_only for source, _ in history_texts(prompt))


_RULES: dict[Grounding, str] = {
    "documents": (
        "Put `[source: <filename>, chunk: <chunk_id>]` directly behind every claim, with the file "
        "name and the id that stand with the material it comes from, and cite nothing else. "
        "Where the material does not answer the question, reply with exactly this sentence and "
        f"without a citation: {REFUSAL}"
    ),
    "memory": (
        "This prompt holds no document. Answer from PROJECT MEMORY and RECENT HISTORY alone and "
        "write no citation markers, whatever else is said about citing. Where they do not answer "
        f"the question, reply with exactly this sentence: {REFUSAL}"
    ),
    "nothing": f"Reply with exactly this sentence: {REFUSAL}",
}
_OURS = ("heading", "HARD RULES", "PROJECT MEMORY", "SYSTEM")


def messages_of(
    prompt: SuperPrompt, grounding: Grounding, *, wording: str = ""
) -> list[ChatMessage]:
    """Return the System and the user message; ``wording`` replaces our paragraph on citing."""
    text, system = prompt.extras.super_prompt, prompt.System_MD
    nonce = prompt.extras.fence.nonce
    if is_edited(prompt):
        own, rest = split_system(text, nonce)
        return [*([ChatMessage("system", own)] if own else []), ChatMessage("user", rest)]
    foreign = set(owners(system, nonce)) - set(_OURS)
    if foreign or not text.startswith(f"{system}\n"):
        raise FenceBroken(
            f"the System message would hold lines of {', '.join(sorted(foreign)) or 'nobody'}",
            hint="build the prompt again; report it if that does not help",
        )
    user = text[len(system) :].strip("\n")
    rules = wording.replace(REFUSAL_PLACE, REFUSAL) or _RULES[grounding]
    return [ChatMessage("system", f"{system}\n\n{rules}"), ChatMessage("user", user)]


Status = Literal["complete", "partial", "refused", "failed"]

# Where an answer comes from: a model, an earlier turn, the documents alone, or nowhere.
Origin = Literal["model", "cached", "extract", "refused"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What would be sent, before anything is."""

    prompt: SuperPrompt
    prompt_key: str  # its key; empty if it is not kept
    grounding: Grounding  # what the answer may rest on
    messages: tuple[ChatMessage, ...]
    issued: dict[str, Issued]  # citation id → what the prompt shows under it
    model: ChatModel | None  # the one to ask; None if there is nothing to answer from
    session: str  # the conversation that question and answer are kept in; empty: nothing is kept
    scope: str = ""  # under what a later question may be given the same answer; empty: none may
    secrets: tuple[str, ...] = ()  # places that seem to hold a secret and would leave this machine
    input_tokens: int = 0  # tokens of the messages, estimated
    estimate_usd: float | None = 0.0  # what they cost without the answer; None if no price is known


_REPR_CHARS = 60


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """An answer as people see it, and what is known about it."""

    text: str  # clean text, without markers
    raw: str  # as the model wrote it; this is what the conversation keeps
    # ``complete``; ``partial`` if it broke off; ``refused`` if there was nothing to answer from and
    # no model was asked; ``failed`` if the model gave no answer
    status: Status
    citations: tuple[Citation, ...] = ()
    # tokens and cost; None if no model was asked or it broke off before saying so
    usage: ChatUsage | None = None
    model: str = ""
    prompt_key: str = ""  # the prompt; empty if it is not kept
    session: str = ""  # the conversation that it is kept in; empty if it is not
    warnings: tuple[str, ...] = ()
    # what the agents took that asked a language model for the prompt; None: none did
    agents: ChatUsage | None = None
    origin: Origin = "model"
    source_turn: str = ""  # id of the turn whose answer was given again; empty for any other origin
    doubt: str = ""  # that the documents do not, or perhaps not, answer; an extract begins with it

    def __str__(self) -> str:
        """Return the clean text."""
        return self.text

    def __repr__(self) -> str:
        """Return its beginning, its origin and the prompt on one line."""
        begin = self.text[:_REPR_CHARS]
        return f"Answer({begin!r}, origin={self.origin!r}, prompt_key={self.prompt_key[:12]!r})"

    def _repr_html_(self) -> str:
        rows = [
            (n, c.source, c.page_number or "", "✓" if c.verified else c.reason, c.snippet)
            for n, c in enumerate(self.citations, start=1)
        ]
        cited = table_html(("", "source", "page", "verified", "text"), rows)
        return (
            f"<div>{answer_html(self.text)}{fold_html(self._cited(), cited) if rows else ''}</div>"
        )

    def _cited(self) -> str:
        verified = sum(citation.verified for citation in self.citations)
        return f"{verified} of {len(self.citations)} citations verified"

    @property
    def cost_usd(self) -> float | None:
        """What the answer cost, US dollars; None if unknown."""
        return self.usage.cost_usd if self.usage else (0.0 if self.status == "refused" else None)

    @property
    def total_cost_usd(self) -> float | None:
        """What answer and prompt cost together; None if one of both is unknown."""
        costs = [self.cost_usd, self.agents.cost_usd if self.agents else 0.0]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def to_json(self) -> dict[str, Json]:
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
            "doubt": self.doubt,
            "warnings": list(self.warnings),
        }


def _counted(usage: ChatUsage | None) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
        "reported": bool(usage and usage.reported),
    }
