"""Language models by name, and the key that goes to their endpoint.

Language models by name: `create_chat` is how everything above gets one.

A name is one of the built-in ones, one given to `register_provider`, or an import path
(``package.module:factory``). Importing this module loads no engine and contacts nobody.

The key of the language model: from the settings' secret, or from a file that only you can read.

It is handed to the endpoint and to nobody else: no message, log, event or record holds it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import SecretStr

from ragstream_core.errors import Refused, UnknownSetting, UsageError
from ragstream_core.models.chat.endpoint_chat import ChatOptions, EndpointChat
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.platform.registry import load_factory, require_methods, wanted

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel


MAX_KEY_BYTES = 8_192
_KEY = re.compile(r"[!-~]+")  # printable ASCII: anything else could end a header
_FROM = "export RAGSTREAM_PROVIDER__API_KEY, or name a file by provider.api_key_file"


def provider_key(key: SecretStr, key_file: str) -> SecretStr:
    """Return the key; empty where none is set.

    Args:
        key: From the environment or ``.env``; it comes first.
        key_file: A file whose only line is the key; empty for none.

    Raises:
        Refused: Others than its owner may read the file.
        UsageError: The file cannot be read, or what it holds is no key.
    """
    given = key.get_secret_value().strip()
    if given or not key_file:
        return _checked(given, "provider.api_key") if given else SecretStr("")
    return _checked(_text_of(Path(key_file).expanduser()), key_file)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                raise UsageError(f"{path} is not a regular file", hint=_FROM)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Refused(
                    f"{path} holds a key and is open to others (mode {stat.S_IMODE(mode):04o})",
                    hint=f"chmod 600 {path}",
                )
            return handle.read(MAX_KEY_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise UsageError(f"the key file {path} cannot be read: {what}", hint=_FROM) from None


def _checked(text: str, where: str) -> SecretStr:
    if _KEY.fullmatch(text) is None:
        raise UsageError(f"{where} holds no key: one line of printable characters", hint=_FROM)
    return SecretStr(text)


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
