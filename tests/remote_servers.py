"""Places that documents can be mirrored from, on loopback: buckets, SFTP, a web server, git."""

import contextlib
import hashlib
import os
import posixpath
import shutil
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import paramiko
import pytest

from tests.processes import LoopbackServer, free_port, until

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
USER, PASSWORD = "reader", "correct horse"


class WebServer(LoopbackServer):
    """Serves files from memory, well or badly, as a test tells it to.

    Attributes:
        files: URL path → bytes.
        times: URL path → seconds since 1970 that the server states.
        redirect: URL path → where it is sent to.
        status: URL path → status instead of an answer.
        cut: URL path → bytes after which the answer breaks off.
        changing: URL paths whose etag is another one each time.
        seen: (method, path) of every request.
        login: User and password that it wants; None: nobody is asked.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        super().__init__(_Handler)
        self.files = dict(files or {})
        self.times: dict[str, float] = {}
        self.redirect: dict[str, str] = {}
        self.status: dict[str, int] = {}
        self.cut: dict[str, int] = {}
        self.changing: set[str] = set()
        self.seen: list[tuple[str, str]] = []
        self.login: str | None = None

    def put(
        self, files: Mapping[str, bytes], folder: str = "/docs", listing: str = "SHA256SUMS"
    ) -> str:
        """Serve files below a folder with a listing of them; return the listing's address."""
        self.files = {f"{folder}/{path}": data for path, data in files.items()}
        rows = (f"{hashlib.sha256(d).hexdigest()}  {path}\n" for path, d in sorted(files.items()))
        links = (f"- [{path}]({quote(path)})\n" for path in sorted(files))
        text = "".join(rows if listing == "SHA256SUMS" else ["# Docs\n\n", *links])
        self.files[f"{folder}/{listing}"] = text.encode()
        return f"{self.url}{folder}/{listing}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    def log_message(self, *words: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        server, path = self.server, unquote(urlsplit(self.path).path)
        server.seen.append((self.command, path))
        self.close_connection = True
        if server.login and self.headers.get("authorization") != server.login:
            self._empty(401)
        elif path in server.status:
            self._empty(server.status[path])
        elif path in server.redirect:
            self._empty(302, location=server.redirect[path])
        elif path not in server.files:
            self._empty(404)
        else:
            self._file(path, server.files[path], body)

    def _file(self, path: str, data: bytes, body: bool) -> None:
        server = self.server
        etag = hashlib.sha256(data).hexdigest()[:16]
        if path in server.changing:
            etag += str(len(server.seen))
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.send_header("etag", f'"{etag}"')
        if path in server.times:
            self.send_header("last-modified", formatdate(server.times[path], usegmt=True))
        self.end_headers()
        if body:
            self.wfile.write(data[: server.cut.get(path, len(data))])

    def _empty(self, status: int, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.send_header("connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Yield the address of an S3 server; it forgets everything at the end."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


AZURE_KEY = "QSBrZXkgdGhhdCBvbmx5IHRoZSB0ZXN0cyBvZiBhbiBlbXVsYXRvciB1c2U="


@contextlib.contextmanager
def azure_server(folder: Path) -> Iterator[str]:
    """Yield what leads to an Azure store, Azurite of npm; it forgets everything at the end."""
    if not (npm := shutil.which("npm")):
        pytest.skip("npm is not here")
    words = ("install", "--no-fund", "--no-audit", "--ignore-scripts", "azurite")
    done = subprocess.run([npm, *words], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot install azurite: {done.stderr[-200:]}")
    port = free_port()
    options = ("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent")
    azurite = str(folder / "node_modules" / ".bin" / "azurite-blob")
    program = [azurite, *options, "--blobPort", str(port)]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"tester:{AZURE_KEY}"}
    server = subprocess.Popen(program, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    try:
        assert until(lambda: _listens(port), 60)
        yield (
            f"DefaultEndpointsProtocol=http;AccountName=tester;AccountKey={AZURE_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{port}/tester;"
        )
    finally:
        server.terminate()
        server.wait(240)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@contextlib.contextmanager
def google_server() -> Iterator[str]:
    """Yield the address of a store that speaks Google's protocol; it forgets all at the end."""
    from gcp_storage_emulator.server import create_server

    port = free_port()
    server = create_server("127.0.0.1", port, in_memory=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


class SftpServer:
    """An SSH server that shows a folder of this machine, read-only, over SFTP.

    Attributes:
        root: The folder.
        host_key: Its key.
        refused: Paths that nobody may read.
        reads: Calls of ``read`` so far; after ``most_reads`` the connection is cut.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.host_key = Path(root), paramiko.ECDSAKey.generate()
        self.refused: set[str] = set()
        self.reads = 0
        self.most_reads: int | None = None
        self.password = PASSWORD
        self.opened: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"sftp://{USER}@127.0.0.1:{self.port}"

    def known_hosts(self) -> str:
        """Return the line that makes a client know this server."""
        name, key = self.host_key.get_name(), self.host_key.get_base64()
        return f"[127.0.0.1]:{self.port} {name} {key}\n"

    def close(self) -> None:
        self._socket.close()
        self.cut()

    def cut(self) -> None:
        for transport in self._transports:
            transport.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                transport = paramiko.Transport(client)
                transport.add_server_key(self.host_key)
                transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Files, self)
                self._transports.append(transport)
                with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                    transport.start_server(server=_Door(self))


class _Door(paramiko.ServerInterface):
    def __init__(self, server: SftpServer) -> None:
        self.server = server

    def check_auth_password(self, username: str, password: str) -> int:
        right = username == USER and password == self.server.password
        return int(paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED)

    def get_allowed_auths(self, username: str) -> str:
        return "password"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)


class _Files(paramiko.SFTPServerInterface):
    def __init__(self, server: _Door, files: SftpServer, *args: Any, **kwargs: Any) -> None:
        super().__init__(server, *args, **kwargs)
        self.shown = files

    def _path(self, path: str) -> Path:
        return self.shown.root / posixpath.normpath(f"/{path}").lstrip("/")

    def list_folder(self, path: str) -> list[paramiko.SFTPAttributes] | int:
        if path in self.shown.refused:
            return int(paramiko.SFTP_PERMISSION_DENIED)
        folder, rows = self._path(path), []
        if not folder.is_dir():
            return int(paramiko.SFTP_NO_SUCH_FILE)
        for name in sorted(os.listdir(folder)):
            row = paramiko.SFTPAttributes.from_stat(os.lstat(folder / name))
            row.filename = name
            rows.append(row)
        return rows

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(self._path(path)))
        except OSError:
            return int(paramiko.SFTP_NO_SUCH_FILE)

    lstat = stat

    def open(
        self, path: str, flags: int, attr: paramiko.SFTPAttributes
    ) -> paramiko.SFTPHandle | int:
        if path in self.shown.refused:
            return int(paramiko.SFTP_PERMISSION_DENIED)
        if flags & (os.O_WRONLY | os.O_RDWR):
            return int(paramiko.SFTP_PERMISSION_DENIED)
        try:
            handle = _Handle(flags)
            handle.readfile = open(self._path(path), "rb")  # noqa: SIM115
        except OSError:
            return int(paramiko.SFTP_NO_SUCH_FILE)
        handle.shown, handle.path = self.shown, self._path(path)
        self.shown.opened.append(path)
        return handle


class _Handle(paramiko.SFTPHandle):
    def stat(self) -> paramiko.SFTPAttributes:
        return paramiko.SFTPAttributes.from_stat(os.stat(self.path))

    def read(self, offset: int, length: int) -> bytes | int:
        self.shown.reads += 1
        if self.shown.most_reads is not None and self.shown.reads > self.shown.most_reads:
            self.shown.cut()
            return int(paramiko.SFTP_FAILURE)
        data: bytes | int = super().read(offset, length)
        return data


class Repository:
    """A bare git repository, and the work tree that commits are made in."""

    def __init__(self, folder: Path) -> None:
        self.work, self.bare = folder / "work", folder / "docs.git"
        self.work.mkdir(parents=True)
        self.git("init", "--quiet")
        subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(self.bare)],
                       check=True, capture_output=True)  # fmt: skip

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *IDENTITY, *words], cwd=self.work, check=True,
                              capture_output=True, text=True)  # fmt: skip
        return done.stdout.strip()

    def commit(self, message: str = "change") -> None:
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        self.git("push", "--quiet", "--force", str(self.bare), "HEAD:refs/heads/main")


def write_tree(root: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder hold these files and no others, each with a time of its own."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_symlink() or not path.is_dir():
            if path.relative_to(root).as_posix() not in files:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
    for number, (name, data) in enumerate(sorted(files.items())):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
            when = 1_700_000_000 + number + sum(data) + 7 * len(data)
            os.utime(path, (when, when))


def tree_of(root: Path) -> dict[str, bytes]:
    """Return the regular files below a folder, path → bytes; nothing else may be there."""
    found = {}
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), path
        if stat.S_ISREG(mode):
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found
