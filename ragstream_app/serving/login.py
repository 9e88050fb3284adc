"""A login before a page that other machines may reach: nothing behind it runs for a stranger."""

from __future__ import annotations

import asyncio
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ragstream_assets.serving.guard import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ragstream_app.serving.passwords import Password

COOKIE = "ragstream_login"
LASTS_S = 12 * 3600.0
PAUSE_S = 1.0
"""After a wrong password nobody else may try for so long, whoever asks."""
MOST_BYTES = 4_096
HEALTH = "/_stcore/health"
"""Says "ok" and nothing else; `ragstream up` asks it."""
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
        if self._trying.locked():
            await _answer(send, 429, FORM.format(note="Somebody else is trying; wait a moment."))
            return
        async with self._trying:
            given = await _field(receive)
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
    found = []
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                jar = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            found += [jar[COOKIE].value] if COOKIE in jar else []
    return found


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
