"""The answer of a model as a value of a schema, or an error that repeats nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ragstream_core.errors import ChatBroken
from ragstream_core.models.answers import bare_json

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.records.chat import ChatUsage

Schema = TypeVar("Schema", bound="BaseModel")


def validated(
    text: str, schema: type[Schema], *, who: str, took: ChatUsage | None = None
) -> Schema:
    """Return the value that an answer holds.

    Args:
        text: The answer.
        schema: What it must be.
        who: Who answered, for the message.
        took: What the answer took, for the error.

    Raises:
        ChatBroken: It is no JSON, nested too deep, or does not fit the schema.
    """
    from pydantic import ValidationError

    try:
        return schema.model_validate_json(bare_json(text))
    except (ValidationError, ValueError, RecursionError) as error:
        count = error.error_count() if isinstance(error, ValidationError) else 1
        broken = ChatBroken(
            f"{who}: an answer that does not fit {schema.__name__} (errors: {count})",
            hint="use a model that can follow a schema (provider.model)",
        )
        broken.took = took
        raise broken from None
