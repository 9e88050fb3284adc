"""`ragstream weather` and the page's expander, against Open-Meteo's shape on loopback."""

import json
import re
import threading

import pytest

from ragstream_app.output.weather import range_bar
from ragstream_core.weather.analytics import daily
from ragstream_core.weather.open_meteo import OpenMeteo, hours_in, places_in
from tests.app.hostile_answers import HOST, PAYLOADS
from tests.app.page_driver import control, open_page, said
from tests.app.page_driver import run as draw
from tests.model_server import raw, serving, status
from tests.weather_api import BERLIN, NEW_HAMPSHIRE, body, forecast, places

HOT = [4.0, 4.0, 5.0, 4.0, 14.0, 4.0, 5.0]


@pytest.fixture
def open_meteo(monkeypatch):
    """The faces ask this server; nothing but code can move them there."""
    hot = forecast(temperature=lambda day, hour: HOT[day])
    with serving(raw(places(BERLIN, NEW_HAMPSHIRE)), raw(hot)) as server:
        monkeypatch.setattr(
            "ragstream_core.weather.tool.OpenMeteo",
            lambda: OpenMeteo(geocoding_url=server.url, forecast_url=server.url),
        )
        yield server


@pytest.fixture
def explained(script):
    script({"say": "A warm Tuesday.\n\nElse cool."})


def test_people_see_a_table_with_the_unusual_day_marked(run, open_meteo):
    code, out, err = run("weather", "Berlin")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "Berlin (State of Berlin, Germany) · 52.52° N 13.41° E"
    rows = [line for line in lines if re.match(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d", line)]
    assert len(rows) == 7
    assert [row.rstrip().endswith("unusual") for row in rows] == [n == 4 for n in range(7)]
    assert rows[4].startswith("Tue 24 Nov  14.0  14.0  14.0    7.7")
    assert "volatility 3.4 °C" in out and "Unusual for this span: Tue" in out
    assert "other places of that name: Berlin (New Hampshire, United States)" in err
    assert "Open-Meteo.com (CC BY 4.0)" in err


def test_json_is_the_analysis(run, open_meteo):
    code, out, _ = run("weather", "Berlin", "--days", "7", "--json")
    found = json.loads(out)
    assert code == 0 and set(found) == {
        "city", "days", "place", "alternatives", "daily", "overall", "explanation", "explained_by",
        "problem", "warnings", "source",
    }  # fmt: skip
    assert found["overall"]["anomalies"] == ["2026-11-24"]
    assert found["daily"][4] == {
        "date": "2026-11-24", "avg_c": 14.0, "min_c": 14.0, "max_c": 14.0, "rolling_avg_c": 7.67,
        "precipitation_mm": 2.4, "avg_wind_kmh": 13.15, "anomaly": True,
    }  # fmt: skip


@pytest.mark.parametrize("as_json", [True, False])
def test_without_an_answer_the_exit_code_is_1_and_the_reason_is_said(run, open_meteo, as_json):
    open_meteo.answers = [status(503)]
    code, out, _ = run("weather", "Berlin", *["--json"][:as_json])
    assert code == 1
    found = json.loads(out) if as_json else {"explanation": out, "daily": []}
    assert "status 503" in found["explanation"] and found["daily"] == []


@pytest.mark.parametrize("words", [["--days", "0"], ["--days", "17"], ["--explain", "poem"], []])
def test_a_wrong_call_asks_nobody(run, open_meteo, words):
    assert run("weather", *(["Berlin", *words] if words else []))[0] == 2
    assert open_meteo.seen == []


def test_a_country_is_passed_on(run, open_meteo):
    open_meteo.answers[1] = raw(forecast(2, place=NEW_HAMPSHIRE))
    out = run("weather", "Berlin", "--country", "US", "--days", "2")[1]
    assert out.startswith("Berlin (New Hampshire, United States)")


def test_the_model_explains_only_where_it_is_asked(run, open_meteo, explained):
    answers = list(open_meteo.answers)
    assert "A warm Tuesday." not in run("weather", "Berlin")[1]
    open_meteo.answers = answers
    _, out, err = run("weather", "Berlin", "--explain", "llm")
    assert "A warm Tuesday.\n\nElse cool.\n" in out and "explained by scripted" in err


def test_nothing_is_written(run, open_meteo, environment):
    assert run("weather", "Berlin")[0] == 0
    assert not [path for path in environment.rglob("*") if path.is_file()]


@pytest.mark.parametrize("evil", ["\x1b[31m\x1b]0;pwned\x07", "[bold red]x[/]", "\u202egnp.x"])
def test_foreign_names_cannot_steer_a_terminal(run, open_meteo, evil):
    open_meteo.answers = [raw(places({**BERLIN, "name": evil}, {**BERLIN, "admin1": evil})),
                          raw(forecast())]  # fmt: skip
    code, out, err = run("weather", evil if evil.isprintable() else "Berlin")
    assert code == 0
    assert all(c.isprintable() or c == "\n" for c in out + err)
    assert not evil.isprintable() or evil in out, "markup of Rich is text"


def test_the_bar_of_a_day_lies_within_the_span():
    (place,) = places_in(body(places(BERLIN)))
    days = daily(hours_in(body(forecast(5)), place, 5))
    low, high = min(d.min_c for d in days), max(d.max_c for d in days)
    bars = [range_bar(d, low, high, 20) for d in days]
    assert all(bar.count("●") == 1 and len(bar) <= 20 for bar in bars)
    assert bars[0][0] in "─●" and len(bars[-1]) == 20
    assert range_bar(days[0], days[0].avg_c, days[0].avg_c, 20).count("●") == 1


# --- the page ---------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """The tool stands in the sidebar only where it is wanted."""
    monkeypatch.setenv("RAGSTREAM_PAGE__WEATHER", "true")


def look(page, city, *, wait=True):
    """Type a city, press the button, and wait for the end of the look-up."""
    control(page, "text_input", "City").set_value(city)
    control(page, "button", "Show weather").click()
    draw(page)
    job = page.session_state["weather_job"]
    if wait:
        assert job.wait(240)
        state = page.session_state
        if "weather_shown" not in state or state["weather_shown"] is not job:
            draw(page)  # it was not there yet when the page was drawn
    return job


def test_nobody_is_asked_before_the_button(indexed, open_meteo):
    page = open_page()
    control(page, "text_input", "City").set_value("Berlin")
    draw(page)
    control(page, "slider", "Days").set_value(3)
    draw(page)
    assert open_meteo.seen == []
    open_meteo.answers[1] = raw(forecast(3))
    look(page, "Berlin")
    assert len(open_meteo.seen) == 2 and "forecast_days=3" in open_meteo.seen[1][0]


def test_a_look_up_shows_figures_charts_and_words_once(indexed, open_meteo):
    page = open_page()
    look(page, "Berlin")
    assert "Berlin (State of Berlin, Germany) · 52.52° N" in said(page)
    assert "volatility 3.4 °C" in said(page)
    charts = page.get("vega_lite_chart") or page.get("arrow_vega_lite_chart")
    assert len(charts) == 2
    assert any(len(frame.value) == 7 for frame in page.dataframe)
    draw(page)
    assert "volatility 3.4 °C" not in said(page), "closed by the next drawing"
    control(page, "button", "Show it again").click()
    assert "volatility 3.4 °C" in said(draw(page))
    assert len(open_meteo.seen) == 2, "looking again asks nobody"


def test_the_page_does_not_wait_and_says_why_there_is_nothing(indexed, open_meteo):
    go_on = threading.Event()

    def slow(handler):
        assert go_on.wait(240)
        status(503)(handler)

    open_meteo.answers = [slow]
    page = open_page()
    job = look(page, "Berlin", wait=False)
    assert job.running and "Asking about Berlin" in said(page)
    assert control(page, "button", "Show weather").disabled
    go_on.set()
    assert job.wait(240)
    draw(page)
    assert "status 503" in said(page) and "Try again later." in said(page)
    assert not control(page, "button", "Show weather").disabled


def test_a_model_is_asked_only_with_the_toggle(indexed, open_meteo, explained):
    answers = list(open_meteo.answers)
    page = open_page()
    look(page, "Berlin")
    assert page.session_state["weather_job"].result.explained_by == "text"
    open_meteo.answers = answers
    control(page, "toggle", "LLM explains").set_value(True)
    look(page, "Berlin")
    assert page.session_state["weather_job"].result.explained_by == "scripted"
    assert "explained by scripted" in said(page)


def test_without_a_configured_model_there_is_no_toggle(indexed, open_meteo):
    page = open_page()
    assert not [toggle for toggle in page.toggle if toggle.label == "LLM explains"]


def test_hostile_names_stay_text_on_the_page(indexed, open_meteo):
    for payload in PAYLOADS[:12]:
        name = payload.replace("\n", " ")[:100]
        open_meteo.answers = [raw(places({**BERLIN, "name": name}, {**BERLIN, "admin1": name})),
                              raw(forecast())]  # fmt: skip
        page = open_page()
        look(page, "Berlin")
        shown = [html.proto.body for html in page.get("html") if HOST in html.proto.body]
        assert shown or HOST not in name
        for drawn in shown:
            assert "<img" not in drawn and "<a " not in drawn and "href" not in drawn
