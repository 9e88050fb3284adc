"""`EndpointClient`: requests to one endpoint that always end, and send nothing but what is listed.

`open_stream` reads files of servers, which nothing but their length and digest is believed of.

The HTTP library's time-outs start again with every byte, and looking up a name or a slow drip of
headers has none. So each request runs on a thread of its own, and the caller has the clock. What
leaves is on a list: the header fields below, the body, and the key of this host. Nothing of the
environment is sent or used, no redirect is followed, and the body of a refusal is never read.
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
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urljoin

from ragstream_core.errors import RagstreamError, Refused
from ragstream_core.platform.endpoint_address import Endpoint

if TYPE_CHECKING:
    import httpx2

RETRIES = 4
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 20.0
CIRCUIT_S = 60.0
TRANSIENT = frozenset({408, 409, 429})
MOST_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
SENT = frozenset(
    {"host", "accept", "connection", "content-type", "content-length", "transfer-encoding",
     "x-stainless-raw-response"}  # the library reads the last one back
)  # fmt: skip

# They would log header fields, and with them a key that a server repeats.
VERBOSE_LOGGERS = ("openai", "httpx2", "httpcore2")
# Blocks that may wait to be read; then the server has to.
QUEUED_BLOCKS = 16
_NO_CONNECTION = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError"})
_LIBRARIES = frozenset({"openai", "httpx2", "httpcore2", "h11"})

Kind = Literal["unreachable", "busy", "refused", "timeout", "broken"]
Result = TypeVar("Result")

# Given a client, opens a request: ``with_streaming_response``, or ``stream`` of a plain one.
Send = Callable[[Any], AbstractContextManager[Any]]


class RequestError(Exception):
    """One failed attempt, or the last of several; its text holds nothing of what was sent.

    `again`: whether another attempt may help; `wait_s`: what the server asked to wait; `status` of
    HTTP is 0 if there was none.
    """

    def __init__(
        self, what: str, *, kind: Kind, again: bool = False, wait_s: float = 0.0, status: int = 0
    ) -> None:
        super().__init__(what)
        self.kind: Kind = kind
        self.again = again
        self.wait_s = wait_s
        self.status = status


class EndpointClient:
    """Makes requests to one endpoint.

    Repeated: no connection, 408, 409, 429, 5xx, an answer that ends too soon. Not repeated:
    everything that would fail again. After a request failed for good the endpoint is left alone for
    a minute. `library` makes the client that a request is opened with, default ``openai.OpenAI``;
    it gives up after so many seconds without any byte. After a failure of a `final` kind another
    attempt is no use.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        library: Callable[[Endpoint, float], Any] | None = None,
        final: Iterable[Kind] = (),
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = endpoint
        self._library = library or _openai_client
        self._final = frozenset(final)
        self._now = now
        self._sleep = sleep
        self._closed_until = -math.inf
        self._why = ""
        self._idle: list[Any] = []

    def retry(self, once: Callable[[float], Result], *, insist: bool = False) -> Result:
        """Return what one attempt returns, given the seconds it may take; repeated if that helps.

        With `insist` an endpoint that is left alone is tried all the same: a person is waiting.
        """
        began = self._now()
        if began < self._closed_until and not insist:
            left = f"not contacted for another {self._closed_until - began:.0f} s"
            raise RequestError(f"{self._why}; {left}", kind="unreachable")
        attempt = 0
        while True:
            left_s = self.endpoint.budget_s - (self._now() - began)
            try:
                result = once(min(self.endpoint.timeout_s, left_s))
                self._closed_until = -math.inf
                return result
            except RequestError as error:
                delay_s = max(error.wait_s, _delay_s(attempt))
                spent = self._now() - began + delay_s >= self.endpoint.budget_s
                final = not error.again or error.kind in self._final
                if final or attempt >= RETRIES or spent:
                    if error.again:
                        self._closed_until, self._why = self._now() + CIRCUIT_S, str(error)
                    tries = f" ({attempt + 1} attempts)" if attempt else ""
                    raise RequestError(
                        f"{error}{tries}", kind=error.kind, status=error.status
                    ) from None
            attempt += 1
            self._sleep(delay_s)

    def body(self, send: Send, *, limit_s: float, most: int) -> bytes:
        """Return a whole answer of `most` bytes at most, from one attempt of `limit_s` seconds."""
        end = self._now() + limit_s
        body = bytearray()
        with contextlib.closing(self._blocks(send, limit_s, lambda: end - self._now())) as blocks:
            for block in blocks:
                body += block
                if len(body) > most:
                    raise RequestError(f"an answer of more than {most >> 20} MiB", kind="broken")
        return bytes(body)

    def stream(self, send: Send) -> Generator[bytes]:
        """Yield an answer as it comes; it is repeated only before its first byte."""
        end = self._now() + self.endpoint.budget_s

        def first(limit_s: float) -> tuple[bytes, Generator[bytes]]:
            blocks = self._blocks(
                send, limit_s, lambda: min(self.endpoint.timeout_s, end - self._now())
            )
            return next(blocks, b""), blocks

        block, blocks = self.retry(first, insist=True)
        with contextlib.closing(blocks):
            yield block
            yield from blocks

    def _blocks(
        self, send: Send, limit_s: float, patience_s: Callable[[], float]
    ) -> Generator[bytes]:
        """Yield an answer, over the connection of the one before where that is still open.

        A server may close it at any moment: what breaks before a word came is sent anew.
        """
        client, begun = self._client(limit_s), False
        if client is not None:
            try:
                for block in self._blocks_of(client, send, patience_s):
                    begun = True
                    yield block
                return
            except RequestError as error:
                if begun or not (error.again and error.kind == "broken"):
                    raise
        client = self._library(self.endpoint, max(limit_s, 0.001))
        yield from self._blocks_of(client, send, patience_s)

    def _client(self, limit_s: float) -> Any:
        """Return a client whose last answer was read to its end, or None: handshakes take time."""
        with contextlib.suppress(IndexError):
            client = self._idle.pop()
            client.timeout = max(limit_s, 0.001)
            return client
        return None

    def _blocks_of(
        self, client: Any, send: Send, patience_s: Callable[[], float]
    ) -> Generator[bytes]:
        """Yield what another thread reads, as long as each block comes within ``patience_s()``."""
        arrived: queue.Queue[bytes | RequestError] = queue.Queue(maxsize=QUEUED_BLOCKS)
        stopped = threading.Event()
        whole = False
        threading.Thread(
            target=_read, args=(client, send, arrived, stopped), name="endpoint", daemon=True
        ).start()
        try:
            while True:
                within_s = max(patience_s(), 0.0)
                try:
                    block = arrived.get(timeout=within_s)
                except queue.Empty:
                    what = f"no whole answer within {within_s:.3g} s"
                    raise RequestError(what, kind="timeout", again=True) from None
                if isinstance(block, RequestError):
                    raise block
                if not block:
                    whole = True
                    return
                yield block
        finally:  # the reading thread ends when the library lets it
            stopped.set()
            if whole and not self._idle:
                self._idle.append(client)
            else:  # closing may block as long as the server that hangs
                threading.Thread(target=client.close, daemon=True).start()


def _read(
    client: object,
    send: Send,
    arrived: queue.Queue[bytes | RequestError],
    stopped: threading.Event,
) -> None:
    """Put the blocks of an answer in a queue: an empty one at its end, an error if it fails."""

    def put(item: bytes | RequestError) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                arrived.put(item, timeout=0.2)
                return

    try:
        with send(client) as response:
            for block in response.iter_bytes():
                if stopped.is_set():
                    return
                if block:
                    put(block)
        put(b"")
    except Exception as error:  # handed over to the thread that waits
        put(_in_our_words(error))


def http_client(endpoint: Endpoint, limit_s: float) -> Any:
    """Return an HTTP client that sends what is listed, trusts what is installed, follows nothing.

    It gives up after `limit_s` seconds without any byte.
    """
    import httpx2

    _quiet()

    def send_only_what_is_listed(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        request.headers["accept-encoding"] = "identity"  # a packed answer could be a bomb
        request.headers["user-agent"] = "ragstream"
        if endpoint.api_key:
            request.headers["authorization"] = f"Bearer {endpoint.api_key}"

    return httpx2.Client(
        timeout=limit_s,
        verify=_certificates(),
        follow_redirects=False,
        trust_env=False,
        event_hooks={"request": [send_only_what_is_listed], "response": [_check_head]},
    )


def file_client(timeout_s: float, *, login: tuple[str, str] | None = None) -> httpx2.Client:
    """Return a client for `open_stream`: nothing of the environment, and no packed answers."""
    import httpx2

    _quiet()
    headers = {"user-agent": "ragstream", "accept-encoding": "identity"}
    return httpx2.Client(timeout=timeout_s, trust_env=False, auth=login, headers=headers)


@contextlib.contextmanager
def open_stream(
    client: httpx2.Client,
    url: str,
    *,
    follow: Callable[[str], object],
    broken: Callable[[Exception], RagstreamError],
    method: str = "GET",
    start: int = 0,
) -> Iterator[httpx2.Response]:
    """Open a URL behind its redirects, from a byte on.

    `follow` raises if a redirect may not lead there; `broken` makes our error of the library's.
    """
    import httpx2

    headers = {"range": f"bytes={start}-"} if start else {}
    try:
        for _ in range(MOST_REDIRECTS + 1):
            with client.stream(method, url, headers=headers) as response:
                if response.status_code not in REDIRECTS:
                    yield response
                    return
                url = urljoin(url, response.headers.get("location", ""))
                follow(url)
        raise Refused(f"{url}: more than {MOST_REDIRECTS} redirects")
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise broken(error) from None


def _quiet() -> None:
    for name in VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def _openai_client(endpoint: Endpoint, limit_s: float) -> Any:
    import openai

    return openai.OpenAI(
        base_url=endpoint.base_url,
        api_key="none",
        timeout=limit_s,
        max_retries=0,
        http_client=http_client(endpoint, limit_s),
    )


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the authorities we trust; reading their list takes 40 ms, so it is read once."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


def _check_head(response: Any) -> None:
    if not 200 <= response.status_code < 300:
        raise refusal(response.status_code, response.headers.get("retry-after"))
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError("a compressed answer that was not requested", kind="broken")


def refusal(status: int, retry_after: str | None) -> RequestError:
    """Return the error that an HTTP status means, anything but 2xx."""
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


def _delay_s(attempt: int) -> float:
    """Return how long to wait after an attempt, counted from 0; clients spread out by chance."""
    return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2**attempt)) * random.uniform(0.5, 1.0)


def _in_our_words(error: BaseException) -> RequestError:
    """Say what happened: the words of a server or a library may hold what was sent."""
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
    modules = {type(one).__module__.partition(".")[0] for one in chain}
    again = bool(modules & _LIBRARIES) or any(isinstance(one, OSError) for one in chain)
    return RequestError(f"no whole answer ({type(chain[-1]).__name__})", kind="broken", again=again)


def _chain(error: BaseException) -> Iterable[BaseException]:
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__
