"""A conversation that is grounded in documents: one question after the other (R-201…R-203, R-251).

Order: cache → memory → documents → model → persist. A turn is the chain's prompt and the answer's
one path, nothing else: what this adds is a look at earlier answers before, and the cited extract
where no language model can be reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.answers.answer import Answer, Origin
from ragstream_core.answers.extract import ExtractiveFallback
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring import answering
from ragstream_core.wiring.journal import new_session
from ragstream_core.wiring.make_prompt import make_prompt
from ragstream_core.wiring.ragstack_memory import RagstackMemory

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Prepared
    from ragstream_core.ports import ChatModel
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

# What a turn may go through, in this order.
STEPS = ("cache", "memory", "documents", "model", "persist")
_TIMED = ("cache", "prompt", "model", "persist")


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One question with its answer."""

    answer: Answer
    trace: tuple[str, ...]  # of `STEPS`, in the order in which they were taken
    # Of "cache", "prompt" (memory and documents), "model" (its stream, to the end), "persist"
    # (before and behind it) and "total".
    timings_ms: Mapping[str, float]
    prompt: SuperPrompt | None = None  # None where the answer was there already
    run_id: str = ""  # the prompt's Dagster run; empty for none
    warnings: tuple[str, ...] = ()  # of the prompt; those of the answer stand in it

    @property
    def origin(self) -> Origin:
        """Where the answer comes from."""
        return self.answer.origin


class ChatSession:
    """A conversation in one data root.

    Args:
        workspace: The data root.
        request: What holds for the first questions; their own words take the place of its text.
        model: Who is asked; default: the model of the settings.

    Attributes:
        request: What holds for the next question; its session is filled in by the first one.
        prepared: What was sent last, perhaps without an answer; None before the first prompt.
    """

    def __init__(
        self, workspace: Workspace, request: PromptRequest, *, model: ChatModel | None = None
    ) -> None:
        self.request = request
        self.prepared: Prepared | None = None
        self._workspace = workspace
        self._model = model

    def ask(
        self,
        text: str,
        *,
        show: Callable[[str], object] = lambda _: None,
        allow_secrets: bool = False,
        on_origin: Callable[[Origin], object] = lambda _: None,
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
        request, clock = replace(self.request, text=text), _Clock()
        memory = RagstackMemory(self._workspace, request, model=self._model)
        trace = ["cache"] if memory.is_cached else []
        if memory.is_cached:
            with clock("cache"):
                earlier = memory.maybe_answer(text)
            if earlier is not None:
                on_origin("cached")
                show(earlier.answer.text)
                with clock("persist"):
                    answer = memory.keep(earlier)
                return self._turn(answer, trace, clock)
        with clock("prompt"):
            made = make_prompt(self._workspace, request)
            prepared = self._prepared(made, on_origin)
        past = made.super_prompt.recentConversation
        trace += [*(["memory"] if past.get("body") or past.get("digest") else []), "documents"]
        self._go_on(prepared.session)
        model = prepared.model
        if model is None:
            on_origin("refused")
        with clock("persist"):
            answer = answering.answer(
                self._workspace, prepared, allow_secrets=allow_secrets, show=show
            )
        streamed_s = model.seconds if isinstance(model, ExtractiveFallback) else 0.0
        clock.move("persist", "model", streamed_s)
        trace += ["model"] if answer.origin == "model" else []
        return self._turn(answer, trace, clock, made)

    def _prepared(self, made: MadePrompt, on_origin: Callable[[Origin], object]) -> Prepared:
        self.prepared = answering.prepare(
            self._workspace,
            made.super_prompt,
            prompt_key=made.key,
            session=self.request.session,
            model=self._model,
            or_extract=True,
            begun=lambda extracted: on_origin("extract" if extracted else "model"),
        )
        return self.prepared

    def _turn(
        self, answer: Answer, trace: list[str], clock: _Clock, made: MadePrompt | None = None
    ) -> ChatTurn:
        self._go_on(answer.session)
        trace = [*trace, *(["persist"] if answer.session else [])]
        if made is None:
            return ChatTurn(answer, tuple(trace), clock.total())
        said = answer.doubt if answer.origin == "extract" else ""  # the extract begins with it
        warnings = tuple(warning for warning in made.warnings if warning != said)
        return ChatTurn(
            answer, tuple(trace), clock.total(), made.super_prompt, made.run_id, warnings
        )

    def _go_on(self, session: str) -> None:
        """Stay in the conversation that the first question began."""
        self.request = replace(self.request, session=session or self.request.session)


class _Clock:
    """Adds up milliseconds by name."""

    def __init__(self) -> None:
        self._ms: dict[str, float] = {}
        self._began = time.perf_counter()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._ms[name] = (time.perf_counter() - started) * 1e3

    def move(self, source: str, name: str, seconds: float) -> None:
        """Count so many seconds of one name as another's."""
        self._ms[source] -= seconds * 1e3
        self._ms[name] = seconds * 1e3

    def total(self) -> dict[str, float]:
        """Return all in the order of the steps, with the whole time as ``total``."""
        ms = {name: self._ms[name] for name in _TIMED if name in self._ms}
        return {**ms, "total": (time.perf_counter() - self._began) * 1e3}


def with_model(
    workspace: Workspace, request: PromptRequest, model: str
) -> tuple[Workspace, PromptRequest]:
    """Return data root and request with another language model, which bounds the prompt as well.

    Args:
        workspace: The data root.
        request: What is asked.
        model: Its name; empty: that of the settings.

    Raises:
        UnknownSetting: The name is none.
    """
    config = workspace.config
    if model in ("", config.settings.provider.model):
        return workspace, request
    workspace = workspace.with_settings({"provider.model": model})
    settings = {"prompt.model_target": model, **request.settings}
    return workspace, replace(request, settings=settings)


def with_session(workspace: Workspace, request: PromptRequest) -> PromptRequest:
    """Return a request with a conversation of its own, where one is kept and none was named.

    A question without one would see the newest turns of all conversations.

    Args:
        workspace: The data root.
        request: What was chosen.

    Raises:
        UnknownSetting: The settings or the task are wrong.
    """
    config = workspace.config.with_task(request.task, explicit=request.settings)
    if request.session or not config.settings.history.persist:
        return request
    return replace(request, session=new_session(workspace))
