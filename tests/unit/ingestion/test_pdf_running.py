"""Headers, footers and page numbers of a PDF go; what may be content never does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers import pdf
from ragstream_core.ingestion.parsers.engines import Limits
from tests.unit.ingestion.pdf_files import drawn, paragraph

TOP, BOTTOM = 805, 35
WORDS = ["red", "blue", "green", "grey", "pink", "white", "black", "brown", "gold", "violet"]


def body(number, top=740):
    return paragraph(
        60, top, f"The {WORDS[number % 10]} pump runs in hall {number * number}.",
        f"Its {WORDS[number % 7]} seal was changed,", f"and so was part {number * 7} of it.",
    )  # fmt: skip


def text_of(lines):
    return "\n".join(text for *_, text in lines)


def read(*pages):
    found, note = pdf.read_pdf(drawn(*pages), "pdf", Limits())
    return [text for _, text in found], note


class TestWhatGoes:
    @settings(max_examples=20, deadline=None)
    @given(st.integers(3, 14), st.integers(0, 30))
    def test_headers_stay_on_the_first_page_alone_and_page_numbers_on_none(self, count, first):
        pages = [
            [(60, TOP, "Manual of valves"), *body(n), (280, BOTTOM, f"{n + first} of {count}")]
            for n in range(1, count + 1)
        ]
        got, note = read(*pages)
        assert got[0] == "Manual of valves\n" + text_of(body(1))
        assert got[1:] == [text_of(body(n)) for n in range(2, count + 1)]
        assert f"{1 + first} of {count} | Manual of valves" in note

    def test_headers_of_left_and_right_pages_go_and_each_stays_once(self):
        sides = ([(60, TOP, "Valves")], [(480, TOP, "Maintenance")])
        got, _ = read(*(sides[n % 2] + body(n) for n in range(12)))
        assert [("Valves" in text, "Maintenance" in text) for text in got[:2]] == [
            (True, False), (False, True),
        ]  # fmt: skip
        assert got[2:] == [text_of(body(n)) for n in range(2, 12)]

    def test_a_number_beside_the_title_of_a_chapter_goes_and_the_title_stays(self):
        chapters = ["Pumps", "Valves", "Seals"]
        got, _ = read(
            *([(60, TOP, chapters[n // 3]), (520, TOP, str(n + 1)), *body(n)] for n in range(9))
        )
        assert got == [f"{chapters[n // 3]}\n{text_of(body(n))}" for n in range(9)]

    def test_roman_numbers_count_pages_too(self):
        romans = ["i", "ii", "iii", "iv", "v"]
        got, _ = read(*(body(n) + [(300, BOTTOM, romans[n])] for n in range(5)))
        assert got == [text_of(body(n)) for n in range(5)]


class TestWhatStays:
    @pytest.mark.parametrize(
        "line",
        [
            lambda n: (60, TOP, f"Result: {'passed' if n < 5 else 'failed'}"),
            lambda n: (60, BOTTOM, "passed" if n != 4 else "failed"),
            lambda n: (60, TOP, f"Vessel {n}"),  # counts up, and is the name of what follows
            lambda n: (60, BOTTOM, f"{n}.5"),
            lambda n: (60, BOTTOM, f"{n} kg"),
            lambda n: (60, BOTTOM, str(n * n)),  # a number that counts no pages
            lambda n: (60, TOP, "Warning: disconnect power first"),
            lambda n: (60, TOP, "DANGER High voltage"),
            lambda n: (60, BOTTOM, "Never open it!"),
            lambda n: (60, TOP, "Pressure limits" if n < 4 else "Temperature limits"),
            lambda n: (60, 754, "Name Load Price"),  # as near to the text as its own lines
            lambda n: (60, 620, "Checked by hand"),  # in the middle of the page
        ],
    )
    def test_what_may_be_content_stays_on_each_page(self, line):
        got, note = read(*([line(n), *body(n)] for n in range(1, 7)))
        assert [line(n)[2] in text for n, text in enumerate(got, 1)] == [True] * 6
        assert "running" not in note

    def test_the_head_of_a_table_stays_on_each_page(self):
        def page(n):
            head = [(60, TOP, "Name"), (250, TOP, "Load"), (420, TOP, "Price")]
            rows = [
                (x, 770 - 14 * at, f"{WORDS[at]} {n * at + x}")
                for at in range(5)
                for x in (60, 250, 420)
            ]
            return head + rows

        got, _ = read(*map(page, range(1, 6)))
        assert all(text.startswith("Name Load Price\n") for text in got)

    @settings(max_examples=30, deadline=None)
    @given(
        st.lists(st.sampled_from(["passed", "failed", "open"]), min_size=3, max_size=9),
        st.sampled_from([TOP, BOTTOM]),
    )
    def test_values_that_differ_are_never_lost(self, values, place):
        got, _ = read(*([(60, place, value), *body(n)] for n, value in enumerate(values)))
        if any(values.count(value) > 0 for value in set(values) - {values[0]}):
            sides = [set(values[start::2]) for start in (0, 1)]
            if any(len(side) > 1 for side in sides) or set.intersection(*sides):
                lost = [v for v, text in zip(values, got, strict=True) if v not in text]
                assert lost == []
        assert set(values) == {value for value in values if any(value in text for text in got)}

    def test_two_pages_have_no_running_lines(self):
        got, _ = read(*([(60, TOP, "Manual"), *body(n), (300, BOTTOM, str(n))] for n in (1, 2)))
        assert got == [f"Manual\n{text_of(body(n))}\n{n}" for n in (1, 2)]

    def test_a_page_that_holds_nothing_else_keeps_them(self):
        pages = [[(60, TOP, "Manual"), *body(n)] for n in range(1, 5)]
        got, _ = read(*pages, [(60, TOP, "Manual")])
        assert got[-1] == "Manual"
