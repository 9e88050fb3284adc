"""`Attempts`: one request, repeated where that can help, and never longer than its budget.

Repeated: no connection, 408, 409, 429, 5xx, an answer that ends too soon. Not repeated: everything
that would fail again. After a request failed for good the endpoint is left alone for a minute.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import math
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

from ragstream_core.endpoints.address import Endpoint

RETRIES = 4
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 20.0
CIRCUIT_S = 60.0
TRANSIENT = frozenset({408, 409, 429})

Kind = Literal["unreachable", "busy", "refused", "timeout", "broken"]
Result = TypeVar("Result")


class Fault(Exception):
    """One failed attempt, or the last of several.

    Attributes:
        what: For people; nothing of what was sent or received.
        kind: What sort of failure it is.
        again: Whether another attempt may help.
        wait_s: What the server asked to wait.
        status: The HTTP status, 0 where there was none.
    """

    def __init__(
        self, what: str, *, kind: Kind, again: bool = False, wait_s: float = 0.0, status: int = 0
    ) -> None:
        super().__init__(what)
        self.what = what
        self.kind: Kind = kind
        self.again = again
        self.wait_s = wait_s
        self.status = status


@dataclass(frozen=True, slots=True)
class Pace:
    """Time and chance, so that a test need not wait.

    Attributes:
        now: Seconds on a clock that never goes back.
        sleep: Waits.
        chance: A number in [0, 1).
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


class Attempts:
    """Tries requests to one endpoint.

    Args:
        endpoint: Says how long anything may take.
        pace: Time and chance.
        hopeless: Kinds of failure that are not worth another request.
    """

    def __init__(
        self, endpoint: Endpoint, *, pace: Pace | None = None, hopeless: Iterable[Kind] = ()
    ) -> None:
        self.pace = pace or Pace()
        self._endpoint = endpoint
        self._hopeless = frozenset(hopeless)
        self._closed_until = -math.inf
        self._why = ""

    def run(self, once: Callable[[float], Result], *, insist: bool = False) -> Result:
        """Return what one attempt returns.

        Args:
            once: The attempt; it is given the seconds that it may take.
            insist: Try even where the endpoint is left alone: a person is waiting.

        Raises:
            Fault: No attempt succeeded within the budget; it says how many there were.
        """
        pace, began = self.pace, self.pace.now()
        if began < self._closed_until and not insist:
            left = f"not contacted for another {self._closed_until - began:.0f} s"
            raise Fault(f"{self._why}; {left}", kind="unreachable")
        attempt = 0
        while True:
            left_s = self._endpoint.budget_s - (pace.now() - began)
            try:
                result = once(min(self._endpoint.timeout_s, left_s))
                self._closed_until = -math.inf
                return result
            except Fault as fault:
                delay = max(fault.wait_s, _delay(attempt, pace.chance()))
                spent = pace.now() - began + delay >= self._endpoint.budget_s
                hopeless = not fault.again or fault.kind in self._hopeless
                if hopeless or attempt >= RETRIES or spent:
                    if fault.again:
                        self._closed_until, self._why = pace.now() + CIRCUIT_S, fault.what
                    tries = f" ({attempt + 1} attempts)" if attempt else ""
                    raise Fault(
                        f"{fault.what}{tries}", kind=fault.kind, status=fault.status
                    ) from None
            attempt += 1
            pace.sleep(delay)


def refusal(status: int, retry_after: str | None) -> Fault:
    """Return the fault that an HTTP status means.

    Args:
        status: Anything but 2xx.
        retry_after: The header, seconds or a date; what is neither is taken for 0.
    """
    again = status in TRANSIENT or status >= 500
    return Fault(
        f"status {status}",
        kind="busy" if again else "refused",
        again=again,
        wait_s=_seconds(retry_after or "") if again else 0.0,
        status=status,
    )


def _seconds(retry_after: str) -> float:
    try:
        wait_s = float(retry_after)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(retry_after)
            wait_s = (moment - dt.datetime.now(moment.tzinfo)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return max(0.0, wait_s) if math.isfinite(wait_s) else 0.0


def _delay(attempt: int, chance: float) -> float:
    return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2**attempt)) * (0.5 + chance / 2)
