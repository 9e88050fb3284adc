"""Writes the draft of one requirement: passages from the chain, then rules or a language model.

A draft is one test case without its id, or why there is none, with its prompt and what a language
model was asked. It is kept in ``data/specs/<project>/drafts/<key>.json``; the key covers the pinned
inputs of the prompt, so an unchanged requirement is not asked about twice, and a specification that
was interrupted goes on where it was.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import ChatBroken, ChatFailed, IntegrityError
from ragstream_core.models.chat.wrapped import WrappedChat
from ragstream_core.platform.files import replace_text
from ragstream_core.prompts.exchanges import Exchange, Exchanges, exchange_from
from ragstream_core.prompts.store import RECORD_NAME
from ragstream_core.records.identity import canonical_json, digest_of, sha256_hex
from ragstream_core.testspecs import llm_form, specification
from ragstream_core.testspecs.deterministic import drafted
from ragstream_core.testspecs.specification import (
    COVERED,
    NOT_FOUND,
    NOT_TESTABLE,
    TestCase,
    case_from,
)
from ragstream_core.wiring import models
from ragstream_core.wiring.llm_stages import Guarded
from ragstream_core.wiring.make_prompt import make_prompt
from ragstream_core.wiring.spec_sources import Context, inputs_of_unit

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.ports import ChatModel
    from ragstream_core.records.chat import ChatMessage, ChatReply
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.spec_sources import Project, Unit
    from ragstream_core.wiring.workspace import Workspace


DRAFT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Draft:
    """What became of one unit."""

    key: str  # digest of all that it depends on
    prompt_key: str  # the prompt with its passages; empty where nothing may be kept
    case: TestCase | None  # without its id; None where there is none
    state: str = COVERED  # ``covered``, or why there is no case
    words: str = ""  # what the source says where there is none
    exchanges: tuple[Exchange, ...] = ()  # what a language model was asked, in order


def specs_dir(workspace: Workspace, project: str) -> Path:
    """Return where a project's specifications are kept, whether there are any or not."""
    return workspace.layout.specs / workspace.index_dir(project).name


def draft_key(workspace: Workspace, inputs: PromptInputs, ids: Sequence[str], form: str) -> str:
    """Return the digest of all that a draft depends on."""
    provider = workspace.config.settings.provider
    asked = [provider.backend, provider.base_url, provider.model, provider.script]
    model = asked if form == "llm" else []
    return digest_of([DRAFT_VERSION, _code(), inputs.key, list(ids), form, model])


def keep(workspace: Workspace, project: str, draft: Draft) -> None:
    """Keep a draft."""
    data: dict[str, Any] = {
        "version": DRAFT_VERSION,
        "key": draft.key,
        "prompt_key": draft.prompt_key,
        "case": asdict(draft.case) if draft.case else None,
        "state": draft.state,
        "words": draft.words,
        "exchanges": [json.loads(exchange.data) for exchange in draft.exchanges],
    }
    text = json.dumps(data, ensure_ascii=False, indent=1)
    replace_text(_path(workspace, project, draft.key), text)


def kept(workspace: Workspace, project: str, key: str) -> Draft | None:
    """Return a draft that is kept; None where there is none, or its prompt is gone.

    A damaged one counts as none: it is made again.
    """
    try:
        data = json.loads(_path(workspace, project, key).read_bytes())
        case = case_from(canonical_json(data["case"])) if data["case"] else None
        made = tuple(exchange_from(canonical_json(e).encode("utf-8")) for e in data["exchanges"])
        draft = Draft(data["key"], data["prompt_key"], case, data["state"], data["words"], made)
    except (OSError, ValueError, KeyError, TypeError, IntegrityError):
        return None
    prompt = workspace.store.root / Path(draft.prompt_key).name / RECORD_NAME
    return draft if draft.key == key and prompt.is_file() else None


def _path(workspace: Workspace, project: str, key: str) -> Path:
    return specs_dir(workspace, project) / "drafts" / f"{key}.json"


@functools.cache
def _code() -> str:
    """Return the digest of the rules that write drafts."""
    here = Path(specification.__file__).parent
    return digest_of({f.name: sha256_hex(f.read_bytes()) for f in sorted(here.glob("*.py"))})


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

    Attributes:
        silent: How often.
    """

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self.silent = 0

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Ask."""
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
    """Writes drafts of one project's requirements."""

    project: Project
    form: str  # ``deterministic`` or ``llm``
    task: str  # name of a task profile
    known: Collection[str]  # all requirement ids of the sources
    asked: Asked | None = None  # the language model; None: nobody is asked

    @classmethod
    def of(cls, project: Project, form: str, task: str) -> Drafter:
        """Return one that asks the configured model where the form says so."""
        config = project.workspace.config
        asked = None
        if form == "llm":
            asked = Asked(models.chat_model(config))
        return cls(project, form, task, frozenset(project.found.ids), asked)

    def __call__(self, unit: Unit) -> Draft:
        """Return the draft of a unit: the one that is kept, or a new one."""
        space = self.project.workspace
        inputs = inputs_of_unit(self.project, unit, self.task)
        key = draft_key(space, inputs, unit.ids, self.form)
        before = kept(space, self.project.name, key)
        if before is not None:
            return before
        made = make_prompt(space, inputs)
        context = Context.of(self.project, made.super_prompt, made.key)
        exchanges = None
        if self.asked is not None:
            exchanges = Exchanges(Guarded(self.asked))
        draft = replace(self.written(unit, context, exchanges), key=key)
        answered = self.asked is None or not self.asked.silent
        if made.key and answered:  # what a silent model left out is asked for again
            keep(space, self.project.name, draft)
        return draft

    def written(self, unit: Unit, context: Context, exchanges: Exchanges | None) -> Draft:
        """Return the draft that some passages make; its key is empty."""
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
        asked, check, reason = llm_form.messages(unit.ids, passages), llm_form.checker(passages), ""
        for _ in range(ATTEMPTS):
            said = exchanges.ask(OP, asked, llm_form.Written, fallback="deterministic", check=check)
            if said.value is not None:
                name, known = exchanges.made[-1].model, self.known
                case = llm_form.case_of(said.value, unit.ids, passages, known=known, model=name)
                return case, ""
            reason = said.reason
            if self.asked is not None and self.asked.silent:
                break
        return None, reason
