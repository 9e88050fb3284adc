"""The explanation without a model: its paragraphs, its figures, and every way a week can be."""

import datetime as dt
import re

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.weather.analytics import Hour, daily, overall
from ragstream_core.weather.records import Place
from ragstream_core.weather.words import explain

BERLIN = Place(name="Berlin", country="Germany", latitude=52.5, longitude=13.4)
START = dt.datetime(2026, 11, 20)
NUMBER = re.compile(r"-?\d+\.\d")

a_day = st.tuples(
    st.floats(-40, 45),
    st.one_of(st.none(), st.floats(0, 3)),
    st.one_of(st.none(), st.floats(0, 90)),
)
weeks = st.lists(a_day, min_size=1, max_size=16)


def days_of(week):
    return daily(
        Hour(START + dt.timedelta(days=n, hours=hour), temperature + (hour - 11.5) / 10, rain, wind)
        for n, (temperature, rain, wind) in enumerate(week)
        for hour in range(24)
    )


def said(*week):
    days = days_of(week)
    return explain(BERLIN, days, overall(days))


@given(weeks)
def test_three_paragraphs_about_a_day_and_four_about_several(week):
    text = said(*week)
    paragraphs = text.split("\n\n")
    assert len(paragraphs) == (3 if len(week) == 1 else 4)
    assert all(part.isprintable() and part.endswith(".") for part in paragraphs)
    assert "None" not in text and "nan" not in text and "-0.0" not in text


@given(weeks)
def test_every_figure_is_one_of_the_analysis(week):
    days = days_of(week)
    every = overall(days)
    known = [v for part in (every, *days) for v in dict(part).values() if isinstance(v, float)]
    shown = {f"{value:.1f}".replace("-0.0", "0.0") for value in known}
    assert set(NUMBER.findall(explain(BERLIN, days, every))) <= shown


def test_what_stands_out_is_named():
    mild, storm = (5.0, 0.0, 10.0), (25.0, 1.0, 60.0)
    text = said(mild, mild, mild, storm, mild, mild)
    assert "Unusual for this span: Mon 23 Nov with 25.0 °C." in text
    assert "Rain or snow adds up to 24.0 mm, on 1 of 6 days." in text
    assert "Mon 23 Nov is the windiest with 60." in text
    assert "No day stands out" in said(mild, mild, mild) and "hardly changes" in said(mild, mild)
    assert "rises from 5.0 °C to 25.0 °C" in said(mild, storm)
    assert "falls from 25.0 °C to 5.0 °C" in said(storm, mild)
    assert "about the same: the average of a day goes from 5.0 °C to 5.9 °C" in said(
        mild, (5.9, 0.0, 10.0)
    )
    assert "rises from 5.0 °C to 6.1 °C" in said(mild, (6.1, 0.0, 10.0))
    assert "rough guess" in said(*[mild] * 8) and "rough guess" not in said(*[mild] * 7)
