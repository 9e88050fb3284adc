"""``POST /v1/embeddings``: texts as vectors of the model that a project is searched with."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from ragstream_app.api.body import read_form
from ragstream_app.api.errors import ApiError
from ragstream_app.api.forms import EmbeddingForm
from ragstream_core.errors import Stopped

if TYPE_CHECKING:
    import threading

    from starlette.types import Receive, Scope, Send

    from ragstream_app.api.models import Models, Target
    from ragstream_app.api.workers import Workers
    from ragstream_core.services.embed import Embedded


@dataclass(frozen=True)
class Embeddings:
    """The endpoint, an ASGI application.

    Attributes:
        models: What is served, of which data root.
        workers: Do the work.
    """

    models: Models
    workers: Workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            ApiError: A wrong request.
            RagstreamError: The model cannot be used.
        """
        form = await read_form(EmbeddingForm, scope, receive)
        if form is None:
            return
        target = self.models.target(form.model)
        async with self.workers.at_work(receive) as visit:
            if visit is None:
                return
            try:
                body = await self.workers.run(lambda: self._body(form, target, visit.left))
            except Stopped:
                return  # nobody is there to be told
            await JSONResponse(body)(scope, receive, send)

    def _body(self, form: EmbeddingForm, target: Target, left: threading.Event) -> dict[str, Any]:
        """Return the answer.

        Raises:
            Stopped: The client left.
            ApiError: Other dimensions than the model has, or no text.
            RagstreamError: The model cannot be used.
        """
        from ragstream_core.services.embed import embed

        texts = [form.input] if isinstance(form.input, str) else form.input
        _require_text(texts)

        def require(*_: int) -> None:
            """Go on while the client listens.

            Raises:
                Stopped: It left.
            """
            if left.is_set():
                raise Stopped("the client left")

        found = embed(
            self.models.workspace,
            target.project,
            texts,
            kind=form.input_type or "document",
            progress=require,
        )
        if form.dimensions not in (None, found.vectors.shape[1]):
            raise ApiError(
                400,
                f"dimensions: {found.model} has {found.vectors.shape[1]}, and no others",
                code="invalid_value",
                param="dimensions",
            )
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        rows = _rows(found, as_text=form.encoding_format == "base64")
        data = [
            {"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)
        ]
        return {"object": "list", "data": data, "model": target.name, "usage": usage}


def _rows(found: Embedded, *, as_text: bool) -> list[str] | list[list[float]]:
    """Return the vectors as lists of numbers, or in base64."""
    little = found.vectors.astype("<f4", copy=False)
    if as_text:
        return [base64.b64encode(row.tobytes()).decode() for row in little]
    rows: list[list[float]] = little.tolist()
    return rows


def _require_text(texts: Sequence[str]) -> None:
    """Refuse what is no text.

    Raises:
        ApiError: A text is blank; its place is named.
    """
    for at, text in enumerate(texts):
        if not text.strip():
            raise ApiError(
                400, f"input.{at}: the text is blank", code="invalid_value", param=f"input.{at}"
            )
