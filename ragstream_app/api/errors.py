"""Errors in OpenAI's JSON: what went wrong, the parameter that is meant, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from ragstream_app.session import describe
from ragstream_core.errors import (
    BudgetExceeded,
    ChatBusy,
    ChatFailed,
    ChatTimeout,
    GenerationGone,
    RagstreamError,
    Refused,
    UnknownProject,
    UsageError,
    worded,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

INVALID = "invalid_request_error"

# The `type` of an error by its status; any other is `INVALID` below 500, else a server error.
TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
RETRYABLE = (429, 503)


class ApiError(Exception):
    """A request that gets an error as its answer.

    Args:
        status: HTTP status, 400 to 599.
        message: What is wrong, and what to do about it.
        code: A word for programs.
        param: The parameter that is meant; empty: none.
    """

    def __init__(self, status: int, message: str, *, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param

    @property
    def headers(self) -> dict[str, str]:
        """What the answer says beside the error; OpenAI's client reads it."""
        found = {"x-should-retry": "true" if self.status in RETRYABLE else "false"}
        if self.status == 429:
            found["retry-after"] = "1"
        if self.status == 401:
            found["www-authenticate"] = "Bearer"
        return found

    def to_json(self) -> dict[str, dict[str, str | None]]:
        """Return the body."""
        other = "server_error" if self.status >= 500 else INVALID
        return {
            "error": {
                "message": self.message,
                "type": TYPES.get(self.status, other),
                "param": self.param or None,
                "code": self.code or None,
            }
        }


def response_of(error: ApiError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the answer to a request that failed."""
    return JSONResponse(error.to_json(), error.status, {**error.headers, **(headers or {})})


def api_error(error: Exception) -> ApiError:
    """Return what a client is told of an error."""
    if isinstance(error, ApiError):
        return error
    found = describe(error)
    next_step = f" (next: {worded(found.advice)})" if found.advice else ""
    status, code = _status(error)
    return ApiError(status, f"{found.message}{next_step}", code=code)


def _status(error: Exception) -> tuple[int, str]:
    if isinstance(error, UnknownProject):
        return 404, "model_not_found"
    if isinstance(error, BudgetExceeded):
        return 400, "context_length_exceeded"
    if isinstance(error, UsageError):
        return 400, "invalid_request"
    if isinstance(error, ChatBusy):
        return 503, "model_busy"
    if isinstance(error, ChatTimeout):
        return 504, "model_timeout"
    if isinstance(error, ChatFailed):
        return 502, "model_failed"
    if isinstance(error, GenerationGone):
        return 422, "not_ingested"
    if isinstance(error, Refused):
        return 422, "refused"
    return 500, "failed" if isinstance(error, RagstreamError) else "internal_error"
