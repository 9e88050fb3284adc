"""Writes the draft of one requirement: passages from the chain, then rules or a language model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.build import models
from ragstream_core.build.asking import Guarded
from ragstream_core.build.documentation.context import Context, inputs_of_unit
from ragstream_core.build.documentation.drafts import Draft, draft_key, keep, kept
from ragstream_core.documentation import by_model
from ragstream_core.documentation.deterministic import drafted
from ragstream_core.documentation.specification import NOT_FOUND, NOT_TESTABLE
from ragstream_core.errors import ChatBroken, ChatFailed
from ragstream_core.models.wrapped import WrappedChat
from ragstream_core.orchestration.exchanges import Exchanges

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.build.documentation.sources import Project, Unit
    from ragstream_core.documentation.cases import TestCase
    from ragstream_core.ports import ChatModel
    from ragstream_core.records.chat import ChatMessage, ChatReply

OP = "test_spec"
ATTEMPTS = 2
"""A model whose answer cannot be taken is asked once more."""
SILENT_AFTER = 2
"""After so many requirements without any answer of the model it is not asked any more."""
NO_PASSAGE = "the prompt shows no passage"
NOT_TAKEN = "the language model's answer was not taken"
SILENT = "it gave no answer before, so it was not asked"


class Asked(WrappedChat):
    """A language model, and how often in a row it gave no answer at all.

    Args:
        model: Who is asked.

    Attributes:
        silent: How often.
    """

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self.silent = 0

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Ask.

        Raises:
            ChatFailed: The model did not answer as it should.
        """
        try:
            reply = super().complete(messages, schema=schema)
        except ChatBroken:
            self.silent = 0
            raise
        except ChatFailed:
            self.silent += 1
            raise
        self.silent = 0
        return reply


@dataclass(frozen=True)
class Drafter:
    """Writes drafts of one project's requirements.

    Attributes:
        project: The project.
        form: ``deterministic`` or ``llm``.
        task: Name of a task profile.
        known: All requirement ids of the sources.
        asked: The language model; None: nobody is asked.
    """

    project: Project
    form: str
    task: str
    known: Collection[str]
    asked: Asked | None = None

    @classmethod
    def of(cls, project: Project, form: str, task: str) -> Drafter:
        """Return one that asks the configured model where the form says so.

        Raises:
            RagstreamError: The provider's settings are wrong.
        """
        config = project.workspace.config
        asked = None
        if form == "llm":
            asked = Asked(models.chat_model(config))
        return cls(project, form, task, frozenset(project.found.ids), asked)

    def __call__(self, unit: Unit) -> Draft:
        """Return the draft of a unit: the one that is kept, or a new one.

        Raises:
            RagstreamError: The chain refused or failed.
            OSError: Disk full, permission denied.
        """
        space = self.project.workspace
        inputs = inputs_of_unit(self.project, unit, self.task)
        key = draft_key(space, inputs, unit.ids, self.form)
        before = kept(space, self.project.name, key)
        if before is not None:
            return before
        prompt = space.run(inputs)
        record = space.finish(prompt)
        context = Context.of(self.project, prompt, record.prompt_key)
        exchanges = None
        if self.asked is not None:
            exchanges = Exchanges(Guarded(self.asked))
        draft = replace(self.written(unit, context, exchanges), key=key)
        answered = self.asked is None or not self.asked.silent
        if record.prompt_key and answered:  # what a silent model left out is asked for again
            keep(space, self.project.name, draft)
        return draft

    def written(self, unit: Unit, context: Context, exchanges: Exchanges | None) -> Draft:
        """Return the draft that some passages make; its key is empty.

        Args:
            unit: The requirements.
            context: What the chain found.
            exchanges: Ask the language model, or read what it said then; None: by rules.
        """
        case, note = None, ""
        if exchanges is not None:
            case, note = self._by_model(unit, context, exchanges)
        made = tuple(exchanges.made) if exchanges else ()
        if case is not None:
            return Draft("", context.prompt_key, case, exchanges=made)
        sentences = context.sentences(unit)
        notes = (f"{NOT_TAKEN}: {note}",) if note else ()
        case = drafted(unit.ids, unit.definitions[0].title, sentences, form_notes=notes)
        if case is not None:
            return Draft("", context.prompt_key, case, exchanges=made)
        state = NOT_FOUND if self.project.is_testable(unit) else NOT_TESTABLE
        words = unit.definitions[0].title
        return Draft("", context.prompt_key, None, state, words, made)

    def _by_model(
        self, unit: Unit, context: Context, exchanges: Exchanges
    ) -> tuple[TestCase | None, str]:
        """Return the case that the language model wrote, or None and why there is none."""
        passages = context.passages()
        if not passages:
            return None, NO_PASSAGE
        if self.asked is not None and self.asked.silent >= SILENT_AFTER:
            return None, SILENT
        asked, check, reason = by_model.messages(unit.ids, passages), by_model.checker(passages), ""
        for _ in range(ATTEMPTS):
            said = exchanges.ask(OP, asked, by_model.Written, fallback="deterministic", check=check)
            if said.value is not None:
                name, known = exchanges.made[-1].model, self.known
                case = by_model.case_of(said.value, unit.ids, passages, known=known, model=name)
                return case, ""
            reason = said.reason
            if self.asked is not None and self.asked.silent:
                break
        return None, reason


def redrafted(project: Project, unit: Unit, draft: Draft, task: str) -> Draft:
    """Write a kept draft again from its record; the language model is not asked.

    Args:
        project: At the same generation.
        unit: The requirements.
        draft: As it is kept.
        task: Name of a task profile.

    Raises:
        InputUnavailable: An answer of the model that is needed is not in the record.
        RagstreamError: The chain refused or failed.
    """
    space = project.workspace
    form = "llm" if draft.exchanges else "deterministic"
    drafter = Drafter(project, form, task, frozenset(project.found.ids))
    prompt = space.run(inputs_of_unit(project, unit, task))
    context = Context.of(project, prompt, draft.prompt_key)
    exchanges = Exchanges(None, draft.exchanges) if draft.exchanges else None
    return replace(drafter.written(unit, context, exchanges), key=draft.key)
