"""One layer of settings: dotted names checked, a YAML file read."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from ragstream_core.errors import (
    AddOption,
    Hint,
    RunCommand,
    SetSetting,
    SetVariable,
    UnknownSetting,
)
from ragstream_core.settings import SECTIONS, known_keys
from ragstream_core.settings.confirmation import Layer
from ragstream_core.settings.values import values_of

MAX_CONFIG_BYTES = 1_000_000

# Settings that are addresses of servers; a password in one comes from the environment alone.
WITH_PASSWORD = (
    ("embeddings", "shared"),
    ("vector_store", "url"),
    ("dagster", "storage"),
)
# Settings of earlier versions, and what holds in their place.
GONE = {
    "dagster.record": "Dagster is told of everything by a sensor, and is in no way",
    "embeddings.broker": "workers take their batches from the database of embeddings.shared",
}
# Kinds of errors that say more than what a setting takes.
_OWN_WORDS = ("value_error", "string_pattern_mismatch", "string_too_long")
_PASSWORD = re.compile(r"(?i)[^/]*//[^/@]*:[^/@]+@|.*[?&](ssl)?password=.")


def nested(flat: Mapping[str, object]) -> Layer:
    """Turn dotted keys into sections."""
    layer: Layer = {}
    for dotted, value in flat.items():
        section, _, key = dotted.partition(".")
        if section not in SECTIONS or key not in SECTIONS[section].model_fields:
            raise unknown(dotted)
        layer.setdefault(section, {})[key] = value
    return layer


def unknown(dotted: str) -> UnknownSetting:
    """Return the error for a name that does not exist; the nearest one is its hint."""
    if dotted in GONE:
        return UnknownSetting(
            f"there is no setting {dotted!r} any more: {GONE[dotted]}",
            hint="take it out of where it is set",
        )
    known = [*known_keys()] if "." in dotted else [*SECTIONS, *known_keys()]
    near = difflib.get_close_matches(dotted, known, n=1, cutoff=0.4)
    meant = (f"did you mean {near[0]}? ",) if near else ()
    return UnknownSetting(f"unknown setting {dotted!r}", hint=(*meant, RunCommand("config show")))


def file_bytes(path: Path) -> bytes:
    """Return all bytes of a settings file."""
    try:
        if path.stat().st_size <= MAX_CONFIG_BYTES:
            return path.read_bytes()
    except FileNotFoundError:
        raise UnknownSetting(
            f"there is no settings file {path}",
            hint=("check the path that ", AddOption("--config"), " or RAGSTREAM_CONFIG names"),
        ) from None
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise UnknownSetting(
            f"the settings file {path} cannot be read: {why}", hint="check the path and its rights"
        ) from None
    raise UnknownSetting(
        f"{path}: a configuration of more than {MAX_CONFIG_BYTES} bytes",
        hint=(
            "it holds something else; name the right file: ",
            AddOption("--config"),
        ),
    )


def layer_of(text: bytes, path: Path) -> dict[str, Any]:
    """Return what the bytes of a settings file say."""
    import yaml

    try:
        data = yaml.safe_load(text.decode("utf-8")) or {}
    except (ValueError, yaml.YAMLError, RecursionError) as error:
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
            hint=(SetVariable.of("provider.api_key"), ", or write it into .env"),
        )
    for section, key in WITH_PASSWORD:
        address = data.get(section, {}).get(key)
        if isinstance(address, str) and _PASSWORD.match(address):
            raise UnknownSetting(
                f"{where}: {section}.{key} holds a password, which does not belong in a file that "
                "is shared",
                hint=(
                    SetVariable.of(f"{section}.{key}"),
                    ", or leave the password out here",
                ),
            )


def checked_sections(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a file's sections, or those of a task profile, as they stand."""
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


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """Parse ``key=value`` words of a command line."""
    pairs = {}
    for word in assignments:
        key, sign, value = word.partition("=")
        if not sign:
            raise UnknownSetting(
                f"not a setting: {word!r}", hint=SetSetting("retrieval.top_k", "20")
            )
        pairs[key.strip()] = value.strip()
    return pairs


def bad_value(error: ValidationError, origin: Mapping[str, str]) -> UnknownSetting:
    """Return what to tell a person about a value that a setting does not take."""
    first = error.errors()[0]
    dotted = ".".join(str(part) for part in first["loc"][:2])
    if first["type"] == "extra_forbidden":
        return unknown(dotted)
    where = origin.get(dotted, "explicit")
    section, _, key = dotted.partition(".")
    field = SECTIONS[section].model_fields.get(key) if section in SECTIONS else None
    is_secret = field is not None and field.annotation is SecretStr
    value = "" if is_secret else f" = {first['input']!r}"
    takes = values_of(field) if field else ""
    said = "cannot be used"
    if first["type"] in _OWN_WORDS or not takes:
        said = str(first["msg"]).removeprefix("Value error, ")
    hint: Hint = (f"it takes: {takes}; " if takes else "", RunCommand("config show"))
    return UnknownSetting(f"setting {dotted}{value} ({where}): {said}", hint=hint)
