"""Language models by name. Importing this module loads no engine and contacts no endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_core.models.chat.endpoint_chat import ChatOptions, EndpointChat
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.platform.registry import Port, Registry

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel

# Makes a language model; no endpoint is contacted before it is asked something.
PROVIDERS: Registry[ChatModel] = Registry(
    "provider",
    setting="provider.backend",
    port=Port("ChatModel", ("list_models", "price", "complete", "stream")),
    options=ChatOptions,
    built_in={"openai": EndpointChat, "scripted": ScriptedChat},
)
