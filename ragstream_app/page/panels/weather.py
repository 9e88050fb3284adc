"""The weather in the sidebar: a city, a number of days, a button, and what was found.

Nothing is sent before the button is pressed, and then to Open-Meteo alone; to a language model only
if the toggle is on. No prompt ever sees it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.output.weather import notes, place_line, totals
from ragstream_app.page.jobs.background import BackgroundJob
from ragstream_app.page.panels import retrieval
from ragstream_app.page.panels.shared import show_error, show_problem, workspace
from ragstream_app.session import Problem
from ragstream_core.text.markup import answer_html
from ragstream_core.weather.records import MAX_DAYS, MAX_NAME, MIN_DAYS
from ragstream_core.weather.words import day_text

if TYPE_CHECKING:
    from ragstream_core.weather.records import DaySummary, WeatherAnalysis

    WeatherJob = BackgroundJob[WeatherAnalysis]


# Greys and colours that hold on light and dark.
MEAN, SMOOTH, UNUSUAL = "#3389a8", "#8a8a8a", "#e07a1f"
HEIGHT, RAIN_HEIGHT = 190, 80


def show_analysis(found: WeatherAnalysis) -> None:
    """Draw an analysis with figures.

    Args:
        found: Without a problem.
    """
    if found.place is None:
        return
    st.text(place_line(found.place))
    st.text(totals(found))
    _charts(found)
    st.html(answer_html(found.explanation.replace(" °C", "\N{NO-BREAK SPACE}°C")))
    with st.expander("All days"):
        st.dataframe([_row(day) for day in found.daily], hide_index=True, width="stretch")
    for line in notes(found):
        st.text(line)


def _charts(found: WeatherAnalysis) -> None:
    """Draw the days: coldest to warmest hour as a bar, means as a line; rain below."""
    import altair as alt

    def days(**axis: Any) -> Any:
        return alt.X("day:O", sort=None, title=None, axis=alt.Axis(**axis))

    base = alt.Chart(alt.InlineData(values=[_point(day) for day in found.daily]))
    tip = [alt.Tooltip(f"{name}:{kind}") for name, kind in TIPS]
    left = alt.Axis(minExtent=30, maxExtent=30)  # both charts begin at the same place
    mean = alt.Y("mean:Q", title="°C", axis=left, scale=alt.Scale(zero=False))
    colour = alt.condition("datum.unusual", alt.value(UNUSUAL), alt.value(MEAN))
    hours = base.mark_bar(size=8, opacity=0.35).encode(y="coldest:Q", y2="warmest:Q", color=colour)
    smooth = base.mark_line(color=SMOOTH, strokeDash=[4, 3]).encode(y="three days:Q")
    line = base.mark_line(color=MEAN).encode(y=mean)
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        mean, color=colour, tooltip=tip
    )
    degrees = alt.layer(hours, smooth, line, points).encode(days(labelAngle=0, labelOverlap=True))
    rain = base.mark_bar(color=MEAN, size=8).encode(
        days(labels=False, ticks=False),
        alt.Y("rain mm:Q", title="mm", axis=alt.Axis(minExtent=30, maxExtent=30, tickCount=2)),
        tooltip=tip,
    )
    st.altair_chart(degrees.properties(height=HEIGHT), width="stretch")
    st.altair_chart(rain.properties(height=RAIN_HEIGHT), width="stretch")
    st.text(
        "Bars: coldest to warmest hour. Line: mean of a day; dashed: of three days. "
        "Orange: unusual. Below: rain and snow."
    )


TIPS = (("day", "N"), ("mean", "Q"), ("coldest", "Q"), ("warmest", "Q"), ("rain mm", "Q"))


def _point(day: DaySummary) -> dict[str, Any]:
    return {**_row(day), "unusual": day.anomaly}


def _row(day: DaySummary) -> dict[str, Any]:
    return {
        "day": day_text(day.date),
        "mean": round(day.avg_c, 1),
        "coldest": day.min_c,
        "warmest": day.max_c,
        "three days": None if day.rolling_avg_c is None else round(day.rolling_avg_c, 1),
        "rain mm": None if day.precipitation_mm is None else round(day.precipitation_mm, 1),
        "wind km/h": None if day.avg_wind_kmh is None else round(day.avg_wind_kmh),
        "unusual": "unusual" if day.anomaly else "",
    }


CITY_KEY = "weather_city"
COUNTRY_KEY = "weather_country"
DAYS_KEY = "weather_days"
LLM_KEY = "weather_llm"
JOB_KEY = "weather_job"
SHOWN_KEY = "weather_shown"
EVERY_S = 0.4


def show() -> WeatherJob | None:
    """Draw the expander; return the newest look-up where it has ended, for `result`."""
    job = _job()
    with st.expander("Weather"):
        city, country = st.columns([3, 2], gap="small")
        city.text_input("City", key=CITY_KEY, max_chars=MAX_NAME, placeholder="for example Berlin")
        country.text_input(
            "Country", key=COUNTRY_KEY, max_chars=MAX_NAME, placeholder="any",
            help="DE or Germany; needed if several places share the name.",
        )  # fmt: skip
        st.slider("Days", MIN_DAYS, MAX_DAYS, value=7, key=DAYS_KEY, help="Today is the first day.")
        if retrieval.model_configured():
            st.toggle(
                "LLM explains", key=LLM_KEY,
                help="Sends the place and its figures to the language model of the settings.",
            )  # fmt: skip
        running = job is not None and job.running
        st.button(
            "Show weather",
            on_click=_start,
            disabled=running,
            width="stretch",
            help="Asks api.open-meteo.com and geocoding-api.open-meteo.com, 15 seconds at most.",
        )
        if running:
            _watch()
        elif job is not None:
            _outcome(job)
    return None if running else job


def result(job: WeatherJob | None) -> None:
    """Open what a look-up found over the page, once; call it outside the sidebar.

    Args:
        job: From `show`: one that ended since then would be closed by the drawing that follows.
    """
    if job is None or st.session_state.get(SHOWN_KEY) is job:
        return
    if job.result is not None and not job.result.problem:
        st.session_state[SHOWN_KEY] = job
        st.dialog("Weather", width="medium")(show_analysis)(job.result)


def _outcome(job: WeatherJob) -> None:
    """Say in the sidebar what came of it, and bring it back."""
    found = job.result
    if job.error:
        show_error(job.error)
    elif found is not None and found.problem:
        show_problem(Problem("", found.problem, (found.explanation.rpartition("\n\n")[2],)))
    elif found is not None and found.place is not None:
        st.button("Show it again", on_click=_again, width="stretch")
        st.text(found.place.label)


@st.fragment(run_every=EVERY_S)  # type: ignore[untyped-decorator]
def _watch() -> None:
    """Wait for the answer; the whole page is drawn again when it is there."""
    job = _job()
    if job is None or not job.running:
        st.rerun()
        return
    st.text(job.line)


def _start() -> None:
    from ragstream_core.services.weather import look_up

    state = st.session_state
    explain = bool(state.get(LLM_KEY)) and retrieval.model_configured()
    city = state[CITY_KEY]
    found = partial(
        look_up,
        workspace(),
        city,
        state[DAYS_KEY],
        country=state[COUNTRY_KEY],
        explain="llm" if explain else "text",
    )
    job = BackgroundJob("the weather", lambda _: found(), line=f"Asking about {city} …")
    state[JOB_KEY] = job.start()


def _again() -> None:
    st.session_state[SHOWN_KEY] = None


def _job() -> WeatherJob | None:
    found: WeatherJob | None = st.session_state.get(JOB_KEY)
    return found
