"""One layer of settings: dotted names checked, a YAML file read."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragstream_core.errors import RunCommand, SetVariable, UnknownSetting
from ragstream_core.settings import SECTIONS, known_keys

MAX_CONFIG_BYTES = 1_000_000
WITH_PASSWORD = (
    ("embeddings", "shared"),
    ("embeddings", "broker"),
    ("vector_store", "url"),
    ("dagster", "storage"),
)
"""Settings that are addresses of servers; a password in one comes from the environment alone."""
_PASSWORD = re.compile(r"(?i)[^/]*//[^/@]*:[^/@]+@|.*[?&](ssl)?password=.")

Layer = dict[str, dict[str, Any]]
"""Section → key → value."""


def nested(flat: Mapping[str, object]) -> Layer:
    """Turn dotted keys into sections.

    Raises:
        UnknownSetting: An unknown section or key; the nearest known one is named.
    """
    layer: Layer = {}
    for dotted, value in flat.items():
        section, _, key = dotted.partition(".")
        if section not in SECTIONS or key not in SECTIONS[section].model_fields:
            raise unknown(dotted)
        layer.setdefault(section, {})[key] = value
    return layer


def unknown(dotted: str) -> UnknownSetting:
    """Return the error for a name that does not exist; the nearest one is its hint."""
    known = [*known_keys()] if "." in dotted else [*SECTIONS, *known_keys()]
    near = difflib.get_close_matches(dotted, known, n=1, cutoff=0.4)
    meant = (f"did you mean {near[0]}? ",) if near else ()
    return UnknownSetting(f"unknown setting {dotted!r}", hint=(*meant, RunCommand("config show")))


def file_layer(path: Path | None) -> dict[str, Any]:
    """Read a YAML or JSON file; empty without one.

    Raises:
        UnknownSetting: Unreadable, too large, an unknown name, or a key in the clear.
    """
    if path is None:
        return {}
    import yaml

    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise UnknownSetting(f"{path}: a configuration of more than {MAX_CONFIG_BYTES} bytes")
        data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        said = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
        raise UnknownSetting(
            f"{path}{f':{mark.line + 1}' if mark else ''}: cannot be read as YAML: {said}",
            hint=(RunCommand("config reference"), " shows what may stand in it"),
        ) from None
    if not isinstance(data, dict):
        raise UnknownSetting(f"{path}: the top level must be sections, e.g. `retrieval:`")
    checked_sections({name: data[name] for name in data if name != "tasks"}, str(path))
    return data


def _refuse_secrets(data: dict[str, Any], where: str) -> None:
    if "api_key" in data.get("provider", {}):
        raise UnknownSetting(
            f"{where}: provider.api_key does not belong in a file that is shared",
            hint=(SetVariable("RAGSTREAM_PROVIDER__API_KEY"), ", or write it into .env"),
        )
    for section, key in WITH_PASSWORD:
        address = data.get(section, {}).get(key)
        if isinstance(address, str) and _PASSWORD.match(address):
            raise UnknownSetting(
                f"{where}: {section}.{key} holds a password, which does not belong in a file that "
                "is shared",
                hint=(
                    SetVariable(f"RAGSTREAM_{section}__{key}".upper()),
                    ", or leave the password out here",
                ),
            )


def checked_sections(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a file's sections, or those of a task profile, as they stand.

    Args:
        data: Section → key → value.
        where: The file or the profile, for messages.

    Raises:
        UnknownSetting: An unknown section or key, a section without lines, or a key or a password
            in the clear.
    """
    for section, values in data.items():
        if section not in SECTIONS:
            raise unknown(str(section))
        if not isinstance(values, dict):
            raise UnknownSetting(f"{where}: {section} must hold `key: value` lines")
        nested({f"{section}.{key}": value for key, value in values.items()})
    _refuse_secrets(data, where)
    return data


def listed(value: object) -> Any:
    """Read ``[…]`` of an environment variable or a command line as a JSON list."""
    if isinstance(value, str) and value.startswith("["):
        try:
            return json.loads(value)
        except (json.JSONDecodeError, RecursionError):
            return value
    return value
