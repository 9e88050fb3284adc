"""Calendars and address books: what a person reads in them, however a program folded it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ingestion.office_files import parsed, text_of

EVENT = """BEGIN:VCALENDAR
PRODID:-//x
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19701025T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
DTSTART;TZID=Europe/Berlin:20260304T101200
DTEND:20260304T101200Z
UID:x@x.org
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
ORGANIZER;CN="Bell, Ann":mailto:ann@x.org
LOCATION:Hall 3\\, room 7
SUMMARY:Pumps
DESCRIPTION:First line\\n# Second: http://x.org/a\\;b
END:VEVENT
END:VCALENDAR
"""
CARD = """BEGIN:VCARD
VERSION:2.1
N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=C3=B6rg;;;
TEL;WORK;VOICE:+49 30 1
item1.EMAIL;TYPE=INTERNET,HOME:j@x.org
ADR;TYPE=home:;;Weg 1;Bonn;;53111;Germany
BDAY:19700101
NOTE;ENCODING=QUOTED-PRINTABLE:one line =
goes on=0D=0Anext
PHOTO;ENCODING=b;TYPE=JPEG:/9j/4AAQ
END:VCARD
"""


def test_an_event_says_when_where_and_who():
    assert text_of(EVENT.encode(), "ics") == (
        "# Pumps\n\nfrom: 2026-03-04 10:12 Europe/Berlin\nto: 2026-03-04 10:12 UTC\n"
        "organizer: Bell, Ann <ann@x.org>\nlocation: Hall 3, room 7\n\n"
        "First line\n## Second: http://x.org/a;b"
    )


def test_a_person_of_any_version():
    assert text_of(CARD.encode(), "vcf") == (
        "# Müller, Jörg\n\nphone: +49 30 1 (work)\nemail: j@x.org (home)\n"
        "address: Weg 1, Bonn, 53111, Germany (home)\nbirthday: 1970-01-01\n\n"
        "one line goes on\nnext"
    )


def test_what_is_neither_is_read_as_text():
    found = parsed(b"Ask Ann about pumps.\n", "ics")
    assert found.pages == ((0, "Ask Ann about pumps.\n"),) and "read as text" in found.note


@given(
    st.lists(st.text("abc é:;\\,=", min_size=1).map(str.strip).filter(bool), max_size=4),
    st.integers(1, 75),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_folded_comes_back_whole(notes, width, eol):
    lines = []
    for n, note in enumerate(notes):
        written = note.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
        lines += ["BEGIN:VEVENT", f"SUMMARY:n{n}", f"DESCRIPTION:{written}", "END:VEVENT"]
    folded = [
        line[at : at + width] if not at else f" {line[at : at + width]}"
        for line in ["BEGIN:VCALENDAR", *lines, "END:VCALENDAR"]
        for at in range(0, len(line), width)
    ]
    if notes:
        text = text_of(eol.join(folded).encode(), "ics")
        assert all(f"# n{n}\n\n{note}" in text for n, note in enumerate(notes))


@pytest.mark.parametrize(
    "hostile",
    [
        "BEGIN:X\n" * 200_000,
        "BEGIN:VCARD\nFN:" + ";" * 1_000_000,
        "BEGIN:VCARD\nFN" + ';A="' * 200_000 + ":x",
        "BEGIN:VCARD\nN;ENCODING=QUOTED-PRINTABLE:=\n" + "x;ENCODING=QUOTED-PRINTABLE=\n" * 40_000,
        "BEGIN:VCARD\nFN:" + "\n x" * 500_000,
    ],
)
def test_hostile_ones_take_no_time(hostile):
    found = parsed(f"BEGIN:VCARD\nFN:kept\nEND:VCARD\n{hostile}".encode(), "vcf", cpu_s=10)
    assert found.pages and "# kept" in found.pages[0][1]
