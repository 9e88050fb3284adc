"""A language model's server on loopback that answers what a test tells it to, one by one."""

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ragstream_core.records.chat import ChatMessage

KEY = "sk-canary-0123456789"
ASKED = [ChatMessage("system", "Be brief."), ChatMessage("user", "What is the capital?")]
LIMIT_S = 60.0
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


def streamed(*texts):
    """Answer texts as an event each, with the counted tokens at the end."""
    return events(*map(event, texts), STOP, COUNTED, DONE)


def held(first, gate, rest=""):
    """Answer the first words, then wait for the gate."""

    def answer(handler):
        handler.head(content_type="text/event-stream", connection="close")
        if first:
            handler.wfile.write(event(first))
            handler.wfile.flush()
        gate.wait(LIMIT_S)
        for block in (event(rest), STOP, COUNTED, DONE):
            handler.wfile.write(block)

    return answer


def model_names(*names):
    """Answer which models there are."""
    return raw({"data": [{"id": name} for name in names]})


@contextlib.contextmanager
def serving(*answers):
    """A server that runs in a thread of this process."""
    with Server() as made:
        made.answers = list(answers)
        threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        made.shutdown()
