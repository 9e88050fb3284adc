"""Laws of windows: whole units only, headings and quotations kept, and no more than the passage."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.context.windows import MOST, units_of, window_of
from ragstream_core.prompts.blocks import LEFT_OUT, shown_of
from ragstream_core.records import Chunk

PARTS = st.lists(
    st.sampled_from(
        ["# House", "## Pumps and wells", "The pump moves 400 litres in an hour.",
         "Nobody lives there. The roof is green! It was painted (in May).",
         "A line that is wrapped\nbefore its end. And another one.",
         "- an item of a list\n- the pump is another item", "| a | pump |\n|---|---|\n| 1 | 2 |",
         "```\nrun pump\n\nstop --all\n```", "    indented code\n    pump = 1",
         "水泵每小时四百升。它很旧。"]
    ),
    min_size=3, max_size=14,
).map("\n\n".join)  # fmt: skip


def chunk(text, name="a.md"):
    return Chunk(f"{name}::x::0", name, text, (0, len(text)), {})


def weigh(text):
    return float(text.count("pump") + text.count("水泵"))


@given(PARTS)
def test_units_are_disjoint_in_order_and_hold_all_that_is_no_blank(text):
    units = units_of(text)
    at, rest = 0, ""
    for start, end, _ in units:
        assert at <= start < end
        rest += text[at:start]
        at = end
    assert not (rest + text[at:]).strip()


@given(PARTS, st.data())
def test_a_window_is_of_whole_units_with_what_is_quoted_and_the_headings_above(text, data):
    units = units_of(text)
    sentences = [(a, b) for a, b, kind in units if kind == "sentence"]
    quoted = data.draw(st.lists(st.sampled_from(sentences), max_size=2)) if sentences else []
    parts = window_of(chunk(text), weigh, quoted)
    if not parts:
        return
    assert sum(b - a for a, b in parts) <= MOST * len(text)
    assert list(parts) == sorted(parts) and all(a < b for a, b in parts)
    for start, end, kind in units:
        inside = any(a <= start and end <= b for a, b in parts)
        outside = all(end <= a or b <= start for a, b in parts)
        assert inside or outside, f"{kind} is cut in the middle"
        assert inside or weigh(text[start:end]) == 0 or kind == "heading" or _less(text, start, end)
    assert all(any(a <= start and end <= b for a, b in parts) for start, end in quoted)
    first = parts[-1][0]
    above = [text[a:b] for a, b, kind in units if kind == "heading" and a < first]
    said = shown_of(text, parts)
    # a window that begins with headings shows those that it stands under
    assert not above or above[-1] in said or text.startswith("#", first)
    assert [line for line in said.split("\n") if line != LEFT_OUT] == [
        line for a, b in parts for line in text[a:b].split("\n")
    ]
    assert said.count(LEFT_OUT) >= 1


def _less(text, start, end):
    best = max(weigh(text[a:b]) for a, b, kind in units_of(text) if kind != "heading")
    return weigh(text[start:end]) < 0.7 * best


@given(PARTS)
def test_programs_and_what_holds_nothing_of_the_question_are_shown_whole(text):
    assert window_of(chunk(text, "a.py"), weigh) == ()
    assert window_of(chunk(text), lambda text: 0.0) == ()
