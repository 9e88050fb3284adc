"""Stages that ask a language model: what was said is kept with the prompt and read in its replay.

Agents get a callable. Here it meets the configured model, or the record: a replay asks nobody, a
live one asks and compares. What would leave this machine is searched for secrets first; a question
that seems to hold one is not sent, and the stage goes on without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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

    from ragstream_core.agents.llm_call import Schema
    from ragstream_core.ports import FileSource
    from ragstream_core.prompts.chain import Stage
    from ragstream_core.records.chat import ChatMessage, ChatReply
    from ragstream_core.settings.prompts import AgentsConfig
    from ragstream_core.wiring.workspace import Workspace


# Op → its setting in ``agents``, and the name of its deterministic form.
FORMS = {
    "a2_prompt_shaper": ("a2_form", "rules"),
    "a3_nli_gate": ("a3_form", "gate"),
    "a4_condenser": ("a4_form", SAF_A1),
    "a2_audit": ("audit_form", "rules"),
}
AsksModel = PromptShaper | NliGate | Condenser | Audit


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


def asking(
    op: str,
    stage: Stage,
    prompt: SuperPrompt,
    workspace: Workspace,
    agents: AgentsConfig,
    files: FileSource,
) -> Stage:
    """Return the stage of an op as its settings say: asking a language model, or not.

    What is asked is kept, and a repetition replaces it; ``files`` of a record bring its exchanges.
    """
    if op not in FORMS:
        return stage
    form, fallback = FORMS[op]
    slot = op if pass_number(prompt) == 1 else f"{op}#{pass_number(prompt)}"
    if getattr(agents, form) == "llm":
        asks = cast("AsksModel", stage)
        return partial(_asking_stage, asks, slot, fallback, workspace, files)
    return (lambda given: _noted(stage(given), slot)) if slot in prompt.extras.exchanges else stage


def _asking_stage(
    stage: AsksModel,
    slot: str,
    fallback: str,
    workspace: Workspace,
    files: FileSource,
    prompt: SuperPrompt,
) -> SuperPrompt:
    recorded = files.answers if isinstance(files, RecordedFiles) else None
    kept = [_kept(workspace, digest) for digest in recorded.digests] if recorded else []
    is_live = recorded is None or recorded.live
    model = Guarded(models.chat_model(workspace.config)) if is_live else None
    exchanges = Exchanges(model, kept)

    def ask(
        messages: Sequence[ChatMessage], schema: type[Schema], check: Callable[[Schema], str]
    ) -> tuple[Schema | None, str]:
        said = exchanges.ask(slot, messages, schema, fallback=fallback, check=check)
        return said.value, said.reason

    result = replace(stage, ask=ask)(prompt)
    # A replay, and a prompt that leaves nothing behind, only name what was asked.
    writes = recorded is None and persists(prompt.extras.inputs)
    digests = exchanges.keep(workspace.store.put_blob if writes else sha256_hex)
    if recorded is not None:
        recorded.differences.extend(exchanges.differences)
    asked = next(iter(exchanges.made), None)
    return _noted(result, slot, next(iter(digests), ""), call_of(asked) if asked else None)


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
