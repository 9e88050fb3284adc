"""The weather in the sidebar: a city, a number of days, and a button; no prompt ever sees it.

Nobody is contacted before the button is pressed, and then Open-Meteo alone; a language model only
where the toggle says so.
"""

from __future__ import annotations

import streamlit as st

from ragstream_app.jobs.weather import WeatherJob
from ragstream_app.panels import agents, weather_view
from ragstream_app.panels.shared import show_message, workspace
from ragstream_core.weather.records import MAX_DAYS, MAX_NAME, MIN_DAYS

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
            help="DE or Germany: chooses if several places have the name.",
        )  # fmt: skip
        st.slider("Days", MIN_DAYS, MAX_DAYS, value=7, key=DAYS_KEY, help="Today is the first.")
        if agents.model_configured():
            st.toggle(
                "LLM explains", key=LLM_KEY,
                help="Sends the place and its figures to the language model of the settings.",
            )  # fmt: skip
        running = job is not None and not job.done.is_set()
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
    if job.found is not None and not job.found.problem:
        st.session_state[SHOWN_KEY] = job
        st.dialog("Weather", width="medium")(weather_view.show)(job.found)


def _outcome(job: WeatherJob) -> None:
    """Say in the sidebar what came of it, and bring it back."""
    if job.problem:
        show_message(job.problem)
    elif job.found is not None and job.found.problem:
        hint = job.found.explanation.rpartition("\n\n")[2]
        show_message({"message": job.found.problem, "hint": hint})
    elif job.found is not None and job.found.place is not None:
        st.button("Show it again", on_click=_again, width="stretch")
        st.text(job.found.place.label)


@st.fragment(run_every=EVERY_S)  # type: ignore[untyped-decorator]
def _watch() -> None:
    """Wait for the answer; the whole page is drawn again when it is there."""
    job = _job()
    if job is None or job.done.is_set():
        st.rerun()
        return
    st.text(f"Asking about {job.city} …")


def _start() -> None:
    state = st.session_state
    explain = bool(state.get(LLM_KEY)) and agents.model_configured()
    state[JOB_KEY] = WeatherJob(
        workspace(),
        state[CITY_KEY],
        state[DAYS_KEY],
        country=state[COUNTRY_KEY],
        explain="llm" if explain else "text",
    )


def _again() -> None:
    st.session_state[SHOWN_KEY] = None


def _job() -> WeatherJob | None:
    found: WeatherJob | None = st.session_state.get(JOB_KEY)
    return found
