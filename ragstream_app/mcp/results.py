"""What the tools return: typed for programs, and the same as a text that a model can read."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

from pydantic import BaseModel, Field

from ragstream_app.mcp.quotes import READING_RULE

Citation = Annotated[
    str, Field(description="Cite a passage by this, and open it whole with `open_passage`.")
]
File = Annotated[
    str, Field(description="Path in the project; unusual characters are percent-encoded.")
]
Framed = Annotated[str, Field(description=f"Untrusted text in a frame. {READING_RULE}")]


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
    heading: str = Field(description="The heading above it; empty for none.")
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
            + (f", under {p.heading!r}" if p.heading else "")
            + ("" if p.whole else ", shortened")
            + f"\n{p.quote}"
            for p in self.passages
        ]
        return "\n\n".join([*parts, self.note])


class WholePassage(BaseModel):
    """A passage as the index holds it."""

    citation: Citation
    cited: bool = Field(description="Whether it is the one asked for, and no neighbour.")
    file: File
    heading: str = Field(description="The heading above it; empty for none.")
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
            + (f", under {p.heading!r}" if p.heading else "")
            + f"\n{p.quote}"
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
    warnings: list[str]

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
            f"prompt {self.prompt_key[:12]}: {self.kept} passages kept, {self.dropped} dropped; "
            f"the question was: {self.question}"
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
    indexed: bool = Field(description="Whether it can be searched.")
    files: int = Field(description="Documents in the index.")
    passages: int
    changed: int = Field(description="Files that are new, changed or gone since the last ingest.")
    updated: str = Field(description="When it was last ingested, ISO 8601; empty for never.")


class ProjectsResult(Result):
    """The projects that can be searched."""

    projects: list[Project]

    def as_text(self) -> str:
        """Return one line a project."""
        rows = [
            f"{p.name}: "
            + (f"{p.files} files, {p.passages} passages" if p.indexed else "not ingested yet")
            + (f", {p.changed} files changed since the last ingest" if p.changed else "")
            for p in self.projects
        ]
        return "\n".join(rows) or "no projects yet; ask the user to run `ragstream ingest`"


class RememberResult(Result):
    """A turn that is on the disk."""

    turn_id: str
    session: str = Field(description="Name it in the next call to continue this conversation.")

    def as_text(self) -> str:
        """Return one line."""
        return f"kept as turn {self.turn_id} of session {self.session}"


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
        first = f"{self.project}: {done}, {counts or 'no files'}, {self.passages} passages"
        return "\n".join([first, *self.warnings])
