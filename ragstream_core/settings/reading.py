"""Reads the files of settings: what of each counts, and what does not until it is confirmed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import UnknownSetting
from ragstream_core.settings import SECTIONS
from ragstream_core.settings.confirmation import Layer, SettingsFile, own_folder, sift
from ragstream_core.settings.layers import file_bytes, layer_of, listed, unknown
from ragstream_core.settings.prompts import MemoryConfig
from ragstream_core.settings.task_profiles import checked_tasks

Confirmed = Callable[[Path, bytes], bool]
"""Says whether a person has confirmed a file with these bytes."""
PREFIX = "RAGSTREAM_"
SHORT_NAMES: dict[str, tuple[str, str] | None] = {
    "RAGSTREAM_DATA_DIR": ("paths", "data_dir"),
    "HF_ENDPOINT": ("hub", "url"),
    "RAGSTREAM_CONFIG": None,
    "RAGSTREAM_SETTINGS_DIRS": None,
    "RAGSTREAM_STATE_DIR": None,
    "RAGSTREAM_TEST_MODELS": None,
}


class ReadFile(NamedTuple):
    """What counts of a file.

    Attributes:
        file: Which one, and what does not count.
        layer: Section → key → value.
        tasks: Its task profiles.
    """

    file: SettingsFile
    layer: Layer
    tasks: dict[str, Layer]


def read_settings(path: Path, *, named: bool, confirmed: Confirmed) -> ReadFile:
    """Read a settings file."""
    data = file_bytes(path)
    said = dict(layer_of(data, path))
    tasks = checked_tasks(said.pop("tasks", {}), path)
    if named:
        return ReadFile(SettingsFile(path, "named"), said, tasks)
    own = own_folder(path)
    layer, left = sift(said, SECTIONS, own)
    sifted = {}
    for name, profile in tasks.items():
        sifted[name], more = sift(profile, SECTIONS, own, task=name)
        left += more
    if confirmed(path, data):
        return ReadFile(SettingsFile(path, "confirmed"), said, tasks)
    return ReadFile(SettingsFile(path, "unconfirmed", left), layer, sifted)


def read_dotenv(path: Path, *, confirmed: Confirmed) -> ReadFile:
    """Read the settings of a ``.env`` file; its other variables are left alone."""
    data, plain = _dotenv(path)
    is_confirmed = confirmed(path, data)
    # `${NAME}` of a file that nobody has confirmed could carry the environment's keys elsewhere
    found = variables_layer(_with_environment(path, data) if is_confirmed else plain)
    if is_confirmed:
        return ReadFile(SettingsFile(path, "confirmed"), found, {})
    layer, left = sift(found, SECTIONS, own_folder(path))
    return ReadFile(SettingsFile(path, "unconfirmed", left), layer, {})


def variables_layer(variables: Mapping[str, str]) -> Layer:
    """Return the settings that variables of an environment name."""
    layer: Layer = {}
    for name, value in variables.items():
        target = _target(name)
        if target is not None and (value or name not in SHORT_NAMES):  # an empty one sets nothing
            layer.setdefault(target[0], {})[target[1]] = listed(value)
    return layer


@functools.cache
def _dotenv(path: Path) -> tuple[bytes, dict[str, str]]:
    """Read a ``.env`` file once in the life of a process (R-095)."""
    data = file_bytes(path)
    return data, _values(path, data, interpolate=False)


@functools.cache
def _with_environment(path: Path, data: bytes) -> dict[str, str]:
    return _values(path, data, interpolate=True)


def _values(path: Path, data: bytes, *, interpolate: bool) -> dict[str, str]:
    import io

    from dotenv import dotenv_values

    try:
        text = data.decode("utf-8")
    except ValueError:
        raise UnknownSetting(f"{path} is not UTF-8", hint="save it as UTF-8") from None
    values = dotenv_values(stream=io.StringIO(text), interpolate=interpolate)
    return {name: value for name, value in values.items() if value is not None}


def _target(name: str) -> tuple[str, str] | None:
    """Return section and key that a variable sets; None if it is none of ours."""
    if name in SHORT_NAMES:
        return SHORT_NAMES[name]
    if name.startswith("MEMORY_"):
        key = name.removeprefix("MEMORY_").lower()
        return ("memory", key) if key in MemoryConfig.model_fields else None
    if not name.startswith(PREFIX):
        return None
    section, _, key = name.removeprefix(PREFIX).lower().partition("__")
    if key not in (SECTIONS[section].model_fields if section in SECTIONS else {}):
        raise unknown(f"{section}.{key}" if key else name)
    return section, key
