"""`EndpointEmbedder`: an OpenAI-compatible ``/embeddings`` endpoint (OpenAI, Ollama, vLLM, …).

Texts leave this process: to the configured host and nowhere else. The endpoint may change a model
under its name and gives no two answers the same bits, so the vectors of questions are kept with
their prompts. Its tokenizer is unknown, so tokens are counted on the safe side; it gives no token
vectors, so late interaction compares words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.errors import EmbeddingFailed, RunCommand, TryAgain, UnknownSetting
from ragstream_core.models.embedders import fingerprints
from ragstream_core.models.embedders.base import Encoder, mean_unit
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.platform.endpoint_address import Endpoint
from ragstream_core.platform.http import EndpointClient, RequestError
from ragstream_core.text.tokenizer import SAFE_TOKEN, text_windows

if TYPE_CHECKING:
    from ragstream_core.ports import F16, F32

BATCH = 64
PROBE = "dimension"
EMPTY = " "  # endpoints refuse an empty text; its vector must exist all the same
MAX_ANSWER_BYTES = 64 << 20
HINTS = {
    401: "set provider.api_key in the environment (RAGSTREAM_PROVIDER__API_KEY) or in .env",
    403: "the key may not use this model",
    404: "check embeddings.base_url and embeddings.model",
}


class EndpointEmbedder(Encoder):
    """An embedder over HTTP, `BATCH` windows a request.

    What a server cuts off without saying so cannot be seen from here.
    """

    window = fingerprints.WINDOW
    device = ""
    reproducible = False  # the same text may get other bits tomorrow

    def __init__(
        self,
        models_dir: Path,
        *,
        model: str,
        endpoint: Endpoint | None,
        client: EndpointClient | None = None,
    ) -> None:
        """Ask the endpoint for the dimension, unless it has been asked before."""
        if endpoint is None:
            raise UnknownSetting(
                "the openai backend needs an endpoint",
                hint="set embeddings.base_url to https://…/v1 or http://127.0.0.1:…",
            )
        self.name = model
        self._prefixes = fingerprints.prefixes_of(model)
        self._client = client or EndpointClient(endpoint)
        self._words = HashedEmbedder()
        self.dimension = fingerprints.known_dimension(models_dir, endpoint, model)
        if not self.dimension:
            self.dimension = len(self._answer([PROBE])[0])
            fingerprints.keep_dimension(models_dir, endpoint, model, dimension=self.dimension)
        self._fingerprint = fingerprints.endpoint_fingerprint(endpoint, model, self.dimension)

    @property
    def fingerprint(self) -> str:
        """Digest of host, model and dimension: what can be known of a model behind a name."""
        return self._fingerprint

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each estimated token, in characters."""
        return [match.span() for match in SAFE_TOKEN.finditer(text)]

    def _tokens_of(self, text: str) -> F16:
        """Return one axis a word: equal words meet, others do not."""
        return self._words.token_vectors([text])[0]

    def _passage(self, text: str) -> F32:
        return next(self._rows([text]))

    def _rows(self, texts: Sequence[str], *, query: bool = False) -> Iterator[F32]:
        prefix = self._prefixes.query if query else self._prefixes.passage
        windows = [(i, prefix + part) for i, text in enumerate(texts) for part in self._parts(text)]
        parts: list[Any] = []
        at = 0
        for number, vector in self._vectors(windows):
            if number != at:
                yield mean_unit(parts)
                parts, at = [], number
            parts.append(mean_unit(np.asarray([vector])).astype(np.float64))
        if parts:
            yield mean_unit(parts)

    def _vectors(self, windows: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[float]]]:
        for start in range(0, len(windows), BATCH):
            batch = windows[start : start + BATCH]
            vectors = self._answer([text for _, text in batch])
            for (number, _), vector in zip(batch, vectors, strict=True):
                if len(vector) != self.dimension:
                    raise EmbeddingFailed(
                        f"{self.name} answered {len(vector)} numbers instead of {self.dimension}",
                        hint=(
                            "the name now refers to another model: ",
                            RunCommand("ingest", "--rebuild"),
                        ),
                    )
                yield number, vector

    def _answer(self, texts: list[str]) -> list[list[float]]:
        """Return one list of finite numbers a text, aligned."""

        def once(limit_s: float) -> list[list[float]]:
            body = self._client.body(
                lambda client: client.embeddings.with_streaming_response.create(
                    model=self.name, input=texts, encoding_format="float"
                ),
                limit_s=limit_s,
                most=MAX_ANSWER_BYTES,
            )
            return _vectors_in(body, len(texts))

        try:
            return self._client.retry(once)
        except RequestError as error:
            raise EmbeddingFailed(
                f"the embedding endpoint {self._client.endpoint.host}: {error}",
                hint=HINTS.get(error.status)
                or ("check that it runs and answers, then ", TryAgain()),
            ) from None

    def _parts(self, text: str) -> list[str]:
        text = text.encode("utf-8", "replace").decode("utf-8")
        return text_windows(text if text.strip() else EMPTY, self.token_offsets(text), self.window)


def _vectors_in(body: bytes, count: int) -> list[list[float]]:
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
