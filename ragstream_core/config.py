"""Settings, read once: defaults < .ragstream < ragstream.yaml < environment < task < explicit.

The only module that reads the environment, and the one that switches off every telemetry.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from ragstream_core.errors import RunCommand, SetSetting, UnknownSetting
from ragstream_core.platform import data_root, import_path
from ragstream_core.settings import CHAIN_SECTIONS, SECTIONS, ChainSettings, Settings, known_keys
from ragstream_core.settings.layers import Layer, file_layer, listed, nested, unknown
from ragstream_core.settings.prompts import MemoryConfig, PromptConfig, RetrievalConfig
from ragstream_core.settings.task_profiles import checked_tasks, shipped_tasks, task_layer
from ragstream_core.settings.values import values_of

CONFIG_NAME = "ragstream.yaml"
PREFIX = "RAGSTREAM_"
SHORT_NAMES: dict[str, tuple[str, str] | None] = {
    "RAGSTREAM_DATA_DIR": ("paths", "data_dir"),
    "HF_ENDPOINT": ("hub", "url"),
    "RAGSTREAM_CONFIG": None,
    "RAGSTREAM_TEST_MODELS": None,
}
# Telemetry, hub look-ups and the search for plugins of pydantic off; no module of Dagster's code
# server from the working directory; one BLAS thread: two spin and cost up to 2.8 x the CPU.
QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "DAGSTER_EMPTY_WORKING_DIRECTORY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
    "HF_HUB_OFFLINE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
    "TOKENIZERS_PARALLELISM": "false",
}


class AppConfig(BaseModel):
    """All settings of one process, frozen, and where each came from (R-092…R-098).

    Attributes:
        settings: The merged sections.
        tasks: Named task profiles: section → key → value.
        origin: Dotted key → ``default``, the file's name, ``environment``, ``task NAME`` or
            ``explicit``.
        base: The layers below the task: file and environment.
        explicit: Dotted key → value, as given.
        file: The configuration file that was read; None if there is none.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    settings: Settings
    tasks: dict[str, Layer]
    origin: dict[str, str]
    base: tuple[tuple[str, Layer], ...] = Field((), repr=False)  # may hold a key in the clear
    explicit: dict[str, Any] = Field({}, repr=False)
    file: Path | None = None

    @classmethod
    def load(
        cls,
        config_path: Path | None = None,
        *,
        task: str = "",
        explicit: Mapping[str, object] | None = None,
    ) -> AppConfig:
        """Merge all layers.

        Args:
            config_path: A YAML or JSON file; default: ``$RAGSTREAM_CONFIG``, else
                ``ragstream.yaml`` in the working directory if there is one, else the one beside
                the ``.ragstream`` that was found from there up.
            task: Name of a task profile; empty for none.
            explicit: Dotted key → value, the strongest layer (command line, run config).

        Raises:
            UnknownSetting: An unknown key (the nearest one is named), a bad value, an unknown
                task, an unreadable file.
        """
        found = found_root(explicit or {})
        path = config_path or default_config_path(found)
        origin_of = path.name if path else CONFIG_NAME
        layer = dict(file_layer(path))
        tasks = {**shipped_tasks(), **checked_tasks(layer.pop("tasks", {}), path)}
        base: tuple[tuple[str, Layer], ...]
        base = (origin_of, layer), ("environment", _env_layer())
        if found is not None:
            base = ((str(found), {"paths": {"data_dir": str(found)}}), *base)
        return cls._merged(base, tasks, task=task, explicit=dict(explicit or {}), file=path)

    @classmethod
    def _merged(
        cls,
        base: tuple[tuple[str, Layer], ...],
        tasks: dict[str, Layer],
        *,
        task: str,
        explicit: dict[str, Any],
        file: Path | None,
    ) -> AppConfig:
        layers = list(base)
        if task:
            layers.append((f"task {task}", task_layer(tasks, task)))
        layers.append(("explicit", nested(explicit)))
        merged, origin = _merge(layers)
        settings = _validate(merged, origin)
        return cls(
            settings=settings,
            tasks=tasks,
            origin=origin,
            base=base,
            explicit=explicit,
            file=file,
        )

    def with_task(
        self, task: str = "", *, explicit: Mapping[str, object] | None = None
    ) -> AppConfig:
        """Return these settings under a task profile, explicit ones on top (C-31).

        Args:
            task: Name of a task profile; empty for none.
            explicit: Dotted key → value, over those given at load.

        Raises:
            UnknownSetting: An unknown task, key or value.
        """
        given = {**self.explicit, **(explicit or {})}
        return self._merged(self.base, self.tasks, task=task, explicit=given, file=self.file)

    def resolve_task(self, task_name: str) -> tuple[RetrievalConfig, PromptConfig]:
        """Return the retrieval and prompt settings of a task profile over these settings (R-096).

        Raises:
            UnknownSetting: No such task profile.
        """
        settings = self.with_task(task_name).settings
        return settings.retrieval, settings.prompt

    @functools.cached_property
    def data_dir(self) -> Path:
        """The data root, absolute."""
        return Path(self.settings.paths.data_dir).absolute()

    @functools.cached_property
    def index_dir(self) -> Path:
        """The root of all indexes, absolute."""
        given = self.settings.paths.index_dir
        return Path(given).absolute() if given else self.data_dir / "index"

    @property
    def logs_dir(self) -> Path:
        """The folder of the journal and the debug logs, absolute."""
        given = self.settings.paths.logs
        return Path(given).absolute() if given else self.data_dir / "history" / "logs"

    def chain(self) -> ChainSettings:
        """Return the settings a prompt's result depends on."""
        chain = ChainSettings(**{s: getattr(self.settings, s) for s in CHAIN_SECTIONS})
        alias = self.settings.vector_store.backend
        if alias != chain.retrieval.store and self.origin.get("retrieval.store") == "default":
            return overlay(chain, {"retrieval.store": alias})
        return chain


def quiet_environment() -> None:
    """Set `QUIET` for this process and its children; each entry point calls this first."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def set_dagster_home(data_dir: Path) -> Path:
    """Point ``DAGSTER_HOME`` into the data root and return it; children inherit it."""
    home = data_dir / "dagster_home"
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def set_dagster_database(url: str) -> None:
    """Give this process and its children the database of Dagster's records.

    Args:
        url: As psycopg takes it. SQLAlchemy reads it bare as psycopg 3, Dagster needs psycopg 2.
    """
    os.environ["DAGSTER_POSTGRES_URL"] = f"postgresql+psycopg2://{url.partition('://')[2]}"


def child_environment(config: AppConfig) -> dict[str, str]:
    """Return the environment of a server we start: the same settings and data root, no telemetry.

    The file is named, since one beside a ``.ragstream`` is not looked for once a root is named. No
    Python of it finds modules in the working directory.
    """
    named = {"RAGSTREAM_CONFIG": str(config.file.absolute())} if config.file else {}
    return {
        **import_path.closed(os.environ, "."),
        **QUIET,
        **named,
        "RAGSTREAM_DATA_DIR": str(config.data_dir),
        "DAGSTER_HOME": str(config.data_dir / "dagster_home"),
    }


def adopt_environment(config: AppConfig) -> None:
    """Let what this process loads later read these settings too, and its children, see above."""
    os.environ.update(child_environment(config))


def chosen_environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of these names that are set, for a program that may see no others."""
    return {name: os.environ[name] for name in names if name in os.environ}


def blas_core_type() -> str:
    """Return the BLAS kernel that the environment forces, empty where it chooses itself."""
    return os.environ.get("OPENBLAS_CORETYPE", "")


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """Parse ``key=value`` words of a command line.

    Raises:
        UnknownSetting: A word without ``=``.
    """
    pairs = {}
    for word in assignments:
        key, sign, value = word.partition("=")
        if not sign:
            raise UnknownSetting(
                f"not a setting: {word!r}", hint=SetSetting("retrieval.top_k", "20")
            )
        pairs[key.strip()] = value.strip()
    return pairs


def overlay(settings: ChainSettings, changes: Mapping[str, object]) -> ChainSettings:
    """Return chain settings with dotted keys replaced and validated.

    Raises:
        UnknownSetting: A key that is unknown or that no stage reads, or a bad value.
    """
    if not changes:
        return settings
    merged = settings.model_dump()
    for section, values in nested(changes).items():
        if section not in merged:
            raise UnknownSetting(
                f"{section}.{next(iter(values))} is not read by the chain",
                hint=f"sections: {', '.join(CHAIN_SECTIONS)}",
            )
        merged[section].update(values)
    try:
        return ChainSettings.model_validate(merged)
    except ValidationError as error:
        raise _bad_value(error, {}) from None


def typed(changes: Mapping[str, object]) -> dict[str, Any]:
    """Return changes of chain settings as they are kept: `1`, `1.0` and ``"1"`` become one value.

    Args:
        changes: Dotted key → value, or its text; a list may be a text with commas.

    Returns:
        Dotted key → value as JSON has it.

    Raises:
        UnknownSetting: As `overlay`.
    """
    values = overlay(ChainSettings(), changes).model_dump(mode="json")
    parts = {dotted: dotted.partition(".") for dotted in changes}
    return {dotted: values[section][key] for dotted, (section, _, key) in parts.items()}


def _bad_value(error: ValidationError, origin: Mapping[str, str]) -> UnknownSetting:
    first = error.errors()[0]
    dotted = ".".join(str(part) for part in first["loc"][:2])
    if first["type"] == "extra_forbidden":
        return unknown(dotted)
    where = origin.get(dotted, "explicit")
    section, _, key = dotted.partition(".")
    field = SECTIONS[section].model_fields.get(key) if section in SECTIONS else None
    is_secret = field is not None and field.annotation is SecretStr
    value = "" if is_secret else f" = {first['input']!r}"
    takes = f"it takes: {values_of(field)}; " if field else ""
    return UnknownSetting(
        f"setting {dotted}{value} ({where}): {first['msg']}",
        hint=(takes, RunCommand("config show")),
    )


def default_config_path(root: Path | None = None) -> Path | None:
    """Return the configuration file that is taken if none is named; None if there is none.

    Args:
        root: A ``.ragstream`` that was found: the file beside it is taken if there is none here.
    """
    named = os.environ.get("RAGSTREAM_CONFIG", "")
    path = Path(named or CONFIG_NAME)
    if path.is_file() or named:
        return path
    beside = root.parent / CONFIG_NAME if root is not None else path
    return beside if beside.is_file() else None


def found_root(explicit: Mapping[str, Any]) -> Path | None:
    """Return the data root beside the project that the working directory lies in, if none is set.

    An environment or a command line that names a root leaves it, and the settings beside it, alone.

    Args:
        explicit: Dotted key → value, as given to `AppConfig.load`.
    """
    names = ("RAGSTREAM_DATA_DIR", f"{PREFIX}PATHS__DATA_DIR")
    if "paths.data_dir" in explicit or any(map(os.environ.get, names)):
        return None
    try:
        return data_root.find(Path.cwd())
    except FileNotFoundError:  # the working directory was deleted
        return None


@functools.cache
def _dotenv(path: Path) -> dict[str, str]:
    """Read a ``.env`` file once in the life of a process (R-095)."""
    from dotenv import dotenv_values

    return {k: v for k, v in dotenv_values(path).items() if v is not None}


def _env_layer() -> Layer:
    dotenv = Path(".env").absolute()
    variables = {**(_dotenv(dotenv) if dotenv.is_file() else {}), **os.environ}
    layer: Layer = {}
    for name, value in variables.items():
        target = _env_target(name)
        if target is not None and (value or name not in SHORT_NAMES):  # an empty one sets nothing
            layer.setdefault(target[0], {})[target[1]] = listed(value)
    return layer


def _env_target(name: str) -> tuple[str, str] | None:
    if name in SHORT_NAMES:
        return SHORT_NAMES[name]
    if name.startswith("MEMORY_"):
        section, key = "memory", name.removeprefix("MEMORY_").lower()
        return (section, key) if key in MemoryConfig.model_fields else None
    if not name.startswith(PREFIX):
        return None
    section, _, key = name.removeprefix(PREFIX).lower().partition("__")
    if key not in (SECTIONS[section].model_fields if section in SECTIONS else {}):
        raise unknown(f"{section}.{key}" if key else name)
    return section, key


def _merge(layers: list[tuple[str, Layer]]) -> tuple[Layer, dict[str, str]]:
    merged: Layer = {section: {} for section in SECTIONS}
    origin = dict.fromkeys(known_keys(), "default")
    for name, layer in layers:
        for section, values in layer.items():
            for key, value in values.items():
                merged.setdefault(section, {})[key] = listed(value)
                origin[f"{section}.{key}"] = name
    return merged, origin


def _validate(merged: Layer, origin: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise _bad_value(error, origin) from None
