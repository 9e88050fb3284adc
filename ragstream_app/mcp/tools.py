"""The tools that only read, or that only add a kept prompt: what an agent needs to quote documents.

A tool is the model of its arguments; its docstring is what an agent reads about it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from difflib import get_close_matches
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, ClassVar

from mcp_types import Tool, ToolAnnotations
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ragstream_app.mcp.calls import told
from ragstream_app.mcp.excerpts import (
    READING_RULE,
    Quote,
    framed,
    quoted_heading,
    short_id,
    within,
)
from ragstream_app.mcp.results import (
    Candidate,
    ExplainResult,
    FoundPassage,
    PassageResult,
    Project,
    ProjectsResult,
    PromptResult,
    Result,
    SearchResult,
    WholePassage,
)
from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.fences import one_line, safe_name
from ragstream_core.records.identity import parse_chunk_id, shown_name

if TYPE_CHECKING:
    from ragstream_app.mcp.calls import Call
    from ragstream_app.mcp.desk import Desk
    from ragstream_core.prompts.explain import Way

ProjectName = Annotated[
    str, Field(max_length=64, description="May be left out if there is only one.")
]

# Of a question: to find out that no budget holds more takes minutes.
MOST_CHARS = 100_000


def _with_words(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank; write at least one word")
    return text


Question = Annotated[str, Field(min_length=1, max_length=MOST_CHARS), AfterValidator(_with_words)]
CitationText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2_000,
        description="As results show it: [source: FILE, chunk: ID], or the ID alone.",
    ),
]
Budget = Annotated[
    int, Field(ge=0, le=100_000, description="Most tokens of the result; 0: the server's limit.")
]
READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")


class ToolCall(BaseModel):
    """The arguments of a call, and what it does."""

    model_config = ConfigDict(extra="forbid")
    name: ClassVar[str]
    title: ClassVar[str]
    annotations: ClassVar[ToolAnnotations] = READS
    result: ClassVar[type[Result]]

    @model_validator(mode="before")
    @classmethod
    def _names_what_is_meant(cls, given: object) -> object:
        """Say of an argument that is not known which one may be meant.

        Raises:
            ValueError: There is such an argument.
        """
        known = list(cls.model_fields)
        if not isinstance(given, dict):
            return given
        for name in sorted(map(str, given.keys() - known)):
            near = get_close_matches(str(name), known, 1)
            if near:
                many = f"; it takes one of each: call {cls.name} once a {near[0]}"
                is_list = isinstance(given[name], list) and len(given[name]) > 1
                raise ValueError(
                    f"there is no argument {str(name)[:40]!r}, use {near[0]!r}"
                    + (many if is_list else "")
                )
        return given

    @abstractmethod
    def run(self, desk: Desk, call: Call) -> Result:
        """Do it; in a thread.

        Raises:
            RagstreamError: It cannot be done.
        """

    @classmethod
    def described(cls) -> Tool:
        """Return what a client is told about the tool."""
        return Tool(
            name=cls.name,
            title=cls.title,
            description=_LINE_END.sub(" ", cleandoc(cls.__doc__ or "")),
            input_schema={k: v for k, v in cls.model_json_schema().items() if k != "description"},
            output_schema=cls.result.model_json_schema(mode="serialization"),
            annotations=cls.annotations,
        )


class Search(ToolCall):
    """Find passages of a project's documents by meaning and by words, with file and lines.

    Use it to look something up: where a thing is defined, described or decided. Returns short
    quotes, the best first, each with a citation, its file on this machine and its lines. Open one
    whole with `open_passage`; to answer a question from documents, use `build_prompt`.
    """

    name = "search"
    title = "Search documents"
    result = SearchResult
    query: Annotated[Question, Field(description="What to look for: a question or a few words.")]
    project: ProjectName = ""
    limit: Annotated[int, Field(ge=1, le=50, description="Most passages to return.")] = 8
    budget_tokens: Budget = 0

    def run(self, desk: Desk, call: Call) -> SearchResult:
        """Search the newest generation."""
        from ragstream_core.services.search import search

        project = desk.project(self.project)
        desk.load_models()
        hits = search(desk.workspace, self.query, [project], k=self.limit)
        whole = [Quote(hit.chunk_id, hit.source, hit.span, hit.snippet) for hit in hits]
        shown = [quote.excerpt(self.query) for quote in whole]
        texts = framed(shown)
        fitting = within(texts, desk.budget(self.budget_tokens), desk.counter())
        rows = list(zip(hits, whole, shown, texts, strict=True))[:fitting]
        passages = [
            FoundPassage(
                citation=answer_marker(hit.source, short_id(hit.chunk_id)),
                project=hit.project,
                file=safe_name(hit.source),
                path=desk.place_of(hit.project, parse_chunk_id(hit.chunk_id)[0]),
                lines="-".join(map(str, hit.lines)) if hit.lines else "",
                also=list(map(safe_name, hit.also)),
                heading=quoted_heading(hit.heading),
                context=quoted_heading(hit.context),
                score=round(hit.score, 6),
                whole=quote is short,
                quote=text,
            )
            for hit, quote, short, text in rows
        ]
        note = READING_RULE if passages else f"nothing in {project} fits; try other words"
        return SearchResult(passages=passages, left_out=len(hits) - fitting, note=note)


class OpenPassage(ToolCall):
    """Open a passage whole by its citation, with passages before and after it if you want.

    Use it after `search`, or to read what a Super-Prompt cites.
    A citation of a Super-Prompt opens as it was then if its `prompt_key` is given.
    """

    name = "open_passage"
    title = "Open a passage"
    result = PassageResult
    citation: CitationText
    project: ProjectName = ""
    prompt_key: Annotated[
        str, Field(max_length=64, description="The Super-Prompt that issued the citation.")
    ] = ""
    neighbours: Annotated[
        int, Field(ge=0, le=10, description="Passages of the same file on each side.")
    ] = 0
    budget_tokens: Budget = 0

    def run(self, desk: Desk, call: Call) -> PassageResult:
        """Open it; neighbours that are over the budget are left out, the farthest first."""
        from ragstream_core.services.passages import open_passage

        citation, project, generation = self._meant(desk)
        found = open_passage(
            desk.workspace,
            citation,
            [project],
            generation=generation,
            neighbours=self.neighbours,
        )
        chunks = [passage.chunk for passage in found]
        texts = framed(Quote(c.id, c.source, c.span, c.snippet) for c in chunks)
        cited = next(at for at, passage in enumerate(found) if passage.cited)
        nearest = sorted(range(len(found)), key=lambda at: (abs(at - cited), at))
        budget = desk.budget(self.budget_tokens)
        kept = nearest[: within((texts[at] for at in nearest), budget, desk.counter())]
        passages = [
            WholePassage(
                citation=answer_marker(found[at].chunk.source, short_id(found[at].chunk.id)),
                cited=found[at].cited,
                file=safe_name(found[at].chunk.source),
                heading=quoted_heading(str(found[at].chunk.meta["heading"])),
                page=int(found[at].chunk.meta["page_number"]),
                quote=texts[at],
            )
            for at in sorted(kept)
        ]
        return PassageResult(
            project=project,
            generation=found[cited].generation,
            passages=passages,
            left_out=len(found) - len(kept),
            note=READING_RULE,
        )

    def _meant(self, desk: Desk) -> tuple[str, str, int]:
        """Return citation, project and generation; those of a prompt are followed to its chunk.

        Raises:
            UsageError: It means nothing there, or no passage of a document.
        """
        if not self.prompt_key:
            return self.citation, desk.project(self.project), 0
        from ragstream_core.prompts.traced import TracedChunk
        from ragstream_core.services.trace import trace

        found = trace(desk.workspace, self.citation, desk.kept(self.prompt_key).prompt_key)
        if not isinstance(found, TracedChunk):
            raise UsageError(
                f"{self.citation[:200]!r} is a {found.kind} that the prompt shows in full",
                hint="read it in the Super-Prompt",
            )
        pinned = found.generation
        return found.id, found.project, pinned.n if pinned.kept else 0


class BuildPrompt(ToolCall):
    """Turn a question into a Super-Prompt: rules, cited facts and framed evidence from a project.

    Use it when an answer has to rest on documents: it says what they answer and what they do not.
    It fits a token budget, is kept under a key, and can be explained with `explain`. Answer from
    it, and cite as it says.
    """

    name = "build_prompt"
    title = "Build a Super-Prompt"
    annotations = ADDS
    result = PromptResult
    question: Annotated[Question, Field(description="What is to be answered from documents.")]
    project: ProjectName = ""
    profile: Annotated[
        str, Field(max_length=100, description="A task profile, e.g. `short` or `long_form`.")
    ] = ""
    budget_tokens: Annotated[
        int, Field(ge=0, le=1_000_000, description="Most tokens of it; 0: as the settings say.")
    ] = 0

    def run(self, desk: Desk, call: Call) -> PromptResult:
        """Run the chain, or answer from the record if nothing has changed."""
        from ragstream_app.mcp.prompting import build

        settings = {"prompt.budget_tokens": str(self.budget_tokens)} if self.budget_tokens else {}
        project = desk.project(self.project)
        return build(desk, call, self.question, project, task=self.profile, settings=settings)


class Explain(ToolCall):
    """Say why passages are in a Super-Prompt or are not: stage, rule, reason and score.

    Use it when something that you expect is missing from a Super-Prompt.
    With a citation alone, the newest Super-Prompt that considered that passage is explained.
    """

    name = "explain"
    title = "Explain a Super-Prompt"
    result = ExplainResult
    prompt_key: Annotated[
        str, Field(max_length=64, description="Its key, or the first 6 digits or more.")
    ] = ""
    citation: Annotated[str, Field(max_length=2_000, description="Only this passage.")] = ""
    budget_tokens: Budget = 0

    def run(self, desk: Desk, call: Call) -> ExplainResult:
        """Read the ledger of a kept prompt.

        Raises:
            UsageError: Neither a key nor a citation is given, or the prompt has no such candidate.
            UnknownPrompt: There is no such prompt, or it quotes a project that is not served.
        """
        from ragstream_core.services.explain import explanation, newest_with

        if not self.prompt_key and not self.citation:
            raise UsageError("neither a key nor a citation", hint="give `prompt_key`")
        key = self.prompt_key or newest_with(desk.workspace, self.citation, wanted=desk.serves)
        found = explanation(desk.workspace, desk.kept(key).prompt_key, chunk=self.citation)
        rows = [_candidate(way) for way in found.candidates]
        texts = (row.model_dump_json() for row in rows)
        fitting = within(texts, desk.budget(self.budget_tokens), desk.counter())
        kept = sum(row.kept for row in rows)
        return ExplainResult(
            prompt_key=found.record.prompt_key,
            question=one_line(str(found.record.inputs["text"])),
            kept=kept,
            dropped=len(rows) - kept,
            candidates=rows[:fitting],
            left_out=len(rows) - fitting,
        )


class ListProjects(ToolCall):
    """List the projects, how much of each is indexed, and whether files changed since.

    Use it first where you do not know which `project` to name.
    """

    name = "list_projects"
    title = "List projects"
    result = ProjectsResult

    def run(self, desk: Desk, call: Call) -> ProjectsResult:
        """Look at each folder and each index."""
        return ProjectsResult(projects=[_project(desk, name) for name in desk.projects()])


def _project(desk: Desk, name: str) -> Project:
    """Return how a project is; one that cannot be read says why, and hides no other."""
    from ragstream_core.wiring import ingestion

    try:
        row = ingestion.status(desk.workspace, name)
    except RagstreamError as error:
        return Project(name=name, problem=one_line(told(error)))
    return Project(
        name=name,
        indexed=bool(row.generation),
        files=row.files,
        passages=row.chunks,
        changed=sum(map(len, row.pending)),
        updated=row.created,
    )


def _candidate(way: Way) -> Candidate:
    path = shown_name(way.chunk_id).rpartition("#")[0] or way.chunk_id
    return Candidate(
        citation=answer_marker(path, short_id(way.chunk_id)),
        file=safe_name(path),
        kept=way.kept,
        stage=way.last.stage,
        rule=way.last.rule,
        reason=one_line(way.ended),
        score=round(way.last.score, 6),
    )
