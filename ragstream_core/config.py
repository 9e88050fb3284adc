"""Settings, read once: defaults < ragstream.yaml < .env < environment < task < explicit.

The only module that reads the environment, and the one that switches off every telemetry. A file
that the person has neither named nor confirmed may have come from a stranger: of such a one only
what can do no harm counts, see `ragstream_core.settings.confirmation`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstream_core.errors import Advice, SetVariable, UnknownSetting, quoted
from ragstream_core.platform import confirmed_files, data_root, import_path
from ragstream_core.platform.data_root import Layout
from ragstream_core.settings import CHAIN_SECTIONS, SECTIONS, ChainSettings, Settings, known_keys
from ragstream_core.settings.confirmation import (
    Layer,
    SettingsFile,
    counting,
    left_out_notices,
    require_whole,
)
from ragstream_core.settings.layers import (
    bad_value,
    listed,
    nested,
)
from ragstream_core.settings.layers import parse_assignments as parse_assignments
from ragstream_core.settings.prompts import PromptConfig, RetrievalConfig
from ragstream_core.settings.reading import (
    PREFIX,
    TASKS,
    read_dotenv,
    read_settings,
    shipped_tasks,
    task_layer,
    variables_layer,
)

CONFIG_NAME = "ragstream.yaml"
DOTENV_NAME = ".env"
_PATHS = (
    ("paths", "index_dir"), ("paths", "logs"), ("history", "lexicon"),
    ("provider", "api_key_file"), ("provider", "script"),
)  # fmt: skip
_ROOT_NAMES = ("RAGSTREAM_DATA_DIR", f"{PREFIX}PATHS__DATA_DIR")
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
    """All settings of one process, frozen, and where each came from (R-092…R-098)."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    settings: Settings
    tasks: dict[str, Layer]
    # dotted key → default, the file's name, .env, environment, task NAME or explicit
    origin: dict[str, str]
    # the layers below the task, files and environment; they may hold a key in the clear
    base: tuple[tuple[str, Layer], ...] = Field((), repr=False)
    explicit: dict[str, Any] = Field({}, repr=False)
    task: str = ""  # the task profile that these settings are under
    files: tuple[SettingsFile, ...] = ()  # with what of them does not count
    folders: tuple[Path, ...] = ()  # where settings files were looked for

    @classmethod
    def load(
        cls,
        config_path: Path | None = None,
        *,
        task: str = "",
        explicit: Mapping[str, object] | None = None,
    ) -> AppConfig:
        """Merge all layers.

        A task names a profile; `explicit` is the strongest layer, dotted key → value. Without a
        path ``$RAGSTREAM_CONFIG`` is read, else the first ``ragstream.yaml`` in `settings_folders`.
        """
        given = dict(explicit or {})
        found = found_root(given)
        folders = settings_folders(given, found)
        own = os.environ.get("RAGSTREAM_CONFIG", "")
        named = config_path or (Path(own) if own else None)
        base: list[tuple[str, Layer]] = []
        if found is not None:
            base.append((str(found), {"paths": {"data_dir": str(found)}}))
        tasks, files = shipped_tasks(), []
        if path := named or _first(folders, CONFIG_NAME):
            read = read_settings(path, named=named is not None, confirmed=is_confirmed)
            base.append((path.name, read.layer))
            tasks |= read.tasks
            files.append(read.file)
        if dotenv := _first(folders, DOTENV_NAME):
            read = read_dotenv(dotenv, confirmed=is_confirmed)
            base.append((DOTENV_NAME, read.layer))
            files.append(read.file)
        base.append(("environment", variables_layer(os.environ)))
        above = {f"{section}.{key}" for section, keys in base[-1][1].items() for key in keys}
        sifted = tuple(counting(file, above | given.keys()) for file in files)
        return _merged(_Read(tuple(base), tasks, sifted, folders), task=task, explicit=given)

    def with_task(
        self, task: str = "", *, explicit: Mapping[str, object] | None = None
    ) -> AppConfig:
        """Return these settings under a task profile, "" for the one of now; explicit ones on top.

        What was explicit at load stays explicit (C-31).
        """
        given = {**self.explicit, **(explicit or {})}
        read = _Read(self.base, self.tasks, self.files, self.folders)
        return _merged(read, task=task or self.task, explicit=given)

    def resolve_task(self, task_name: str) -> tuple[RetrievalConfig, PromptConfig]:
        """Return the retrieval and prompt settings of a task profile over these (R-096)."""
        settings = self.with_task(task_name).settings
        return settings.retrieval, settings.prompt

    @property
    def file(self) -> SettingsFile | None:
        """The settings file that was read; None if there is none."""
        return next((file for file in self.files if file.path.name != DOTENV_NAME), None)

    def notices(self) -> tuple[tuple[str, Advice], ...]:
        """Return what a person should know about settings that do not count, and what to do."""
        found = left_out_notices(self.files, TASKS)
        if passed := self._passed_over():
            said = f"{passed} is not read: the data root is {self.data_dir}"
            found.append((said, (f"--config {quoted(passed)} reads it all the same",)))
        return tuple(found)

    def _passed_over(self) -> Path | None:
        """Return the settings file of the working directory if another data root was named."""
        if "RAGSTREAM_SETTINGS_DIRS" in os.environ or (self.file and self.file.state == "named"):
            return None
        try:
            path = Path.cwd() / CONFIG_NAME
        except FileNotFoundError:
            return None
        return path if path.parent not in self.folders and path.is_file() else None

    @functools.cached_property
    def data_dir(self) -> Path:
        """The data root, absolute."""
        return Path(self.settings.paths.data_dir).absolute()

    @functools.cached_property
    def layout(self) -> Layout:
        """Where everything of the data root lies; `paths` may put indexes and logs elsewhere."""
        usual, paths = Layout.of(self.data_dir), self.settings.paths
        return Layout(
            self.data_dir,
            Path(paths.index_dir).absolute() if paths.index_dir else usual.indexes,
            Path(paths.logs).absolute() if paths.logs else usual.logs,
        )

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
    home = Layout.of(data_dir).dagster_home
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def set_dagster_database(url: str) -> None:
    """Give this process and its children the database of Dagster's records.

    SQLAlchemy reads ``postgresql://`` as psycopg 3; Dagster needs psycopg 2.
    """
    os.environ["DAGSTER_POSTGRES_URL"] = f"postgresql+psycopg2://{url.partition('://')[2]}"


def child_environment(config: AppConfig) -> dict[str, str]:
    """Return the environment of a server we start: the same settings and data root, no telemetry.

    Where settings are looked for is passed on, and not that they count: the child looks up for
    itself what is confirmed.
    No Python of it finds modules in the working directory.
    """
    named = config.file if config.file and config.file.state == "named" else None
    return {
        **import_path.closed(os.environ, "."),
        **QUIET,
        **({"RAGSTREAM_CONFIG": str(named.path.absolute())} if named else {}),
        "RAGSTREAM_SETTINGS_DIRS": json.dumps([str(folder) for folder in config.folders]),
        **_whole_paths(config),
        "RAGSTREAM_STATE_DIR": str(state_dir()),
        "RAGSTREAM_DATA_DIR": str(config.data_dir),
        "DAGSTER_HOME": str(config.layout.dagster_home),
    }


def _whole_paths(config: AppConfig) -> dict[str, str]:
    """Return the variables that name a file or a folder, for what is given from here alone."""
    found = {}
    for section, key in _PATHS:
        given = getattr(getattr(config.settings, section), key)
        if given and not Path(given).expanduser().is_absolute():
            found[f"{PREFIX}{section}__{key}".upper()] = str(Path(given).absolute())
    return found


def adopt_environment(config: AppConfig) -> None:
    """Let what this process loads later read these settings too, and its children, see above."""
    os.environ.update(child_environment(config))


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with further variables, for a program that it starts."""
    return {**os.environ, **variables}


def chosen_environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of these names that are set, for a program that may see no others."""
    return {name: os.environ[name] for name in names if name in os.environ}


def blas_core_type() -> str:
    """Return the BLAS kernel that the environment forces, empty where it chooses itself."""
    return os.environ.get("OPENBLAS_CORETYPE", "")


def overlay(settings: ChainSettings, changes: Mapping[str, object]) -> ChainSettings:
    """Return chain settings with dotted keys replaced and validated."""
    if not changes:
        return settings
    merged = settings.model_dump()
    for section, values in nested(changes).items():
        if section not in merged:
            dotted = f"{section}.{next(iter(values))}"
            raise UnknownSetting(
                f"{dotted} is not a setting that one prompt or run can have",
                hint=("set it in ragstream.yaml or by ", SetVariable.of(dotted)),
            )
        merged[section].update(values)
    try:
        return ChainSettings.model_validate(merged)
    except ValidationError as error:
        raise bad_value(error, {}) from None


def typed(changes: Mapping[str, object]) -> dict[str, Any]:
    """Return changes of chain settings as JSON keeps them: `1`, `1.0` and ``"1"`` are one value."""
    values = overlay(ChainSettings(), changes).model_dump(mode="json")
    parts = {dotted: dotted.partition(".") for dotted in changes}
    return {dotted: values[section][key] for dotted, (section, _, key) in parts.items()}


def settings_folders(explicit: Mapping[str, Any], found: Path | None) -> tuple[Path, ...]:
    """Return the folders in which settings files are looked for, the first one first.

    A data root that was named has its own settings, in it or beside it; what lies in the working
    directory is none of its business.
    """
    in_environment = next(filter(None, map(os.environ.get, _ROOT_NAMES)), "")
    named = str(explicit.get("paths.data_dir") or in_environment)
    try:
        here = Path.cwd()
        root = Path(os.path.normpath(here / named))
        passed = os.environ.get("RAGSTREAM_SETTINGS_DIRS", "")
        if passed and named and root == Path(os.path.normpath(here / in_environment)):
            return tuple(map(Path, json.loads(passed)))  # a child of ours
    except FileNotFoundError:  # the working directory was deleted
        return ()
    if named:
        return root, root.parent
    return (here,) if found is None else tuple(dict.fromkeys((here, found.parent)))


def state_dir() -> Path:
    """Return the folder of what RAGstream remembers for this user beside all data roots."""
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not home.is_absolute():
        try:
            home = Path.home() / ".local" / "state"
        except RuntimeError:  # this user has none
            home = Path("/nonexistent")
    return Path(os.environ.get("RAGSTREAM_STATE_DIR") or home / "ragstream").absolute()


def is_confirmed(path: Path, data: bytes) -> bool:
    """Return whether the person has confirmed a file with these bytes."""
    return confirmed_files.is_confirmed(state_dir(), path, data)


def _first(folders: tuple[Path, ...], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def found_root(explicit: Mapping[str, Any]) -> Path | None:
    """Return the data root beside the project that the working directory lies in, if none is set.

    An environment or a command line that names a root leaves it, and the settings beside it, alone.
    """
    if "paths.data_dir" in explicit or any(map(os.environ.get, _ROOT_NAMES)):
        return None
    try:
        return data_root.find(Path.cwd())
    except FileNotFoundError:  # the working directory was deleted
        return None


class _Read(NamedTuple):
    """What settings are merged from, beside task and explicit values; as in `AppConfig`."""

    base: tuple[tuple[str, Layer], ...]
    tasks: dict[str, Layer]
    files: tuple[SettingsFile, ...]
    folders: tuple[Path, ...]


def _merged(read: _Read, *, task: str, explicit: dict[str, Any]) -> AppConfig:
    layers = list(read.base)
    if task:
        layers.append((f"task {task}", task_layer(read.tasks, task)))
        if task not in TASKS:  # of a shipped one what is left out is told, as of the file itself
            require_whole(read.files, task)
    layers.append(("explicit", nested(explicit)))
    merged, origin = _merge(layers)
    settings = _validate(merged, origin)
    return AppConfig(
        settings=settings, origin=origin, explicit=explicit, task=task, **read._asdict()
    )


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
        raise bad_value(error, origin) from None
