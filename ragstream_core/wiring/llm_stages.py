"""Stages that ask a language model: what was said is kept with the prompt and read in its replay.

Agents get a callable. Here it meets the configured model, or the record: a replay asks nobody, a
live one asks and compares. What would leave this machine is searched for secrets first; a question
that seems to hold one is not sent, and the stage goes on without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ragstream_core.agents.a2_audit import Audit
from ragstream_core.agents.a2_prompt_shaper import PromptShaper
from ragstream_core.agents.a3_nli_gate import NliGate
from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context.llm_form import SAF_A1
from ragstream_core.errors import ChatRefused, InputUnavailable, IntegrityError, UnknownPrompt
from ragstream_core.models.chat.wrapped import WrappedChat
from ragstream_core.prompts.exchanges import (
    AgentsUsage,
    Exchange,
    Exchanges,
    call_of,
    exchange_from,
)
from ragstream_core.prompts.inputs import persists
from ragstream_core.prompts.trail import pass_number
from ragstream_core.records import SuperPrompt, evolve
from ragstream_core.records.identity import sha256_hex
from ragstream_core.records.stage_results import ModelCall
from ragstream_core.wiring import models
from ragstream_core.wiring.file_sources import RecordedFiles

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.agents.llm_call import Ask, Schema
    from ragstream_core.ports import ChatModel, FileSource
    from ragstream_core.prompts.chain import Stage
    from ragstream_core.records.chat import ChatMessage, ChatReply
    from ragstream_core.settings.prompts import AgentsConfig
    from ragstream_core.wiring.workspace import Workspace


FORMS = {
    "a2_prompt_shaper": ("a2_form", "rules"),
    "a3_nli_gate": ("a3_form", "gate"),
    "a4_condenser": ("a4_form", SAF_A1),
    "a2_audit": ("audit_form", "rules"),
}
"""Op → its setting in ``agents``, and the name of its deterministic form."""
AsksModel = PromptShaper | NliGate | Condenser | Audit


def asking(
    op: str,
    stage: Stage,
    prompt: SuperPrompt,
    workspace: Workspace,
    agents: AgentsConfig,
    files: FileSource,
) -> Stage:
    """Return the stage of an op as its settings say: asking a language model, or not."""
    if op not in FORMS:
        return stage
    form, fallback = FORMS[op]
    is_asked = getattr(agents, form) == "llm"
    if not is_asked and _slot(op, prompt) not in prompt.extras.exchanges:
        return stage
    asks = cast("AsksModel", stage)
    return AskingStage(op, asks, workspace, files, fallback if is_asked else None)


class Guarded(WrappedChat):
    """A language model that is sent no secret, unless it runs on this machine."""

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Ask."""
        from ragstream_core.answers.answer import secret_places
        from ragstream_core.ingestion.secrets import phrase

        places = [] if self.is_local else secret_places(messages)
        if places:
            raise ChatRefused(f"the question seems to contain secrets: {phrase(places)}")
        return super().complete(messages, schema=schema)


@dataclass(frozen=True, slots=True)
class AskingStage:
    """A stage whose exchange with a language model is kept; a repetition replaces it.

    Attributes:
        op: Name of its op.
        stage: The stage; it has a field ``ask``.
        workspace: Whose model is asked, and where exchanges are kept.
        files: Where the prompt's files come from: those of a record bring its exchanges along.
        fallback: Name of the deterministic form; None: that form is chosen, nobody is asked.
    """

    op: str
    stage: AsksModel
    workspace: Workspace
    files: FileSource
    fallback: str | None = None

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Run the stage."""
        slot = _slot(self.op, prompt)
        if self.fallback is None:
            return _noted(self.stage(prompt), slot)
        exchanges = self._exchanges()
        result = replace(self.stage, ask=_asking(exchanges, slot, self.fallback))(prompt)
        made = exchanges.keep(self._put(prompt))
        if isinstance(self.files, RecordedFiles):
            self.files.answers.differences.extend(exchanges.differences)
        digest, asked = next(iter(made), ""), next(iter(exchanges.made), None)
        return _noted(result, slot, digest, call_of(asked) if asked else None)

    def _put(self, prompt: SuperPrompt) -> Callable[[bytes], str]:
        """Return what keeps bytes; a replay, and a prompt that leaves nothing behind, only name."""
        inputs = prompt.extras.inputs
        live = not isinstance(self.files, RecordedFiles) and persists(inputs)
        return self.workspace.store.put_blob if live else sha256_hex

    def _exchanges(self) -> Exchanges:
        if not isinstance(self.files, RecordedFiles):
            return Exchanges(_model(self.workspace))
        recorded = self.files.answers
        kept = [_kept(self.workspace, digest) for digest in recorded.digests]
        return Exchanges(_model(self.workspace) if recorded.live else None, kept)


def _slot(op: str, prompt: SuperPrompt) -> str:
    """Return the name of an op's exchange: the op, and the pass where it is not the first."""
    again = pass_number(prompt)
    return op if again == 1 else f"{op}#{again}"


def _model(workspace: Workspace) -> ChatModel:
    return Guarded(models.chat_model(workspace.config))


def _asking(exchanges: Exchanges, slot: str, fallback: str) -> Ask:
    def ask(
        messages: Sequence[ChatMessage], schema: type[Schema], check: Callable[[Schema], str]
    ) -> tuple[Schema | None, str]:
        said = exchanges.ask(slot, messages, schema, fallback=fallback, check=check)
        return said.value, said.reason

    return ask


def recorded_usage(workspace: Workspace, digests: Sequence[str]) -> AgentsUsage:
    """Return what the exchanges of a kept prompt took."""

    def call(digest: str) -> ModelCall:
        try:
            return call_of(_kept(workspace, digest))
        except (InputUnavailable, IntegrityError):
            return call_of(Exchange(f"exchange {digest[:12]}", "", "unknown", ""))

    return AgentsUsage.of(map(call, digests))


def _kept(workspace: Workspace, digest: str) -> Exchange:
    try:
        return exchange_from(workspace.store.blob(digest))
    except UnknownPrompt:
        raise InputUnavailable(
            f"the exchange {digest[:12]} with a language model is not kept"
        ) from None


def _noted(
    result: SuperPrompt, slot: str, digest: str = "", usage: ModelCall | None = None
) -> SuperPrompt:
    """Return a result with the exchange of one slot and what it took, or with neither."""
    noted = evolve(result)
    for name, value in (("exchanges", digest), ("llm_usage", usage)):
        rows = getattr(result.extras, name)
        kept = {key: found for key, found in rows.items() if key != slot}
        kept |= {slot: value} if value else {}
        noted.extras.drop(name)
        if kept:
            setattr(noted.extras, name, kept)
    return noted
