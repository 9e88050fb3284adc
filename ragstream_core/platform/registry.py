"""Extension points: a factory is known by a name or an import path, and is given what it asks for.

Loading a factory runs its module, so a path comes from the settings of the person who runs this
program and from nowhere else. Importing this module loads nothing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ragstream_core.errors import UnknownSetting, UsageError

Factory = Callable[..., Any]


def load_factory(path: str, what: str) -> Factory | None:
    """Return what an import path (``package.module:name``) names, or None where it is no path.

    Args:
        path: The value of the setting.
        what: What is looked for, for the message, e.g. ``vector store``.

    Raises:
        UnknownSetting: The module or the name in it cannot be imported.
        UsageError: It is neither a class nor a function.
    """
    module_name, _, attribute = path.replace(":", ".").rpartition(".")
    if not module_name:
        return None
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownSetting(f"cannot import {what} {path!r}: {error}") from error
    if not callable(factory):
        raise UsageError(f"{what} {path!r} is not a class or function")
    return cast("Factory", factory)


def wanted(factory: Factory, known: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return those values that a factory has parameters for.

    Args:
        factory: A class or function.
        known: What it may be given, by parameter name.
        what: Its name for the message.

    Raises:
        UsageError: It wants something else, or positional parameters.
    """
    parameters = inspect.signature(factory).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    unknown = [p.name for p in named if p.name not in known and p.default is p.empty]
    if unknown or any(p.kind is p.POSITIONAL_ONLY for p in named):
        raise UsageError(
            f"{what} {factory!r} wants {unknown or 'positional parameters'}; "
            f"it can have {', '.join(known)}"
        )
    return {p.name: known[p.name] for p in named if p.name in known}


def require_methods(owner: Any, methods: Sequence[str], *, what: str, port: str) -> None:
    """Refuse an object or class that lacks methods of a port.

    Raises:
        UsageError: At least one is missing; the message names them.
    """
    missing = [name for name in methods if not callable(getattr(owner, name, None))]
    if missing:
        raise UsageError(f"{what} does not satisfy the {port} port: {', '.join(missing)} missing")
