"""`WeatherTool`: a city and a number of days in, a `WeatherAnalysis` out, whatever happens (R-264).

No stage of a prompt calls it. Nothing is written, and no service is asked before `run`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstream_core.errors import RagstreamError
from ragstream_core.platform.http import Kind, RequestError
from ragstream_core.ports import ChatModel
from ragstream_core.weather import analytics, words
from ragstream_core.weather.open_meteo import OpenMeteo
from ragstream_core.weather.records import (
    MAX_ALTERNATIVES,
    MAX_DAYS,
    MAX_NAME,
    MIN_DAYS,
    TEXT,
    Place,
    WeatherAnalysis,
    one_line,
)

# Both questions together take no longer.
TIMEOUT_S = 15.0
LATER = "Try again later."
NEXT: dict[Kind, str] = {
    "unreachable": "Check the network; nothing else of RAGstream needs it.",
    "broken": f"It was not used. {LATER}",
}


class WeatherTool:
    """Looks up the weather of a city and explains it."""

    def __init__(
        self,
        api: OpenMeteo | None = None,
        *,
        model: ChatModel | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._api = api or OpenMeteo()
        self._model = model
        self._timeout_s = timeout_s

    def run(self, city_name: str, days: int = 7, *, country: str = "") -> WeatherAnalysis:
        """Return the weather, or an analysis without figures that says why there is none."""
        city = str(one_line(city_name))[:MAX_NAME]
        try:
            wrong = _wrong(city_name, days)
            if wrong:
                return _without(city, days, wrong, "Ask again.")
            return self._looked_up(city, days, str(one_line(country)))
        except Exception as error:  # the face never sees a traceback of a weather report
            return _without(city, days, f"unexpected: {type(error).__name__}", LATER)

    def _looked_up(self, city: str, days: int, country: str) -> WeatherAnalysis:
        end = self._api.now() + self._timeout_s
        endpoint, place, others = self._api.geocoding, None, tuple[Place, ...]()
        try:
            places = self._api.places(city, country=country, limit_s=end - self._api.now())
            if not places:
                within = f" in {country}" if country else ""
                return _without(
                    city, days, f"no place named {city}{within} is known to Open-Meteo",
                    "Check the spelling, or ask for a larger place near it.",
                )  # fmt: skip
            place, others = places[0], tuple(places[1 : 1 + MAX_ALTERNATIVES])
            endpoint = self._api.forecast
            hours = self._api.hours(place, days, limit_s=end - self._api.now())
        except RequestError as error:
            what = f"{endpoint.host.removesuffix(':443')}: {error}"
            next_step = NEXT.get(error.kind, LATER)
            return _without(city, days, what, next_step, place=place, others=others)
        summaries = analytics.daily(hours)
        if not summaries:
            what = "Open-Meteo knows too few hours of these days"
            return _without(city, days, what, LATER, place=place, others=others)
        overall, missing = analytics.overall(summaries), days - len(summaries)
        left_out = f"{missing} of {days} days left out: too little is known"
        return self._explained(
            WeatherAnalysis(
                city=city,
                days=days,
                place=place,
                alternatives=others,
                daily=tuple(summaries),
                overall=overall,
                explanation=words.explain(place, summaries, overall),
                warnings=(left_out,) if missing else (),
            )
        )

    def _explained(self, analysis: WeatherAnalysis) -> WeatherAnalysis:
        """Have the model explain the figures; if it cannot, the text of the rules stays."""
        if self._model is None or analysis.place is None or analysis.overall is None:
            return analysis
        try:
            text, by = words.explain_with_model(
                self._model, analysis.place, analysis.daily, analysis.overall
            )
        except Exception as error:  # a provider is anybody's code
            why = error.message if isinstance(error, RagstreamError) else type(error).__name__
            said = str(one_line(f"no explanation by the language model: {why}"))
            changed: dict[str, object] = {"warnings": (*analysis.warnings, said)}
        else:
            changed = {"explanation": text, "explained_by": by or "a language model"}
        return WeatherAnalysis.model_validate({**dict(analysis), **changed})


def _wrong(city: str, days: int) -> str:
    """Return what is wrong with a question, empty if nothing is."""
    if not city.strip() or len(city) > MAX_NAME or not city.strip().isprintable():
        return f"the name of a city has 1 to {MAX_NAME} characters, all of them printable"
    if not MIN_DAYS <= days <= MAX_DAYS:
        return f"a forecast has {MIN_DAYS} to {MAX_DAYS} days, not {days}"
    return ""


def _without(
    city: str,
    days: int,
    problem: str,
    next_step: str,
    *,
    place: Place | None = None,
    others: Sequence[Place] = (),
) -> WeatherAnalysis:
    """Return the safe fallback: no figures, and what happened."""
    said = str(one_line(problem))
    return WeatherAnalysis(
        city=city,
        days=days,
        place=place,
        alternatives=tuple(others),
        explanation=f"There is no weather for {city or 'this'}: {said}.\n\n{next_step}",
        explained_by=TEXT,
        problem=said,
    )
