"""Writes the draft of one requirement: passages from the chain, then rules or a language model.

A request is pinned, run and kept like any prompt, so every passage has a citation that `ragstream
trace` follows, and the prompt can be explained and replayed. A draft is one test case without its
id, or why there is none, with its prompt and what a language model was asked. It is kept in
``data/specs/<project>/drafts/<key>.json``; the key covers the pinned inputs of the prompt, so an
unchanged requirement is not asked about twice, and a specification that was interrupted goes on.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import ChatBroken, ChatFailed, IntegrityError
from ragstream_core.index.look import kept_generations, manifest_of
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.file_types import PARSED, file_type, kind_of
from ragstream_core.models.chat.wrapped import WrappedChat
from ragstream_core.platform.files import replace_text
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.exchanges import Exchange, Exchanges, exchange_from
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.store import RECORD_NAME
from ragstream_core.records.identity import canonical_json, digest_of, sha256_hex
from ragstream_core.records.prompt_inputs import HistoryPin, PromptInputs
from ragstream_core.testspecs import llm_form, specification
from ragstream_core.testspecs.deterministic import Sentence, drafted, is_testable
from ragstream_core.testspecs.requirements import (
    Definition,
    Document,
    Mention,
    Requirements,
    Span,
    documents_of,
    find,
)
from ragstream_core.testspecs.specification import (
    COVERED,
    NOT_FOUND,
    NOT_TESTABLE,
    Source,
    TestCase,
    case_from,
)
from ragstream_core.wiring import models
from ragstream_core.wiring.file_states import indexed_text
from ragstream_core.wiring.llm_stages import Guarded
from ragstream_core.wiring.make_prompt import make_prompt
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.ports import ChatModel
    from ragstream_core.records import Chunk, SuperPrompt
    from ragstream_core.records.chat import ChatMessage, ChatReply
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Unit:
    """Requirements that one test case is written for."""

    ids: tuple[str, ...]  # the ids that one definition begins with
    definitions: tuple[Definition, ...]  # that one, then others of the same ids


@dataclass(frozen=True)
class Project:
    """What is read of a project."""

    workspace: Workspace
    name: str
    generation: int
    digest: str
    created: dt.datetime  # when the generation was made; the time of every prompt asked about it
    documents: dict[str, Document]  # path → document
    found: Requirements
    _texts: dict[str, str] = field(default_factory=dict, repr=False)

    def words(self, passage: Definition | Mention) -> str:
        """Return the words of a mention, or of a definition with its id."""
        return self.documents[passage.path].at(passage.span)

    def lines(self, path: str, span: Span) -> tuple[int, int]:
        """Return first and last line of a passage; (0, 0) where the file is not what it was."""
        if kind_of(file_type(path)) in PARSED:
            return 0, 0
        if path not in self._texts:
            entry = manifest_of(self.workspace.index_dir(self.name), self.generation)[path]
            self._texts[path] = indexed_text(self.workspace, self.name, path, entry.sha256)
        text = self._texts[path]
        if not 0 <= span[0] < span[1] <= len(text):
            return 0, 0
        return text.count("\n", 0, span[0]) + 1, text.count("\n", 0, span[1] - 1) + 1

    def units(self, ids: Sequence[str]) -> list[Unit]:
        """Return what is to be written for some ids; those that are only mentioned have none."""
        first = {i: self._best(self.found.of(i)) for i in ids if self.found.of(i)}
        return [Unit(one.ids, (one, *self._others(one))) for one in dict.fromkeys(first.values())]

    def is_testable(self, unit: Unit) -> bool:
        """Whether the definitions of a unit state something that could be checked."""
        return any(self._states(one) for one in unit.definitions)

    def _best(self, definitions: Sequence[Definition]) -> Definition:
        return next((one for one in definitions if self._states(one)), definitions[0])

    def _states(self, one: Definition) -> bool:
        document = self.documents[one.path]
        sentences = [document.at(span) for span in one.sentences]
        lists = [(document.at(lead), document.at(item)) for item, lead in one.leads]
        return is_testable(sentences, [document.at(span) for span in one.checks], lists)

    def _others(self, one: Definition) -> list[Definition]:
        wanted = set(one.ids)
        near = dict.fromkeys(d for name in one.ids for d in self.found.of(name))
        return [other for other in near if other != one and wanted.issuperset(other.ids)]


def read_project(workspace: Workspace, name: str, pattern: re.Pattern[str]) -> Project:
    """Read the newest generation of a project."""
    workspace.require_project(name)
    view = open_view(workspace.index_dir(name))
    documents = documents_of(view.chunks(view.chunk_ids))
    made = {one.n: one.created for one in kept_generations(workspace.index_dir(name))}
    created = dt.datetime.fromisoformat(made[view.generation]).astimezone(dt.UTC)
    by_path = {document.path: document for document in documents}
    found = find(documents, pattern)
    return Project(workspace, name, view.generation, view.digest, created, by_path, found)


WORDS = 60
_MARKS = re.compile(r"[^\w\s-]+")


def inputs_of_unit(project: Project, unit: Unit, task: str) -> PromptInputs:
    """Pin the request about a requirement; the same generation and settings give the same key.

    Its time is the generation's, and no conversation takes part. The words of the document are
    asked for without their marks, so that none of them is a file name or a filter.
    """
    definition = unit.definitions[0]
    document = project.documents[definition.path]
    spans = definition.sentences[:WORDS] or definition.checks or (definition.span,)
    said = _MARKS.sub(" ", " ".join(document.at(span) for span in spans)).split()
    text = " ".join(["Requirement", *unit.ids, definition.title, *said[:WORDS]])
    request = PromptRequest(_MARKS.sub(" ", text), (project.name,), settings=ALONE, task=task)
    return replace(pin_inputs(project.workspace, request, project.created), history=HistoryPin())


@dataclass(frozen=True)
class Context:
    """What the chain found."""

    project: Project
    prompt_key: str  # the kept prompt; empty where nothing may be kept
    # candidates of documents by id; those that the prompt shows come first
    chunks: dict[str, Chunk]
    shown: int
    short: Mapping[str, str]  # chunk id → the short id under which the prompt shows it

    @classmethod
    def of(cls, project: Project, prompt: SuperPrompt, prompt_key: str) -> Context:
        """Return the passages of a finished prompt."""
        by_id = {c.id: c for c in prompt.base_context_chunks if not c.id.startswith(HISTORY_PREFIX)}
        shown = [i for i in prompt.final_selection_ids if i in by_id]
        ordered = {i: by_id[i] for i in [*shown, *by_id]}
        return cls(project, prompt_key, ordered, len(shown), prompt.extras.short_ids)

    def passages(self) -> list[tuple[Source, str]]:
        """Return the passages that the prompt shows, here whole, best first, with citations."""
        best = list(self.chunks.values())[: self.shown]
        return [(self._source(c, c.span, c.snippet), c.snippet) for c in best]

    def sentences(self, unit: Unit) -> list[Sentence]:
        """Return the sentences of a unit that the chain found: its definitions, then mentions."""
        return list(dict.fromkeys([*self._defined(unit), *self._mentioned(unit)]))

    def _defined(self, unit: Unit) -> Iterator[Sentence]:
        for one in unit.definitions:
            leads = dict(one.leads)
            for span in one.sentences:
                lead = leads.get(span)
                opened = next(self._sources(one.path, [lead], unit.ids), None) if lead else None
                for source in self._sources(one.path, [span], unit.ids):
                    yield Sentence(source, lead=opened)
            for source in self._sources(one.path, one.checks, unit.ids):
                yield Sentence(source, is_check=True)

    def _mentioned(self, unit: Unit) -> Iterator[Sentence]:
        mentions: list[Mention] = [
            m for i in unit.ids for m in self.project.found.mentions.get(i, ()) if m.is_sentence
        ]
        for mention in mentions:
            for source in self._sources(mention.path, [mention.span], unit.ids):
                yield Sentence(source)

    def _sources(self, path: str, spans: Iterable[Span], ids: tuple[str, ...]) -> Iterator[Source]:
        for span in spans:
            quote = self.project.documents[path].at(span)
            chunk = self._chunk(path, span, quote, ids)
            if chunk is not None:
                yield self._source(chunk, span if chunk.source == path else None, quote)

    def _chunk(self, path: str, span: Span, quote: str, ids: tuple[str, ...]) -> Chunk | None:
        """Return the best candidate that holds a quote, also where an equal text stands for it."""
        holding = [chunk for chunk in self.chunks.values() if quote in chunk.snippet]
        for chunk in holding:
            if chunk.source == path and chunk.span[0] <= span[0] and span[1] <= chunk.span[1]:
                return chunk
        return next((c for c in holding if any(name in c.snippet for name in ids)), None)

    def _source(self, chunk: Chunk, span: Span | None, quote: str) -> Source:
        if span is None:
            at = chunk.span[0] + chunk.snippet.index(quote)
            span = (at, at + len(quote))
        short = self.short.get(chunk.id, sha256_hex(chunk.id)[:8])
        return Source(
            answer_marker(chunk.source, short),
            chunk.id,
            self.prompt_key,
            chunk.source,
            self.project.lines(chunk.source, span),
            int(chunk.meta.get("page_number") or 0),
            quote,
        )


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
    exchanges = [json.loads(exchange.data) for exchange in draft.exchanges]
    data = {"version": DRAFT_VERSION, **asdict(draft), "exchanges": exchanges}
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

# A model whose answer cannot be taken is asked once more.
ATTEMPTS = 2
# After so many requirements without any answer of the model it is not asked any more.
SILENT_AFTER = 2
NO_PASSAGE = "the prompt shows no passage"
NOT_TAKEN = "the language model's answer was not taken"
SILENT = "it gave no answer before, so it was not asked"


class Asked(WrappedChat):
    """A language model, and how often in a row it gave no answer at all."""

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self.silent = 0

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Ask."""
        try:
            reply = super().complete(messages, schema=schema)
        except ChatFailed as error:  # a broken answer is an answer
            self.silent = 0 if isinstance(error, ChatBroken) else self.silent + 1
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
        chat = Asked(models.chat_model(project.workspace.config)) if form == "llm" else None
        return cls(project, form, task, frozenset(project.found.ids), chat)

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
        exchanges = Exchanges(Guarded(self.asked)) if self.asked is not None else None
        draft = replace(self.written(unit, context, exchanges), key=key)
        answered = self.asked is None or not self.asked.silent
        if made.key and answered:  # what a silent model left out is asked for again
            keep(space, self.project.name, draft)
        return draft

    def written(self, unit: Unit, context: Context, exchanges: Exchanges | None) -> Draft:
        """Return the draft that some passages make; its key is empty."""
        case, note, title = None, "", unit.definitions[0].title
        if exchanges is not None:
            case, note = self._by_model(unit, context, exchanges)
        asked = tuple(exchanges.made) if exchanges else ()
        if case is None:
            notes = (f"{NOT_TAKEN}: {note}",) if note else ()
            case = drafted(unit.ids, title, context.sentences(unit), form_notes=notes)
        if case is not None:
            return Draft("", context.prompt_key, case, exchanges=asked)
        state = NOT_FOUND if self.project.is_testable(unit) else NOT_TESTABLE
        return Draft("", context.prompt_key, None, state, title, asked)

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
