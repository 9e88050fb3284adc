"""What the tools return: typed for programs, and the same as a text that a model can read."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

from pydantic import BaseModel, Field

from ragstream_app.mcp.excerpts import READING_RULE
from ragstream_core.text.plurals import counted

Citation = Annotated[
    str, Field(description="Cite a passage by this, and open it whole with `open_passage`.")
]
File = Annotated[
    str, Field(description="Path in the project; unusual characters are percent-encoded.")
]
Heading = Annotated[
    str, Field(description="The document's heading above it, quoted; empty for none.")
]
Framed = Annotated[str, Field(description=f"Untrusted text in a frame. {READING_RULE}")]


MOST_ALSO = 5


class Result(BaseModel):
    """What a tool returns."""

    @abstractmethod
    def as_text(self) -> str:
        """Return it as a text."""

    def texts(self) -> list[str]:
        """Return all of it as texts, each a block of its own."""
        return [self.as_text()]


class FoundPassage(BaseModel):
    """A passage that a search found, shortened."""

    citation: Citation
    project: str
    file: File
    path: str = Field(description="Where the file lies on this machine; empty where it does not.")
    lines: str = Field(
        description="First and last line of the passage, such as 12-18; empty for files without "
        "lines, and for a file that has changed since it was indexed."
    )
    also: list[File] = Field(description="Other files that hold the same passage.")
    heading: Heading
    context: str = Field(
        description="What it stands in, quoted: the head of its table, the keys above it, its "
        "class; empty for none."
    )
    score: float = Field(description="Higher is better; comparable within one search only.")
    whole: bool = Field(description="Whether `quote` is all of the passage.")
    quote: Framed


class SearchResult(Result):
    """Passages, the best first."""

    passages: list[FoundPassage]
    left_out: int = Field(description="Passages within the limit that were over the budget.")
    note: str

    def as_text(self) -> str:
        """Return the passages, each below its citation."""
        parts = [
            f"{p.citation} score {p.score:.3f}, project {p.project}, {p.file}"
            + (f", lines {p.lines}" if p.lines else "")
            + (f" of {p.path}" if p.path else "")
            + (f", the same in {', '.join(p.also[:MOST_ALSO])}" if p.also else "")
            + (f" and {len(p.also) - MOST_ALSO:,} more" if len(p.also) > MOST_ALSO else "")
            + ("" if p.whole else ", shortened")
            + f"{_under(p.heading)}{_within(p.context)}\n{p.quote}"
            for p in self.passages
        ]
        return "\n\n".join([*parts, self.note])


class WholePassage(BaseModel):
    """A passage as the index holds it."""

    citation: Citation
    cited: bool = Field(description="Whether it is the one asked for, and no neighbour.")
    file: File
    heading: Heading
    page: int = Field(description="Page of the file, from 1; 0 for files without pages.")
    quote: Framed


class PassageResult(Result):
    """A passage and its neighbours, in the order of the file."""

    project: str
    generation: int = Field(description="Of the index, that it was read from.")
    passages: list[WholePassage]
    left_out: int = Field(description="Neighbours that were over the budget.")
    note: str

    def as_text(self) -> str:
        """Return the passages, each below its citation."""
        parts = [
            f"{p.citation}{' (asked for)' if p.cited else ''} project {self.project}, {p.file}"
            + (f", page {p.page}" if p.page else "")
            + f"{_under(p.heading)}\n{p.quote}"
            for p in self.passages
        ]
        return "\n\n".join([*parts, self.note])


class PromptResult(Result):
    """A Super-Prompt; it is kept under its key."""

    prompt_key: str = Field(description="Explain it, or open what it cites, by this key.")
    project: str
    super_prompt: str = Field(
        description="Use it whole: rules, facts with citations, and framed evidence."
    )
    tokens: int
    from_record: bool = Field(description="Whether it was asked for before, and nothing changed.")
    warnings: list[str] = Field(
        description="For the user, whose commands they name; empty if all is well."
    )

    def as_text(self) -> str:
        """Return the Super-Prompt alone."""
        return self.super_prompt

    def texts(self) -> list[str]:
        """Return the Super-Prompt, and what is said of it."""
        told = f"prompt_key {self.prompt_key}, {self.tokens} tokens, project {self.project}"
        return [self.super_prompt, "\n".join([told, *self.warnings])]


class Candidate(BaseModel):
    """A passage that was considered for a prompt, and the last that was decided about it."""

    citation: Citation
    file: File
    kept: bool
    stage: str
    rule: str
    reason: str
    score: float


class ExplainResult(Result):
    """Why passages are in a prompt or are not."""

    prompt_key: str
    question: str
    kept: int
    dropped: int
    candidates: list[Candidate] = Field(description="Those that went furthest come first.")
    left_out: int = Field(description="Candidates that were over the budget.")

    def as_text(self) -> str:
        """Return one line a candidate."""
        head = (
            f"prompt {self.prompt_key[:12]}: {counted(self.kept, 'passage')} kept, "
            f"{self.dropped} dropped; the question was: {self.question}"
        )
        rows = [
            f"{'kept' if row.kept else 'dropped'} at {row.stage} by {row.rule}: {row.citation} "
            f"{row.file}, score {row.score:.3f}{': ' if row.reason else ''}{row.reason}"
            for row in self.candidates
        ]
        more = [f"{self.left_out} more; give a citation for one of them"] if self.left_out else []
        return "\n".join([head, *rows, *more])


class Project(BaseModel):
    """A project."""

    name: str
    indexed: bool = Field(default=False, description="Whether it can be searched.")
    files: int = Field(default=0, description="Documents in the index.")
    passages: int = 0
    changed: int = Field(
        default=0, description="Files that are new, changed or gone since the last ingest."
    )
    updated: str = Field(
        default="", description="When it was last ingested, ISO 8601; empty for never."
    )
    problem: str = Field(
        default="", description="Why nothing is known of it, and what to do; empty if it is sound."
    )


class ProjectsResult(Result):
    """The projects that can be searched."""

    projects: list[Project]

    def as_text(self) -> str:
        """Return one line a project."""
        rows = [f"{p.name}: {p.problem or _how_much(p)}" for p in self.projects]
        return "\n".join(rows) or "no projects yet; ask the user to run `ragstream ingest`"


class RememberResult(Result):
    """A turn that is on the disk."""

    turn_id: str
    session: str = Field(description="Name it in the next call to continue this conversation.")
    secrets: list[str] = Field(
        description="Kinds of secrets that it seems to hold; tell the user of them."
    )

    def as_text(self) -> str:
        """Return one line, and what it seems to hold that it should not."""
        kept = f"kept as turn {self.turn_id} of session {self.session}"
        if not self.secrets:
            return kept
        undo = f"ragstream history clear --session {self.session}"
        return (
            f"{kept}\nit seems to hold a secret ({', '.join(self.secrets)}): tell the user, who "
            f"can take the session out again with `{undo}`"
        )


class IngestResult(Result):
    """What an ingest did."""

    project: str
    generation: int
    committed: bool = Field(description="Whether anything had changed.")
    files: dict[str, int] = Field(description="Counts: new, updated, deleted, skipped …")
    passages: int
    refused: str = Field(description="Why the old generation was kept; empty if it was not.")
    warnings: list[str]

    def as_text(self) -> str:
        """Return one line, and the warnings."""
        counts = ", ".join(f"{n} {name}" for name, n in self.files.items() if n)
        done = f"refused: {self.refused}" if self.refused else f"generation {self.generation}"
        first = (
            f"{self.project}: {done}, {counts or 'no files'}, {counted(self.passages, 'passage')}"
        )
        return "\n".join([first, *self.warnings])


def _within(context: str) -> str:
    return f", and stands in\n{context}" if context else ""


def _under(heading: str) -> str:
    return f", under the heading\n{heading}" if heading else ""


def _how_much(project: Project) -> str:
    changed = (
        f", {counted(project.changed, 'file')} changed since the last ingest"
        if project.changed
        else ""
    )
    if not project.indexed:
        return f"not ingested yet{changed}"
    return f"{counted(project.files, 'file')}, {counted(project.passages, 'passage')}{changed}"
