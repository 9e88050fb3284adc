"""A conversation that is grounded in documents: one question after the other (R-201…R-203, R-251).

Order: cache → memory → documents → model → persist. A turn is the chain's prompt and the answer's
one path, nothing else: what this adds is a look at earlier answers before, and the cited extract
where no language model can be reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ragstream_core.answers.answer import Answer, Origin
from ragstream_core.answers.extract import ExtractiveFallback
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring import answering
from ragstream_core.wiring.make_prompt import MadePrompt, make_prompt
from ragstream_core.wiring.ragstack_memory import RagstackMemory

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Prepared
    from ragstream_core.ports import ChatModel
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.answering import Show
    from ragstream_core.wiring.workspace import Workspace

STEPS = ("cache", "memory", "documents", "model", "persist")
"""What a turn may go through, in this order."""
OnOrigin = Callable[[Origin], object]
"""Told where an answer comes from, before its first word."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What holds for the next questions; between two turns any of it may change.

    Attributes:
        projects: Names of the projects to search.
        files: Paths to inject, ``path`` or ``project/path``.
        off: Files outside the Eligibility Pool.
        lock: Exact File Lock.
        task: Name of a task profile.
        settings: Explicit settings, dotted key → value.
        session: The conversation; empty: the first question begins one.
        model: Name of the model; empty: the one of the settings.
        diffs: Paths whose changes since the last commit are shown.
        as_of: Generation to read, for one project; 0 for the newest.
    """

    projects: tuple[str, ...]
    files: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    lock: bool = False
    task: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    model: str = ""
    diffs: tuple[str, ...] = ()
    as_of: int = 0

    def request(self, text: str) -> PromptRequest:
        """Return the request of one question.

        Raises:
            EmptyPrompt: The text has no letter and no digit.
            UsageError: No project, or no name of a session.
        """
        return PromptRequest(
            text=text,
            projects=tuple(dict.fromkeys(self.projects)),
            files=self.files,
            off=self.off,
            lock=self.lock,
            settings=self.settings,
            task=self.task,
            session=self.session,
            diffs=self.diffs,
            as_of=self.as_of,
        )


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One question with its answer.

    Attributes:
        answer: What is shown and kept.
        origin: Where it comes from.
        source_turn: Id of the turn whose answer was given again; empty for any other origin.
        prompt: The prompt; None where none was made, since the answer was there already.
        prompt_key: Its key; empty where it is not kept.
        trace: Steps of `STEPS` in the order in which they were taken.
        timings_ms: Milliseconds of ``cache``, ``prompt`` (memory and documents), ``model`` (its
            stream, to the end), ``persist`` (before and behind it) and ``total``.
        run_id: The prompt's Dagster run; empty for none.
        warnings: Of the prompt, for people; those of the answer stand in it.
    """

    answer: Answer
    origin: Origin
    source_turn: str
    prompt: SuperPrompt | None
    prompt_key: str
    trace: tuple[str, ...]
    timings_ms: Mapping[str, float]
    run_id: str = ""
    warnings: tuple[str, ...] = ()


class ChatSession:
    """A conversation in one data root.

    Args:
        workspace: The data root.
        options: What holds for the first questions.
        build: Makes the prompt of a question and keeps it.
        model: Who is asked; default: the model that options or settings name.

    Attributes:
        options: What holds for the next question; its session is filled in by the first one.
        prepared: What was sent last, perhaps without an answer; None before the first prompt.
    """

    def __init__(
        self,
        workspace: Workspace,
        options: ChatOptions,
        *,
        build: Callable[[Workspace, PromptRequest], MadePrompt] = make_prompt,
        model: ChatModel | None = None,
    ) -> None:
        self.options = options
        self.prepared: Prepared | None = None
        self._workspace = workspace
        self._build = build
        self._model = model

    def ask(
        self,
        text: str,
        *,
        show: Show | None = None,
        allow_secrets: bool = False,
        on_origin: OnOrigin | None = None,
    ) -> ChatTurn:
        """Answer one question; question and answer are kept where they may be.

        Args:
            text: The question.
            show: Called with each piece of clean text.
            allow_secrets: Send it even though it seems to contain secrets.
            on_origin: Told where the answer comes from, before its first word.

        Raises:
            Refused: It seems to contain secrets, and they would leave this machine.
            ChatFailed: The model that is there gave no answer; the question is kept.
            RagstreamError: A wrong request, or a stage refused or failed.
        """
        turn = _Asking(self._home(), self._request(text), show, on_origin)
        found = turn.cached(self._model)
        if found is not None:
            self._go_on(found.answer.session)
            return found
        made = turn.make(self._build)
        turn.prepare(made, self._model)
        self.prepared = turn.prepared
        self._go_on(turn.prepared.session)
        return turn.answered(made, allow_secrets=allow_secrets)

    def _request(self, text: str) -> PromptRequest:
        """Return the request of a question; another model than the configured one bounds it."""
        found, model = self.options.request(text), self.options.model
        if model in ("", self._workspace.config.settings.provider.model):
            return found
        return replace(found, settings={"prompt.model_target": model, **found.settings})

    def _home(self) -> Workspace:
        """Return the data root with the model that was chosen."""
        model = self.options.model
        return self._workspace.with_settings({"provider.model": model} if model else {})

    def _go_on(self, session: str) -> None:
        """Stay in the conversation that the first question began."""
        self.options = replace(self.options, session=session or self.options.session)


class _Asking:
    """One question on its way."""

    def __init__(
        self,
        home: Workspace,
        request: PromptRequest,
        show: Show | None,
        on_origin: OnOrigin | None,
    ) -> None:
        self.prepared: Prepared
        self._home = home
        self._request = request
        self._show = show or (lambda _: None)
        self._tell = on_origin or (lambda _: None)
        self._trace: list[str] = []
        self._ms: dict[str, float] = {}
        self._began = self._mark = time.perf_counter()

    def cached(self, model: ChatModel | None) -> ChatTurn | None:
        """Return the turn if an earlier answer serves, else None."""
        memory = RagstackMemory(self._home, self._request, model=model)
        if not memory.is_cached:
            return None
        found = memory.maybe_answer(self._request.text)
        self._step("cache", "cache")
        if found is None:
            return None
        self._tell("cached")
        self._show(found.answer.text)
        answer = memory.keep(found)
        self._step("persist", *(["persist"] if answer.session else []))
        return self._turn(answer, None, "")

    def make(self, build: Callable[[Workspace, PromptRequest], MadePrompt]) -> MadePrompt:
        """Make the prompt: first the memory of the conversation, then the documents."""
        made = build(self._home, self._request)
        past = made.prompt.recentConversation
        shown = bool(past.get("body") or past.get("digest"))
        self._step("prompt", *(["memory"] if shown else []), "documents")
        return made

    def prepare(self, made: MadePrompt, model: ChatModel | None) -> None:
        """Say what would be sent."""
        self.prepared = answering.prepare(
            self._home,
            made.prompt,
            prompt_key=made.prompt_key,
            session=self._request.session,
            model=model,
            or_extract=True,
            begun=lambda extracted: self._tell("extract" if extracted else "model"),
        )
        self._step("prompt")

    def answered(self, made: MadePrompt, *, allow_secrets: bool) -> ChatTurn:
        """Ask, check and keep."""
        model = self.prepared.model
        if model is None:
            self._tell("refused")
        answer = answering.answer(
            self._home, self.prepared, allow_secrets=allow_secrets, show=self._show
        )
        self._ms["model"] = model.seconds * 1e3 if isinstance(model, ExtractiveFallback) else 0.0
        self._mark += self._ms["model"] / 1e3
        steps = ["model"] if answer.origin == "model" else []
        self._step("persist", *steps, *(["persist"] if answer.session else []))
        said = answer.doubt if answer.origin == "extract" else ""  # the extract begins with it
        warnings = tuple(warning for warning in made.warnings if warning != said)
        return self._turn(answer, made.prompt, made.run_id, warnings)

    def _step(self, name: str, *taken: str) -> None:
        now = time.perf_counter()
        self._ms[name] = self._ms.get(name, 0.0) + (now - self._mark) * 1e3
        self._mark = now
        self._trace += taken

    def _turn(
        self,
        answer: Answer,
        prompt: SuperPrompt | None,
        run_id: str,
        warnings: tuple[str, ...] = (),
    ) -> ChatTurn:
        total = (time.perf_counter() - self._began) * 1e3
        return ChatTurn(
            answer,
            answer.origin,
            answer.source_turn,
            prompt,
            answer.prompt_key if prompt is not None else "",
            tuple(self._trace),
            {**self._ms, "total": total},
            run_id,
            warnings,
        )


def with_session(workspace: Workspace, options: ChatOptions) -> ChatOptions:
    """Return options with a conversation of their own, where one is kept and none was named.

    A question without one would see the newest turns of all conversations.

    Args:
        workspace: The data root.
        options: What was chosen.

    Raises:
        UnknownSetting: The settings or the task are wrong.
    """
    from ragstream_core.wiring.journal import new_session

    config = workspace.config.with_task(options.task, explicit=options.settings)
    if options.session or not config.settings.history.persist:
        return options
    return replace(options, session=new_session(workspace))
