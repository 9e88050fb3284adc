"""Who may reach the page: where it listens, the password, and the login before it.

Only a slow hash of the password is kept, and nothing behind the login runs for a stranger.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ragstream_app.server.guard import own_hosts, refuse
from ragstream_app.server.processes import HOST
from ragstream_core.config import AppConfig
from ragstream_core.errors import Refused, UnknownSetting, quoted
from ragstream_core.platform.files import replace_text

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


FILE_NAME = "page-password"
SHORTEST = 12

# scrypt: 16 MB and some 50 ms a guess.
COST, BLOCK, LANES = 2**14, 8, 1
SALT_BYTES = 16


@dataclass(frozen=True)
class Password:
    """A password that can be compared, not read.

    Attributes:
        salt: Random, of this password alone.
        digest: scrypt of the password and the salt, 64 bytes.
    """

    salt: bytes
    digest: bytes

    def matches(self, given: str) -> bool:
        """Whether this is the password; takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(_scrypt(given, self.salt), self.digest)


def make_password(text: str) -> Password:
    """Return what is kept of a password.

    Raises:
        Refused: It is shorter than `SHORTEST` characters.
    """
    if len(text) < SHORTEST:
        raise Refused(
            f"the password is too short: {len(text)} characters",
            hint=f"at least {SHORTEST}; several words are easy to keep in mind",
        )
    salt = secrets.token_bytes(SALT_BYTES)
    return Password(salt, _scrypt(text, salt))


def password_file(config: AppConfig) -> Path:
    """Return where the hash lies: in the data root, whether it is there or not."""
    return config.data_dir / FILE_NAME


def write_password(path: Path, password: Password) -> None:
    """Keep a password's hash in a file of its owner alone.

    Raises:
        OSError: The data root cannot be written.
    """
    replace_text(path, f"scrypt {password.salt.hex()} {password.digest.hex()}\n")
    path.chmod(0o600)


def read_password(path: Path) -> Password:
    """Return the password of a file.

    Raises:
        Refused: There is none, others can read it, or it is damaged.
    """
    if not path.is_file():
        raise Refused("the page has no password", hint="ragstream password")
    if path.stat().st_mode & 0o077:
        raise Refused(
            f"others can read {path}", hint=f"{quoted('chmod', 600, path)}; ragstream password"
        )
    try:
        kind, salt, digest = path.read_text(encoding="ascii").split()
        if kind == "scrypt":
            return Password(bytes.fromhex(salt), bytes.fromhex(digest))
    except ValueError:
        pass
    raise Refused(f"{path} has been altered", hint="ragstream password")


def _scrypt(text: str, salt: bytes) -> bytes:
    return hashlib.scrypt(text.encode(), salt=salt, n=COST, r=BLOCK, p=LANES)


COOKIE = "ragstream_login"
LASTS_S = 12 * 3600.0

# After a wrong password no other is tried for so long, from any visitor.
PAUSE_S = 1.0
MOST_BYTES = 4_096

# Says "ok" and nothing else; `ragstream up` asks it.
HEALTH = "/_stcore/health"
FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><title>RAGstream</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<body style="font:1rem system-ui;display:grid;place-content:center;height:90vh">
<form method="post" action="/login"><h1>RAGstream</h1><p>{note}</p>
<label>Password <input type="password" name="password" autofocus required></label>
<button>Log in</button></form></body></html>
"""


class Login:
    """An ASGI application that shows a form until a visitor knows the password.

    A visitor is known by a random cookie for `LASTS_S` seconds, or until this process ends. Guards
    against foreign pages stand before it.
    """

    def __init__(self, app: ASGIApp, password: Password) -> None:
        """Stand before an application.

        Args:
            app: The application behind the login.
            password: What a visitor must know.
        """
        self._app = app
        self._password = password
        self._known: dict[str, float] = {}
        self._trying = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request of a known visitor on; answer others with the form."""
        kind = scope["type"]
        if kind not in ("http", "websocket") or scope["path"] == HEALTH or self._knows(scope):
            await self._app(scope, receive, send)
        elif kind == "http" and scope["method"] == "POST" and scope["path"] == "/login":
            await self._try(receive, send)
        elif kind == "http" and scope["method"] in ("GET", "HEAD"):
            await _answer(send, 401, FORM.format(note="Log in to go on."))
        else:
            await refuse(scope, receive, send, "Log in first.\n", 401)

    def _knows(self, scope: Scope) -> bool:
        now = time.monotonic()
        self._known = {token: until for token, until in self._known.items() if until > now}
        return any(token in self._known for token in _tokens(scope))

    async def _try(self, receive: Receive, send: Send) -> None:
        given = await _field(receive)  # before the lock: who sends half a form keeps nobody waiting
        if self._trying.locked():
            await _answer(send, 429, FORM.format(note="Somebody else is trying; wait a moment."))
            return
        async with self._trying:
            if await asyncio.to_thread(self._password.matches, given):
                await _answer(send, 303, "", [(b"location", b"/"), self._new_cookie()])
                return
            await asyncio.sleep(PAUSE_S)
        await _answer(send, 401, FORM.format(note="That is not the password."))

    def _new_cookie(self) -> tuple[bytes, bytes]:
        token = secrets.token_urlsafe(32)
        self._known[token] = time.monotonic() + LASTS_S
        flags = f"Path=/; Max-Age={LASTS_S:.0f}; HttpOnly; SameSite=Strict"
        return b"set-cookie", f"{COOKIE}={token}; {flags}".encode()


def _tokens(scope: Scope) -> list[str]:
    """Return the values of our cookie; those of other servers of this host may have any form."""
    cookies = b";".join(value for name, value in scope["headers"] if name == b"cookie")
    pairs = [pair.strip().partition("=") for pair in cookies.decode("latin-1").split(";")]
    return [value.strip('"') for name, _, value in pairs if name == COOKIE]


async def _field(receive: Receive) -> str:
    """Return the password of a form, empty where there is none or too much."""
    body, more = b"", True
    while more and len(body) <= MOST_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
    if len(body) > MOST_BYTES:
        return ""
    return parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]


async def _answer(
    send: Send, status: int, page: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    given = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store")]
    await send(
        {"type": "http.response.start", "status": status, "headers": [*given, *(headers or [])]}
    )
    await send({"type": "http.response.body", "body": page.encode()})


SETTINGS = "page.allow_remote: true, and a password by `ragstream password`"


@dataclass(frozen=True)
class PageAccess:
    """How the page is reached.

    Attributes:
        address: What it listens on.
        port: Its port.
        hosts: The values of a Host header that are accepted, lower case.
        password: What a visitor must know; None where only this machine can reach the page.
    """

    address: str
    port: int
    hosts: frozenset[str]
    password: Password | None

    @property
    def url(self) -> str:
        """Where this machine reaches it."""
        address = HOST if _address(self.address).is_unspecified else self.address
        return f"http://{address}:{self.port}"


def page_access(config: AppConfig) -> PageAccess:
    """Return the door of these settings.

    Raises:
        Refused: It would be open to the network without the setting, a password or a name.
        UnknownSetting: The address is none.
    """
    page = config.settings.page
    address = _address(page.address)
    if address.is_loopback and not page.hosts:
        return PageAccess(page.address, page.port, _hosts(config), None)
    if not page.allow_remote:
        what = f"page.address {page.address}" if not address.is_loopback else "page.hosts"
        raise Refused(f"{what} would open the page to others", hint=SETTINGS)
    if address.is_unspecified and not page.hosts:
        raise Refused(
            f"page.address {page.address} is every address of this machine",
            hint="name what people type in the browser: "
            f"page.hosts: [name-of-this-machine:{page.port}]",
        )
    return PageAccess(page.address, page.port, _hosts(config), read_password(password_file(config)))


def _hosts(config: AppConfig) -> frozenset[str]:
    page = config.settings.page
    return own_hosts(page.port, [f"{page.address}:{page.port}", *map(str.lower, page.hosts)])


def _address(text: str) -> ipaddress.IPv4Address:
    """Read an address.

    Raises:
        UnknownSetting: It is none; names are not taken, since what they mean can change.
    """
    try:
        return ipaddress.IPv4Address(HOST if text == "localhost" else text)
    except ValueError:
        raise UnknownSetting(
            f"page.address = {text!r} is not an IPv4 address",
            hint="127.0.0.1, or one of this machine",
        ) from None
