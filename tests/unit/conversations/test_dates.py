"""The days that a text names, as people write and say them."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.dates import Days, days_named

MONDAY = dt.date(2023, 5, 8)


def named(text, said=MONDAY, nearest=False):
    return [
        tuple(dt.date.fromordinal(day).isoformat() for day in days)
        for days in days_named(text, lambda: said, nearest)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "on 3 June, 2023", "June 3rd 2023", "Jun. 3, 2023", "the 3rd of June 2023",
        "on 2023-06-03.", "am 3. Juni 2023", "le 3 juin 2023", "el 3 de junio de 2023",
        "[3 June 2023, 14:07] Ann: hi", "at 2023-06-03T10:00", "2023-06-03T10:00:05.123Z it broke",
        "2023-06-03T10:00:00+02:00", "[2023-06-03 10:00:00] it broke",
    ],
)  # fmt: skip
def test_a_date_is_one_day(text):
    assert named(text) == [("2023-06-03", "2023-06-03")]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("yesterday", "2023-05-07", ""), ("gestern", "2023-05-07", ""), ("hier", "2023-05-07", ""),
        ("ayer", "2023-05-07", ""), ("the day before yesterday", "2023-05-06", ""),
        ("vorgestern", "2023-05-06", ""), ("today", "2023-05-08", ""),
        ("aujourd\u2019hui", "2023-05-08", ""), ("tomorrow", "2023-05-09", ""),
        ("last Friday", "2023-05-05", ""), ("last Fri", "2023-05-05", ""),
        ("letzten Freitag", "2023-05-05", ""), ("vendredi dernier", "2023-05-05", ""),
        ("el viernes pasado", "2023-05-05", ""), ("last Monday", "2023-05-01", ""),
        ("next Monday", "2023-05-15", ""), ("this Friday", "2023-05-12", ""),
        ("two days ago", "2023-05-06", ""), ("vor zwei Tagen", "2023-05-06", ""),
        ("il y a deux jours", "2023-05-06", ""), ("hace dos d\u00edas", "2023-05-06", ""),
        ("a couple of days ago", "2023-05-06", ""),
        ("two weeks ago", "2023-04-21", "2023-04-27"), ("last week", "2023-05-01", "2023-05-07"),
        ("la semaine derni\u00e8re", "2023-05-01", "2023-05-07"),
        ("last weekend", "2023-05-06", "2023-05-07"), ("this month", "2023-05-01", "2023-05-31"),
        ("six months ago", "2022-11-01", "2022-11-30"), ("last year", "2022-01-01", "2022-12-31"),
        ("letztes Jahr", "2022-01-01", "2022-12-31"), ("last June", "2022-06-01", "2022-06-30"),
        ("next June", "2023-06-01", "2023-06-30"), ("in June", "2022-06-01", "2022-06-30"),
        ("in May", "2023-05-01", "2023-05-31"), ("February 2024", "2024-02-01", "2024-02-29"),
        ("in 2021", "2021-01-01", "2021-12-31"), ("on June 3", "2022-06-03", ""),
        ("the week before August 3, 2023", "2023-07-24", "2023-07-30"),
        ("the Monday before July 24, 2023", "2023-07-17", ""),
        ("the Saturday after October 28, 2023", "2023-11-04", ""),
        ("two weeks before August 11, 2023", "2023-07-25", "2023-07-31"),
        ("the weekend before 4th October, 2023", "2023-09-30", "2023-10-01"),
    ],
)  # fmt: skip
def test_words_are_counted_from_the_day_they_were_said_on(text, first, last):
    assert named(f"Well, {text}, you know?") == [(first, last or first)]


@pytest.mark.parametrize(
    "text",
    [
        "We may march on.", "a few years ago", "on Friday", "3/4/2026", "a day", "31 June",
        "version 2023", "the last one", "They mar the sun", "recently",
        "This may help.", "Option 2 may fail.", "We march 3 miles.", "I sat next to Bob.",
        "mon dernier projet", "Mon passé", "Was steht hier?", "Hier ist der Code.",
        "diese an Bob", "an dieser Stelle", "0 May",
        "the tests on 5 may fail", "since 3 may break it", "on march",
        "after 3 may or may not work", "until 3 may and can",
    ],
)  # fmt: skip
def test_what_leaves_the_day_open_names_none(text):
    assert named(text) == []


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("in may 2026", "2026-05-01", "2026-05-31"), ("may 5th, 2026", "2026-05-05", ""),
        ("on 5 may", "2023-05-05", ""), ("by the 3rd of march, we", "2023-03-03", ""),
        ("on may 5 we met", "2023-05-05", ""), ("since 6 mar", "2023-03-06", ""),
        ("5 may 2026", "2026-05-05", ""), ("last Mon", "2023-05-01", ""),
        ("Bob est venu hier", "2023-05-07", ""), ("Wie gestern hier", "2023-05-07", ""),
        ("avant-hier", "2023-05-06", ""), ("l'an dernier", "2022-01-01", "2022-12-31"),
        ("il y a un an", "2022-01-01", "2022-12-31"), ("il y a 2 ans", "2021-01-01", "2021-12-31"),
    ],
)  # fmt: skip
def test_words_that_can_be_another_name_days_if_what_is_around_them_says_so(text, first, last):
    assert named(text) == [(first, last or first)]


@pytest.mark.parametrize(
    ("text", "past", "nearest"),
    [
        ("on 5 June", "2022-06-05", "2023-06-05"), ("on 5 April", "2023-04-05", "2023-04-05"),
        ("on 31 December", "2022-12-31", "2022-12-31"), ("on 8 May", "2023-05-08", "2023-05-08"),
        ("on 29 February", "2020-02-29", "2024-02-29"), ("in June", "2022-06-01", "2023-06-01"),
        ("in December", "2022-12-01", "2022-12-01"), ("in May", "2023-05-01", "2023-05-01"),
    ],
)  # fmt: skip
def test_a_date_without_a_year_is_the_last_one_or_the_nearest(text, past, nearest):
    assert [first for first, _ in named(text)] == [past]
    assert [first for first, _ in named(text, nearest=True)] == [nearest]


@given(st.dates(), st.dates(dt.date(10, 1, 1), dt.date(9990, 1, 1)), st.booleans())
def test_a_date_without_a_year_lies_as_near_as_it_can(day, said, nearest):
    (days,) = days_named(f"on {day:%B} {day.day}", lambda: said, nearest)
    found = dt.date.fromordinal(days.first)
    assert days.first == days.last and (found.month, found.day) == (day.month, day.day)
    years = 8 if (day.month, day.day) == (2, 29) else 1
    assert abs(found - said) <= dt.timedelta(366 * years / (2 if nearest else 1))
    assert nearest or found <= said


def test_several_are_all_found_and_none_is_read_twice():
    assert named("August 11, 2023 and August 15, 2023") == [
        ("2023-08-11", "2023-08-11"),
        ("2023-08-15", "2023-08-15"),
    ]
    assert named("From May 2023 to yesterday") == [
        ("2023-05-01", "2023-05-31"),
        ("2023-05-07", "2023-05-07"),
    ]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("between 3 may and 9 may", "2022-05-03", "2022-05-09"),
        ("from 3 may until 7 may we", "2023-05-03", "2023-05-07"),
        ("between the 3rd and 7 may", "2023-05-03", "2023-05-07"),
        ("between August 11, 2023 and August 15, 2023", "2023-08-11", "2023-08-15"),
        ("from 28 December to 3 January 2024", "2023-12-28", "2024-01-03"),
        ("from 28 December 2023 to 3 January", "2023-12-28", "2024-01-03"),
        ("from 2023-12-28 through 2024-01-03", "2023-12-28", "2024-01-03"),
        ("zwischen dem 3. und dem 7. Mai 2023", "2023-05-03", "2023-05-07"),
        ("vom 30. April bis zum 2. Mai", "2023-04-30", "2023-05-02"),
        ("du 3 au 7 mai 2023", "2023-05-03", "2023-05-07"),
        ("entre el 3 de mayo y el 7 de mayo de 2023", "2023-05-03", "2023-05-07"),
    ],
)
def test_days_from_one_to_another_are_one_span(text, first, last):
    assert named(f"Well, {text}, you know?") == [(first, last)]


@pytest.mark.parametrize("text", ["from 9 May 2023 to 3 May 2023", "from 31 to 3 June 2023"])
def test_what_ends_before_it_begins_is_no_span(text):
    assert all(first == last for first, last in named(text))


@given(st.dates(dt.date(1900, 1, 1), dt.date(2099, 12, 31)), st.integers(0, 300))
def test_a_span_holds_its_days_whichever_of_both_names_the_year(first, days):
    last = first + dt.timedelta(days)
    if last.year > 2099:
        return
    told = [f"{day.day} {day:%B}" for day in (first, last)]
    for a, b in ((told[0], f"{told[1]} {last.year}"), (f"{told[0]} {first.year}", told[1])):
        if "29 February" in (a, b):  # which of the leap years is not said
            continue
        assert days_named(f"between {a} and {b}", lambda: MONDAY) == [
            Days(first.toordinal(), last.toordinal())
        ]


def test_the_day_it_was_said_on_is_asked_for_only_if_it_counts():
    def never():
        raise AssertionError

    assert len(days_named("3 June 2023, in 2021, June 2020, 2020-02-02", never)) == 4
    assert days_named("nothing of the kind", never) == []


def test_no_day_at_the_edge_of_the_calendar_and_no_traceback():
    assert named("yesterday, last week, 999 years ago", dt.date.min) == []
    assert named("tomorrow, next week, next year, next Monday", dt.date.max) == []


@given(st.dates(dt.date(1900, 1, 1), dt.date(2099, 12, 31)), st.dates(), st.sampled_from("dbBY"))
def test_a_date_with_a_year_is_that_day_whenever_it_was_said(day, said, form):
    text = {
        "d": f"{day.day} {day:%B} {day.year}",
        "b": f"{day:%b} {day.day}, {day.year}",
        "B": f"{day:%B} {day.day} {day.year}",
        "Y": day.isoformat(),
    }[form]
    assert days_named(text, lambda: said) == [Days(day.toordinal(), day.toordinal())]


PARTS = ["last", "next", "this", "two", "3", "week", "friday", "ago", "before", "May", "2023", "12",
         "yesterday", "vor", "Tagen", "dernier", "31", "of", ",", "in", "\u0130", "de"]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.dates())
def test_any_words_give_days_in_order_that_stay_the_same(words, said):
    text = " ".join(words)
    found = days_named(text, lambda: said)
    assert all(days.first <= days.last for days in found)
    assert found == days_named(text, lambda: said)
    assert all(days.meets(days) for days in found)
