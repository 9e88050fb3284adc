"""A terminal of our own around a command: what a person types, and what the screen has shown."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

from tests.workspaces import ROOT

LIMIT_S = 60.0
AGAIN_S = 3.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r")


def _heeds_interrupts() -> None:
    """Undo what a shell does to its background jobs, which tests may be started by."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a pseudo terminal of 100 columns and 40 lines.

    Args:
        words: Of the command line, after ``ragstream``.
    """

    def __init__(self, *words: str) -> None:
        ours, theirs = pty.openpty()
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ragstream_app.cli.main", *words],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=_heeds_interrupts,
            env={**os.environ, "PYTHONPATH": path, "TERM": "xterm-256color", "COLUMNS": "100",
                 "LINES": "40"},
        )  # fmt: skip
        os.close(theirs)
        self._fd = ours
        self.raw = ""

    def __enter__(self) -> Terminal:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the command, whatever it does."""
        self.process.kill()
        self.process.wait(LIMIT_S)
        os.close(self._fd)

    @property
    def text(self) -> str:
        """All that was shown so far, without what moves the cursor and colours."""
        return _CONTROL.sub("", self.raw)

    def types(self, line: str) -> None:
        """Type a line and Enter."""
        os.write(self._fd, f"{line}\n".encode())

    def presses(self, key: bytes) -> None:
        """Press a key, as ``b"\\x04"`` for Ctrl-D."""
        os.write(self._fd, key)

    def interrupts(self) -> None:
        """Press Ctrl-C: what the terminal sends to the command then."""
        self.process.send_signal(signal.SIGINT)

    def interrupts_until(self, what: str) -> None:
        """Press Ctrl-C until something is shown.

        One that arrives after Python's ``input`` has shown its prompt and before it waits for a key
        is taken up with the next key only: a person presses it again.

        Raises:
            AssertionError: It never was.
        """
        end = time.monotonic() + LIMIT_S
        while what not in self.text:
            assert time.monotonic() < end, f"never {what!r} in:\n{self.text}"
            self.interrupts()
            pause = time.monotonic() + AGAIN_S
            while what not in self.text and time.monotonic() < pause:
                assert self._read(), f"it ended after:\n{self.text}"

    def shows(self, what: str, times: int = 1) -> str:
        """Wait until something was shown so many times; return all text.

        Raises:
            AssertionError: It never was.
        """
        end = time.monotonic() + LIMIT_S
        while self.text.count(what) < times:
            assert time.monotonic() < end and self._read(), f"never {what!r} in:\n{self.text}"
        return self.text

    def ends(self) -> int:
        """Wait until the command ends; return its exit code."""
        end = time.monotonic() + LIMIT_S
        while self._read():
            assert time.monotonic() < end, f"it goes on after:\n{self.text}"
        return self.process.wait(LIMIT_S)

    def _read(self) -> bool:
        """Read what is there; return whether the command may still say something."""
        ready, _, _ = select.select([self._fd], [], [], 0.5)
        if not ready:
            return True
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:  # the other side is closed
            return False
        self.raw += piece.decode("utf-8", "replace")
        return bool(piece)
