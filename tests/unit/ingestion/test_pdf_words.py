"""Words broken at line ends of a PDF: laws, and what must stay as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.pdf_words import join_broken_words

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
