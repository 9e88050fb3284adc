"""Embeddings from an OpenAI-compatible ``/embeddings`` endpoint (OpenAI, Ollama, vLLM, …).

`EndpointEmbedder`: an OpenAI-compatible ``/embeddings`` endpoint (OpenAI, Ollama, vLLM, …).

Texts leave this process: to the configured host and nowhere else, no redirect is followed and no
proxy of the environment is used. The endpoint may change a model under its name and gives no two
answers the same bits, so the vectors of questions are kept with their prompts. Tokens are counted
on the safe side (four letters, or one sign of a script without spaces), since the model's tokenizer
is unknown.
Late interaction compares words: an endpoint gives no token vectors.

`EndpointCalls`: asks one endpoint for the vectors of one model.

What is repeated, and for how long, `ragstream_core.platform.http` decides. An error names
the host and what happened; never a key, a text, or the server's own words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.models.embedders import fingerprints
from ragstream_core.models.embedders.base import mean_unit, stack_checked, throttled
from ragstream_core.models.embedders.endpoints import (
    endpoint_fingerprint,
    keep_dimension,
    known_dimension,
)
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.platform.endpoint import Endpoint
from ragstream_core.platform.http import RequestError, RetryClock, RetryPolicy, whole
from ragstream_core.text.tokenizer import even_windows

if TYPE_CHECKING:
    from ragstream_core.ports import F16, F32, Progress


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

    def __init__(self, endpoint: Endpoint, model: str, *, pace: RetryClock | None = None) -> None:
        self._endpoint = endpoint
        self._model = model
        self._attempts = RetryPolicy(endpoint, pace=pace)

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one list of finite numbers a text, aligned.

        Raises:
            EmbeddingFailed: It could not be had within the budget, or the answer is unusable.
        """
        try:
            return self._attempts.run(lambda limit_s: self._once(texts, limit_s))
        except RequestError as fault:
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
        raise RequestError(what, kind="broken", again=True) from None
    if len(rows) != count or not all(vectors):
        raise RequestError(f"{len(rows)} vectors for {count} texts", kind="broken")
    if not all(math.isfinite(x) for vector in vectors for x in vector):
        raise RequestError("a vector that is not finite", kind="broken")
    return vectors


TOKEN = re.compile(r"[^\W\u2e80-\uffff]{1,4}|[\u2e80-\U0010ffff]|[^\w\s]")
BATCH = 64
PROBE = "dimension"
EMPTY = " "  # endpoints refuse an empty text; its vector must exist all the same


class EndpointEmbedder:
    """A `ragstream_core.ports.Embedder` over HTTP.

    Attributes:
        name: The model as the endpoint knows it.
        dimension: Length of a vector, as the endpoint's first answer had it.
        window: Tokens of one text as counted here.
        truncated_inputs: Always 0: a longer text is sent in windows. What a server cuts off
            without saying so cannot be seen from here.
        reproducible: False: the same text may get other bits tomorrow.
    """

    window = fingerprints.WINDOW
    truncated_inputs = 0
    reproducible = False

    def __init__(
        self,
        models_dir: Path,
        *,
        model: str,
        endpoint: Endpoint,
        calls: EndpointCalls | None = None,
    ) -> None:
        """Ask the endpoint for the dimension, unless it has been asked before.

        Args:
            models_dir: Where the answer is kept.
            model: The model as the endpoint knows it.
            endpoint: Where it is.
            calls: Makes the requests; default: over HTTP.

        Raises:
            EmbeddingFailed: The endpoint cannot be reached or refuses.
        """
        self.name = model
        self._prefixes = fingerprints.prefixes_of(model)
        self._calls = calls or EndpointCalls(endpoint, model)
        self._words = HashedEmbedder()
        self.dimension = known_dimension(models_dir, endpoint, model)
        if not self.dimension:
            self.dimension = len(self._calls.vectors([PROBE])[0])
            keep_dimension(models_dir, endpoint, model, dimension=self.dimension)
        self._fingerprint = endpoint_fingerprint(endpoint, model, self.dimension)

    @property
    def fingerprint(self) -> str:
        """Digest of host, model and dimension: what can be known of a model behind a name."""
        return self._fingerprint

    def count(self, text: str) -> int:
        """Return an estimate of the number of tokens, rather too many than too few."""
        return sum(1 for _ in TOKEN.finditer(text))

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each estimated token, in characters."""
        return [match.span() for match in TOKEN.finditer(text)]

    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Embed passages of any length, `BATCH` windows a request.

        Args:
            texts: The passages.
            progress: Called with (done, total).

        Returns:
            Shape (len(texts), dimension), float32, each row of length 1 ± 1e-6, aligned with
            ``texts``.

        Raises:
            EmbeddingFailed: The endpoint cannot be reached, refuses, or answers what is no vector.
        """
        rows = self._rows(texts, self._prefixes.passage)
        counted = rows if progress is None else throttled(rows, progress, total=len(texts))
        return stack_checked(counted, shape=(len(texts), self.dimension))

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries, with the model family's query prefix.

        Raises:
            EmbeddingFailed: As `embed_documents`.
        """
        rows = self._rows(texts, self._prefixes.query)
        return stack_checked(rows, shape=(len(texts), self.dimension))

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return one axis a word: equal words meet, others do not."""
        return self._words.token_vectors(texts)

    def _rows(self, texts: Sequence[str], prefix: str) -> Iterator[F32]:
        windows = [(i, prefix + part) for i, text in enumerate(texts) for part in self._parts(text)]
        held: list[Any] = []
        at = 0
        for number, vector in self._vectors(windows):
            if number != at:
                yield mean_unit(held)
                held, at = [], number
            held.append(mean_unit(np.asarray([vector])).astype(np.float64))
        if held:
            yield mean_unit(held)

    def _vectors(self, windows: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[float]]]:
        for start in range(0, len(windows), BATCH):
            batch = windows[start : start + BATCH]
            vectors = self._calls.vectors([text for _, text in batch])
            for (number, _), vector in zip(batch, vectors, strict=True):
                if len(vector) != self.dimension:
                    raise EmbeddingFailed(
                        f"{self.name} answered {len(vector)} numbers instead of {self.dimension}",
                        hint="the name now refers to another model: ragstream ingest --rebuild",
                    )
                yield number, vector

    def _parts(self, text: str) -> list[str]:
        text = text.encode("utf-8", "replace").decode("utf-8")
        spans = self.token_offsets(text)
        if len(spans) <= self.window:
            return [text if text.strip() else EMPTY]
        numbered = even_windows(list(range(len(spans))), self.window)
        return [text[spans[part[0]][0] : spans[part[-1]][1]] for part in numbered]
