"""The weather tool of a workspace: its settings say which language model may explain, if any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ragstream_core.weather.records import WeatherAnalysis
from ragstream_core.weather.tool import WeatherTool
from ragstream_core.wiring import models

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel
    from ragstream_core.wiring.workspace import Workspace

Explain = Literal["text", "llm"]


def look_up(
    workspace: Workspace,
    city: str,
    days: int,
    *,
    country: str = "",
    explain: Explain = "text",
) -> WeatherAnalysis:
    """Ask Open-Meteo for a city's weather; nothing of it is kept.

    Args:
        workspace: Its provider settings are read; its documents never.
        city: 1 to 100 characters.
        days: 1 to 16.
        country: Two letters or an English name; empty: any.
        explain: ``llm``: the configured language model is sent the figures and explains them.
    """
    model = explainer(workspace) if explain == "llm" else None
    return WeatherTool(model=model).run(city, days, country=country)


def explainer(workspace: Workspace) -> ChatModel:
    """Return who would explain the figures; nobody is contacted."""
    return models.chat_model(workspace.config)
