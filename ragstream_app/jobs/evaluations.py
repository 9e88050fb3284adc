"""Evaluations of a project's gold questions in the background; nothing here knows Streamlit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ragstream_app.jobs.background import BackgroundJob

if TYPE_CHECKING:
    from ragstream_core.build.evaluating.gold import GoldReport
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.evaluation.report import Report
    from ragstream_core.evaluation.sweep import Point

Note = Callable[[str, int, int], None]


def ask(workspace: Workspace, project: str) -> BackgroundJob[GoldReport]:
    """Ask the gold questions of the newest generation, and rank what they expect."""
    from ragstream_core.build.evaluating.gold import ask_gold

    def work(note: Note) -> GoldReport:
        told = _counting(note, "question")
        return ask_gold(workspace, project, progress=told)

    return BackgroundJob("the evaluation", work)


def sweep(workspace: Workspace, project: str) -> BackgroundJob[list[Point]]:
    """Ask the gold questions under every pair of thresholds; the figures are kept."""
    from ragstream_core.build.evaluating import sweeping
    from ragstream_core.evaluation.sweep import RELATIVES, THETAS, write_point

    def work(note: Note) -> list[Point]:
        pairs = [(theta, relative) for theta in THETAS for relative in RELATIVES]
        told = _counting(note, "prompt")
        points = list(sweeping.sweep(workspace, project, pairs, progress=told))
        for point in points:
            write_point(sweeping.points_dir(workspace, project), point)
        return points

    return BackgroundJob("the sweep", work)


def judge(workspace: Workspace, project: str) -> BackgroundJob[Report]:
    """Judge the cited extract of every gold question's prompt; the figures are kept."""
    from ragstream_core.build.evaluating import faithfulness

    def work(note: Note) -> Report:
        return faithfulness.of_gold(workspace, project, progress=_counting(note, "answer"))

    return BackgroundJob("the evaluation", work)


def _counting(note: Note, what: str) -> Callable[[int, int], None]:
    def told(done: int, total: int) -> None:
        note(what, done, total)

    return told
