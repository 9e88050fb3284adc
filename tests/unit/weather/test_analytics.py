"""The arithmetic of a forecast: fixtures by hand, an oracle, and laws."""

import datetime as dt
import math
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragstream_core.weather.analytics import (
    Hour,
    anomalous,
    daily,
    mean,
    overall,
    population_sigma,
    rolling,
)

START = dt.date(2026, 11, 20)
temperatures = st.lists(st.floats(-90, 60, allow_nan=False), min_size=1, max_size=16)


def dates(count):
    return [START + dt.timedelta(days=n) for n in range(count)]


def hours_of(*days):
    """Days of 24 hours from lists of (temperature, rain, wind)."""
    return [
        Hour(dt.datetime.combine(day, dt.time(hour)), *row)
        for day, rows in zip(dates(len(days)), days, strict=True)
        for hour, row in enumerate(rows)
    ]


def near_the_limit(values):
    middle, limit = mean(values), 1.5 * population_sigma(values)
    return any(abs(abs(value - middle) - limit) < 1e-6 for value in values)


def test_figures_of_a_day_by_hand():
    (day,) = daily(hours_of([(n, 0.5 if n < 4 else 0.0, 10.0 + n) for n in range(24)]))
    assert (day.min_c, day.max_c, day.avg_c) == (0.0, 23.0, 11.5)
    assert (day.precipitation_mm, day.avg_wind_kmh) == (2.0, 21.5)
    assert (day.rolling_avg_c, day.anomaly, day.date) == (None, False, START)
    found = overall([day])
    assert (found.avg_c, found.volatility_c, found.anomalies) == (11.5, 0.0, ())


def test_volatility_is_that_of_the_population():
    days = daily(
        hours_of(*[[(t, 0.0, 0.0)] * 24 for t in (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0)])
    )
    assert overall(days).volatility_c == 2.0  # of the sample it would be 2.14
    assert overall(days).avg_c == 5.0
    assert overall(days).anomalies == (dates(8)[-1],)


def test_a_deviation_of_exactly_one_and_a_half_sigma_is_none():
    """Thirteen days, four of them 9 above a mean of 0 and nine of them 4 below: σ = 6."""
    exactly = [9.0] * 4 + [-4.0] * 9
    assert population_sigma(exactly) == 6.0 and mean(exactly) == 0.0
    assert anomalous(exactly) == [False] * 13
    assert any(anomalous([9.001, *exactly[1:]]))
    tenths = [20.9] * 4 + [19.6] * 9  # the same, with numbers that have no exact binary form
    assert anomalous(tenths) == [False] * 13


def test_the_rolling_average_needs_three_days_in_a_row():
    days = dates(6)
    assert rolling(days, [1, 2, 3, 4, 8, 0]) == [None, None, 2, 3, 5, 4]
    del days[2]
    assert rolling(days, [1, 2, 4, 8, 0]) == [None, None, None, None, 4]


def test_a_day_needs_eighteen_known_hours():
    def known(count):
        return [(5.0 if n < count else None, None, None) for n in range(24)]

    days = daily(hours_of(known(18), known(17), known(24)))
    assert [day.date for day in days] == [START, START + dt.timedelta(days=2)]
    assert days[0].precipitation_mm is None and days[0].avg_wind_kmh is None
    assert daily([]) == daily(hours_of(known(0))) == []


@given(temperatures)
def test_sigma_is_the_one_of_statistics(values):
    assert population_sigma(values) == pytest.approx(statistics.pstdev(values), abs=1e-9)
    assert mean(values) == pytest.approx(statistics.fmean(values), abs=1e-9)


@given(temperatures)
def test_bounds(values):
    sigma = population_sigma(values)
    assert min(values) <= mean(values) <= max(values)
    assert 0 <= sigma <= (max(values) - min(values)) / 2 + 1e-9  # Popoviciu
    assert sum(anomalous(values)) < len(values) * 4 / 9  # Chebyshev
    smooth = rolling(dates(len(values)), values)
    for last, value in enumerate(smooth):
        window = values[max(0, last - 2) : last + 1]
        assert (value is None) == (last < 2)
        assert value is None or min(window) <= value <= max(window)


@given(temperatures, st.floats(-50, 50, allow_nan=False))
def test_a_shift_moves_the_mean_and_nothing_else(values, by):
    assume(not near_the_limit(values))
    moved = [value + by for value in values]
    assert mean(moved) == pytest.approx(mean(values) + by, abs=1e-9)
    assert population_sigma(moved) == pytest.approx(population_sigma(values), abs=1e-9)
    assert anomalous(moved) == anomalous(values)


@given(temperatures, st.floats(-3, 3, allow_nan=False).filter(lambda by: abs(by) > 0.01))
def test_a_scale_stretches_mean_and_sigma_and_keeps_the_unusual_days(values, by):
    assume(not near_the_limit(values))
    stretched = [value * by for value in values]
    assert mean(stretched) == pytest.approx(mean(values) * by, abs=1e-9)
    assert population_sigma(stretched) == pytest.approx(
        population_sigma(values) * abs(by), abs=1e-9
    )
    assert anomalous(stretched) == anomalous(values)


@given(temperatures, st.randoms(use_true_random=False))
def test_the_order_of_days_changes_neither_mean_nor_sigma(values, chance):
    mixed = list(values)
    chance.shuffle(mixed)
    assert mean(mixed) == mean(values)
    assert population_sigma(mixed) == population_sigma(values)
    assert sorted(v for v, odd in zip(mixed, anomalous(mixed), strict=True) if odd) == sorted(
        v for v, odd in zip(values, anomalous(values), strict=True) if odd
    )


@given(
    st.lists(
        st.lists(
            st.tuples(st.floats(-90, 60), st.floats(0, 100), st.floats(0, 300)),
            min_size=24,
            max_size=24,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_days_together_are_consistent(days):
    found = daily(hours_of(*days))
    together = overall(found)
    assert len(found) == len(days)
    for day, rows in zip(found, days, strict=True):
        assert together.min_c <= day.min_c <= day.avg_c <= day.max_c <= together.max_c
        assert day.precipitation_mm == math.fsum(row[1] for row in rows)
    assert together.precipitation_mm == pytest.approx(sum(d.precipitation_mm for d in found))
    assert together.anomalies == tuple(day.date for day in found if day.anomaly)
