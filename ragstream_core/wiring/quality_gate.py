"""Connects the quality gate with a project's gold questions, its retrieval and its report."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.quality_gate import (
    GOLD_NAME,
    Figures,
    GateVerdict,
    GoldQuestion,
    QualityRules,
    Ranker,
    measure,
    read_gold,
)
from ragstream_core.platform import sidecar
from ragstream_core.platform.files import replace_text
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.ports import IndexView, Progress
    from ragstream_core.wiring.workspace import Workspace

REPORT_NAME = "quality_report.json"
SHOWN = 10


def gold_path(workspace: Workspace, project: str) -> Path:
    """Return where a project's gold questions lie, whether there are any or not."""
    return workspace.layout.project(project) / GOLD_NAME


def gold_questions(
    workspace: Workspace, project: str, file: Path | None = None, *, unanswerable: bool = False
) -> tuple[GoldQuestion, ...]:
    """Return a file's gold questions, or the project's; by default those that have an answer."""
    path = file or gold_path(workspace, project)
    questions = read_gold(path) if file or path.is_file() else ()
    questions = questions if unanswerable else answerable(questions)
    if not questions:
        raise no_gold_questions(workspace, project)
    return questions


def answerable(questions: Sequence[GoldQuestion]) -> tuple[GoldQuestion, ...]:
    """Return the questions that something is expected for."""
    return tuple(question for question in questions if not question.unanswerable)


def no_gold_questions(workspace: Workspace, project: str) -> UsageError:
    """Return the error that says how to write gold questions."""
    return UsageError(
        f"project {project!r} has no gold questions",
        hint=f"write {gold_path(workspace, project)}, a line a question with the file that "
        "answers it",
    )


def gate_of(workspace: Workspace, project: str) -> ProjectGate | None:
    """Return the gate of a project, None where it has no gold questions."""
    path = gold_path(workspace, project)
    if not path.is_file():
        return None
    questions = answerable(read_gold(path))
    settings = workspace.config.settings.ingestion
    rules = QualityRules(settings.gold_k, settings.min_recall, settings.recall_tolerance)
    return ProjectGate(workspace, project, questions, rules) if questions else None


@dataclass(frozen=True, slots=True)
class ProjectGate:
    """Asks a project's gold questions; implements `ingestion.quality_gate.QualityGate`."""

    workspace: Workspace  # the data root; its retrieval settings rank the chunks
    project: str  # project name
    questions: tuple[GoldQuestion, ...]  # the gold questions
    rules: QualityRules  # what is good enough
    _pieces: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def fingerprint(self) -> str:
        """Digest of questions and settings; figures with another one do not compare."""
        asked = [(q.question, q.files, q.passages) for q in self.questions]
        chain = self.workspace.config.chain().pinned()["retrieval"]
        return digest_of({"questions": asked, "k": self.rules.k, "retrieval": chain})

    def judge(self, candidate: IndexView, parent: Generation | None) -> GateVerdict | None:
        """Return the verdict over a generation that is not committed yet; write the report."""
        figures, ranks = self.measured(candidate)
        before, ranks_before = self._before(candidate, parent)
        refused = self.rules.broken(figures, before)
        path = self.workspace.index_dir(self.project) / REPORT_NAME
        if not refused:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            return GateVerdict(figures, before)
        rows = gold_rows(self.questions, ranks, ranks_before)
        report = {
            "refused": refused,
            "parent": parent.n if parent else 0,
            "figures": figures.to_json(),
            "before": before.to_json() if before else None,
            "questions": [row._asdict() for row in rows],
        }
        replace_text(path, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        return GateVerdict(figures, before, refused, _worse(rows, self.rules.k))

    def _before(
        self, candidate: IndexView, parent: Generation | None
    ) -> tuple[Figures | None, list[list[int]]]:
        """Return the last generation's figures, asked again where it was judged otherwise."""
        if parent is None or parent.embed_fp != candidate.embed_fp:
            return None, []
        try:
            return self.measured(
                open_view(self.workspace.index_dir(self.project), generation=parent.n)
            )
        except RagstreamError:
            known = Figures.of(parent.provenance)  # the old rows are damaged: its record counts
            return (known if known and known.fingerprint == self.fingerprint else None), []

    def measured(
        self, view: IndexView, *, progress: Progress | None = None
    ) -> tuple[Figures, list[list[int]]]:
        """Return what a generation comes to, and per question the ranks of what it expects."""
        rank, done = self._ranker(view), itertools.count(1)

        def told(question: str) -> Sequence[tuple[str, str]]:
            found = rank(question)
            if progress is not None:
                progress(next(done), len(self.questions))
            return found

        return measure(self.questions, told, k=self.rules.k, fingerprint=self.fingerprint)

    def _ranker(self, view: IndexView) -> Ranker:
        from ragstream_core.prompts.trail import pieces_of
        from ragstream_core.wiring import search, stages

        settings = self.workspace.config.chain()
        retriever = search.retriever(self.workspace, settings)

        def rank(question: str) -> Sequence[tuple[str, str]]:
            if question not in self._pieces:
                prompt = stages.preprocessed(self.workspace, settings, question)
                self._pieces[question] = pieces_of(prompt)
            pieces = self._pieces[question]
            hits = retriever.search([view], " ".join(pieces), pieces=pieces)[: self.rules.k]
            return [(c.source, c.snippet) for c in view.chunks([hit.chunk_id for hit in hits])]

        return rank


class GoldRow(NamedTuple):
    """Where one gold question's expected items stand; no text of a passage is kept."""

    line: int  # line of the question, from 1
    question: str  # what is asked
    expected: tuple[str, ...]  # paths, and passages by their place: ``passage 1``
    ranks: tuple[int, ...]  # the 1-based rank of each; 0: not found
    ranks_before: tuple[int, ...] | None = None  # the same of the last generation; None: unknown


def gold_rows(
    questions: Sequence[GoldQuestion],
    ranks: Sequence[Sequence[int]],
    before: Sequence[Sequence[int]] = (),
) -> list[GoldRow]:
    """Return a row a question."""
    return [
        GoldRow(
            question.line,
            question.question,
            (*question.files, *(f"passage {n + 1}" for n in range(len(question.passages)))),
            tuple(found),
            tuple(before[at]) if before else None,
        )
        for at, (question, found) in enumerate(zip(questions, ranks, strict=True))
    ]


def _worse(rows: Sequence[GoldRow], k: int) -> tuple[str, ...]:
    """Return, for people, what is not found any more, or not found at all."""
    said = []
    for row in rows:
        last = row.ranks_before or [0] * len(row.ranks)
        for name, now, was in zip(row.expected, row.ranks, last, strict=True):
            if not now or (was and now > was):
                place = f"rank {now}" if now else f"not among the first {k}"
                told = f", was rank {was}" if was else ""
                where = f"{GOLD_NAME} line {row.line}: {row.question!r}"
                said.append(f"{where} → {name}: {place}{told}")
    more = [f"and {len(said) - SHOWN} more, see {REPORT_NAME}"] if len(said) > SHOWN else []
    return (*said[:SHOWN], *more)


class KeptQuality(NamedTuple):
    """How well the newest generation answers the gold questions."""

    figures: Figures | None  # its figures; None where it was made without gold questions
    worse: str  # what is wrong, empty where nothing is
    note: str  # what else is to be said


def kept_quality(workspace: Workspace, project: str) -> KeptQuality:
    """Compare the newest generation's recorded figures with those of the one before."""
    from ragstream_core.index.look import kept_generations

    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists():
        return KeptQuality(None, "", "no generation yet")
    kept = kept_generations(index_dir)[-2:]
    newest = Figures.of(kept[-1].provenance) if kept else None
    refused = refusal(workspace, project, kept[-1].n if kept else 0)
    if refused:
        where = f"see {index_dir / REPORT_NAME}"
        return KeptQuality(newest, f"a newer state was refused: {refused}; {where}", "")
    if newest is None:
        return KeptQuality(None, "", f"made without questions in {gold_path(workspace, project)}")
    before = Figures.of(kept[0].provenance) if len(kept) > 1 else None
    comparable = before is not None and before.fingerprint == newest.fingerprint
    settings = workspace.config.settings.ingestion
    rules = QualityRules(newest.k, settings.min_recall, settings.recall_tolerance)
    worse = rules.broken(newest, before if comparable else None)
    return KeptQuality(newest, worse, "" if comparable else "nothing comparable before it")


def refusal(workspace: Workspace, project: str, generation: int) -> str:
    """Return why a candidate was refused after ``generation``; empty if none was."""
    report = sidecar.read(workspace.index_dir(project) / REPORT_NAME, dict[str, Any]) or {}
    return str(report.get("refused", "")) if report.get("parent") == generation else ""
