"""`Registry`: the extensions of one kind, by name or import path.

Loading an extension runs its module, so a path comes from the settings of the person who runs this
program and from nowhere else. Importing this module loads nothing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ragstream_core.errors import UnknownSetting, UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

# A class or function, given those fields of the kind's options that it has parameters for.
Factory = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Port:
    """What an extension must have."""

    name: str
    methods: tuple[str, ...]
    values: Mapping[str, type] = field(default_factory=dict)  # only an instance must have them


class Registry(Generic[T]):
    """Makes extensions of one kind by a name or an import path ``package.module:factory``."""

    def __init__(
        self,
        kind: str,
        *,
        setting: str,
        port: Port,
        options: type[DataclassInstance],
        built_in: Mapping[str, Factory | str],
        reserved: tuple[str, ...] = (),
    ) -> None:
        self._kind = kind
        self._setting = setting
        self._port = port
        self._offered = [*(option.name for option in fields(options)), "options"]
        self._built_in = dict(built_in)
        self._registered: dict[str, Factory] = {}
        self._reserved = reserved

    def names(self) -> list[str]:
        """Return the names that can be selected, sorted."""
        return sorted({*self._built_in, *self._registered, *self._reserved})

    def register(self, name: str, factory: Factory) -> None:
        """Make an extension selectable by name."""
        if name in self.names():
            raise UsageError(f"{self._called(name)} already exists")
        self._check(name, factory)
        self._registered[name] = factory

    def unregister(self, name: str) -> None:
        """Forget a registered extension; the built-in ones and unknown names are left alone."""
        self._registered.pop(name, None)

    def check(self, name: str) -> None:
        """Refuse a setting that selects nothing; the built-in ones are known without an import."""
        if name not in self._built_in and name not in self._reserved:
            self._check(name, self._factory(name))

    def create(self, name: str, options: DataclassInstance) -> T:
        """Make an extension."""
        factory = self._factory(name)
        given = {
            each: options if each == "options" else getattr(options, each)
            for each in self._check(name, factory)
        }
        made = factory(**given)
        self._require(name, made, instance=True)
        return cast("T", made)

    def _factory(self, name: str) -> Factory:
        factory = self._built_in.get(name) or self._registered.get(name) or name
        if not isinstance(factory, str):
            return factory
        module_name, _, attribute = factory.replace(":", ".").rpartition(".")
        if not module_name:
            raise UnknownSetting(
                f"no {self._called(name)}",
                hint=f"set {self._setting} to one of {', '.join(self.names())}",
            )
        try:
            return cast("Factory", getattr(importlib.import_module(module_name), attribute))
        except (ImportError, AttributeError, ValueError) as error:
            raise UnknownSetting(f"cannot import {self._called(name)}: {error}") from error

    def _check(self, name: str, factory: Factory) -> list[str]:
        """Return the parameters of a factory that the options can fill."""
        if not callable(factory):
            raise UsageError(f"{self._called(name)} is not a class or function: {factory!r}")
        if isinstance(factory, type):
            self._require(name, factory, instance=False)
        parameters = inspect.signature(factory).parameters.values()
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        unknown = [p.name for p in named if p.name not in self._offered and p.default is p.empty]
        if unknown or any(p.kind is p.POSITIONAL_ONLY for p in named):
            raise UsageError(
                f"{self._called(name)} requires {unknown or 'positional parameters'}; "
                f"it can have {', '.join(self._offered)} by name"
            )
        return [p.name for p in named if p.name in self._offered]

    def _require(self, name: str, made: object, *, instance: bool) -> None:
        lacking = [m for m in self._port.methods if not callable(getattr(made, m, None))]
        problem = f"{', '.join(lacking)} missing" if lacking else ""
        if instance and not problem:
            problem = "; ".join(
                f"{value} must be {kind.__name__}"
                for value, kind in self._port.values.items()
                if not isinstance(getattr(made, value, None), kind)
            )
        if problem:
            what = f"{self._called(name)} does not satisfy the {self._port.name} port"
            raise UsageError(f"{what}: {problem}")

    def _called(self, name: str) -> str:
        return f"{self._kind} {name!r}"
