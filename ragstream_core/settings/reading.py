"""Reads the files of settings: what of each counts until it is confirmed, and its task profiles."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import UnknownSetting
from ragstream_core.settings import SECTIONS
from ragstream_core.settings.confirmation import Layer, SettingsFile, own_folder, sift
from ragstream_core.settings.layers import checked_sections, file_bytes, layer_of, listed, unknown
from ragstream_core.settings.prompts import MemoryConfig

# Says whether a person has confirmed a file with these bytes.
Confirmed = Callable[[Path, bytes], bool]
PREFIX = "RAGSTREAM_"
SHORT_NAMES: dict[str, tuple[str, str] | None] = {
    "RAGSTREAM_DATA_DIR": ("paths", "data_dir"),
    "HF_ENDPOINT": ("hub", "url"),
    "RAGSTREAM_CONFIG": None,
    "RAGSTREAM_SETTINGS_DIRS": None,
    "RAGSTREAM_STATE_DIR": None,
    "RAGSTREAM_TEST_MODELS": None,
}

# The profile that chats and the page begin with.
CHAT_TASK = "chat"
# Task profiles that ship with RAGstream; `tasks:` in ragstream.yaml adds to them.
TASKS: dict[str, Layer] = {
    # seed 004: the best ten of BM25 and of the vectors, half and half, reranked, five passages
    CHAT_TASK: {
        "retrieval": {"depth": 10, "dense_weight": 0.5, "top_k": 20},
        "rerank": {"keep": 5},
    },
    # seed 001: dense LogAvgExp alone
    "seed_dense": {"retrieval": {"dense_weight": 1.0}},
    # seed 003: the best passages embedded anew and sorted by the question's vectors
    "reembed": {"rerank": {"backend": "reembed"}},
    # more evidence for long answers
    "long_form": {
        "retrieval": {"top_k": 80, "max_context_chars": 48000, "max_context_tokens": 9000},
        "prompt": {"budget_tokens": 12000, "max_facts": 24},
    },
    # a small context window
    "short": {
        "retrieval": {"max_context_chars": 6000, "max_context_tokens": 1200},
        "prompt": {"budget_tokens": 2500, "max_facts": 6},
    },
}


class ReadFile(NamedTuple):
    """What counts of a file."""

    file: SettingsFile  # which one, and what does not count
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


def checked_tasks(tasks: object, path: Path | None) -> dict[str, Layer]:
    """Return the task profiles of a file."""
    wrong = UnknownSetting(f"{path}: tasks must map names to sections")
    if not isinstance(tasks, dict):
        raise wrong
    found: dict[str, Layer] = {}
    for name, profile in tasks.items():
        if not (isinstance(name, str) and isinstance(profile, dict | None)):
            raise wrong
        found[name] = checked_sections(profile or {}, f"{path}, task {name}")
    return found


def shipped_tasks() -> dict[str, Layer]:
    """Return the task profiles that come with RAGstream."""
    return copy.deepcopy(TASKS)


def task_layer(tasks: Mapping[str, Layer], name: str) -> Layer:
    """Return one task profile."""
    if name not in tasks:
        raise UnknownSetting(
            f"unknown task profile {name!r}", hint=f"one of: {', '.join(sorted(tasks))}"
        )
    return tasks[name]
