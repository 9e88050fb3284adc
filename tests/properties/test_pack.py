"""Laws of PACK: nothing is lost unsaid, numbers are those of the file, what is shown is known."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from ragstream_core.prompts.render import (
    HEAD_LINES,
    MAX_LINE_CHARS,
    MAX_SIGNATURES,
    TAIL_LINES,
    bare,
    number_lines,
    pack,
    shows,
    signature_lines,
)

GAP = re.compile(r"… (\d+) lines omitted \((\d+)-(\d+)\) …")
LINES = st.one_of(
    st.text(st.characters(blacklist_characters="\n"), max_size=20),
    st.sampled_from(["", "def f():", "  x = 1", "… 3 lines omitted (1-3) …", "  7  seven", "k: v"]),
    st.integers(MAX_LINE_CHARS - 1, MAX_LINE_CHARS + 2).map("y".__mul__),
)
TEXTS = st.builds(  # long ones too, of few different lines
    lambda lines, times: "\n".join(lines * times),
    st.lists(LINES, min_size=1, max_size=20),
    st.integers(1, 9),
)
PATHS = st.sampled_from(["a.py", "a.md", "a.json", "a.yaml", "a.go", "noext", "a.py.diff"])


@given(TEXTS, PATHS)
@example("\n".join(["def f():", "    x"] * 40), "a.py")
@example("\n".join(["def f():", "    x", "    y"] * 40), "a.py")
def test_each_line_is_shown_under_its_number_or_counted_as_omitted(text, path):
    lines, kept, at = text.split("\n"), [], 0
    for shown in pack(text, path).split("\n"):
        if gap := GAP.fullmatch(shown):  # a kept line begins with its number
            count, first, last = map(int, gap.groups())
            assert (first, count) == (at + 1, last - at) and count > 1
            at = last
            continue
        number, _, words = shown.lstrip(" ").partition("  ")
        assert int(number) == at + 1
        line = lines[at]
        assert words == line if len(line) <= MAX_LINE_CHARS else words.startswith(line[:200])
        kept.append(at)
        at += 1
    assert at == len(lines)
    ends = {*range(min(HEAD_LINES, at)), *range(max(0, at - TAIL_LINES), at)}
    wanted = ends | set(signature_lines(lines, path))
    assert wanted <= set(kept)
    assert all({i - 1, i + 1} <= wanted for i in set(kept) - wanted)


@given(st.lists(st.integers(0, 3), min_size=MAX_SIGNATURES + 20, max_size=MAX_SIGNATURES + 60))
def test_where_there_are_too_many_signatures_the_outer_ones_stay(depths):
    body = ["# said of it", "# in two lines"]
    lines = [f"{' ' * depth}def name_{n}():" for n, depth in enumerate(depths)]
    text = "\n".join([*body * 20, *(part for line in lines for part in (line, *body)), *body * 10])
    packed = bare(pack(text, "a.py")).split("\n")
    shown = [depth for depth, line in zip(depths, lines, strict=True) if line in packed]
    assert sorted(shown) == sorted(depths)[:MAX_SIGNATURES]


@given(TEXTS)
def test_numbers_can_be_taken_away_again(text):
    assert bare(number_lines(text)) == text
    assert shows(number_lines(text), text)


@given(st.integers(1, 200), st.integers(0, 199), st.integers(1, 30))
def test_a_pack_shows_exactly_the_lines_that_it_kept(count, first, length):
    lines = [f"{'def ' if i % 7 == 0 else '    '}name_{i}()" for i in range(count)]
    packed = pack("\n".join(lines), "a.py")
    part = lines[first : first + length]
    held = all(re.search(rf"\b{line.split()[-1][:-2]}\(", packed) for line in part)
    assert shows(packed, "\n\n".join(part)) == held
