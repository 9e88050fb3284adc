"""Facts say under which headings they stand: the path of them, as far as it is sure."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.agents.context.shown import MAX_HEADING, heading_of
from ragstream_core.records import Chunk
from ragstream_core.text.headings import SEPARATOR, HeadingIndex

SAID = "The warranty ends after nine years."


def headings(text, path):
    chunk = Chunk("c", "fans.md", text, (0, len(text)), {"heading": path})
    return [quote.heading for quote in quotes_of(chunk, 0, stemmed_terms)]


def test_a_fact_shows_the_path_of_its_headings():
    assert headings(SAID, "Fans > Warranty") == ["Fans > Warranty"]
    assert headings(f"# Fans\n\n## Warranty\n\n{SAID}", "Fans") == ["Fans > Warranty"]
    assert headings(f"Fans\n====\n\nWarranty\n---\n\n{SAID}", "Fans") == ["Fans > Warranty"]


def test_a_heading_within_the_passage_stands_below_what_is_sure_to_stand_above_it():
    text = f"{SAID}\n\n## Weight\n\nThe fan weighs 9 kg.\n\n### K-10\n\nIt weighs 8 kg with it."
    assert headings(text, "Warranty")[1:] == ["Weight", "Weight > K-10"]
    assert headings(f"## Warranty\n\n{text}", "Fans > Warranty")[1:] == [
        "Fans > Weight",
        "Fans > Weight > K-10",
    ]


def test_a_long_path_keeps_what_is_nearest_and_loses_its_markup():
    path = SEPARATOR.join(["t" * 50, "Rules", "**A\\_part of it**"])
    assert heading_of(path) == "Rules > A_part of it"
    assert heading_of("x" * 90) == "x" * MAX_HEADING
    assert heading_of("") == heading_of("** > _") == ""


LEVELS = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@given(LEVELS, st.data())
def test_no_fact_stands_under_a_heading_that_is_not_above_it(levels, data):
    rows = [f"{'#' * level} H{n}\n\n{SAID}\n\n" for n, level in enumerate(levels)]
    text = "".join(rows)
    index = HeadingIndex(text, file_type="md")
    starts = [heading.start for heading in index.headings]
    begin = data.draw(st.sampled_from([at for n in starts for at in (n, text.index(SAID, n))]))
    shown = headings(text[begin:], index.path_at(begin))
    true = [index.path_at(n) for n in starts if text.index(SAID, n) >= begin]
    for path, whole in zip(shown, true, strict=True):
        left = iter(whole.split(SEPARATOR))
        assert all(title in left for title in path.split(SEPARATOR))
        assert path.split(SEPARATOR)[-1] == whole.split(SEPARATOR)[-1]
