"""Who may send a request: this machine's programs that know the token, and no web page.

Checked before a byte of a body is read; what is refused never reaches the application behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_app.api.errors import ApiError, response_of
from ragstream_app.api.token import is_token
from ragstream_app.server.guard import READING, refusal, refuse, unframed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HEALTH = "/health"
OPENAPI = "/openapi.json"

# Paths that need no token: they say nothing of the data root.
OPEN = (HEALTH, OPENAPI)
# An MCP client ends its session by DELETE, which no form of a web page sends.
BODILESS = (*READING, "DELETE")
NO_TOKEN = (
    "no token: send the header `Authorization: Bearer TOKEN`; `ragstream serve --show-token` "
    "prints the token"
)
WRONG_TOKEN = "that is not the token of this server; `ragstream serve --show-token` prints it"


@dataclass(frozen=True)
class Door:
    """An ASGI application that hands on what may come in.

    Attributes:
        app: The application behind it.
        hosts: The values of a Host header that are accepted, lower case.
        token: The bearer token.
    """

    app: ASGIApp
    hosts: frozenset[str]
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer it with an error."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await refuse(scope, receive, send, "")
        elif error := self._error(scope):
            await response_of(error)(scope, receive, send)
        else:
            await self.app(scope, receive, unframed(send))

    def _error(self, scope: Scope) -> ApiError | None:
        if reason := refusal(scope, self.hosts, BODILESS):
            return ApiError(403, f"refused: {reason}", code="refused")
        if scope["path"] in OPEN:
            return None
        given = _bearer(scope)
        if not given:
            return ApiError(401, NO_TOKEN, code="missing_api_key")
        if not is_token(given, self.token):
            return ApiError(401, WRONG_TOKEN, code="invalid_api_key")
        return None


def _bearer(scope: Scope) -> str:
    """Return the token of a request; empty if it has none, or several."""
    found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(found) != 1:
        return ""
    kind, _, token = found[0].decode("latin-1").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
