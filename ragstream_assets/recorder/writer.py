"""Writes Dagster runs behind the prompts: one thread of the process, one run at a time, in order.

A prompt is delivered before its run is written. What is not written when the process ends is lost,
and it is the run alone: the prompt has been kept by then.
"""

import atexit
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ragstream_assets.run_here import brief

MOST_WAITING = 256
"""Runs that may wait to be written; while Dagster's storage is stuck, further ones are dropped."""
AT_EXIT_S = 10.0


class Recording:
    """A run that is to be written. Its id is known from the beginning.

    Args:
        job: Name of the job; empty for what is no run of a job.
        tags: Of the run; those of the process come on top.
        steps: The steps to execute; empty: all of the job.
        parent: The run that it executes steps of again, empty for none.
        alone: The steps to execute if that run is not there.

    Attributes:
        run_id: The id of the run.
        problem: Why there is no such run; empty while it is not known, and if there is one.
        note: What else is to be said of it.
    """

    def __init__(
        self,
        job: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        steps: Sequence[str] = (),
        parent: str = "",
        alone: Sequence[str] = (),
    ) -> None:
        self.run_id = str(uuid.uuid4())
        self.job, self.tags = job, dict(tags or {})
        self.steps, self.parent, self.alone = tuple(steps), parent, tuple(alone)
        self.problem = ""
        self.note = ""
        self._ended = threading.Event()

    @classmethod
    def written(cls, run_id: str) -> "Recording":
        """Return a run that has been written before; without an id, one that never was."""
        made = cls()
        made.run_id = run_id or made.run_id
        made.end()
        return made

    @property
    def done(self) -> bool:
        """Whether it is known if there is a run."""
        return self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is written, or is not; return whether that is known now."""
        return self._ended.wait(timeout_s)

    def end(self, problem: str = "") -> None:
        """Set that it is written, or why it is not."""
        self.problem = problem
        self._ended.set()


_Work = tuple[Recording, Callable[[], str]]


class Writer:
    """The queue and its thread, which starts with the first run and ends with the process."""

    def __init__(self) -> None:
        self._waiting: deque[_Work] = deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._left = False

    def submit(self, recording: Recording, write: Callable[[], str]) -> None:
        """Have a run written after all earlier ones.

        Args:
            recording: Ended by then, whatever happens.
            write: Writes the run and returns why there is none, empty where there is.
        """
        with self._change:
            if len(self._waiting) >= MOST_WAITING:
                recording.end(f"{MOST_WAITING} runs are waiting to be written already")
                return
            self._waiting.append((recording, write))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="run writer", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is written; return whether it is."""
        with self._change:
            return self._change.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def leave(self) -> None:
        """Give up what waits; the end of the process does not wait for the one at work either."""
        with self._change:
            self._left = True
            while self._waiting:
                self._waiting.popleft()[0].end("given up")

    def at_exit(self) -> None:
        """Let the process end when all is written, or a while later."""
        if not self._left:
            self.flush(AT_EXIT_S)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting)
                recording, write = self._waiting.popleft()
                self._busy = True
            try:
                recording.end(write())
            except BaseException as error:  # whatever is wrong with Dagster, the work goes on
                recording.end(brief(error))
            finally:
                del write
                with self._change:
                    self._busy = False
                    self._change.notify_all()


writer = Writer()
atexit.register(writer.at_exit)
