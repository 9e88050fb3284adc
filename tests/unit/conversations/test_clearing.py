"""What a clearing takes: sessions, times, and fragments of lines."""

import datetime as dt
import time
import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ragstream_core.conversations.clearing import Choice, choice_of, chosen, masked, ranges_of
from ragstream_core.conversations.journal.records import Asked, Cleared, Entry, TagEdit, Turn
from ragstream_core.errors import UsageError

times = st.datetimes(dt.datetime(2020, 1, 1), dt.datetime(2030, 1, 1), timezones=st.just(dt.UTC))


@given(times, st.one_of(st.none(), times), st.one_of(st.none(), times))
def test_a_range_takes_its_beginning_and_not_its_end(when, since, until):
    choice = Choice(since=since, until=until)
    assert choice.takes("any", when.isoformat()) == (
        (since is None or since <= when) and (until is None or when < until)
    )
    other = Choice("mine", since, until)
    assert not other.takes("any", when.isoformat())
    assert other.takes("mine", when.isoformat()) == choice.takes("any", when.isoformat())


def test_a_turn_without_a_readable_time_is_in_no_range():
    since = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    assert not Choice(since=since).takes("a", "some day")
    assert Choice("a").takes("a", "some day") and Choice(everything=True).takes("b", "")


def test_zones_are_compared_as_moments():
    choice = choice_of(since="2026-10-05T12:00:00+02:00", until="2026-10-05T13:00:00+02:00")
    assert choice.takes("a", "2026-10-05T10:00:00+00:00")
    assert choice.takes("a", "2026-10-05T06:30:00-04:00")
    assert not choice.takes("a", "2026-10-05T11:00:00Z")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"everything": True}, "all"),
        ({"session": "a"}, "session"),
        ({"session": "a", "until": "2026-10-05"}, "range"),
        ({"since": "2026-10-05"}, "range"),
    ],
)
def test_the_notice_says_what_was_meant(given, reason):
    assert choice_of(**given).reason == reason


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"everything": True, "since": "2026-10-05"},
        {"session": "a/b"},
        {"until": "soon"},
    ],
)
def test_what_is_not_clear_is_refused(given):
    with pytest.raises(UsageError) as caught:
        choice_of(**given)
    assert caught.value.hint


def test_fragments_go_where_they_say_whose_they_are():
    line = b'{"v":1,"seq":4,"rec":{"kind":"turn","id":"x","session_id":"a","timestamp":"'
    whole = line + b'2026-10-05T10:00:00+00:00","user_text":"half a sen'
    assert Choice("a").takes_bytes(whole) and not Choice("b").takes_bytes(whole)
    assert choice_of(since="2026-10-05T00:00:00Z").takes_bytes(whole)
    assert not choice_of(since="2026-10-06T00:00:00Z").takes_bytes(whole)
    assert not choice_of(since="2026-10-05T00:00:00Z").takes_bytes(line)
    assert Choice("a").takes_bytes(line) and not Choice("a").takes_bytes(whole[:20])
    assert Choice(everything=True).takes_bytes(b"\x00\xff")


def test_tags_go_with_their_turns_and_notices_stay():
    records = [
        Turn("t1", "a", "2026-10-05T10:00:00Z", "one"),
        Turn("t2", "b", "2026-10-05T10:00:00Z", "two"),
        TagEdit("e1", "t1", "2026-10-06T10:00:00Z", add=("GOLD",)),
        TagEdit("e2", "t2", "2026-10-06T10:00:00Z", add=("GOLD",)),
        Cleared("c", "2026-10-06T10:00:00Z", ((9, 9),), "session"),
        Asked("q", "a", "2026-10-06T10:00:00Z", "and?"),
    ]
    entries = [Entry(n, r, "0" * 32, "conversation.log", 0, 1) for n, r in enumerate(records, 1)]
    assert [e.seq for e in chosen(entries, Choice("a"))] == [1, 3, 6]
    assert ranges_of(chosen(entries, Choice("a"))) == ((1, 1), (3, 3), (6, 6))
    assert ranges_of(chosen(entries, Choice(everything=True))) == ((1, 4), (6, 6))


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Auckland"])
@pytest.mark.parametrize("given", ["0001-01-01", "9999-12-31T23:59:59"])
def test_the_ends_of_time_are_dates_or_refused(monkeypatch, zone, given):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert choice_of(since=given).since
    except UsageError as error:
        assert "is not a date" in error.message
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("given", ["NFC", "NFD"])
def test_a_name_is_masked_however_its_accents_are_written(written, given):
    said = unicodedata.normalize(written, "Ask Zoë MÜLLER or Müllersen about it.")
    text, found = masked(said, [unicodedata.normalize(given, name) for name in ("Zoë", "Müller")])
    assert text == unicodedata.normalize(written, "Ask [name] [name] or Müllersen about it.")
    assert found == {"name": 2}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (r"see C:\Users\Max Mustermann\notes.md", r"see C:\Users\[home]\notes.md"),
        (r"open('C:\\Users\\max\\notes.md')", r"open('C:\\Users\\[home]\\notes.md')"),
        (r"c:\users\max and D:\work", r"c:\users\[home] and D:\work"),
        ("/home/max/notes, /Users/mu\u0308ller/x", "/home/[home]/notes, /Users/[home]/x"),
        ("GET /users/42/posts", "GET /users/42/posts"),
        ("write to mu\u0308ller@example.org", "write to [email]"),
    ],
)
def test_folders_of_persons_are_masked_as_systems_write_them(said, told):
    assert masked(said)[0] == told
