"""What stages asked a language model while a prompt was made, what it said and what it cost.

A stage never sees a model and never an error of one: it asks `Exchanges`, gets a value of its
schema or the reason why there is none, and then takes its deterministic form. Each exchange is kept
under its digest beside the prompt's record and is part of the prompt's key, so that a replay asks
no model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from ragstream_core.errors import ChatFailed, InputUnavailable, IntegrityError, RunCommand
from ragstream_core.models.chat.responses import validated
from ragstream_core.prompts.chain import OPS
from ragstream_core.records import SuperPrompt
from ragstream_core.records.chat import ChatMessage, ChatUsage, total_usage
from ragstream_core.records.identity import canonical_json, digest_of
from ragstream_core.records.json_form import Json
from ragstream_core.records.stage_results import ModelCall

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.ports import ChatModel


EXCHANGE_VERSION = 1

Schema = TypeVar("Schema", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question to a language model and its answer."""

    op: str  # the stage that asked
    request: str  # digest of the model's name, the messages and the schema, 64 hex digits
    model: str  # the model's name
    response: str  # the raw answer; empty if there was none
    # tokens and cost, JSON form; empty if unknown, as without an answer
    usage: dict[str, Json] = field(default_factory=dict)
    validated: bool = True  # whether the answer was taken
    fallback: str = ""  # what the stage did instead, e.g. ``SAF-A1``; empty if the answer was taken
    reason: str = ""  # why it was not taken, for people

    @property
    def data(self) -> bytes:
        """Its bytes as they are kept."""
        return canonical_json({"version": EXCHANGE_VERSION, **asdict(self)}).encode("utf-8")


@dataclass(frozen=True, slots=True)
class Answered(Generic[Schema]):
    """What a stage gets."""

    value: Schema | None  # the validated answer; None if the stage must do without
    reason: str = ""  # why there is none, for people; empty otherwise


def exchange_from(data: bytes) -> Exchange:
    """Rebuild an exchange from its bytes."""
    try:
        fields = json.loads(data)
        if fields.pop("version") == EXCHANGE_VERSION:
            return Exchange(**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise IntegrityError("the bytes of an exchange with a language model are damaged")


def request_digest(model: str, messages: Sequence[ChatMessage], schema: type[BaseModel]) -> str:
    """Return the digest of all that an answer depends on, as far as we decide it."""
    rows = [[message.role, message.text] for message in messages]
    return digest_of({"model": model, "messages": rows, "schema": schema.model_json_schema()})


class Exchanges:
    """The exchanges of one prompt: made now or, without a model, read from its record.

    Attributes:
        made: The exchanges so far, in order.
        differences: What a model said otherwise than in ``kept``, for people.
    """

    def __init__(self, model: ChatModel | None, kept: Iterable[Exchange] = ()) -> None:
        self._model = model
        self._kept = list(kept)
        self.made: list[Exchange] = []
        self.differences: list[str] = []

    def ask(
        self,
        op: str,
        messages: Sequence[ChatMessage],
        schema: type[Schema],
        *,
        fallback: str,
        check: Callable[[Schema], str] | None = None,
    ) -> Answered[Schema]:
        """Return a validated answer, or why there is none; ``check`` says what is wrong."""
        then = self._recorded(op)
        if self._model is None:
            return self._again(then, op, messages, schema)
        value, exchange = _asked(self._model, op, messages, schema)
        wrong = check(value) if check and value is not None else ""
        if wrong:
            value, exchange = None, replace(exchange, validated=False, reason=wrong)
        if exchange.reason:
            exchange = replace(exchange, fallback=fallback)
        if then is not None and then.request != exchange.request:
            self.differences.append(f"{op}: another question than then")
        elif then is not None and then.response != exchange.response:
            self.differences.append(f"{op}: another answer than then")
        self.made.append(exchange)
        return Answered(value, exchange.reason)

    def keep(self, put: Callable[[bytes], str]) -> list[str]:
        """Keep all exchanges; return their digests, in order."""
        return [put(exchange.data) for exchange in self.made]

    def _recorded(self, op: str) -> Exchange | None:
        """Return what the record has for the next question of a stage."""
        asked = sum(1 for exchange in self.made if exchange.op == op)
        mine = [exchange for exchange in self._kept if exchange.op == op]
        return mine[asked] if asked < len(mine) else None

    def _again(
        self,
        then: Exchange | None,
        op: str,
        messages: Sequence[ChatMessage],
        schema: type[Schema],
    ) -> Answered[Schema]:
        if then is None or then.request != request_digest(then.model, messages, schema):
            raise InputUnavailable(
                f"the answer of the language model to {op} is not kept, and a replay asks no model",
                hint=RunCommand("replay", "KEY --live"),
            )
        self.made.append(then)
        if not then.validated:
            return Answered(None, then.reason)
        return Answered(validated(then.response, schema, who="the record"))


def _asked(
    model: ChatModel, op: str, messages: Sequence[ChatMessage], schema: type[Schema]
) -> tuple[Schema | None, Exchange]:
    name = ""
    try:
        name = model.name
        reply = model.complete(messages, schema=schema)
    except ChatFailed as error:
        request = request_digest(name, messages, schema)
        took = asdict(error.took) if error.took else {}
        failed = Exchange(op, request, name, "", usage=took, validated=False, reason=error.message)
        return None, failed
    request = request_digest(name, messages, schema)
    return reply.parsed, Exchange(op, request, name, reply.text, usage=asdict(reply.usage))


_UNANSWERED = ChatUsage(0, 0, reported=False)


def call_of(exchange: Exchange) -> ModelCall:
    """Return what one exchange took."""
    known = asdict(_UNANSWERED)
    told = {name: value for name, value in exchange.usage.items() if name in known}
    usage = ChatUsage(**{"input_tokens": 0, "output_tokens": 0, **told}) if told else _UNANSWERED
    taken, instead = exchange.validated, exchange.fallback
    return ModelCall(exchange.op, exchange.model, taken, usage, instead, exchange.reason)


@dataclass(frozen=True, slots=True)
class AgentsUsage:
    """What the agents of a prompt took that asked a language model."""

    calls: tuple[ModelCall, ...]  # what each exchange took, in the order of the chain

    @classmethod
    def of(cls, calls: Iterable[ModelCall]) -> AgentsUsage:
        """Return calls in their order."""
        return cls(tuple(sorted(calls, key=_place)))

    @property
    def total(self) -> ChatUsage:
        """Of all calls; the cost is None if one of them is unknown, 0 if no model was asked."""
        return total_usage(call.usage for call in self.calls)

    def to_json(self) -> dict[str, Json]:
        """Return the calls, and the fields of their total beside them."""
        return {"calls": [call.to_json() for call in self.calls], **asdict(self.total)}


def _place(call: ModelCall) -> tuple[str, int, str]:
    op, _, again = call.op.partition("#")
    return again, OPS.index(op) if op in OPS else len(OPS), op


def usage_of(prompt: SuperPrompt) -> ChatUsage | None:
    """Return what all of a prompt's agents took, None if none asked a language model."""
    calls = prompt.extras.llm_usage.values()
    return total_usage(call.usage for call in calls) if calls else None
