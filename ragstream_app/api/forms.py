"""What may stand in a request: OpenAI's parameters that are taken, and those that are refused.

Any other parameter is ignored, and the answer names it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
)

MOST_MESSAGES = 2_000
MOST_INPUTS = 2_048

# Parameters that would change what is answered, and why they are refused.
REASONS = {
    "tools": "tools are not called here: answers come from the documents",
    "functions": "functions are not called here: answers come from the documents",
    "tool_calls": "calls of tools cannot be continued here",
    "function_call": "calls of functions cannot be continued here",
    "logprobs": "an answer is checked against its sources and has no probabilities",
    "top_logprobs": "an answer is checked against its sources and has no probabilities",
    "logit_bias": "the model's choice of tokens cannot be changed here",
    "stop": "an answer ends where the model ends it",
    "audio": "answers are text",
    "modalities": "answers are text",
    "response_format": "answers are text with sources; only {\"type\": \"text\"} is taken",
    "web_search_options": "answers come from the documents of the project, not from the web",
    "prediction": "a predicted output cannot be used here",
}  # fmt: skip
NOTHING: tuple[object, ...] = (None, False, [], {}, ["text"], {"type": "text"})
PARTS = "images, audio and files are not read here: put documents into the project"


def _refused(value: object, info: ValidationInfo) -> object:
    """Return a value that asks for nothing.

    Raises:
        ValueError: It asks for something that is not done here.
    """
    if any(type(value) is type(nothing) and value == nothing for nothing in NOTHING):
        return value
    name = str(info.field_name)
    raise ValueError(f"not supported: {REASONS[name]}")


def _text_part(value: str) -> str:
    """Return the type of a part.

    Raises:
        ValueError: It is not text.
    """
    if value != "text":
        raise ValueError(f"a part of the type {value[:40]!r} is not supported: {PARTS}")
    return value


Refused = Annotated[
    Any, AfterValidator(_refused), WithJsonSchema({"enum": list(NOTHING)}), Field(default=None)
]
Role = Literal["system", "developer", "user", "assistant"]


class Form(BaseModel):
    """JSON of a client: values of exactly these types, further names allowed."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)


class Part(Form):
    """A part of a message."""

    type: Annotated[str, AfterValidator(_text_part), WithJsonSchema({"const": "text"})]
    text: str = ""


class Message(Form):
    """One message of a conversation."""

    role: Role
    content: str | list[Part] | None = Field(
        None, description="Text; several parts are joined by an empty line."
    )
    tool_calls: Refused
    function_call: Refused

    @property
    def words(self) -> str:
        """Its text."""
        if isinstance(self.content, list):
            return "\n\n".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(Form):
    """What a stream shows beside the answer."""

    include_usage: bool | None = Field(None, description="End with an event that has the usage.")


class ChatForm(Form):
    """The body of ``POST /v1/chat/completions``."""

    model: str = Field(
        min_length=1,
        description="`ragstream/PROJECT` or `ragstream/PROJECT:PROFILE`.",
        examples=["ragstream/handbook"],
    )
    messages: list[Message] = Field(
        min_length=1,
        max_length=MOST_MESSAGES,
        description="The last one is the user's and is the question; those before it are the "
        "conversation.",
        examples=[[{"role": "user", "content": "How do I lock the prompt to one file?"}]],
    )
    stream: bool | None = Field(None, description="Send the answer as it comes.")
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(
        None, ge=0, le=2, description="Of the language model that answers."
    )
    max_tokens: int | None = Field(None, ge=1, description="As `max_completion_tokens`.")
    max_completion_tokens: int | None = Field(
        None, ge=1, description="Maximum tokens of the model's answer."
    )
    n: Literal[1] | None = None
    store: bool | None = Field(
        None, description="Keep question and answer as a turn of a conversation."
    )
    metadata: dict[str, str] | None = Field(
        None, description="`session` names the conversation of `store`; the rest is ignored."
    )
    tools: Refused
    functions: Refused
    logprobs: Refused
    top_logprobs: Refused
    logit_bias: Refused
    stop: Refused
    audio: Refused
    modalities: Refused
    response_format: Refused
    web_search_options: Refused
    prediction: Refused

    @property
    def ignored(self) -> list[str]:
        """The names of parameters that were sent and have no effect, sorted."""
        return sorted(self.model_extra or {})


Text = Annotated[str, Field(min_length=1)]


class EmbeddingForm(Form):
    """The body of ``POST /v1/embeddings``."""

    model: str = Field(
        min_length=1,
        description="A model of the project whose embedder is used.",
        examples=["ragstream/handbook"],
    )
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=MOST_INPUTS)] = Field(
        description="A text, or a list of texts; no tokens.",
        examples=["What is a Super-Prompt?", ["one text", "another one"]],
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="`base64`: little-endian 32-bit floats."
    )
    dimensions: int | None = Field(None, ge=1, description="None but that of the embedder.")
    input_type: Literal["document", "query"] | None = Field(
        None, description="What the texts are, for models that tell them apart; `document`."
    )
