"""Asks a project's gold questions of its newest generation, whenever somebody wants to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.index.view import open_view
from ragstream_core.wiring.quality_gate import GoldRow, gate_of, gold_rows, no_gold_questions

if TYPE_CHECKING:
    from ragstream_core.ingestion.quality_gate import Figures, GoldQuestion
    from ragstream_core.ports import Progress
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class GoldReport:
    """How well a generation answers the gold questions of its project."""

    project: str
    generation: int  # number of the generation that was asked
    figures: Figures  # recall@k and MRR@k
    questions: Sequence[GoldQuestion]
    # for each, the 1-based rank of each item that it expects; 0 where it is not among the first k
    ranks: Sequence[Sequence[int]]

    @property
    def missed(self) -> int:
        """How many expected items are not among the first k."""
        return sum(not rank for found in self.ranks for rank in found)

    @property
    def rows(self) -> list[GoldRow]:
        """A row a question."""
        return gold_rows(self.questions, self.ranks)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form; passages are named by their place."""
        return {
            "project": self.project,
            "generation": self.generation,
            **self.figures.to_json(),
            "missed": self.missed,
            "results": [
                {
                    "line": row.line,
                    "question": row.question,
                    "expected": list(row.expected),
                    "ranks": list(row.ranks),
                }
                for row in self.rows
            ],
        }


def ask_gold(workspace: Workspace, project: str, *, progress: Progress | None = None) -> GoldReport:
    """Ask every gold question as the quality gate does, and say where each expected item stands.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: The project has no gold questions, or a line is not one.
        RagstreamError: Nothing is ingested, or the embedding model is not available.
    """
    workspace.require_project(project)
    gate = gate_of(workspace, project)
    if gate is None:
        raise no_gold_questions(workspace, project)
    view = open_view(workspace.index_dir(project))
    figures, ranks = gate.measured(view, progress=progress)
    return GoldReport(project, view.generation, figures, gate.questions, ranks)
