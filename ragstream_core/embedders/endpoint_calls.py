"""`EndpointCalls`: one request, repeated where that can help, and never longer than its budget.

Repeated: no connection, 408, 409, 429, 5xx, an answer that ends too soon. Not repeated: everything
that would fail again. After a request failed for good the endpoint is left alone for a minute. An
error names the host and what happened; never a key, a text, or the server's own words.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ragstream_core.embedders.endpoints import Endpoint
from ragstream_core.errors import EmbeddingFailed

RETRIES = 4
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 20.0
CIRCUIT_S = 60.0
MAX_ANSWER_BYTES = 64 << 20
TRANSIENT = frozenset({408, 409, 429})
HINTS = {
    401: "set provider.api_key in the environment (RAGSTREAM_PROVIDER__API_KEY) or in .env",
    403: "the key may not use this model",
    404: "check embeddings.base_url and embeddings.model",
}


class _Fault(Exception):
    """One failed attempt.

    Attributes:
        what: For people; nothing of what was sent or received.
        again: Whether another attempt may help.
        wait_s: What the server asked to wait.
        hint: What to do about it.
    """

    def __init__(self, what: str, *, again: bool, wait_s: float = 0.0, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.again = again
        self.wait_s = wait_s
        self.hint = hint


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


class EndpointCalls:
    """Asks one endpoint for the vectors of one model.

    Args:
        endpoint: Where it is.
        model: The model as it knows it.
        pace: Time and chance.
    """

    def __init__(self, endpoint: Endpoint, model: str, *, pace: Pace | None = None) -> None:
        self._endpoint = endpoint
        self._model = model
        self._pace = pace or Pace()
        self._closed_until = -math.inf

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one list of finite numbers a text, aligned.

        Raises:
            EmbeddingFailed: It could not be had within the budget, or the answer is unusable.
        """
        pace, began = self._pace, self._pace.now()
        if began < self._closed_until:
            raise self._failed(f"left alone for another {self._closed_until - began:.0f} s", "")
        attempt = 0
        while True:
            left = self._endpoint.budget_s - (pace.now() - began)
            try:
                answer = self._within(texts, min(self._endpoint.timeout_s, left))
                self._closed_until = -math.inf
                return answer
            except _Fault as fault:
                delay = max(fault.wait_s, _delay(attempt, pace.chance()))
                spent = pace.now() - began + delay >= self._endpoint.budget_s
                if not fault.again or attempt >= RETRIES or spent:
                    if fault.again:
                        self._closed_until = pace.now() + CIRCUIT_S
                    tries = f" ({attempt + 1} attempts)" if attempt else ""
                    raise self._failed(f"{fault.what}{tries}", fault.hint) from None
            attempt += 1
            pace.sleep(delay)

    def _within(self, texts: Sequence[str], limit_s: float) -> list[list[float]]:
        # The library's timeouts start again with every byte: a slow drip needs a clock of ours.
        box: list[list[list[float]] | BaseException] = []
        client = self._client(limit_s)

        def run() -> None:
            try:
                box.append(self._once(client, texts))
            except BaseException as error:  # handed over to the thread that waits
                box.append(error)

        worker = threading.Thread(target=run, name="embeddings", daemon=True)
        worker.start()
        worker.join(max(0.0, limit_s))
        if not box:
            threading.Thread(target=client.close, daemon=True).start()
            raise _Fault(f"no whole answer within {limit_s:.0f} s", again=True)
        client.close()
        if isinstance(box[0], BaseException):
            raise box[0]
        return box[0]

    def _client(self, limit_s: float) -> Any:
        import openai

        return openai.OpenAI(
            base_url=self._endpoint.base_url,
            api_key=self._endpoint.api_key or "none",
            timeout=max(limit_s, 0.001),
            max_retries=0,
            http_client=openai.DefaultHttpxClient(follow_redirects=False, trust_env=False),
        )

    def _once(self, client: Any, texts: Sequence[str]) -> list[list[float]]:
        import openai

        body = bytearray()
        try:
            with client.embeddings.with_streaming_response.create(
                model=self._model, input=list(texts), encoding_format="float"
            ) as response:
                for block in response.iter_bytes():
                    body += block
                    if len(body) > MAX_ANSWER_BYTES:
                        raise _Fault("an answer of more than 64 MiB", again=False)
        except openai.APIStatusError as error:
            raise _refusal(error.status_code, error.response.headers.get("retry-after")) from None
        except _Fault:
            raise
        except Exception as error:  # of the library, its HTTP library or the socket
            raise _Fault(f"no answer ({type(error).__name__})", again=True) from None
        return _parsed(bytes(body), len(texts))

    def _failed(self, what: str, hint: str) -> EmbeddingFailed:
        return EmbeddingFailed(
            f"the embedding endpoint {self._endpoint.host}: {what}",
            hint=hint or "check that it runs and answers, then run the command again",
        )


def _delay(attempt: int, chance: float) -> float:
    return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2**attempt)) * (0.5 + chance / 2)


def _refusal(status: int, retry_after: str | None) -> _Fault:
    try:
        wait_s = max(0.0, float(retry_after or 0))
    except ValueError:
        wait_s = 0.0
    again = status in TRANSIENT or status >= 500
    return _Fault(
        f"status {status}", again=again, wait_s=wait_s if again else 0.0, hint=HINTS.get(status, "")
    )


def _parsed(body: bytes, count: int) -> list[list[float]]:
    try:
        rows = json.loads(body)["data"]
        numbered = {int(row["index"]): row["embedding"] for row in rows}
        vectors = [[float(x) for x in numbered[i]] for i in range(count)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _Fault("an answer that is no list of vectors", again=True) from None
    if len(rows) != count or not all(vectors):
        raise _Fault(f"{len(rows)} vectors for {count} texts", again=False)
    if not all(math.isfinite(x) for vector in vectors for x in vector):
        raise _Fault("a vector that is not finite", again=False)
    return vectors
