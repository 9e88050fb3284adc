"""Words broken at line ends and running lines of a PDF: laws, and what must stay as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.pdf_text import join_broken_words, without_running_lines

LETTERS = "abcdefghijklmnoprstuwäöüß"
word = st.text(LETTERS, min_size=4, max_size=12)
BREAKS = st.sampled_from(["-\n", "\ufffe", "\u2010\n"])


def joined(*pages):
    return join_broken_words(list(pages))


class TestBrokenWords:
    @given(st.lists(word, min_size=1, max_size=9), st.integers(2, 9), BREAKS)
    def test_a_word_of_the_document_is_found_again_wherever_it_is_broken(self, words, place, sign):
        whole = " ".join(words)
        cuts = [min(place, len(each) - 2) for each in words]
        broken = [each[:at] + sign + each[at:] for each, at in zip(words, cuts, strict=True)]
        assert joined(whole, " ".join(broken)) == [whole, whole]

    @given(word, word, BREAKS)
    def test_a_hyphen_that_the_document_prints_elsewhere_stays(self, first, second, broken):
        whole = f"the {first}-{second} case"
        assert joined(whole, f"the {first}{broken}{second} case") == [whole, whole]

    @given(st.text(st.characters(exclude_characters="\ufffe\x02\u00ad"), max_size=200))
    def test_text_without_broken_lines_is_as_it_was(self, text):
        kept = text.replace("-\n", " \n").replace("\u2010\n", " \n")
        assert joined(kept) == [kept]

    @given(st.text(f"{LETTERS}AZ019 -\n.,\ufffe", max_size=200))
    def test_nothing_but_hyphens_and_line_ends_ever_goes(self, text):
        def bare(value):
            return "".join(c for c in value if c not in "-\n\ufffe")

        assert bare(joined(text)[0]) == bare(text)

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            ("Infor-\nmation is power", "Information is power"),
            ("a well-\nknown valve", "a well-known valve"),
            ("state-of-\nthe-art pumps", "state-of-the-art pumps"),
            ("a labour-\nsaving pump: saving labour", "a labour-saving pump: saving labour"),
            ("pages 10-\n20 and ISO-\n9001", "pages 10-\n20 and ISO-\n9001"),
            ("type AB-\nX12 of TCP-\nIP", "type AB-\nX12 of TCP-IP"),
            ("Ein-\nund Ausgang", "Ein-\nund Ausgang"),
            ("Druck-\nMessung", "Druck-Messung"),
            ("from YYMM\ufffehh on", "from YYMM-hh on"),
            ("OP\ufffeTIONAL, and OPTIONAL", "OPTIONAL, and OPTIONAL"),
            ("soft\u00adware, soft\u00ad\nware", "software, software"),
            ("- one\n- two\n", "- one\n- two\n"),
        ],
    )  # fmt: skip
    def test_examples(self, given, wanted):
        assert joined(given) == [wanted]


def pages_of(count, page):
    return [(n, page(n)) for n in range(1, count + 1)]


def bodies(pages):
    return without_running_lines(pages)[0]


class TestRunningLines:
    @given(st.integers(3, 40), st.integers(0, 30))
    def test_headers_footers_and_numbers_of_pages_go_and_bodies_stay(self, count, first):
        def body(n):
            return f"alpha {n} {'x' * n}\nbeta\ngamma {n * n}\ndelta\nomega {n * 7}"

        pages = pages_of(count, lambda n: f"Manual of valves\n{body(n)}\n{n + first} of {count}")
        kept, gone = without_running_lines(pages)
        assert kept == [body(n) for n, _ in pages]
        assert len(gone) == 2

    def test_headers_of_left_and_right_pages_go(self):
        sides = ("12 Valves", "Maintenance 12")
        pages = pages_of(
            12, lambda n: f"{sides[n % 2].replace('12', str(n))}\ntext {n * n}\nmore {n * 7}"
        )
        assert bodies(pages) == [f"text {n * n}\nmore {n * 7}" for n, _ in pages]

    def test_roman_numbers_count_pages_too(self):
        pages = list(enumerate(["one text\ni", "two text\nii", "a text\niii", "b\niv"], start=1))
        assert bodies(pages) == ["one text", "two text", "a text", "b"]

    @pytest.mark.parametrize(
        "page",
        [
            lambda n: f"Chapter {n} ........ {n + 4}\nPart {n}.1 . . . . . {n + 5}",  # of contents
            lambda n: f"This is the text of page {n}.\nbody{n}",  # a sentence
            lambda n: f"page {n} of many",  # nothing else on it
            lambda n: f"Item {n * n}\nbody{n}",  # numbers that count no pages
            lambda n: "\n".join(["same"] * 12),  # stands inside of the page as well
            lambda n: f"{'long ' * 30}\nbody {n * n}",  # a sentence, not a header
        ],
    )
    def test_what_is_no_running_line_stays(self, page):
        pages = pages_of(9, page)
        assert without_running_lines(pages) == ([text for _, text in pages], [])

    def test_headings_of_a_table_on_three_pages_stay(self):
        pages = pages_of(
            20, lambda n: ("item price\n" if 5 <= n < 8 else "") + f"row {n * n}\nend {n * 7}"
        )
        assert bodies(pages) == [text for _, text in pages]

    def test_two_pages_have_none(self):
        pages = pages_of(2, lambda n: f"Manual\ntext {n * n}\n{n}")
        assert bodies(pages) == [text for _, text in pages]
