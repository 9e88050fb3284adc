"""Language models by name: `create_chat` is how everything above gets one.

A name is one of the built-in ones, one given to `register_provider`, or an import path
(``package.module:factory``). Importing this module loads no engine and contacts nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.models.chat import ChatOptions, EndpointChat
from ragstream_core.models.scripted import ScriptedChat
from ragstream_core.plugins import load_factory, require_methods, wanted

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel

ProviderFactory = Callable[..., Any]
"""A class or function; given the fields of `ChatOptions` that it has parameters for, or
``options`` for all of them."""

PORT_METHODS = ("list_models", "price", "complete", "stream")


def create_chat(backend: str, options: ChatOptions) -> ChatModel:
    """Return a language model; nobody is contacted before it is asked something.

    Args:
        backend: ``openai``, ``scripted``, a registered name, or an import path.
        options: What it may want to know.

    Raises:
        UnknownSetting: No such provider, or a script that cannot be read.
        UsageError: What the factory made is no `ragstream_core.ports.ChatModel`.
    """
    factory = _PROVIDERS.get(backend) or load_factory(backend, "provider")
    if factory is None:
        raise UnknownSetting(
            f"no provider {backend!r}",
            hint=f"set provider.backend to one of {', '.join(sorted(_PROVIDERS))}",
        )
    known = {field.name: getattr(options, field.name) for field in fields(options)}
    model = factory(**wanted(factory, {**known, "options": options}, "provider"))
    require_methods(model, PORT_METHODS, what=f"provider {backend!r}", port="ChatModel")
    return cast("ChatModel", model)


def register_provider(name: str, factory: ProviderFactory) -> None:
    """Make a provider selectable by name.

    Args:
        name: The value of ``provider.backend`` that selects it.
        factory: A class or function whose parameters are named as fields of `ChatOptions`.

    Raises:
        UsageError: The name is taken, or the factory cannot be called.
    """
    if name in _PROVIDERS:
        raise UsageError(f"a provider {name!r} already exists")
    if not callable(factory):
        raise UsageError(f"provider {name!r} is not a class or function: {factory!r}")
    _PROVIDERS[name] = factory


def unregister_provider(name: str) -> None:
    """Forget a registered provider; the built-in ones and unknown names are left alone."""
    if name not in _BUILT_IN:
        _PROVIDERS.pop(name, None)


def _openai(options: ChatOptions) -> ChatModel:
    return EndpointChat(options)


def _scripted(script: str) -> ChatModel:
    return ScriptedChat(script)


_BUILT_IN: dict[str, ProviderFactory] = {"openai": _openai, "scripted": _scripted}
_PROVIDERS = dict(_BUILT_IN)
