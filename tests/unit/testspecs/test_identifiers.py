"""Formats of identifiers: which are taken, and what a wrong one says."""

import pytest

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.testspecs.identifiers import id_format, id_pattern


@pytest.mark.parametrize(
    ("text", "first", "tenth"),
    [
        ("TC-{number:03d}", "TC-001", "TC-010"),
        ("{number}", "1", "10"),
        ("{number:02d}-T", "01-T", "10-T"),
        ("login_{number:04}", "login_0001", "login_0010"),
    ],
)
def test_formats(text, first, tenth):
    made = id_format(text)
    assert (made.make(1), made.make(10)) == (first, tenth)
    assert [made.number(i) for i in (first, tenth, "TC1", "", "TC-01")] == [1, 10, 0, 0, 0]


@pytest.mark.parametrize(
    "text",
    ["TC", "{number}{number}", "{name}", "TC {number}", "../{number}", "{number!r}", "{number:>9}",
     "{number", "{number:03d}/", "{}", "`{number}`", "{number.real}", "{number[0]}"],
)  # fmt: skip
def test_what_is_no_format_says_so(text):
    with pytest.raises(UnknownSetting, match="not a format of identifiers"):
        id_format(text)


@pytest.mark.parametrize("text", ["", "a*", "(", "x" * 300, "[", "(?:)"])
def test_what_is_no_pattern_says_so(text):
    with pytest.raises(UsageError, match="--pattern"):
        id_pattern(text)


def test_numbers_go_on_behind_the_highest_or_where_they_are_told_to():
    made = id_format("TC-{number:03d}")
    taken = {"TC-002", "TC-007", "other"}
    assert next(made.fresh(taken)) == "TC-008"
    fresh = made.fresh(taken, 1)
    assert [next(fresh) for _ in range(3)] == ["TC-001", "TC-003", "TC-004"]
    assert next(made.fresh(())) == "TC-001"
