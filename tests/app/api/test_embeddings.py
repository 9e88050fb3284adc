"""Vectors for clients: those that the project is searched with, as numbers and in base64."""

import asyncio
import base64
import json
import threading
import time

import numpy as np
import pytest

from ragstream_app.api.embeddings import Embeddings
from ragstream_app.api.models import Models
from ragstream_app.api.workers import Workers
from ragstream_core.errors import ModelMismatch
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.services.embed import embed
from ragstream_core.wiring import models
from tests.app.serving import error_of

NAME = "ragstream/manual"
TEXTS = ["The file lock.", "Who may write to the catalog?", "ü 🙂"]


def test_they_are_the_embedder_s_own(alone, space):
    embedder = models.embedder(space.config)
    found = alone.openai().embeddings.create(model=NAME, input=TEXTS)
    made = np.array([row.embedding for row in found.data], dtype=np.float32)
    assert np.array_equal(made, embedder.embed_documents(TEXTS))
    assert [row.index for row in found.data] == [0, 1, 2] and found.model == NAME
    counted = sum(map(embedder.count, TEXTS))
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (counted, counted)
    asked = {"model": NAME, "input": TEXTS[1], "input_type": "query"}
    query = alone.request("POST", "/v1/embeddings", json=asked).json()["data"][0]["embedding"]
    assert np.array_equal(np.float32(query), embedder.embed_queries([TEXTS[1]])[0])


def test_base64_holds_the_same_numbers(alone):
    asked = {"model": NAME, "input": TEXTS}
    plain = alone.request("POST", "/v1/embeddings", json=asked).json()["data"]
    coded = alone.request("POST", "/v1/embeddings", json={**asked, "encoding_format": "base64"})
    for number, text in zip(plain, coded.json()["data"], strict=True):
        read = np.frombuffer(base64.b64decode(text["embedding"]), dtype="<f4")
        assert np.array_equal(read, np.float32(number["embedding"]))


def test_its_own_dimensions_may_be_named_and_no_others(alone):
    asked = {"model": NAME, "input": "x"}
    size = len(alone.request("POST", "/v1/embeddings", json=asked).json()["data"][0]["embedding"])
    for dimensions, status in ((size, 200), (size - 1, 400)):
        found = alone.request("POST", "/v1/embeddings", json={**asked, "dimensions": dimensions})
        assert found.status_code == status
    assert found.json()["error"]["param"] == "dimensions"


@pytest.mark.parametrize("given", ["", " ", [], [""], ["x", " \n"], [1, 2, 3], [[1, 2]], None, {},
                                   ["x"] * 2049])  # fmt: skip
def test_what_is_no_text_is_refused(alone, given):
    response = alone.request("POST", "/v1/embeddings", json={"model": NAME, "input": given})
    assert error_of(response) == (400, "invalid_value")
    assert response.json()["error"]["param"].startswith("input")


def test_the_work_for_a_client_that_left_ends(space, monkeypatch):
    """A request may hold texts for minutes of work, and no other would have its place."""
    done = []

    class Slow(HashedEmbedder):
        def embed_documents(self, texts, *, progress=None):
            began.set()
            for number in range(3_000):
                done.append(number)
                time.sleep(0.01)
                progress(number, 3_000)
            return super().embed_documents(texts)

    began, said = threading.Event(), []
    monkeypatch.setattr(models, "embedder", lambda _: Slow())
    body = json.dumps({"model": NAME, "input": ["many words"]}).encode()

    async def ask():
        messages = [{"type": "http.request", "body": body}]

        async def receive():
            if messages:
                return messages.pop()
            await asyncio.to_thread(began.wait)
            return {"type": "http.disconnect"}

        async def send(message):
            said.append(message)

        made = Embeddings(Models(space), Workers(1, 1))
        await made({"type": "http", "method": "POST", "headers": []}, receive, send)

    asyncio.run(ask())
    assert said == [] and len(done) < 3_000


def test_another_model_s_project_is_refused(root, space, monkeypatch):
    """Vectors of two models are never compared, so none is given out under the wrong name."""
    monkeypatch.setattr(models, "fingerprint", lambda _: "0" * 64)
    with pytest.raises(ModelMismatch, match="was embedded by model") as error:
        embed(space, "manual", ["x"])
    assert "ingest manual --rebuild" in error.value.hint


def test_a_project_without_an_index_takes_the_settings_model(root, alone):
    (root / "doc_raw" / "fresh").mkdir(exist_ok=True)
    asked = {"model": "ragstream/fresh", "input": "x"}
    assert alone.request("POST", "/v1/embeddings", json=asked).status_code == 200
