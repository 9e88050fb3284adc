"""The workspace as a Dagster resource: it holds settings, the library does the work."""

import json
from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field, SecretStr

from ragstream_core.config import AppConfig, quiet_environment
from ragstream_core.errors import UnknownSetting
from ragstream_core.settings import decides_where
from ragstream_core.settings.layers import set_variable
from ragstream_core.wiring.workspace import Workspace, open_workspace

KEPT_OUT = ("paths.data_dir", "provider.api_key", "embeddings.shared")
"""Explicit settings that never go into run config: stated otherwise, or secret."""

_Key = tuple[str, tuple[tuple[str, str], ...]]
_workspaces: dict[_Key, Workspace] = {}


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One data root with its settings, opened once a process."""

    data_dir: str = Field(
        default="", description="The data root; empty: as configured, else `./data`."
    )
    settings: dict[str, str] = Field(
        default={}, description="Settings over those of ragstream.yaml, e.g. `chunking.profile`."
    )

    def open(self) -> Workspace:
        """Return the workspace; environment and files are read here, at run time.

        Raises:
            UnknownSetting: A setting that does not exist or has a bad value.
        """
        key = _key(self.data_dir, self.settings)
        if key not in _workspaces:
            quiet_environment()
            data_dir = self.data_dir or None
            _require_settled(open_workspace(data_dir).config, self.settings)
            _workspaces[key] = open_workspace(data_dir, explicit=dict(self.settings))
        return _workspaces[key]


def _require_settled(config: AppConfig, settings: Mapping[str, str]) -> None:
    """Refuse addresses and code of a run: its config may lie in a data root that came from others.

    Raises:
        UnknownSetting: It names another one than this process's own settings, or no known setting.
    """
    for name in settings:
        if decides_where(name, settings[name]) and setting_text(config, name) != settings[name]:
            raise UnknownSetting(
                f"{name} is not taken from a run",
                hint=("set it in ragstream.yaml or by ", set_variable(name)),
            )


def adopt(workspace: Workspace) -> dict[str, Any]:
    """Let runs of this process use an open workspace; return the resource config that names it."""
    data_dir, settings = str(workspace.data_dir), chosen_settings(workspace.config)
    _workspaces[_key(data_dir, settings)] = workspace
    return {"data_dir": data_dir, "settings": settings}


def chosen_settings(config: AppConfig) -> dict[str, str]:
    """Return the settings that no file or environment holds, as run config may carry them."""
    chosen = {}
    for key, origin in config.origin.items():
        if (origin == "explicit" or origin.startswith("task ")) and key not in KEPT_OUT:
            text = setting_text(config, key)
            if text is not None:
                chosen[key] = text
    return chosen


def setting_text(config: AppConfig, dotted: str) -> str | None:
    """Return a setting as run config has it; None for a secret, which it never has."""
    section, _, name = dotted.partition(".")
    value = getattr(getattr(config.settings, section, None), name, None)
    if isinstance(value, SecretStr):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _key(data_dir: str, settings: dict[str, str]) -> _Key:
    return data_dir, tuple(sorted(settings.items()))
