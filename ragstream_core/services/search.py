"""Chunks of documents, or turns of conversations, ranked for a text; no prompt around them.

`search` ranks as the retriever does, `ContextBuilder` as the reranker does, `search_turns` by
shared words alone.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

from ragstream_core.conversations.non_answers import is_evidence
from ragstream_core.errors import ChooseProject, RunCommand, UsageError
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.file_types import kind_of
from ragstream_core.platform.data_frame import data_frame
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.trail import pieces_of
from ragstream_core.retrieval.plain_context import ContextLimits, Passage, context_parts
from ragstream_core.text import contexts
from ragstream_core.text.markup import table_html, visible
from ragstream_core.text.terms import term_blob, terms
from ragstream_core.wiring import file_sources, journal, stages
from ragstream_core.wiring.file_states import file_locations, indexed_text
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.search import load, retriever
from ragstream_core.wiring.token_budget import counter_of_settings

if TYPE_CHECKING:
    import pandas as pd

    from ragstream_core.conversations.sessions import HistoryTurn
    from ragstream_core.ports import IndexView
    from ragstream_core.records import Chunk, Hit
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


_READ_AT_ONCE = 50  # passages that are compared at a time
_DOCUMENTS_ONLY = {
    "history.persist": False,
    "history.enabled": False,
    "prompt.recent_history": False,
    "agents.a1": False,
    "agents.a2": False,
}
_ROW = ("chunk_id", "source", "score", "dense", "lexical", "snippet")
_WHERE_THERE_IS_ONE = ("lines", "page", "context", "also", "location")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One chunk that was found."""

    chunk_id: str
    source: str  # path of its file in the project
    score: float  # fused, higher is better
    dense: float  # the cosine
    lexical: float  # of BM25
    snippet: str
    project: str = ""
    heading: str = ""
    span: tuple[int, int] = (0, 0)  # character offsets in the decoded file
    location: str | None = None  # where the file lies on this machine if it is read in place
    lines: tuple[int, int] | None = None  # from 1; None: it has none, or is not what was indexed
    page: int = 0  # from 1; 0 for files without pages
    also: tuple[str, ...] = ()  # project and path of other files with the same passage
    context: str = ""  # what it stands in, such as the head of its table, on one line

    def to_json(self) -> dict[str, Json]:
        """Return one row of `ragstream search --json`."""
        row = {name: getattr(self, name) for name in _ROW} | {"span": list(self.span)}
        more = {name: getattr(self, name) for name in _WHERE_THERE_IS_ONE}
        return row | {k: list(v) if isinstance(v, tuple) else v for k, v in more.items() if v}

    def __str__(self) -> str:
        """Return score, source and text."""
        return f"{self.score:.3f} {self.source}\n{self.snippet}"


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult(Sequence[SearchHit]):
    """The chunks that were found, the best first, each passage once."""

    text: str
    hits: tuple[SearchHit, ...]
    # The same passages in other files, as far as there are fewer hits than asked for.
    copies: tuple[SearchHit, ...] = ()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.hits)

    @overload
    def __getitem__(self, place: int) -> SearchHit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[SearchHit, ...]: ...
    def __getitem__(self, place: int | slice) -> SearchHit | tuple[SearchHit, ...]:
        """Return the hit at a place, 0 for the best."""
        return self.hits[place]

    def __iter__(self) -> Iterator[SearchHit]:
        """Yield the hits, the best first."""
        return iter(self.hits)

    def to_json(self) -> list[dict[str, Json]]:
        """Return what `ragstream search --json` prints: the hits, then their copies."""
        return [hit.to_json() for hit in (*self.hits, *self.copies)]

    def __str__(self) -> str:
        """Return all hits."""
        return "\n\n".join(map(str, self.hits))

    def __repr__(self) -> str:
        """Return question and sources on one line."""
        return f"SearchResult({self.text!r}, {[hit.source for hit in self.hits]})"

    def _repr_html_(self) -> str:
        scores = [(f"{hit.score:.3f}", f"{hit.dense:.3f}", f"{hit.lexical:.2f}") for hit in self]
        rows = [
            (n, *of_hit, hit.source, hit.snippet)
            for n, (of_hit, hit) in enumerate(zip(scores, self, strict=True), start=1)
        ]
        columns = ("", "score", "cosine", "BM25", "source", "text")
        return f"<div><b>{visible(self.text)}</b>{table_html(columns, rows)}</div>"

    def to_frame(self) -> pd.DataFrame:
        """Return the hits as a pandas DataFrame, the best first; a column for each of their fields.

        Raises:
            OperationFailed: pandas is not installed.
        """
        return data_frame(self.to_json(), list(_ROW))


def search(workspace: Workspace, text: str, projects: Sequence[str], *, k: int) -> SearchResult:
    """Return the chunks of projects that fit a text best.

    Args:
        workspace: The data root.
        text: What is looked for.
        projects: Their names.
        k: At most so many, at least 1.

    Raises:
        UsageError: Nothing to look for, nowhere to look, or ``k`` is below 1.
        RagstreamError: Unknown project, damaged index, missing model.
    """
    require_search(text, k)
    named = require_projects(projects)
    settings = workspace.config.chain()
    for project in named:
        workspace.require_project(project)
    views = [open_view(workspace.index_dir(project)) for project in named]
    ranked = retriever(workspace, settings)
    pieces = pieces_of(stages.preprocessed(workspace, settings, text))
    filters, now = file_sources.filters_of(text), dt.datetime.now().astimezone()
    off = file_sources.excluded_by_filters(workspace, filters, views, now)
    scored = ranked.search(views, " ".join(pieces), pieces=pieces, off=off)
    hits = [hit for hit in scored if hit.cosine >= settings.retrieval.min_score]
    groups = _distinct(views, hits, k)
    elsewhere = [_elsewhere(group) for group in groups]
    copies = [copy for others in elsewhere for copy in others][: k - len(groups)]
    best = [group[0] for group in groups]
    places = file_locations(workspace, [_file(chunk) for _, chunk in (*best, *copies)])
    read = functools.cache(functools.partial(indexed_text, workspace))  # each file once

    def row(hit: Hit, chunk: Chunk, others: Sequence[tuple[Hit, Chunk]] = ()) -> SearchHit:
        return SearchHit(
            hit.chunk_id,
            chunk.source,
            hit.score,
            hit.cosine,
            hit.bm25,
            chunk.snippet,
            str(chunk.meta["project"]),
            str(chunk.meta["heading"]),
            chunk.span,
            places.get(_file(chunk)),
            _lines_of(chunk, read),
            int(chunk.meta["page_number"]),
            tuple("/".join(_file(other)) for _, other in others),
            contexts.shown(chunk.context),
        )

    found = [row(*hit, others) for hit, others in zip(best, elsewhere, strict=True)]
    return SearchResult(text, tuple(found), tuple(row(*copy) for copy in copies))


def _distinct(
    views: Sequence[IndexView], hits: Sequence[Hit], k: int
) -> list[list[tuple[Hit, Chunk]]]:
    """Return the best passages that differ, each as the hits that hold it, the best first."""
    groups: dict[str, list[tuple[Hit, Chunk]]] = {}
    at_once = max(2 * k, _READ_AT_ONCE)
    for start in range(0, len(hits), at_once):
        if len(groups) >= k:
            break
        part = hits[start : start + at_once]
        for hit, chunk in zip(part, load(views, [h.chunk_id for h in part]), strict=True):
            said = " ".join(chunk.in_context.split())
            groups.setdefault(said, []).append((hit, chunk))
    return list(groups.values())[:k]


def _elsewhere(group: Sequence[tuple[Hit, Chunk]]) -> list[tuple[Hit, Chunk]]:
    """Return those of the hits of a passage that are of other files than its best, one a file."""
    by_file: dict[tuple[str, str], tuple[Hit, Chunk]] = {}
    for hit, chunk in group:
        by_file.setdefault(_file(chunk), (hit, chunk))
    return list(by_file.values())[1:]


def _file(chunk: Chunk) -> tuple[str, str]:
    return str(chunk.meta["project"]), str(chunk.meta["path"])


def _lines_of(chunk: Chunk, read: Callable[[str, str, str], str]) -> tuple[int, int] | None:
    """Return first and last line of a chunk; None: its file has none, or is another now."""
    if kind_of(str(chunk.meta["file_type"])) not in ("text", "code"):
        return None
    text = read(*_file(chunk), str(chunk.meta["sha256"]))
    if not text:
        return None
    start, end = chunk.span
    first = text.count("\n", 0, start) + 1
    return first, first + text.count("\n", start, end)


def search_turns(
    workspace: Workspace, text: str, *, session: str = "", tags: Sequence[str] = (), k: int = 10
) -> tuple[HistoryTurn, ...]:
    """Return the turns that share most words with a text, the best first, by BM25.

    What is no answer is not found. The journal is read, so that a turn is found as soon as it is
    kept, and no model is needed; what prompts take of older turns is searched by meaning as well,
    in the published history.

    Args:
        workspace: The data root.
        text: What is looked for.
        session: Only this conversation; "": all.
        tags: Only turns with all of these.
        k: At most so many, at least 1.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    from ragstream_core.text.bm25 import Bm25, build_lexical  # brings NumPy

    rows = [row for row in journal.show(workspace, session, tags=tags) if is_evidence(row.turn)]
    blobs = [(term_blob(row.user), term_blob(row.assistant)) for row in rows]
    scores = Bm25([build_lexical(blobs)]).scores(terms(text)).tolist()
    found = [replace(row, score=s) for row, s in zip(rows, scores, strict=True) if s > 0]
    return tuple(sorted(found, key=lambda turn: (-turn.score, -turn.seq))[:k])


def best_lines(text: str, row: HistoryTurn, most: int = 2) -> list[str]:
    """Return the lines of a turn that share most words with a text, in the order of the turn."""
    asked = set(terms(text))
    said = [
        f"{speaker}: {' '.join(line.split())}"
        for speaker, words in zip(row.turn.speakers, (row.user, row.assistant), strict=True)
        for line in words.split("\n")
        if line.strip()
    ]
    shared = [len(asked.intersection(terms(line))) for line in said]
    best = sorted(range(len(said)), key=lambda n: (-shared[n], n))[:most]
    return [said[n] for n in sorted(best) if shared[n]]


def require_search(text: str, k: int) -> None:
    """Refuse a search for nothing.

    Raises:
        UsageError: The text has no letter and no digit, or ``k`` is below 1.
    """
    if not any(c.isalnum() for c in text):
        raise UsageError("the search text is empty", hint=RunCommand("search", '"…" -p PROJECT'))
    if k < 1:
        raise UsageError(f"k is {k}: ask for at least 1 result", hint="k=10")


def require_projects(projects: Sequence[str]) -> tuple[str, ...]:
    """Return names of projects without doubles.

    Raises:
        UsageError: There is none.
    """
    if not projects:
        raise UsageError("no project given", hint=ChooseProject())
    return tuple(dict.fromkeys(projects))


@dataclass(frozen=True, slots=True)
class Context:
    """Passages as one text; empty where nothing was found or fits."""

    text: str
    passages: tuple[Passage, ...]  # those in it, the best first
    cut: bool  # whether the last one is not whole
    left: int  # how many did not fit
    below: int  # how many candidates were dropped by `retrieval.min_score`


@dataclass(frozen=True)
class ContextBuilder:
    """What the chain finds for a text, as one plain text within both budgets.

    Pieces, retrieval, `retrieval.min_score` and reranking are the chain's own, from the same pinned
    generations; only the frame is another one than a Super-Prompt's. Nothing is kept of it.

    Attributes:
        workspace: The data root; its settings hold.
        projects: Where to look.
        separator: Between two passages.
        head_separator: Between a passage's head and its text.
        task: Name of a task profile; empty for none.
    """

    workspace: Workspace
    projects: tuple[str, ...]
    separator: str = "\n\n"
    head_separator: str = "\n"
    task: str = ""

    def build_context(self, text: str) -> Context:
        """Return the passages for a text in the reranker's order, the last one cut to fit.

        The budgets are `retrieval.max_context_chars`, and `retrieval.max_context_tokens` less
        `retrieval.token_overhead`.

        Args:
            text: What to look for; its filters hold, files it names are not injected.

        Raises:
            RagstreamError: Unknown project, damaged index, missing model.
        """
        request = PromptRequest(text, self.projects, settings=_DOCUMENTS_ONLY, task=self.task)
        inputs = pin_inputs(self.workspace, request)
        prompt = stages.run_prompt(self.workspace, inputs, through="reranker")
        rows, chunks = prompt.extras.decisions, {c.id: c for c in prompt.base_context_chunks}
        passages = [
            Passage(i, chunks[i].source, chunks[i].meta["chunk_index"], score, chunks[i].snippet)
            for i, score in {r.chunk_id: r.score for r in rows if r.stage == "reranked"}.items()
        ]
        settings = self.workspace.config.with_task(self.task).chain()
        limits = ContextLimits(
            settings.retrieval.max_context_chars,
            max(0, settings.retrieval.max_context_tokens - settings.retrieval.token_overhead),
            self.separator,
            self.head_separator,
        )
        parts = list(context_parts(passages, limits, counter_of_settings(self.workspace, settings)))
        return Context(
            "".join(part.text for part in parts),
            tuple(part.passage for part in parts),
            cut=bool(parts) and not parts[-1].whole,
            left=len(passages) - len(parts),
            below=sum(row.rule == "min_score" for row in rows),
        )
