"""The resources of every step: the workspace, and what the steps of a run share in its process."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg
from pydantic import Field, SecretStr

from ragstream_core.config import AppConfig, quiet_environment
from ragstream_core.errors import SetVariable, UnknownSetting
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.ports import PhaseProgress
from ragstream_core.prompts.store import PromptRecord
from ragstream_core.records import SuperPrompt
from ragstream_core.settings import decides_where
from ragstream_core.wiring.workspace import Workspace, open_workspace

# Explicit settings that never go into run config: stated otherwise, or secret.
KEPT_OUT = ("paths.data_dir", "provider.api_key", "embeddings.shared")

_Key = tuple[str, tuple[tuple[str, str], ...]]
_workspaces: dict[_Key, Workspace] = {}


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One data root with its settings, opened once a process; the library does the work."""

    data_dir: str = Field(
        default="", description="The data root; empty: as configured, else `./data`."
    )
    settings: dict[str, str] = Field(
        default={}, description="Settings over those of ragstream.yaml, e.g. `chunking.profile`."
    )

    def open(self) -> Workspace:
        """Return the workspace; environment and files are read here, at run time."""
        key = _key(self.data_dir, self.settings)
        if key not in _workspaces:
            quiet_environment()
            data_dir = self.data_dir or None
            _require_settled(open_workspace(data_dir).config, self.settings)
            _workspaces[key] = open_workspace(data_dir, explicit=dict(self.settings))
        return _workspaces[key]


def _require_settled(config: AppConfig, settings: Mapping[str, str]) -> None:
    """Refuse addresses and code of a run: its config may lie in a data root that came from others.

    What this process's own settings say as well is taken.
    """
    for name in settings:
        if decides_where(name, settings[name]) and setting_text(config, name) != settings[name]:
            raise UnknownSetting(
                f"{name} is not taken from a run",
                hint=("set it in ragstream.yaml or by ", SetVariable.of(name)),
            )


def adopt(workspace: Workspace) -> dict[str, Any]:
    """Let runs of this process use an open workspace; return the resource config that names it."""
    config, data_dir = workspace.config, str(workspace.data_dir)
    settings: dict[str, str] = {}  # those that no file or environment holds
    for key, origin in config.origin.items():
        if (origin == "explicit" or origin.startswith("task ")) and key not in KEPT_OUT:
            text = setting_text(config, key)
            if text is not None:
                settings[key] = text
    _workspaces[_key(data_dir, settings)] = workspace
    return {"data_dir": data_dir, "settings": settings}


def setting_text(config: AppConfig, dotted: str) -> str | None:
    """Return a setting as run config has it; None for a secret, which it never has."""
    section, _, name = dotted.partition(".")
    value = getattr(getattr(config.settings, section, None), name, None)
    if isinstance(value, SecretStr):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _key(data_dir: str, settings: dict[str, str]) -> _Key:
    return data_dir, tuple(sorted(settings.items()))


@dataclass
class RunState:
    """What the steps of one run share; nothing of it is stored.

    Dagster makes one for each run; `--dagster` gives its own, and reads it afterwards.
    """

    progress: PhaseProgress | None = None
    stats: IngestionStats | None = None
    ingested_at: float = 0.0  # when it was through, on the clock of `time.perf_counter`
    passed: dict[str, SuperPrompt] = field(default_factory=dict)  # step → the prompt after it
    timings_ms: dict[str, float] = field(default_factory=dict)  # op → what its steps took
    record: PromptRecord | None = None  # answers in place of the stages; None if they run
    error: Exception | None = None  # what a step raised, before Dagster wrapped it

    def tell(self, phase: str) -> None:
        """Report which part of the run begins."""
        if self.progress is not None:
            self.progress(phase, 0, 0)

    def warn(self, text: str) -> None:
        """Add a warning to what the ingest did, if there was one."""
        if self.stats is not None:
            self.stats = replace(self.stats, warnings=(*self.stats.warnings, text))


# Key of the resource that is a step's `RunState`.
RUN = "run"
Run = dg.ResourceParam[RunState]
