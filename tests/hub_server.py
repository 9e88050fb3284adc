"""A hub on loopback that speaks Hugging Face's protocol, well or badly, as a test tells it to."""

import hashlib
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

from tests.processes import LoopbackServer

COMMIT = "c0ffee" + "0" * 34


class HubServer(LoopbackServer):
    """A hub with one model.

    Attributes:
        files: Name → bytes that are served.
        listed: Name → row that is listed instead of the true one.
        extra: Rows that are listed beside the files.
        redirect: Where a large file is redirected to; ``{path}`` is its place in this server's
            store. Empty: nowhere.
        cut_after: Bytes after which each answer of a large file breaks off, first answer first.
        ranges: Whether a range is answered with 206.
        content_type: Of the files.
        seen: (path, range) of every request.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(_Handler)
        self.files = files
        self.listed: dict[str, dict] = {}
        self.extra: list[dict] = []
        self.redirect = "{url}/store/{path}"
        self.cut_after: list[int] = []
        self.ranges = True
        self.content_type = "application/octet-stream"
        self.status = 0
        self.answer: Callable[[str], bytes] | None = None
        self.seen: list[tuple[str, str]] = []

    def row(self, name: str) -> dict:
        data = self.files[name]
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        row = {"rfilename": name, "size": len(data), "blobId": blob}
        if name.endswith((".safetensors", ".onnx", ".bin")):
            sha256 = hashlib.sha256(data).hexdigest()
            row["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 134}
        return self.listed.get(name, row)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.server.seen.append((path, self.headers.get("range", "")))
        self.close_connection = True
        if self.server.status:
            return self._send(b"no", self.server.status)
        if path.startswith("/api/models/"):
            return self._list()
        if path.startswith("/store/"):
            return self._file(path.removeprefix("/store/"))
        name = path.partition(f"/resolve/{COMMIT}/")[2]
        if name not in self.server.files:
            return self._send(b"Entry not found", 404)
        if name.endswith((".safetensors", ".onnx")) and self.server.redirect:
            to = self.server.redirect.format(url=self.server.url, path=name)
            return self._send(b"", 302, location=to)
        return self._file(name)

    def _list(self):
        server = self.server
        if server.answer:
            return self._send(server.answer(self.path))
        rows = [*map(server.row, server.files), *server.extra]
        card = {"license": "apache-2.0"}
        data = {"id": "acme/tiny", "sha": COMMIT, "siblings": rows, "cardData": card}
        return self._send(json.dumps(data).encode(), content_type="application/json")

    def _file(self, name):
        data, start = self.server.files[name], 0
        asked = self.headers.get("range", "")
        if asked and self.server.ranges:
            start = int(asked.removeprefix("bytes=").partition("-")[0])
        part, extra = data[start:], {"content_type": self.server.content_type}
        if start:
            extra["content_range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cuts = self.server.cut_after
        cut = cuts.pop(0) if cuts and name.endswith((".safetensors", ".onnx")) else len(part)
        self._send(part[:cut], 206 if start else 200, length=len(part), **extra)

    def _send(self, data, status=200, *, length=None, **headers):
        self.send_response(status)
        self.send_header("content-length", str(len(data) if length is None else length))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass
