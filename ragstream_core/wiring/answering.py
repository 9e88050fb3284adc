"""A finished prompt answered by a language model: prepared, streamed, checked, kept.

The question is on the disk before anything is sent, the answer right after its last word, also
where it broke off. What leaves this machine is searched for secrets first. Where nothing of a
prompt may be kept, nothing is written here either. After a turn the memory is brought up to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.answers.answer import (
    REFUSAL,
    REFUSALS,
    Answer,
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
from ragstream_core.wiring import digest, fact_proposals, journal, models
from ragstream_core.wiring.memory_files import writing
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.records import Entry
    from ragstream_core.ports import ChatModel
    from ragstream_core.records import SuperPrompt
    from ragstream_core.settings.prompts import MemoryConfig
    from ragstream_core.wiring.workspace import Workspace


class _Recorder:
    """Keeps the question and the answer of one prompt; nothing where nothing may be kept."""

    def __init__(self, workspace: Workspace, prepared: Prepared) -> None:
        self._workspace = workspace
        self._prepared = prepared
        self._inputs = inputs_of(prepared.prompt)
        self._projects = tuple(pin.project for pin in self._inputs.pins)
        self._question: Entry | None = None

    def keep_question(self) -> None:
        """Make the question durable, before anything is sent."""
        session, key = self._prepared.session, self._prepared.prompt_key
        if session:
            record = Asked("", session, "", self._inputs.text, self._projects, key)
            (self._question,) = journal.append_records(self._workspace, [record])

    def keep_answer(
        self, text: str, status: str, citations: tuple[Citation, ...] = (), *, origin: str = ""
    ) -> tuple[str, ...]:
        """Make question and answer durable; return a warning where that is not possible.

        The answer is there and perhaps paid for: it is shown all the same.
        """
        prepared, question = self._prepared, self._question
        if not prepared.session:
            return ()
        if question and _is_cleared(self._workspace, question.seq):
            return ("the answer is not kept: its question was cleared in the meantime",)
        holds = any(c.verified for c in citations) or not citations
        turn = Turn(
            "", prepared.session, "", self._inputs.text, text,
            projects=self._projects, active_dbs=self._projects,
            versions=tuple(
                {"path": file.path, "sha256": file.sha256} for file in prepared.prompt.extras.files
            ),
            prompt_key=prepared.prompt_key, asked=question.record.id if question else "",
            status=status, citations=journal_rows(citations),
            origin=REFUSED if not origin and text.strip() == REFUSAL else origin,
            scope=prepared.scope if holds and not origin and text not in REFUSALS else "",
            used_in=OWN_PROJECTS,
        )  # fmt: skip
        try:
            journal.append_turn(self._workspace, turn)
        except RagstreamError as error:
            return (f"the answer is not kept: {error.message}",)
        return after_turn(self._workspace, settings_at(self._inputs, OPS[-1]).memory)


def _is_cleared(workspace: Workspace, seq: int) -> bool:
    """Whether a question was cleared while the answer came: it must not come back with it."""
    for entry in journal.journal(workspace).backwards():
        if entry.seq <= seq:
            return entry.seq != seq
        gone = entry.record.seqs if isinstance(entry.record, Cleared) else ()
        if any(first <= seq <= last for first, last in gone):
            return True
    return True


def after_turn(workspace: Workspace, memory: MemoryConfig) -> tuple[str, ...]:
    """Bring what is derived from turns up to the journal; return warnings, and never fail (C-21).

    What goes wrong here the next turn, or whoever looks, makes good.
    """
    settings = workspace.config.settings
    warnings: tuple[str, ...] = ()
    if settings.facts.form != "off" and settings.history.persist:
        warnings = fact_proposals.after_turn(workspace)
    if not (memory.enabled and settings.history.persist):
        return warnings
    try:
        told: dict[int, str] = {}
        missed: tuple[str, ...] = ()
        if memory.summary_form == "llm":  # asked before the lock is taken: it may take its time
            told, missed = digest.worded(workspace, digest.newest_turns(workspace, memory))
        with writing(workspace):
            _write_memory(workspace, memory, told)
    except (RagstreamError, OSError) as error:
        return (*warnings, f"the memory could not be updated: {error}")
    return (*warnings, *missed)


def _write_memory(workspace: Workspace, memory: MemoryConfig, told: dict[int, str]) -> None:
    """Write digest and cache from the journal as it is now: a clearing that was begun is in it."""
    newest = journal.journal(workspace).newest()
    if memory.summary_tokens:
        lines = [
            digest.extracted(seq, turn).worded(told.get(seq, ""))
            for seq, turn in digest.newest_turns(workspace, memory, upto=newest.seq)
        ]
        digest.write(workspace, memory, lines, newest)
    if memory.cache:
        from ragstream_core.wiring import answer_cache  # with numpy

        answer_cache.write(workspace, memory.index_name, models.embedder(workspace.config))


def prepare(
    workspace: Workspace,
    prompt: SuperPrompt,
    *,
    prompt_key: str = "",
    session: str = "",
    model: ChatModel | None = None,
    or_extract: bool = False,
    begun: Callable[[bool], object] = lambda _: None,
) -> Prepared:
    """Say what would be sent for a finished prompt, to whom, and what it costs; nothing is sent.

    Without a session it is the prompt's own, else a new one. With ``or_extract`` the prompt's
    extract is the answer where no model can be reached; ``begun`` is told before the first words
    whether they are the extract.
    """
    inputs = inputs_of(prompt)
    settings = settings_at(inputs, OPS[-1]).prompt
    shows_history, memory = settings.recent_history, project_memory(inputs.texts)
    grounding = grounding_of(prompt, project_memory=memory, history=shows_history)
    wording = {"documents": settings.answer_rules, "memory": settings.memory_rules}
    prepared = Prepared(
        prompt,
        prompt_key,
        grounding,
        tuple(messages_of(prompt, grounding, wording=wording.get(grounding, ""))),
        issued_by(prompt, history=shows_history),
        None,
        _session(workspace, inputs, session),
    )
    if grounding == "nothing":
        return prepared
    model = model or models.chat_model(workspace.config)
    if or_extract:
        past = [text for _, text in history_texts(prompt)] if shows_history else []
        told = () if grounding == "documents" else (memory, *past)
        issued = prepared.issued
        model = ExtractiveFallback(model, lambda why: extract_of(prompt, issued, why, told), begun)
    tokens = sum(map(counter_of(workspace, inputs).count, (m.text for m in prepared.messages)))
    from ragstream_core.wiring import answer_cache  # with numpy

    # What a person or the memory shaped answers no later question.
    serves_again = grounding == "documents" and not is_edited(prompt)
    return replace(
        prepared,
        model=model,
        scope=answer_cache.scope_of(workspace, inputs, model) if serves_again else "",
        secrets=() if model.is_local else tuple(secret_places(prepared.messages)),
        input_tokens=tokens,
        estimate_usd=model.price(tokens, 0),
    )


def answer(
    workspace: Workspace,
    prepared: Prepared,
    *,
    allow_secrets: bool = False,
    show: Callable[[str], object] | None = None,
) -> Answer:
    """Ask the model and return its checked answer; question and answer are kept.

    Raises:
        Refused: It seems to contain secrets, and they would leave this machine.
        ChatFailed: There is no answer; the question is kept.
        OperationFailed: The question cannot be kept, so nothing was sent.
    """
    warnings = _secrets(prepared, allowed=allow_secrets)
    recorder = _Recorder(workspace, prepared)
    show = show or (lambda _: None)
    if prepared.model is None:
        show(REFUSAL)
        warnings += recorder.keep_answer(REFUSAL, "complete")
        return replace(_refusal(prepared), warnings=warnings)
    recorder.keep_question()
    reply, clean, rest = _streamed(prepared, prepared.model, recorder, show)
    raw, citations = _checked(prepared, reply.text, clean)
    extract = reply.model == EXTRACT
    try:
        show(rest)
    finally:  # also where nobody reads the end of it
        warnings += recorder.keep_answer(
            raw, reply.status, citations, origin=EXTRACT if extract else ""
        )
    if reply.status == "partial":
        warnings += (f"the answer broke off: {reply.reason}",)
    return replace(
        _refusal(prepared),
        text=clean,
        raw=raw,
        status=reply.status,
        origin="extract" if extract else "model",
        citations=citations,
        usage=reply.usage,
        model="" if extract else reply.model,
        warnings=warnings,
    )


def attempt(workspace: Workspace, prepared: Prepared, *, allow_secrets: bool = False) -> Answer:
    """As `answer`, but a model that gives none is an answer that says so (R-212)."""
    try:
        return answer(workspace, prepared, allow_secrets=allow_secrets)
    except ChatFailed as error:
        no_answer = replace(_refusal(prepared), text="", raw="", status="failed", origin="model")
        return replace(no_answer, warnings=(str(error),))


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


def _refusal(prepared: Prepared) -> Answer:
    """Return the answer to a prompt without anything to answer from."""
    return Answer(
        REFUSAL,
        REFUSAL,
        "refused",
        prompt_key=prepared.prompt_key,
        session=prepared.session,
        agents=usage_of(prepared.prompt),
        origin="refused",
        doubt=doubt_of(prepared.prompt),
    )


def _streamed(
    prepared: Prepared, model: ChatModel, recorder: _Recorder, show: Callable[[str], object]
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
            recorder.keep_answer("".join(pieces), "partial")
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
