"""A finished prompt answered by a language model: prepared, streamed, checked, kept.

The question is on the disk before anything is sent, the answer right after its last word, also
where it broke off. What leaves this machine is searched for secrets first. Where nothing of a
prompt may be kept, nothing is written here either.

Question and answer in the conversation: the one before the call, the other right after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.answers.answer import (
    REFUSAL,
    REFUSALS,
    Answer,
    Grounding,
    Origin,
    Prepared,
    grounding_of,
    messages_of,
    secret_places,
)
from ragstream_core.answers.citations import Citation, citations_of, issued_by, journal_rows
from ragstream_core.answers.extract import EXTRACT, ExtractiveFallback, extract_of
from ragstream_core.answers.stream_buffer import CitationBuffer
from ragstream_core.conversations.journal.records import OWN_PROJECTS, Asked, Cleared, Turn
from ragstream_core.conversations.non_answers import REFUSED
from ragstream_core.errors import (
    AllowSecrets,
    ChatBroken,
    ChatFailed,
    RagstreamError,
    Refused,
    RunCommand,
    SwitchOff,
)
from ragstream_core.ingestion.secrets import phrase
from ragstream_core.prompts.blocks import history_texts
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.doubt import doubt_of
from ragstream_core.prompts.edited_prompt import is_edited
from ragstream_core.prompts.exchanges import usage_of
from ragstream_core.prompts.inputs import inputs_of, persists, settings_at
from ragstream_core.prompts.render import project_memory
from ragstream_core.records.chat import ChatReply, ChatUsage
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import journal
from ragstream_core.wiring.after_turn import after_turn
from ragstream_core.wiring.answer_scope import scope_of
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace


class Keeper:
    """The conversation that one answer belongs to; writes nothing where nothing may be kept."""

    def __init__(self, workspace: Workspace, prepared: Prepared) -> None:
        self._workspace = workspace
        self._inputs = inputs_of(prepared.prompt)
        self._key = prepared.prompt_key
        self._files = prepared.prompt.extras.files
        self._scope = prepared.scope
        self._asked = ""
        self._seq = 0
        self.session = prepared.session

    def asked(self) -> None:
        """Make the question durable."""
        if not self.session:
            return
        record = Asked("", self.session, "", self._inputs.text, self._projects, self._key)
        (entry,) = journal.append_records(self._workspace, [record])
        self._asked, self._seq = entry.record.id, entry.seq

    def turn(
        self,
        text: str,
        status: str,
        citations: tuple[Citation, ...],
        *,
        is_extract: bool = False,
    ) -> tuple[str, ...]:
        """Make question and answer durable; return a warning where that is not possible.

        The answer is there and perhaps paid for: it is shown all the same.
        """
        if not self.session:
            return ()
        if self._asked and self._is_cleared():
            return ("the answer is not kept: its question was cleared in the meantime",)
        holds = any(c.verified for c in citations) or not citations
        may_serve = holds and not is_extract and text not in REFUSALS
        turn = Turn(
            "", self.session, "", self._inputs.text, text,
            projects=self._projects, active_dbs=self._projects,
            versions=tuple({"path": file.path, "sha256": file.sha256} for file in self._files),
            prompt_key=self._key, asked=self._asked, status=status,
            citations=journal_rows(citations), origin=_origin(text, is_extract=is_extract),
            scope=self._scope if may_serve else "", used_in=OWN_PROJECTS,
        )  # fmt: skip
        try:
            journal.append_turn(self._workspace, turn)
        except RagstreamError as error:
            return (f"the answer is not kept: {error.message}",)
        memory = settings_at(self._inputs, OPS[-1]).memory
        return after_turn(self._workspace, memory)

    def _is_cleared(self) -> bool:
        """Whether the question was cleared while the answer came: it must not come back with it."""
        for entry in journal.journal(self._workspace).backwards():
            if entry.seq <= self._seq:
                return entry.seq != self._seq
            gone = entry.record.seqs if isinstance(entry.record, Cleared) else ()
            if any(first <= self._seq <= last for first, last in gone):
                return True
        return True

    @property
    def _projects(self) -> tuple[str, ...]:
        return tuple(pin.project for pin in self._inputs.pins)


def _origin(text: str, *, is_extract: bool) -> str:
    """Return what the journal says of an answer; empty for a model's own words."""
    if is_extract:
        return EXTRACT
    return REFUSED if text.strip() == REFUSAL else ""


Begun = Callable[[bool], object]
"""Told before the first words whether they are the extract."""
Show = Callable[[str], object]
"""Called with each piece of clean text as it comes."""


def prepare(
    workspace: Workspace,
    prompt: SuperPrompt,
    *,
    prompt_key: str = "",
    session: str = "",
    model: ChatModel | None = None,
    or_extract: bool = False,
    begun: Begun = lambda _: None,
) -> Prepared:
    """Say what would be sent for a finished prompt, to whom, and what it costs; nothing is sent."""
    from ragstream_core.wiring import models

    inputs = inputs_of(prompt)
    settings = settings_at(inputs, OPS[-1]).prompt
    shown = settings.recent_history
    memory = project_memory(inputs.texts)
    grounding = grounding_of(prompt, project_memory=memory, history=shown)
    wording = {"documents": settings.answer_rules, "memory": settings.memory_rules}
    messages = tuple(messages_of(prompt, grounding, wording=wording.get(grounding, "")))
    issued = issued_by(prompt, history=shown)
    kept_in = _session(workspace, inputs, session)
    if grounding == "nothing":
        return Prepared(prompt, prompt_key, grounding, messages, issued, None, kept_in)
    asked = model or models.chat_model(workspace.config)
    if or_extract:
        past = [text for _, text in history_texts(prompt)] if shown else []
        told = () if grounding == "documents" else (memory, *past)
        asked = ExtractiveFallback(asked, lambda why: extract_of(prompt, issued, why, told), begun)
    tokens = sum(map(counter_of(workspace, inputs).count, (message.text for message in messages)))
    places = () if asked.is_local else tuple(secret_places(messages))
    estimate = asked.price(tokens, 0)
    scope = scope_of(workspace, inputs, asked) if _may_serve_again(prompt, grounding) else ""
    return Prepared(
        prompt, prompt_key, grounding, messages, issued, asked, kept_in, scope, places, tokens,
        estimate,
    )  # fmt: skip


def answer(
    workspace: Workspace,
    prepared: Prepared,
    *,
    allow_secrets: bool = False,
    show: Show | None = None,
) -> Answer:
    """Ask the model and return its checked answer; question and answer are kept."""
    warnings = _secrets(prepared, allowed=allow_secrets)
    kept = Keeper(workspace, prepared)
    given = show or (lambda _: None)
    if prepared.model is None:
        given(REFUSAL)
        warnings += kept.turn(REFUSAL, "complete", ())
        return _answer(prepared, REFUSAL, REFUSAL, warnings=warnings)
    kept.asked()
    reply, clean, rest = _streamed(prepared, prepared.model, kept, given)
    raw, citations = _checked(prepared, reply.text, clean)
    try:
        given(rest)
    finally:  # also where nobody reads the end of it
        warnings += kept.turn(raw, reply.status, citations, is_extract=reply.model == EXTRACT)
    if reply.status == "partial":
        warnings += (f"the answer broke off: {reply.reason}",)
    return _answer(prepared, clean, raw, reply=reply, citations=citations, warnings=warnings)


def attempt(workspace: Workspace, prepared: Prepared, *, allow_secrets: bool = False) -> Answer:
    """As `answer`, but a model that gives none is an answer that says so (R-212)."""
    try:
        return answer(workspace, prepared, allow_secrets=allow_secrets)
    except ChatFailed as error:
        failed = _answer(prepared, "", "", warnings=(str(error),))
        return replace(failed, status="failed", origin="model")


def _may_serve_again(prompt: SuperPrompt, grounding: Grounding) -> bool:
    """Say whether an answer may serve a later question: not where a person or memory shaped it."""
    return grounding == "documents" and not is_edited(prompt)


def _session(workspace: Workspace, inputs: PromptInputs, named: str) -> str:
    """Return the conversation that an answer is kept in, "" where nothing may be kept."""
    if not (workspace.config.settings.history.persist and persists(inputs)):
        return ""
    return named or inputs.history.session or journal.new_session(workspace)


def _secrets(prepared: Prepared, *, allowed: bool) -> tuple[str, ...]:
    """Return a warning about secrets that are sent."""
    if not prepared.secrets or prepared.model is None:
        return ()
    found = phrase(prepared.secrets)
    if not allowed:
        raise Refused(
            f"the prompt seems to contain secrets and would go to {prepared.model.host}: {found}",
            hint=(SwitchOff(), ", or ", AllowSecrets()),
        )
    return (f"sent even though it seems to contain secrets: {found}",)


def _answer(
    prepared: Prepared,
    text: str,
    raw: str,
    *,
    reply: ChatReply | None = None,
    citations: tuple[Citation, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Answer:
    origin: Origin = "refused" if reply is None else "model"
    if reply is not None and reply.model == EXTRACT:
        origin = "extract"
    return Answer(
        text,
        raw,
        reply.status if reply else "refused",
        citations,
        reply.usage if reply else None,
        reply.model if reply and origin == "model" else "",
        prepared.prompt_key,
        prepared.session,
        warnings,
        usage_of(prepared.prompt),
        origin,
        doubt=doubt_of(prepared.prompt),
    )


def _streamed(
    prepared: Prepared, model: ChatModel, kept: Keeper, show: Show
) -> tuple[ChatReply, str, str]:
    """Stream an answer through the citation buffer.

    What had come is kept as partial where the person interrupts, or reads no more.
    """
    buffer = CitationBuffer(prepared.issued)
    pieces: list[str] = []
    clean: list[str] = []
    reply: ChatReply | None = None
    try:
        for delta in model.stream(prepared.messages):
            reply = delta.reply or reply
            pieces.append(delta.text)
            clean.append(buffer.feed(delta.text))
            if clean[-1]:
                show(clean[-1])
    except (KeyboardInterrupt, OSError):
        if any(piece.strip() for piece in pieces):
            kept.turn("".join(pieces), "partial", ())
        raise
    except ChatFailed as error:
        if not any(piece.strip() for piece in pieces):
            raise
        reply = _broken_off(pieces, model, error.message)
    reply = reply or _broken_off(pieces, model, "the end of the stream never arrived")
    clean.append(buffer.close(cut=reply.status == "partial"))
    return reply, "".join(clean), clean[-1]


def _broken_off(pieces: list[str], model: ChatModel, reason: str) -> ChatReply:
    """Return what there is of an answer that never said it was whole."""
    text = "".join(pieces)
    if not text.strip():
        raise ChatBroken(f"{model.name} gave an empty answer", hint=RunCommand("models list"))
    return ChatReply(text, "partial", model.name, ChatUsage(0, 0, reported=False), reason)


def _checked(prepared: Prepared, raw: str, clean: str) -> tuple[str, tuple[Citation, ...]]:
    """Return the text that is kept and its citations; none where no document was shown."""
    if prepared.grounding != "documents":
        return clean, ()
    if clean.strip() in REFUSALS:
        return clean.strip(), ()
    return raw, tuple(citations_of(raw, prepared.issued))
