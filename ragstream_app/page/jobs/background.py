"""A clearing of conversations in a thread, so that neither a click nor a closed tab breaks it off.

Nothing here knows Streamlit. What a kill leaves is finished by the next clearing, embedding or
check.

Work in a thread that the page follows: where it is, how to stop it, what came of it.

Nothing here knows Streamlit. Work that is stopped leaves nothing behind.

Evaluations of a project's gold questions in the background; nothing here knows Streamlit.

Maps drawn in the background, so that the page goes on; one is kept until something changes.

A look-up of the weather in a thread of its own: the page waits for nobody.

Nothing here knows Streamlit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ragstream_app.output.progress import duration
from ragstream_app.session import describe
from ragstream_core.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragstream_app.output.history_ways import Way
    from ragstream_core.evaluation.faithfulness import Report
    from ragstream_core.evaluation.sweep import Point
    from ragstream_core.maps.chunk_map import ChunkMap
    from ragstream_core.services.chunk_maps import MapRequest
    from ragstream_core.services.eval_gold import GoldReport
    from ragstream_core.services.weather import Explain
    from ragstream_core.weather.records import WeatherAnalysis
    from ragstream_core.wiring.workspace import Workspace


T = TypeVar("T")


class BackgroundJob(Generic[T]):
    """One piece of work on its way; written by its thread, read by any other.

    Args:
        name: What it is, for people, e.g. ``the map``.
        work: Does it; is given a callback for (phase, done, total) that raises once the job is
            stopped.

    Attributes:
        result: What came of it; None before its end, and where it failed.
        problem: Why there is no result, as `describe` says it; empty where there is one.
    """

    def __init__(self, name: str, work: Callable[[Callable[[str, int, int], None]], T]) -> None:
        self.result: T | None = None
        self.problem: dict[str, str] = {}
        self._name = name
        self._line, self._fraction, self._began = "getting ready", 0.0, time.monotonic()
        self._ended, self._stop = threading.Event(), threading.Event()
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.is_set()

    @property
    def line(self) -> str:
        """Where it is, for people."""
        return self._line

    @property
    def fraction(self) -> float:
        """How much of it is done, 0 to 1."""
        return self._fraction

    def stop(self) -> None:
        """Ask it to stop; it does at its next report of progress."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; return whether it has ended."""
        return self._ended.wait(timeout_s)

    def note(self, phase: str, done: int, total: int) -> None:
        """Take a report of progress.

        Args:
            phase: What is counted, e.g. ``step``.
            done: How many are done.
            total: How many there are; 0: not known.

        Raises:
            OperationFailed: It was stopped.
        """
        if self._stop.is_set():
            raise OperationFailed(f"{self._name} was stopped")
        spent = time.monotonic() - self._began
        left = f", about {duration(spent * (total - done) / done)} left" if done else ""
        self._line, self._fraction = f"{phase} {done:,} of {total:,}{left}", done / max(total, 1)

    def _run(self, work: Callable[[Callable[[str, int, int], None]], T]) -> None:
        """Do it once; whatever goes wrong is the job's problem, never the thread's."""
        try:
            self.result = work(self.note)
        except Exception as error:  # the page's error boundary
            self.problem = describe(error)
        finally:
            self._ended.set()


Note = Callable[[str, int, int], None]


def ask(workspace: Workspace, project: str) -> BackgroundJob[GoldReport]:
    """Ask the gold questions of the newest generation, and rank what they expect."""
    from ragstream_core.services.eval_gold import ask_gold

    def work(note: Note) -> GoldReport:
        told = _counting(note, "question")
        return ask_gold(workspace, project, progress=told)

    return BackgroundJob("the evaluation", work)


def sweep(workspace: Workspace, project: str) -> BackgroundJob[list[Point]]:
    """Ask the gold questions under every pair of thresholds; the figures are kept."""
    from ragstream_core.evaluation.sweep import RELATIVES, THETAS, write_point
    from ragstream_core.services import eval_sweep

    def work(note: Note) -> list[Point]:
        pairs = [(theta, relative) for theta in THETAS for relative in RELATIVES]
        told = _counting(note, "prompt")
        points = list(eval_sweep.sweep(workspace, project, pairs, progress=told))
        for point in points:
            write_point(eval_sweep.points_dir(workspace, project), point)
        return points

    return BackgroundJob("the sweep", work)


def judge(workspace: Workspace, project: str) -> BackgroundJob[Report]:
    """Judge the cited extract of every gold question's prompt; the figures are kept."""
    from ragstream_core.services import eval_faithfulness

    def work(note: Note) -> Report:
        return eval_faithfulness.of_gold(workspace, project, progress=_counting(note, "answer"))

    return BackgroundJob("the evaluation", work)


def _counting(note: Note, what: str) -> Callable[[int, int], None]:
    def told(done: int, total: int) -> None:
        note(what, done, total)

    return told


SNIPPET_CHARS = 200


@dataclass(frozen=True, slots=True)
class DrawnMap:
    """A map with what it was drawn from.

    Attributes:
        request: What was asked for.
        state: Digest of what it was drawn from.
        chunks: The map.
        snippets: The first characters of each place's text, in the order of its places.
    """

    request: MapRequest
    state: str
    chunks: ChunkMap
    snippets: list[str]


def draw_in_background(workspace: Workspace, request: MapRequest) -> BackgroundJob[DrawnMap]:
    """Start drawing a map.

    Args:
        workspace: The data root.
        request: What is drawn.
    """
    from ragstream_core.services import chunk_maps

    def draw(note: Callable[[str, int, int], None]) -> DrawnMap:
        state = chunk_maps.state(workspace, request)
        found = chunk_maps.draw(workspace, request, note)
        snippets = [text[:SNIPPET_CHARS] for text in chunk_maps.texts(workspace, found)]
        return DrawnMap(request, state, found, snippets)

    return BackgroundJob("the map", draw)


class WeatherJob:
    """One look-up; it begins at once.

    Args:
        workspace: Says which language model may explain.
        city: Which city.
        days: 1 to 16.
        country: Empty: any.
        explain: ``text`` or ``llm``.
    """

    def __init__(
        self,
        workspace: Workspace,
        city: str,
        days: int,
        *,
        country: str = "",
        explain: Explain = "text",
    ) -> None:
        self.city = city
        self.found: WeatherAnalysis | None = None
        self.problem: dict[str, str] = {}
        self.done = threading.Event()
        self._asked = (workspace, city, days, country, explain)
        threading.Thread(target=self._run, name="weather", daemon=True).start()

    def _run(self) -> None:
        from ragstream_core.services.weather import look_up

        workspace, city, days, country, explain = self._asked
        try:
            self.found = look_up(workspace, city, days, country=country, explain=explain)
        except Exception as error:  # the page's error boundary: wrong settings of the provider
            self.problem = describe(error)
        finally:
            self.done.set()


SAID = {
    "index": "taking the turns out of the index",
    "copies": "removing copies: prompts, runs, caches",
    "journal": "rewriting the journal without them",
    "texts": "removing texts and vectors",
    "search": "searching every file for what is left",
}


@dataclass(slots=True)
class ClearingJob:
    """One clearing; written by its thread, read by any other.

    Attributes:
        line: What is done now, for people.
        fraction: How many of the phases are over, 0 to 1.
        report: As `history.clearing.clear`, once it is done.
        said: What happened, one line.
        problem: Why it failed, as `describe` says it; empty where it did not.
        done: Set at its end.
    """

    line: str = "hiding the turns"
    fraction: float = 0.0
    report: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    problem: dict[str, str] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    def note(self, phase: str, done: int, total: int) -> None:
        """Take a report of the clearing: an `IngestProgress`."""
        self.line, self.fraction = SAID.get(phase, phase), done / total


def start(workspace: Workspace, choice: Mapping[str, Any], way: Way) -> ClearingJob:
    """Begin to clear.

    Args:
        workspace: The data root.
        choice: ``session``, ``since``, ``until``, ``everything``, as `history.clearing.clear`.
        way: What is done with the turns.
    """
    job = ClearingJob()
    threading.Thread(
        target=_clear, args=(workspace, job, dict(choice), way), name="clear", daemon=True
    ).start()
    return job


def _clear(workspace: Workspace, job: ClearingJob, choice: dict[str, Any], way: Way) -> None:
    """Clear once; whatever goes wrong is the job's problem, never the thread's."""
    from ragstream_core.conversations.clearing import choice_of

    try:
        job.report = way.run(workspace, choice_of(**choice), dry_run=False, progress=job.note)
        job.said = way.told(job.report)
    except Exception as error:  # the page's error boundary
        job.problem = describe(error)
    finally:
        job.done.set()
