"""Ends the servers if `ragstream up` itself was killed, so that none goes on unattended.

A killed process cleans nothing up, but the system closes its pipes. The reaper is a small process
in a session of its own that reads from one which process groups there are; its end is the sign.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection

from ragstream_core.platform.import_path import python

GRACE_S = 10.0
LOOK_S = 1.0
POLL_S = 0.1
COMMAND = python("-E", "-m", "ragstream_app.server.orphan_reaper")


class OrphanReaper:
    """The reaper of one `ragstream up`, started with the first group."""

    def __init__(self) -> None:
        """Start with nothing to watch."""
        self._process: subprocess.Popen[bytes] | None = None
        self._told: set[int] = set()

    def tell(self, groups: Collection[int]) -> None:
        """Say which process groups there are now; a reaper that died is replaced.

        Args:
            groups: Numbers of process groups.

        Raises:
            OSError: No process can be started.
        """
        if self._process is None or self._process.poll() is not None:
            self._told = set(groups)
            self._process = subprocess.Popen(
                [*COMMAND, *map(str, groups)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        if set(groups) != self._told and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # the next look finds it dead
                self._process.stdin.write(" ".join(map(str, groups)).encode() + b"\n")
                self._process.stdin.flush()
                self._told = set(groups)

    def dismiss(self) -> None:
        """Let it go without a kill: everything has been ended."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(BrokenPipeError):
                process.communicate(b"\n")


def watch(pipe: int, groups: set[int]) -> None:
    """Read lines of group numbers until the pipe ends; then end the groups of the last line.

    Args:
        pipe: A descriptor.
        groups: Those there are before the first line.
    """
    rest = b""
    while True:
        groups = {group for group in groups if _lives(group)}  # their numbers are used again
        if not select.select([pipe], [], [], LOOK_S)[0]:
            continue
        read = os.read(pipe, 65_536)
        if not read:
            end(groups)
            return
        *lines, rest = (rest + read).split(b"\n")
        if lines:
            groups = set(map(int, lines[-1].split()))


def end(groups: Collection[int]) -> None:
    """Ask process groups to end, wait, and end what is left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline and any(map(_lives, groups)):
            time.sleep(POLL_S)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    watch(0, set(map(int, sys.argv[1:])))
