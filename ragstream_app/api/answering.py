"""One question of a client on the way that `ragstream ask` takes: prompt, answer, citations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_app.answer_stream import StoppableChat
from ragstream_core.errors import Stopped

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from ragstream_app.api.conversation import Asked
    from ragstream_app.api.forms import ChatForm
    from ragstream_app.api.models import Target
    from ragstream_core.answers.answer import Answer, Prepared
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.wiring.workspace import Workspace

# The entry of `metadata` that names a conversation.
SESSION = "session"


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took.

    Attributes:
        prompt_tokens: Tokens of what was sent.
        completion_tokens: Tokens of the answer.
        cached_tokens: Those of the sent ones that the endpoint had kept.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and what is told with it.

    Attributes:
        answer: The answer.
        usage: Counted by the endpoint, or by us if it does not count.
        warnings: All there are, for people.
    """

    answer: Answer
    usage: Usage
    warnings: tuple[str, ...]


class Answering:
    """One question on its way; `build` makes its prompt, `answer` asks.

    Args:
        workspace: The data root.
        target: Which project, under which profile.
        form: The request.
        asked: What its messages ask.
        left: Set when nobody waits for the answer any more.
        only: The projects that are served; none: all there are.
    """

    def __init__(
        self,
        workspace: Workspace,
        target: Target,
        form: ChatForm,
        asked: Asked,
        left: threading.Event,
        *,
        only: Sequence[str] = (),
    ) -> None:
        self.form = form
        self.target = target
        self.key = ""
        self._workspace = workspace
        self._asked = asked
        self._left = left
        self._only = only
        self._made: MadePrompt

    def build(self) -> None:
        """Make the prompt and keep it.

        Raises:
            Stopped: The client left.
            RagstreamError: A wrong request, or a stage refused or failed.
        """
        from ragstream_core.services.choose_model import with_model_to_ask
        from ragstream_core.wiring.make_prompt import make_prompt

        self._workspace = with_model_to_ask(self._workspace)
        self._made = make_prompt(
            self._workspace, self._request(), on_step=lambda *_: self._require()
        )
        self.key = self._made.key

    def answer(self, show: Callable[[str], object] | None = None) -> Answered:
        """Ask the model, or take the extract; a turn is kept only if `store` says so.

        What came before the client left is kept as partial, if it is kept at all.

        Args:
            show: Called with each piece of clean text.

        Raises:
            Refused: It seems to contain secrets, and they would leave this machine.
            ChatFailed: There is no answer.
            Stopped: The client left before it was asked.
        """
        from ragstream_core.wiring import answering
        from ragstream_core.wiring.models import chat_model

        self._require()
        space = self._answers_in()
        prepared = answering.prepare(
            space,
            self._made.super_prompt,
            prompt_key=self.key,
            session=self._session,
            model=StoppableChat(chat_model(space.config), self._left),
            or_extract=True,
        )
        found = answering.answer(space, prepared, show=show)
        warnings = (*self._asked.warnings, *self._made.warnings, *found.warnings)
        return Answered(found, self._usage(prepared, found), warnings)

    def _request(self) -> PromptRequest:
        from ragstream_core.prompts.inputs import PromptRequest
        from ragstream_core.services.own_projects import SETTINGS, require_session

        system = {"prompt.system": self._asked.system} if self._asked.system else {}
        if self._only:
            require_session(self._workspace, self._session, self._only)
        return PromptRequest(
            text=self._asked.question,
            projects=(self.target.project,),
            task=self.target.task,
            settings={**(SETTINGS if self._only else {}), **system},
            session=self._session,
            conversation=self._asked.pairs,
        )

    @property
    def _session(self) -> str:
        return (self.form.metadata or {}).get(SESSION, "")

    def _answers_in(self) -> Workspace:
        """Return the data root as the answer sees it: what the client sets, and what it keeps."""
        most = self.form.max_completion_tokens or self.form.max_tokens
        given = {
            "provider.temperature": self.form.temperature,
            "provider.max_output_tokens": most,
            "history.persist": None if self.form.store else False,
        }
        return self._workspace.with_settings(
            {name: v for name, v in given.items() if v is not None}
        )

    def _usage(self, prepared: Prepared, found: Answer) -> Usage:
        """Return what an answer took; what nobody counted is counted as the prompt is."""
        from ragstream_core.prompts.inputs import inputs_of
        from ragstream_core.wiring.token_budget import counter_of

        told = found.usage if found.origin == "model" else None
        if told is not None and told.reported:
            return Usage(told.input_tokens, told.output_tokens, told.cached_tokens)
        count = counter_of(self._workspace, inputs_of(prepared.prompt)).count
        return Usage(prepared.input_tokens or self._made.tokens, count(found.text))

    def _require(self) -> None:
        """Go on only while somebody waits.

        Raises:
            Stopped: Nobody does.
        """
        if self._left.is_set():
            raise Stopped("the client left")
