"""An answer's stream: no marker leaks and no word is lost, wherever the tokens are cut."""

import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.answers.citations import Issued, citations_of
from ragstream_core.answers.stream_buffer import CitationBuffer, clean_citation_tags, markers
from ragstream_core.prompts.citations import answer_marker, parse_markers
from ragstream_core.prompts.fences import Source, frame

ISSUED = frozenset({"1a2b3c4d", "0badcafe", "ffffffff00"})
LEAK = re.compile(r"\[[ \t]*source[ \t]*:|<<(?:END )?DOC \d", re.IGNORECASE)
FRAME = frame(
    3, "0123456789ab", source=Source("1a2b3c4d", "guide/a.md", (0, 9), "ab" * 32), text="x"
)
MARKERS = (
    answer_marker("guide/locks.md", "1a2b3c4d"),
    answer_marker("a b[1].md", "0badcafe"),
    answer_marker("nowhere.md", "deadbeef"),
    "[source: guide/a.md#7 | score: 0.812]",
    FRAME[0],
    FRAME[-1],
    "[Source : a.md , Chunk: 1a2b3c4d]",
    "[source: a.md, chunk: 1a2b3c4d; source: b.md, chunk: 0badcafe]",
    "[source: somewhere]",
    "[1a2b3c4d]",
    "[chunk: 0badcafe]",
)
WORDS = ("lock", "files", "Index", "7", "übermäßig", "naïve", "日本語", "x86", "[1]", "(b)", "a[0]",
         "<<EOF", "`code`", "**bold**", "[deadbeef]", "[so", "[ ]", "“x”", "a<b", "·")  # fmt: skip
GAPS = (" ", " ", " ", "\n", "\n\n", ", ", ". ", " - ", "\n- ", ": ")


def answer_of(dice: random.Random) -> str:
    parts = []
    for _ in range(dice.randrange(1, 25)):
        parts += [dice.choice(WORDS + MARKERS), dice.choice(GAPS)]
        if dice.random() < 0.1:
            parts.append("")
    return "".join(parts)


def cut(text: str, dice: random.Random) -> list[str]:
    count = dice.randrange(0, 1 + min(len(text), 60))
    places = sorted(dice.randrange(len(text) + 1) for _ in range(count))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def streamed(tokens, *, broken_off=False):
    buffer = CitationBuffer(ISSUED)
    shown = [buffer.feed(token) for token in tokens]
    return [*shown, buffer.close(cut=broken_off)]


def words_of(text: str) -> list[str]:
    return [w for w in re.findall(r"\w+", text.lower()) if w not in ("the", "document")]


def test_ten_thousand_splits_leak_no_marker_and_lose_no_word():
    dice = random.Random(7)
    for _ in range(2_000):
        text = answer_of(dice)
        whole = clean_citation_tags(text, ISSUED)
        left_over = text
        for marker in sorted(MARKERS, key=len, reverse=True):
            left_over = left_over.replace(marker, " ")
        assert words_of(whole) == words_of(left_over), text
        for _ in range(5):
            shown = streamed(cut(text, dice))
            assert "".join(shown) == whole
            for n in range(1, len(shown) + 1):
                assert not LEAK.search("".join(shown[:n]))


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("around", ["According to {}, it is so.", "{}", "It is so ({}).", "a{}b"])
def test_every_single_and_double_cut_of_each_marker(marker, around):
    text = around.format(marker)
    whole = clean_citation_tags(text, ISSUED)
    assert not LEAK.search(whole) and "1a2b3c4d" not in whole and "0badcafe" not in whole
    for a in range(len(text)):
        for b in range(a, len(text), 7):
            assert "".join(streamed([text[:a], text[a:b], text[b:]])) == whole


@given(st.text(alphabet='[]<>so urce:chunkDOCEN19.,(\n-·`*"', max_size=80), st.integers(0))
@settings(max_examples=1_500, deadline=None)
def test_cleaning_twice_is_cleaning_once_and_never_depends_on_the_cuts(text, seed):
    once = clean_citation_tags(text, ISSUED)
    assert clean_citation_tags(once, ISSUED) == once
    assert not parse_markers(once) and not list(markers(once, ISSUED))
    assert "".join(streamed(cut(text, random.Random(seed)))) == once


@given(
    st.lists(
        st.sampled_from(
            [
                *MARKERS,
                "[",
                "[so",
                "urce: a]",
                "]",
                "<",
                "<<DOC 1 ",
                " ",
                "1a2b",
                "3c4d",
                "[1a2b",
                "[source",
                ": x]",
                ">>",
                "x",
                "\n",
            ]
        ),
        max_size=14,
    )
)
@settings(max_examples=1_500, deadline=None)
def test_a_marker_taken_out_never_makes_another_one(parts):
    text = "".join(parts)
    once = clean_citation_tags(text, ISSUED)
    assert not LEAK.search(once) and not list(markers(once, ISSUED))
    assert clean_citation_tags(once, ISSUED) == once


@given(st.text(max_size=200))
@settings(max_examples=500, deadline=None)
def test_text_without_markers_comes_out_as_it_went_in(text):
    if not LEAK.search(text):
        assert clean_citation_tags(text) == text


@given(st.sampled_from(MARKERS[:7]), st.integers(1, 200))
def test_a_stream_cut_inside_a_marker_shows_nothing_of_it(marker, at):
    shown = "".join(
        streamed(["The lock is on " + marker[: min(at, len(marker) - 1)]], broken_off=True)
    )
    assert shown == "The lock is on "


@given(
    st.lists(st.sampled_from([*MARKERS, *WORDS, "“never said so”", " ", ". ", "\n"]), max_size=20)
)
@settings(max_examples=500, deadline=None)
def test_a_verified_citation_is_always_one_that_was_issued(parts):
    shown = {i: Issued(i, f"guide/{i}.md", f"guide/{i}.md::ab::0", "locks") for i in ISSUED}
    shown["1a2b3c4d"] = Issued("1a2b3c4d", "guide/a.md", "guide/a.md::cd::1", "files")
    for found in citations_of("".join(parts), shown):
        assert found.known == (found.id in shown)
        if found.verified:
            assert found.locator == shown[found.id].locator
            assert found.source == shown[found.id].source
        else:
            assert found.reason


@pytest.mark.parametrize(
    "attack",
    ["[", "[source:", "[source: a", "<<", "<<DOC 1 ", "[source: a, chunk: 1a2b3c4d]", " ", "(see ",
     "[1a2b3c4d", "according to ", "[source: a, chunk: 1a2b3c4d], ", "\n- ", "[ ", "``", "<"],
)  # fmt: skip
@pytest.mark.parametrize("width", [1, 4_096])
def test_work_is_linear_and_what_is_held_is_bounded(attack, width):
    def work(size):
        text = (attack * (size // len(attack) + 1))[:size]
        buffer, held, calls = CitationBuffer(ISSUED), 0, 0

        def count(_frame, event, _arg):
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            for at in range(0, size, width):
                buffer.feed(text[at : at + width])
                held = max(held, len(buffer._pending) + len(buffer._left))
            buffer.close()
        finally:
            sys.setprofile(None)
        return calls, held

    small, large = work(4_096), work(32_768)
    assert large[0] <= 9 * small[0]
    assert large[1] <= 1_500 + width
