"""The endpoint backend against a real server on loopback: its protocol, its faults, its key."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from ragstream_core.errors import EmbeddingFailed, UnknownSetting
from ragstream_core.models.embedders import registry
from ragstream_core.models.embedders.openai_compatible import BATCH, EndpointEmbedder
from ragstream_core.platform.endpoint import endpoint_at
from ragstream_core.platform.http import EndpointClient

KEY = "sk-canary-0123456789"
DIMENSION = 8


class Server(ThreadingHTTPServer):
    """Answers vectors made from the texts; ``faults`` are taken one a request before that."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults = []
        self.seen = []
        self.open_now = self.open_most = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        pass  # a client that went away is part of the test


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.path, headers, body))
        fault = self.server.faults.pop(0) if self.server.faults else None
        vectors = [vector_of(text) for text in body["input"]]
        rows = [{"index": i, "embedding": v} for i, v in enumerate(vectors)]
        if fault is not None:
            fault(self, rows)
        else:  # the order is told by the index, not by the place
            self.answer(200, {"data": rows[::-1]})

    def answer(self, status, value, **headers):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def vector_of(text):
    data = hashlib.sha256(text.encode()).digest()
    return [x / 2**31 for x in struct.unpack("<8i", data)]


def status(code, **headers):
    return lambda handler, _: handler.answer(code, {"error": {"message": KEY}}, **headers)


def half(handler, rows):
    data = json.dumps({"data": rows}).encode()
    handler.send_response(200)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def drip(handler, rows):
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def silent(handler, rows):
    time.sleep(3)


def no_json(handler, rows):
    handler.answer(200, b"<html>busy</html>")


def too_few(handler, rows):
    handler.answer(200, {"data": rows[:-1] + rows[-1:] * 2})


def not_finite(handler, rows):
    rows[0]["embedding"][3] = float("nan")
    handler.answer(200, {"data": rows})


def other_dimension(handler, rows):
    handler.answer(200, {"data": [{**row, "embedding": [1.0, 2.0]} for row in rows]})


@pytest.fixture
def server():
    with Server() as made:
        threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def waits():
    return []


@pytest.fixture
def make(server, tmp_path, waits):
    """Makes an embedder whose waiting takes no time and is written down."""

    def made(*, timeout_s=2.0, budget_s=60.0, key=KEY, key_url=None, model="toy", probe=True):
        endpoint = endpoint_at(
            server.url,
            key=key,
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
    known = registry.embed_fingerprint("openai", "toy", models_dir=tmp_path, endpoint=endpoint)
    assert known == first.fingerprint


@pytest.mark.parametrize(
    "fault",
    [status(408), status(409), status(429, retry_after="7"), status(500), status(503), half,
     no_json],
    ids=["408", "409", "429", "500", "503", "half an answer", "no json"],
)  # fmt: skip
def test_what_can_pass_is_repeated(make, server, waits, fault):
    embedder = make()
    server.faults = [fault, fault]
    assert embedder.embed_documents(["x"]).shape == (1, DIMENSION)
    assert len(server.seen) == 3
    assert len(waits) == 2
    assert waits[1] > waits[0] or waits == [7.0, 7.0]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (status(400), "status 400"),
        (status(401), "status 401"),
        (status(404), "status 404"),
        (status(302, location="http://127.0.0.1:1/v1/embeddings"), "status 302"),
        (too_few, "vectors for"),
        (not_finite, "not finite"),
        (other_dimension, "2 numbers instead of 8"),
    ],
    ids=["400", "401", "404", "redirect", "a wrong count", "not finite", "another dimension"],
)
def test_what_cannot_pass_is_not_repeated(make, server, waits, fault, said):
    embedder = make()
    server.faults = [fault] * 9
    with pytest.raises(EmbeddingFailed, match=said) as caught:
        embedder.embed_documents(["x", "y"])
    assert len(server.seen) == 1
    assert waits == []
    assert KEY not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("fault", [silent, drip], ids=["no answer", "a slow drip"])
def test_a_request_has_an_end(make, server, fault):
    embedder = make(timeout_s=0.3, budget_s=0.9)
    server.faults = [fault] * 9
    began = time.monotonic()
    with pytest.raises(EmbeddingFailed, match=r"no (whole )?answer"):
        embedder.embed_documents(["x"])
    assert time.monotonic() - began < 30
    assert 1 <= len(server.seen) <= 5


def test_attempts_are_counted_and_then_the_endpoint_is_left_alone(make, server, waits):
    embedder = make(budget_s=600.0)
    server.faults = [status(500)] * 5
    with pytest.raises(EmbeddingFailed, match=r"status 500 \(5 attempts\)") as caught:
        embedder.embed_documents(["x"])
    assert KEY not in str(caught.value)
    assert len(server.seen) == 5
    with pytest.raises(EmbeddingFailed, match="not contacted"):
        embedder.embed_documents(["x"])
    assert len(server.seen) == 5
    embedder._client._sleep(61)
    assert embedder.embed_documents(["x"]).shape == (1, DIMENSION)


def test_a_wait_longer_than_the_budget_is_not_begun(make, server, waits):
    embedder = make(budget_s=60.0)
    server.faults = [status(429, retry_after="3600")] * 9
    with pytest.raises(EmbeddingFailed, match="status 429"):
        embedder.embed_documents(["x"])
    assert waits == []


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
        registry.create_embeddings("openai", models_dir=tmp_path)
