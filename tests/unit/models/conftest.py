"""An endpoint on loopback that answers what a test tells it to, request by request."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ragstream_core.models.chat.endpoint_chat import ChatOptions, EndpointChat, final_kinds
from ragstream_core.models.chat.prices import Prices
from ragstream_core.platform.endpoint import endpoint_at
from ragstream_core.platform.http import EndpointClient
from ragstream_core.records.chat import ChatMessage

KEY = "sk-canary-0123456789"
ASKED = [ChatMessage("system", "Be brief."), ChatMessage("user", "What is the capital?")]
USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}}


class Server(ThreadingHTTPServer):
    """``answers`` are taken one a request; the last one stays."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = []
        self.seen = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        pass  # a client that went away is part of the test


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.act(body)

    def do_GET(self):
        self.act(None)

    def act(self, body):
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.path, headers, body))
        answers = self.server.answers
        self.close_connection = True
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def head(self, status=200, **headers):
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()

    def whole(self, data, status=200, **headers):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.head(status, content_length=str(len(data)), **headers)
        self.wfile.write(data)

    def cut(self):
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_):
        pass


def status(code, **headers):
    """Answer a status whose body repeats the key, as careless servers do."""
    return lambda handler: handler.whole({"error": {"message": KEY}}, code, **headers)


def said(text, *, finish="stop", usage=USAGE, **message):
    choice = {"message": {"content": text, **message}, "finish_reason": finish}
    return raw({"model": "toy-1", "choices": [choice], "usage": usage})


def raw(data, **headers):
    return lambda handler: handler.whole(data, **headers)


def event(text="", **choice):
    data = {"model": "toy-1", "choices": [{"delta": {"content": text}, **choice}]}
    return f"data: {json.dumps(data)}\n\n".encode()


STOP = event(finish_reason="stop")
COUNTED = f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\n".encode()
DONE = b"data: [DONE]\n\n"


def events(*blocks, cut=False, pause_s=0.0):
    """Send blocks of an event stream; a connection that ends is its end."""

    def answer(handler):
        handler.head(content_type="text/event-stream", connection="close",
                     **({"content_length": "100000000"} if cut else {}))  # fmt: skip
        for block in blocks:
            handler.wfile.write(block)
            handler.wfile.flush()
            time.sleep(pause_s)
        if cut:
            handler.cut()

    return answer


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
def chat(server, waits):
    """Makes a model whose waiting takes no time and is written down."""

    def made(*, url="", key=KEY, key_url="", timeout_s=5.0, budget_s=60.0, **options):
        url = url or server.url
        endpoint = endpoint_at(
            url, key=key, key_url=key_url or url, timeout_s=timeout_s, budget_s=budget_s
        )
        clock = [0.0]

        def sleep(seconds):
            waits.append(seconds)
            clock[0] += seconds

        client = EndpointClient(
            endpoint,
            final=final_kinds(endpoint),
            now=lambda: time.monotonic() + clock[0],
            sleep=sleep,
        )
        given = ChatOptions(**{"model": "toy", "prices": Prices(endpoint), **options},
                            endpoint=endpoint)  # fmt: skip
        return EndpointChat(given, client)

    return made
