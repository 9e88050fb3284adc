"""A clearing of conversations in a thread, so that neither a click nor a closed tab breaks it off.

Nothing here knows Streamlit. What a kill leaves is finished by the next clearing, embedding or
check.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragstream_app.failures import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragstream_app.commands.history_ways import Way
    from ragstream_core.build.workspace import Workspace

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
    from ragstream_core.history.clearing import choice_of

    try:
        job.report = way.run(workspace, choice_of(**choice), dry_run=False, progress=job.note)
        job.said = way.told(job.report)
    except Exception as error:  # the page's error boundary
        job.problem = describe(error)
    finally:
        job.done.set()
