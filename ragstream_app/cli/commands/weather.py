"""`ragstream weather`: the forecast of a city as a table, with an explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragstream_app.cli import options
from ragstream_app.session import FAILED, emit_json, note, session_of

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

WEATHER_EPILOG = """**Examples**

ragstream weather Berlin

ragstream weather Berlin --country US --days 3

ragstream weather Lisbon --days 14 --explain llm

Asks api.open-meteo.com and geocoding-api.open-meteo.com for at most 15 seconds. Prompts never
do. Exits with 1 if there are no figures."""


def weather(
    ctx: typer.Context,
    city: Annotated[str, typer.Argument(help="The name of a city or place.")],
    days: Annotated[int, typer.Option(min=1, max=16, help="How many days, today first.")] = 7,
    country: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Its country, such as DE or Germany, if several have the name."
        ),
    ] = "",
    explain: Annotated[
        Literal["text", "llm"],
        typer.Option(
            help="Who explains the figures: plain rules, or the language model of `provider`."
        ),
    ] = "text",
    as_json: options.Json = False,
) -> None:
    """Show the weather of a city: days, trend, unusual days, and what that means.

    Raises:
        RagstreamError: The provider's settings are wrong; only with `--explain llm`.
        Exit: There are no figures.
    """
    from ragstream_core.services.weather import look_up

    workspace = session_of(ctx).workspace()
    if explain == "llm":
        _announce(workspace)
    found = look_up(workspace, city, days, country=country, explain=explain)
    if as_json:
        emit_json(found.model_dump(mode="json"))
    else:
        from ragstream_app.output.weather import print_weather

        print_weather(found)
    if found.problem:
        raise typer.Exit(FAILED)


def _announce(workspace: Workspace) -> None:
    """Say where the figures go, before they do."""
    from ragstream_core.services.weather import explainer

    model = explainer(workspace)
    if not model.is_local:
        note(f"the name of the place and its figures go to the language model at {model.host}")
