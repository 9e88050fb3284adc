"""A connection to PostgreSQL that does not wait for ever for an answer; imports psycopg."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg.abc import RV, PQGen


class LimitedConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection with a limit on this side: a server that hangs cannot end its own statements.

    Attributes:
        limit_s: Seconds to wait for an answer; None: as long as it takes.
    """

    limit_s: float | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for an answer; see psycopg.

        Raises:
            OperationalError: None came in time. The connection is of no use then.
        """
        return super().wait(gen, interval, self.limit_s if timeout is None else timeout)

    @contextlib.contextmanager
    def unlimited(self) -> Iterator[None]:
        """Let statements inside take as long as they need, on this side."""
        before, self.limit_s = self.limit_s, None
        try:
            yield
        finally:
            self.limit_s = before
