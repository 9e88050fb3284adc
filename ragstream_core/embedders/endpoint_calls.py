"""`EndpointCalls`: asks one endpoint for the vectors of one model.

What is repeated and how long anybody waits is the business of `ragstream_core.endpoints`. An error
names the host and what happened; never a key, a text, or the server's own words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from ragstream_core.endpoints.address import Endpoint
from ragstream_core.endpoints.attempts import Attempts, Fault, Pace
from ragstream_core.endpoints.wire import whole
from ragstream_core.errors import EmbeddingFailed

MAX_ANSWER_BYTES = 64 << 20
HINTS = {
    401: "set provider.api_key in the environment (RAGSTREAM_PROVIDER__API_KEY) or in .env",
    403: "the key may not use this model",
    404: "check embeddings.base_url and embeddings.model",
}


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
        self._attempts = Attempts(endpoint, pace=pace)

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one list of finite numbers a text, aligned.

        Raises:
            EmbeddingFailed: It could not be had within the budget, or the answer is unusable.
        """
        try:
            return self._attempts.run(lambda limit_s: self._once(texts, limit_s))
        except Fault as fault:
            raise EmbeddingFailed(
                f"the embedding endpoint {self._endpoint.host}: {fault.what}",
                hint=HINTS.get(fault.status)
                or "check that it runs and answers, then run the command again",
            ) from None

    def _once(self, texts: Sequence[str], limit_s: float) -> list[list[float]]:
        body = whole(
            self._endpoint,
            lambda client: client.embeddings.with_streaming_response.create(
                model=self._model, input=list(texts), encoding_format="float"
            ),
            limit_s=limit_s,
            most=MAX_ANSWER_BYTES,
            now=self._attempts.pace.now,
        )
        return _parsed(body, len(texts))


def _parsed(body: bytes, count: int) -> list[list[float]]:
    try:
        rows = json.loads(body)["data"]
        numbered = {int(row["index"]): row["embedding"] for row in rows}
        vectors = [[float(x) for x in numbered[i]] for i in range(count)]
    except (ValueError, KeyError, TypeError, RecursionError):
        what = "an answer that is not a list of vectors"
        raise Fault(what, kind="broken", again=True) from None
    if len(rows) != count or not all(vectors):
        raise Fault(f"{len(rows)} vectors for {count} texts", kind="broken")
    if not all(math.isfinite(x) for vector in vectors for x in vector):
        raise Fault("a vector that is not finite", kind="broken")
    return vectors
