"""The endpoint backend against a real server on loopback: its protocol, its faults, its key."""

import hashlib
import json
import socket
import struct
import time

import numpy as np
import pytest

from ragstream_core.errors import EmbeddingFailed, UnknownSetting
from ragstream_core.models.embedders import registry
from ragstream_core.models.embedders.openai_compatible import BATCH, EndpointEmbedder
from ragstream_core.platform.endpoint_address import endpoint_at
from ragstream_core.platform.http import EndpointClient
from tests.model_server import KEY, status

DIMENSION = 8


def vector_of(text):
    data = hashlib.sha256(text.encode()).digest()
    return [x / 2**31 for x in struct.unpack("<8i", data)]


def rows_of(handler):
    texts = handler.server.seen[-1][2]["input"]
    return [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(texts)]


def vectors(handler):
    """Answer vectors made from the texts; their order is told by the index, not by the place."""
    handler.whole({"data": rows_of(handler)[::-1]})


def drip(handler):
    handler.head(content_length="1000")
    for _ in range(60):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def no_json(handler):
    handler.whole(b"<html>busy</html>")


def too_few(handler):
    rows = rows_of(handler)
    handler.whole({"data": rows[:-1] + rows[-1:] * 2})


def not_finite(handler):
    rows = rows_of(handler)
    rows[0]["embedding"][3] = float("nan")
    handler.whole({"data": rows})


def other_dimension(handler):
    handler.whole({"data": [{**row, "embedding": [1.0, 2.0]} for row in rows_of(handler)]})


@pytest.fixture
def make(server, tmp_path, waits):
    """Makes an embedder whose waiting takes no time and is written down."""

    def made(*, timeout_s=60.0, budget_s=60.0, key_url=None, model="toy"):
        server.answers = [vectors]
        endpoint = endpoint_at(
            server.url,
            key=KEY,
            key_url=key_url or server.url,
            timeout_s=timeout_s,
            budget_s=budget_s,
        )
        clock = [0.0]

        def sleep(seconds):
            waits.append(seconds)
            clock[0] += seconds

        client = EndpointClient(endpoint, now=lambda: time.monotonic() + clock[0], sleep=sleep)
        embedder = EndpointEmbedder(tmp_path, model=model, endpoint=endpoint, client=client)
        server.seen.clear()
        return embedder

    return made


def test_vectors_are_unit_rows_in_the_order_of_the_texts(make, server):
    embedder = make()
    texts = [f"text {i}" for i in range(BATCH + 5)]
    rows = embedder.embed_documents(texts)
    wanted = np.array([vector_of(text) for text in texts])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert rows.shape == (len(texts), DIMENSION)
    assert np.allclose(rows, wanted, atol=1e-6)
    assert [len(body["input"]) for _, _, body in server.seen] == [BATCH, 5]
    assert embedder.embed_documents([]).shape == (0, DIMENSION)


@pytest.mark.parametrize("open_after", [True, False])
def test_a_connection_is_used_again_as_long_as_the_server_keeps_it(
    make, server, waits, monkeypatch, open_after
):
    """A server that closes it without a word, as this one does, costs a new one and no wait."""
    opened = []
    embedder = make()
    monkeypatch.setattr(server, "verify_request", lambda *_: not opened.append(1))

    def answer(handler):
        vectors(handler)
        handler.close_connection = not open_after

    server.answers = [answer]
    first = embedder.embed_documents(["a"])
    opened.clear()
    rows = embedder.embed_documents([f"text {i}" for i in range(5 * BATCH)])
    assert len(rows) == 5 * BATCH and np.array_equal(embedder.embed_documents(["a"]), first)
    assert len(opened) == (0 if open_after else 6) and len(server.seen) == 7 and waits == []


def test_a_long_text_is_sent_in_windows_and_nothing_is_cut(make, server):
    embedder = make()
    text = "window " * 600
    row = embedder.embed_documents(["short", text, "漢字" * 300])[1]
    sent = [t for _, _, body in server.seen for t in body["input"]]
    assert all(embedder.count(t) <= embedder.window for t in sent)
    assert sum(t.count("window") for t in sent) == 600
    assert sum(t.count("漢") for t in sent) == 300
    assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-6)


def test_the_prefixes_of_a_model_family_are_sent(make, server):
    embedder = make(model="intfloat/e5-small-v2")
    embedder.embed_queries(["a"])
    embedder.embed_documents(["b"])
    assert [body["input"] for _, _, body in server.seen] == [["query: a"], ["passage: b"]]
    assert server.seen[0][2]["model"] == "intfloat/e5-small-v2"


def test_the_dimension_is_asked_for_once(make, server, tmp_path):
    first = make()
    again = make()
    assert again.dimension == first.dimension == DIMENSION
    assert again.fingerprint == first.fingerprint
    assert make(model="other").fingerprint != first.fingerprint
    server.shutdown()
    endpoint = endpoint_at(server.url)
    known = registry.embed_fingerprint(
        "openai", registry.EmbeddingOptions(model="toy", models_dir=tmp_path, endpoint=endpoint)
    )
    assert known == first.fingerprint


@pytest.mark.parametrize("fault", [status(429, retry_after="7"), no_json], ids=["429", "no json"])
def test_what_can_pass_is_repeated(make, server, waits, fault):
    """What else can pass is tested with the language model: both share one client."""
    embedder = make()
    server.answers = [fault, fault, vectors]
    assert embedder.embed_documents(["x"]).shape == (1, DIMENSION)
    assert len(server.seen) == 3
    assert len(waits) == 2
    assert waits[1] > waits[0] or waits == [7.0, 7.0]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (status(401), "status 401"),
        (too_few, "vectors for"),
        (not_finite, "not finite"),
        (other_dimension, "2 numbers instead of 8"),
    ],
    ids=["401", "a wrong count", "not finite", "another dimension"],
)
def test_what_cannot_pass_is_not_repeated(make, server, waits, fault, said):
    embedder = make()
    server.answers = [fault]
    with pytest.raises(EmbeddingFailed, match=said) as caught:
        embedder.embed_documents(["x", "y"])
    assert len(server.seen) == 1
    assert waits == []
    assert KEY not in str(caught.value) + repr(caught.value)


def test_a_request_has_an_end(make, server):
    embedder = make(timeout_s=0.3, budget_s=0.9)
    server.answers = [drip]
    began = time.monotonic()
    with pytest.raises(EmbeddingFailed, match=r"no (whole )?answer"):
        embedder.embed_documents(["x"])
    assert time.monotonic() - began < 30
    assert 1 <= len(server.seen) <= 5


def test_attempts_are_counted_and_then_the_endpoint_is_left_alone(make, server, waits):
    embedder = make(budget_s=600.0)
    server.answers = [*[status(500)] * 5, vectors]
    with pytest.raises(EmbeddingFailed, match=r"status 500 \(5 attempts\)") as caught:
        embedder.embed_documents(["x"])
    assert KEY not in str(caught.value)
    assert len(server.seen) == 5
    with pytest.raises(EmbeddingFailed, match="not contacted"):
        embedder.embed_documents(["x"])
    assert len(server.seen) == 5
    embedder._client._sleep(61)
    assert embedder.embed_documents(["x"]).shape == (1, DIMENSION)


def test_nobody_listens(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = endpoint_at(f"http://127.0.0.1:{port}/v1", key=KEY, key_url="https://a.example")
    client = EndpointClient(endpoint, sleep=lambda _: None)
    with pytest.raises(EmbeddingFailed, match=f"127.0.0.1:{port}: no answer") as caught:
        EndpointEmbedder(tmp_path, model="toy", endpoint=endpoint, client=client)
    assert caught.value.hint


def test_the_key_goes_to_its_host_only(make, server):
    make().embed_queries(["x"])
    assert server.seen[0][1]["authorization"] == f"Bearer {KEY}"
    foreign = make(key_url="https://api.example.org/v1")
    foreign.embed_queries(["x"])
    assert KEY not in json.dumps(server.seen[0][1])
    assert KEY not in repr(endpoint_at(server.url, key=KEY, key_url=server.url))


def test_the_backend_needs_an_endpoint(tmp_path):
    with pytest.raises(UnknownSetting, match="endpoint"):
        registry.create_embeddings("openai", registry.EmbeddingOptions(models_dir=tmp_path))
