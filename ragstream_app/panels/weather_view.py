"""What a look-up of the weather found: figures, charts, the explanation, the days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.panels.markup import answer_html
from ragstream_app.weather_text import notes, place_line, totals
from ragstream_core.weather.words import day_text

if TYPE_CHECKING:
    from ragstream_core.weather.records import DaySummary, WeatherAnalysis

MEAN, SMOOTH, UNUSUAL = "#3389a8", "#8a8a8a", "#e07a1f"
"""Greys and colours that hold on light and dark."""
HEIGHT, RAIN_HEIGHT = 190, 80


def show(found: WeatherAnalysis) -> None:
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
