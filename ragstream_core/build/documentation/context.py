"""The passages of a requirement: what the chain of prompts finds for a request about it.

There is no second way to the index: a request is pinned, run and kept like any prompt, so every
passage has a citation that `ragstream trace` follows, and the prompt can be explained and replayed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.build.documentation.sources import Project, Unit
from ragstream_core.build.evaluating.sweeping import ALONE
from ragstream_core.documentation.cases import Source
from ragstream_core.documentation.definitions import Mention
from ragstream_core.documentation.deterministic import Sentence
from ragstream_core.documentation.documents import Span
from ragstream_core.orchestration.inputs import HistoryPin, PromptInputs, PromptRequest
from ragstream_core.prompting.citations import answer_marker
from ragstream_core.prompting.compose import HISTORY_PREFIX
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.records import Chunk, SuperPrompt

WORDS = 60
_MARKS = re.compile(r"[^\w\s-]+")


def inputs_of_unit(project: Project, unit: Unit, task: str) -> PromptInputs:
    """Pin the request about a requirement; the same generation and settings give the same key.

    Its time is the generation's, and no conversation takes part. The words of the document are
    asked for without their marks, so that none of them is a file name or a filter.

    Raises:
        RagstreamError: Unknown setting or task, or another model made the index.
    """
    definition = unit.definitions[0]
    document = project.documents[definition.path]
    spans = definition.sentences[:WORDS] or definition.checks or (definition.span,)
    said = _MARKS.sub(" ", " ".join(document.at(span) for span in spans)).split()
    text = " ".join(["Requirement", *unit.ids, definition.title, *said[:WORDS]])
    request = PromptRequest(_MARKS.sub(" ", text), (project.name,), settings=ALONE, task=task)
    return replace(project.workspace.pin(request, project.created), history=HistoryPin())


@dataclass(frozen=True)
class Context:
    """What the chain found.

    Attributes:
        project: Whose documents these are.
        prompt_key: The kept prompt; empty where nothing may be kept.
        chunks: Candidates of documents by id; those that the prompt shows come first.
        shown: How many of them it shows.
        short: Chunk id → the short id under which the prompt shows it.
    """

    project: Project
    prompt_key: str
    chunks: dict[str, Chunk]
    shown: int
    short: dict[str, str]

    @classmethod
    def of(cls, project: Project, prompt: SuperPrompt, prompt_key: str) -> Context:
        """Return the passages of a finished prompt."""
        by_id = {c.id: c for c in prompt.base_context_chunks if not c.id.startswith(HISTORY_PREFIX)}
        shown = [i for i in prompt.final_selection_ids if i in by_id]
        ordered = {i: by_id[i] for i in [*shown, *by_id]}
        return cls(project, prompt_key, ordered, len(shown), prompt.extras.get("short_ids", {}))

    def passages(self) -> list[tuple[Source, str]]:
        """Return the passages that the prompt shows, best first, with their citations."""
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
