"""A project read for requirements, and the passages that the chain of prompts finds for each.

There is no second way to the index: a request is pinned, run and kept like any prompt, so every
passage has a citation that `ragstream trace` follows, and the prompt can be explained and replayed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragstream_core.index.look import kept_generations, manifest_of
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.file_types import PARSED, file_type, kind_of
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.identity import sha256_hex
from ragstream_core.records.prompt_inputs import HistoryPin, PromptInputs
from ragstream_core.testspecs.deterministic import Sentence, is_testable
from ragstream_core.testspecs.requirements import (
    Definition,
    Document,
    Mention,
    Requirements,
    Span,
    documents_of,
    find,
)
from ragstream_core.testspecs.specification import Source
from ragstream_core.wiring.file_states import indexed_text
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs

if TYPE_CHECKING:
    from ragstream_core.records import Chunk, SuperPrompt
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
