"""`StreamingRequest`: one request on a thread of its own; its answer comes in blocks.

The library's time-outs start again with every byte, and looking up a name or a slow drip of headers
has none: so the waiting is done here. What leaves is on a list: the header fields below, the body,
and the key of this host. Nothing of the environment is sent (no proxy, no organisation, no further
header), no redirect is followed, and the body of a refusal is never read.

`Attempts`: one request, repeated where that can help, and never longer than its budget.

Repeated: no connection, 408, 409, 429, 5xx, an answer that ends too soon. Not repeated: everything
that would fail again. After a request failed for good the endpoint is left alone for a minute.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import functools
import logging
import math
import queue
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ragstream_core.platform.endpoint import Endpoint

RETRIES = 4
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 20.0
CIRCUIT_S = 60.0
TRANSIENT = frozenset({408, 409, 429})

Kind = Literal["unreachable", "busy", "refused", "timeout", "broken"]
Result = TypeVar("Result")


class RequestError(Exception):
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
class RetryClock:
    """Time and chance, so that a test need not wait.

    Attributes:
        now: Seconds on a clock that never goes back.
        sleep: Waits.
        chance: A number in [0, 1).
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


class RetryPolicy:
    """Tries requests to one endpoint.

    Args:
        endpoint: Says how long anything may take.
        pace: Time and chance.
        hopeless: Kinds of failure that are not worth another request.
    """

    def __init__(
        self, endpoint: Endpoint, *, pace: RetryClock | None = None, hopeless: Iterable[Kind] = ()
    ) -> None:
        self.pace = pace or RetryClock()
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
            raise RequestError(f"{self._why}; {left}", kind="unreachable")
        attempt = 0
        while True:
            left_s = self._endpoint.budget_s - (pace.now() - began)
            try:
                result = once(min(self._endpoint.timeout_s, left_s))
                self._closed_until = -math.inf
                return result
            except RequestError as fault:
                delay = max(fault.wait_s, _delay(attempt, pace.chance()))
                spent = pace.now() - began + delay >= self._endpoint.budget_s
                hopeless = not fault.again or fault.kind in self._hopeless
                if hopeless or attempt >= RETRIES or spent:
                    if fault.again:
                        self._closed_until, self._why = pace.now() + CIRCUIT_S, fault.what
                    tries = f" ({attempt + 1} attempts)" if attempt else ""
                    raise RequestError(
                        f"{fault.what}{tries}", kind=fault.kind, status=fault.status
                    ) from None
            attempt += 1
            pace.sleep(delay)


def refusal(status: int, retry_after: str | None) -> RequestError:
    """Return the fault that an HTTP status means.

    Args:
        status: Anything but 2xx.
        retry_after: The header, seconds or a date; what is neither is taken for 0.
    """
    again = status in TRANSIENT or status >= 500
    return RequestError(
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


Send = Callable[[Any], AbstractContextManager[Any]]
"""Given a client, opens a request: ``with_streaming_response``, or ``stream`` of a plain one."""
Client = Callable[[Endpoint, float], Any]
"""Makes a client of an endpoint that gives up after so many seconds without any byte."""

SENT = frozenset(
    {"host", "accept", "connection", "content-type", "content-length", "transfer-encoding",
     "x-stainless-raw-response"}  # the library reads the last one back
)  # fmt: skip
TALKATIVE = ("openai", "httpx2", "httpcore2")
"""Loggers that would write down header fields, and with them a key that a server repeats."""
HELD = 16
"""Blocks that may wait to be read; then the server has to."""
_NO_CONNECTION = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError"})


class StreamingRequest:
    """An open request; `close` it in the end.

    Args:
        endpoint: Where it goes.
        send: Opens it.
        limit_s: Seconds without any byte after which its thread gives up.
        client: Makes what ``send`` is given; default: an ``openai.OpenAI``.
    """

    def __init__(
        self, endpoint: Endpoint, send: Send, *, limit_s: float, client: Client | None = None
    ) -> None:
        self._blocks: queue.Queue[bytes | RequestError] = queue.Queue(maxsize=HELD)
        self._stopped = threading.Event()
        self._client = (client or _openai_client)(endpoint, max(limit_s, 0.001))
        worker = threading.Thread(target=self._run, args=(send,), name="endpoint", daemon=True)
        worker.start()

    def block(self, within_s: float) -> bytes:
        """Return the next bytes of the answer; empty at its end.

        Raises:
            Fault: It did not come within ``within_s`` seconds, or never will.
        """
        try:
            got = self._blocks.get(timeout=max(within_s, 0.0))
        except queue.Empty:
            what = f"no whole answer within {max(within_s, 0.0):.3g} s"
            raise RequestError(what, kind="timeout", again=True) from None
        if isinstance(got, RequestError):
            raise got
        return got

    def close(self) -> None:
        """End the request; its thread follows when the library lets it."""
        self._stopped.set()
        threading.Thread(target=self._client.close, daemon=True).start()

    def _run(self, send: Send) -> None:
        try:
            with send(self._client) as response:
                for block in response.iter_bytes():
                    if block and not self._put(block):
                        return
            self._put(b"")
        except Exception as error:  # handed over to the thread that waits
            self._put(_fault(error))

    def _put(self, item: bytes | RequestError) -> bool:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._blocks.put(item, timeout=0.2)
                return True
        return False


def whole(
    endpoint: Endpoint,
    send: Send,
    *,
    limit_s: float,
    most: int,
    now: Callable[[], float],
    client: Client | None = None,
) -> bytes:
    """Return a whole answer.

    Args:
        endpoint: Where the request goes.
        send: Opens it.
        limit_s: Seconds from now to the last byte.
        most: Bytes it may have.
        now: The clock.
        client: As `StreamingRequest`.

    Raises:
        Fault: It failed, took too long or is too large; no more than ``most`` was ever held.
    """
    end = now() + limit_s
    wire = StreamingRequest(endpoint, send, limit_s=limit_s, client=client)
    body = bytearray()
    try:
        while block := wire.block(end - now()):
            body += block
            if len(body) > most:
                raise RequestError(f"an answer of more than {most >> 20} MiB", kind="broken")
        return bytes(body)
    finally:
        wire.close()


def http_client(endpoint: Endpoint, limit_s: float) -> Any:
    """Return an HTTP client for what is no language model: a `Client`."""
    import httpx2

    return httpx2.Client(timeout=limit_s, **_limits(endpoint))


def _openai_client(endpoint: Endpoint, limit_s: float) -> Any:
    import openai

    http = openai.DefaultHttpxClient(**_limits(endpoint))
    return openai.OpenAI(
        base_url=endpoint.base_url, api_key="none", timeout=limit_s, max_retries=0, http_client=http
    )


def _limits(endpoint: Endpoint) -> dict[str, Any]:
    """Return what every client is made with: what may leave, whom it trusts, what it follows."""
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)

    def only_what_is_listed(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        request.headers["accept-encoding"] = "identity"  # a packed answer could be a bomb
        request.headers["user-agent"] = "ragstream"
        if endpoint.api_key:
            request.headers["authorization"] = f"Bearer {endpoint.api_key}"

    return {
        "verify": _certificates(),
        "follow_redirects": False,
        "trust_env": False,
        "event_hooks": {"request": [only_what_is_listed], "response": [_check_head]},
    }


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return whom we trust; to read the list takes 40 ms, so it is read once."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


def _check_head(response: Any) -> None:
    if not 200 <= response.status_code < 300:
        raise refusal(response.status_code, response.headers.get("retry-after"))
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError("a compressed answer that was not requested", kind="broken")


def _fault(error: BaseException) -> RequestError:
    """Say what happened in our words: those of a server or a library may hold what was sent."""
    chain = list(_chain(error))
    for one in chain:
        if isinstance(one, RequestError):
            return one
    names = {type(one).__name__ for one in chain}
    if any(isinstance(one, ssl.SSLError) for one in chain):
        return RequestError("no answer: its secure connection (TLS) failed", kind="unreachable")
    if any(isinstance(one, socket.gaierror) for one in chain):
        return RequestError(
            "no answer: its name cannot be resolved (DNS)", kind="unreachable", again=True
        )
    if names & _NO_CONNECTION:
        return RequestError("no answer: connection refused", kind="unreachable", again=True)
    if any("Timeout" in name for name in names):
        return RequestError("no answer in time", kind="timeout", again=True)
    # of the library, its HTTP library or the socket; anything else would fail again
    broken = any(isinstance(one, OSError) or _is_of_library(one) for one in chain)
    return RequestError(
        f"no whole answer ({type(chain[-1]).__name__})", kind="broken", again=broken
    )


def _is_of_library(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("openai", "httpx2", "httpcore2", "h11")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__
