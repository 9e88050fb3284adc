"""The body of a request: read up to a limit, and checked as JSON of a certain form."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from ragstream_app.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.types import Receive, Scope

# Of a body; a longer one is refused before it is read whole.
MAX_BYTES = 16 << 20
_Form = TypeVar("_Form", bound=BaseModel)


async def read_form(form: type[_Form], scope: Scope, receive: Receive) -> _Form | None:
    """Return what a request asks for; None if its client left in the middle of it.

    Args:
        form: What its body has to be.
        scope: Of the request.
        receive: Nothing of its body has been read yet.

    Raises:
        ApiError: The body is too long, no JSON, or not of that form.
    """
    try:
        return parsed(form, await read_body(Request(scope, receive)))
    except ClientDisconnect:
        return None


async def read_body(request: Request, *, most: int = MAX_BYTES) -> bytes:
    """Return the body of a request.

    Args:
        request: Nothing of its body has been read yet.
        most: At most so many bytes.

    Raises:
        ApiError: It is longer.
        ClientDisconnect: The client left in the middle of it.
    """
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > most:
        raise _too_long(most)
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > most:
            raise _too_long(most)
    return bytes(found)


def parsed(form: type[_Form], body: bytes) -> _Form:
    """Return the JSON of a body as an object of a form.

    Raises:
        ApiError: It is no JSON, or not of that form; the parameter is named.
    """
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        raise _wrong(error) from None


def _too_long(most: int) -> ApiError:
    return ApiError(
        413, f"the body is longer than {most >> 20} MiB: send less at once", code="too_large"
    )


def _wrong(error: ValidationError) -> ApiError:
    """Return what is said of a body: of several faults the one that we have words for."""
    faults = error.errors(include_url=False, include_context=True, include_input=False)
    fault: Mapping[str, Any] = next((f for f in faults if f["type"] == "value_error"), faults[0])
    if fault["type"] == "json_invalid":
        why = str(fault["msg"]).removeprefix("Invalid JSON: ")
        return ApiError(400, f"the body is no JSON: {why}", code="invalid_json")
    names = [str(part) for part in fault["loc"] if not _is_branch(part)]
    param = ".".join(names)
    said = str(fault["msg"]).removeprefix("Value error, ")
    return ApiError(400, f"{param or 'the body'}: {said}", code="invalid_value", param=param)


def _is_branch(part: object) -> bool:
    """Whether a part of a place names a type that was tried, and no name of the body."""
    return isinstance(part, str) and (part in ("str", "none") or "[" in part)
