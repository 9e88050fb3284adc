"""A guard before a web server of ours: only its own pages and this machine's programs reach it.

A browser sends requests to 127.0.0.1 for any web page that asks, and neither Dagster's web server
nor Streamlit has a login here. The guard is pure ASGI and knows nothing of the server behind it.
"""

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

READING = ("GET", "HEAD")

# No other site may show our pages in a frame and have their buttons clicked there.
FRAME = (b"x-frame-options", b"SAMEORIGIN")
PLAIN = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]
POLICY_VIOLATION = 1008

# What the servers offer beside our pages: a notebook of this machine as a page with its scripts, to
# whoever has a link followed; who uses the page, and since when; the page for programs.
UNUSED = ("/notebook/", "/dagit/notebook/", "/_stcore/metrics/", "/_stcore/agent/")


def own_hosts(port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the values of a Host header that name a server of this machine.

    Args:
        port: The port it listens on.
        more: Further values, lower case, with their port where that is not the usual one.
    """
    return frozenset({f"127.0.0.1:{port}", f"localhost:{port}", *more})


@dataclass(frozen=True)
class Guard:
    """An ASGI application that answers 403 for another, unless a request is its own.

    Attributes:
        app: The application behind it.
        hosts: The values of a Host header that are accepted.
    """

    app: "ASGIApp"
    hosts: frozenset[str]

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Hand a request on, or refuse it; one refused never reaches the application."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif reason := refusal(scope, self.hosts):
            await refuse(scope, receive, send, f"Refused: {reason}.\n")
        else:
            await self.app(scope, receive, unframed(send))


def refusal(
    scope: MutableMapping[str, Any], hosts: frozenset[str], bodiless: Iterable[str] = READING
) -> str:
    """Return why a request is refused, empty where it is not.

    Args:
        scope: Of an HTTP request or a WebSocket.
        hosts: The values of a Host header that are accepted.
        bodiless: Methods that need no type of content.
    """
    host, origin = _only(scope, b"host").lower(), _only(scope, b"origin")
    if host not in hosts:
        return "the Host is not one of this server"
    own = origin in (f"http://{host}", f"https://{host}")
    if _values(scope, b"origin") and not own:
        return "the Origin is another page"
    if scope["type"] == "websocket":
        return "" if own else "a WebSocket names its Origin"
    reading = scope["method"] in READING
    if not _fetched_by_us(scope, reading=reading):
        return "another page asked for it"
    if scope["method"] not in bodiless and not own and _media_type(scope) != "application/json":
        return "without an Origin of ours, the content is application/json"
    return _refused_path(scope["path"], query=bool(scope["query_string"]), reading=reading)


async def refuse(
    scope: "Scope", receive: "Receive", send: "Send", text: str, status: int = 403
) -> None:
    """Answer a request with a plain text; a WebSocket is closed before it opens."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        return
    await send({"type": "http.response.start", "status": status, "headers": PLAIN})
    await send({"type": "http.response.body", "body": text.encode()})


def unframed(send: "Send") -> "Send":
    """Return a `send` that says in each answer who may frame it."""

    async def with_frame(message: "Message") -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), FRAME]
        await send(message)

    return with_frame


def _fetched_by_us(scope: MutableMapping[str, Any], *, reading: bool) -> bool:
    """Whether our own page asked, or nobody's; a link that is followed in a tab counts as ours."""
    site = _only(scope, b"sec-fetch-site")
    if not _values(scope, b"sec-fetch-site") or site in ("same-origin", "none"):
        return True
    followed = _only(scope, b"sec-fetch-mode"), _only(scope, b"sec-fetch-dest")
    return reading and followed == ("navigate", "document")


def _refused_path(path: str, *, query: bool, reading: bool) -> str:
    if path.startswith("/report_"):
        return "reports come from Dagster's own runs"
    if f"{path.rstrip('/')}/".startswith(UNUSED):
        return "nothing of ours asks for it"
    if reading and query and path.rstrip("/") == "/graphql":
        return "GraphQL is asked by POST"
    return ""


def _media_type(scope: MutableMapping[str, Any]) -> str:
    """The media type alone: `text/plain; application/json` needs no leave of the browser."""
    return _only(scope, b"content-type").partition(";")[0].strip().lower()


def _values(scope: MutableMapping[str, Any], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _only(scope: MutableMapping[str, Any], name: bytes) -> str:
    """Return a header that is there once, else an empty text."""
    values = _values(scope, name)
    return values[0] if len(values) == 1 else ""
