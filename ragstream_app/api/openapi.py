"""The OpenAPI description of the endpoint, made from the forms that requests are checked with."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from ragstream_app.api.door import HEALTH, OPENAPI
from ragstream_app.api.forms import ChatForm, EmbeddingForm
from ragstream_app.api.replies import PROMPT_HEADER

Json = dict[str, Any]
REF = "#/components/schemas/{model}"
STATUSES = {
    400: "The request is wrong; `param` names the parameter.",
    401: "No token, or a wrong one.",
    403: "The request comes from a web page, or names another host.",
    404: "There is no such model.",
    413: "The body is too long.",
    422: "Answering would break a promise, e.g. send a secret to another machine.",
    429: "Too many requests wait already.",
    500: "It failed.",
    502: "The language model gave no answer.",
    503: "The language model is busy.",
    504: "The language model took too long.",
}
READING = (401, 403, 404)
_INTEGER: Json = {"type": "integer", "minimum": 0}
_TEXT: Json = {"type": "string"}


def _object(properties: Json, *optional: str, more: bool = False) -> Json:
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": more,
    }


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


def _ref(name: str) -> Json:
    return {"$ref": REF.format(model=name)}


_NULLABLE_TEXT: Json = {"type": ["string", "null"]}
_CITATION = _object({
    "id": _TEXT, "source": _TEXT, "locator": _TEXT, "snippet": _TEXT,
    "page_number": {"type": ["integer", "null"]}, "known": {"type": "boolean"},
    "verified": {"type": "boolean"}, "reason": _TEXT, "read_by": _TEXT,
})  # fmt: skip
_TOLD = _object({
    "prompt_key": {**_TEXT, "description": "Key of the recorded prompt; `ragstream explain KEY`."},
    "origin": {"enum": ["model", "extract", "refused"]},
    "status": {"enum": ["complete", "partial", "refused"]},
    "citations": _list(_ref("Citation")), "model": _TEXT, "session": _TEXT,
    "cost": {"type": ["number", "null"]}, "agents": {"type": "object"},
    "warnings": _list(_TEXT), "ignored": _list(_TEXT),
})  # fmt: skip
_USAGE = _object({
    "prompt_tokens": _INTEGER, "completion_tokens": _INTEGER, "total_tokens": _INTEGER,
    "prompt_tokens_details": _object({"cached_tokens": _INTEGER}),
})  # fmt: skip
_MESSAGE = _object({"role": {"const": "assistant"}, "content": _TEXT, "refusal": {"type": "null"}})
_CHOICE = _object({
    "index": {"const": 0}, "message": _MESSAGE, "logprobs": {"type": "null"},
    "finish_reason": {"enum": ["stop", "length"]},
})  # fmt: skip
_COMPLETION = _object({
    "id": _TEXT, "object": {"const": "chat.completion"}, "created": _INTEGER, "model": _TEXT,
    "choices": _list(_CHOICE), "usage": _ref("Usage"), "ragstream": _ref("Ragstream"),
})  # fmt: skip
_MODEL = _object(
    {"id": _TEXT, "object": {"const": "model"}, "created": _INTEGER, "owned_by": _TEXT}
)
_EMBEDDING = _object({
    "object": {"const": "embedding"}, "index": _INTEGER,
    "embedding": {"oneOf": [_list({"type": "number"}), _TEXT]},
})  # fmt: skip
_EMBEDDINGS = _object({
    "object": {"const": "list"}, "data": _list(_EMBEDDING), "model": _TEXT,
    "usage": _object({"prompt_tokens": _INTEGER, "total_tokens": _INTEGER}),
})  # fmt: skip
_ERROR = _object({
    "error": _object({
        "message": _TEXT, "type": _TEXT, "param": _NULLABLE_TEXT, "code": _NULLABLE_TEXT
    })
})  # fmt: skip


def description() -> Json:
    """Return the description; it says nothing of a data root."""
    _, forms = models_json_schema(
        [(ChatForm, "validation"), (EmbeddingForm, "validation")], ref_template=REF
    )
    own = {
        "Citation": _CITATION, "Ragstream": _TOLD, "Usage": _USAGE, "Completion": _COMPLETION,
        "Model": _MODEL, "Embeddings": _EMBEDDINGS, "Error": _ERROR,
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "RAGstream",
            "version": "1",
            "description": "Answers from documents, for clients of OpenAI's API.",
        },
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**own, **forms["$defs"]},
        },
        "paths": _paths(),
    }


def _paths() -> Json:
    posting = tuple(STATUSES)
    models = _object({"object": {"const": "list"}, "data": _list(_ref("Model"))})
    name = {
        "name": "model",
        "in": "path",
        "required": True,
        "schema": {**_TEXT, "minLength": 1},
        "example": "ragstream/handbook",
    }
    header = {PROMPT_HEADER: {"description": "Key of the recorded prompt.", "schema": _TEXT}}
    event = _object({"data": {**_TEXT, "description": "A chunk in JSON, or `[DONE]`."}}, more=True)
    stream = {"text/event-stream": {"schema": event}}
    chat = _answer(_ref("Completion"), posting, headers=header, more=stream)
    return {
        "/v1/models": {"get": _call("listModels", _answer(models, READING))},
        "/v1/models/{model}": {
            "get": {**_call("getModel", _answer(_ref("Model"), READING)), "parameters": [name]}
        },
        "/v1/chat/completions": {"post": _call("createChatCompletion", chat, "ChatForm")},
        "/v1/embeddings": {
            "post": _call("createEmbeddings", _answer(_ref("Embeddings"), posting), "EmbeddingForm")
        },
        HEALTH: {"get": _open("health", _object({"status": {"const": "ok"}}))},
        OPENAPI: {"get": _open("description", {"type": "object"})},
    }


def _call(name: str, responses: Json, form: str = "") -> Json:
    content = {"application/json": {"schema": _ref(form)}}
    body = {"requestBody": {"required": True, "content": content}} if form else {}
    return {"operationId": name, **body, "responses": responses}


def _open(name: str, schema: Json) -> Json:
    """Return an operation that needs no token."""
    return {**_call(name, _answer(schema, (403,))), "security": []}


def _answer(
    schema: Json,
    statuses: tuple[int, ...],
    *,
    headers: Json | None = None,
    more: Json | None = None,
) -> Json:
    """Return what may come back."""
    content = {"application/json": {"schema": schema}, **(more or {})}
    good = {"description": "The answer.", "content": content, "headers": headers or {}}
    wrong = {"application/json": {"schema": _ref("Error")}}
    told = {str(code): {"description": STATUSES[code], "content": wrong} for code in statuses}
    return {"200": good, **told}
