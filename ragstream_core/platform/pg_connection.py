"""A connection to PostgreSQL that does not wait for ever for an answer; imports psycopg."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.waiting import Ready, Wait

LOOK_S = 20.0
"""Seconds between two looks whether the server of a long statement still answers."""
LOOKS = 3
"""So many of them in a row without an answer: then it hangs."""
_LOOK_CONNECT_S = 5


class LimitedConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection with a limit on this side: a server that hangs cannot end its own statements.

    Attributes:
        limit_s: Seconds to wait for an answer; None: as long as the server lets others in.
    """

    limit_s: float | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for an answer; see psycopg.

        Raises:
            OperationalError: None came in time. The connection is of no use then.
        """
        limit = self.limit_s if timeout is None else timeout
        return super().wait(self._watched(gen) if limit is None else gen, interval, limit)

    @contextlib.contextmanager
    def unlimited(self) -> Iterator[None]:
        """Let statements inside take as long as they need, while the server answers others."""
        before, self.limit_s = self.limit_s, None
        try:
            yield
        finally:
            self.limit_s = before

    def _watched(self, gen: PQGen[RV]) -> Generator[Wait, Ready | int, RV]:
        """Pass on what a generator yields and gets; look at the server while nothing comes.

        Raises:
            OperationalError: It hangs.
        """
        looked, unanswered = time.monotonic(), 0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    looked, unanswered = time.monotonic(), 0
                elif time.monotonic() - looked >= LOOK_S:
                    unanswered = 0 if self._server_answers() else unanswered + 1
                    if unanswered >= LOOKS:
                        self.pgconn.finish()  # nothing that is said to it now would be heard
                        raise psycopg.OperationalError(
                            "wait timeout: the server accepts no connections"
                        )
                    looked = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as ended:
            answer: RV = ended.value
            return answer

    def _server_answers(self) -> bool:
        """Whether the server says anything to another connection, if only that it is busy."""
        try:
            psycopg.connect(
                self.info.dsn, password=self.info.password, connect_timeout=_LOOK_CONNECT_S
            ).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.OperationalError:
            return True  # full, starting or ended: what waits for it is told by the network
        return True
