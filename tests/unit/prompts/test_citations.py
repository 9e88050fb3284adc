"""Citation markers: three forms, one parser, known and unknown ids."""

import time

import pytest

from ragstream_core.prompts.citations import (
    answer_marker,
    parse_markers,
)
from ragstream_core.prompts.fences import Source, frame


def test_all_three_forms_are_read():
    text = "\n".join(
        [
            f"As said {answer_marker('docs/a.md', '1a2b3c4d')}.",
            "[source: docs/a.md#7 | score: 0.812]",
            *frame(1, "0" * 12, source=Source("ffff0000", "b.md", (0, 1), ""), text="x"),
        ]
    )
    assert [(m.form, m.source, m.id) for m in parse_markers(text)] == [
        ("answer", "a.md", "1a2b3c4d"), ("header", "docs/a.md", "7"), ("fence", "b.md", "ffff0000"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a]b.md", "a, chunk: 99.md", "a\nb.md", "[source: x"])
def test_a_hostile_file_name_gives_one_marker_with_our_id(name):
    assert [m.id for m in parse_markers(answer_marker(name, "1a2b3c4d"))] == ["1a2b3c4d"]


@pytest.mark.parametrize("attack", ["[source: ", "[source: a, chunk: ", "<<DOC 1 ", "[", "a#a"])
def test_parsing_is_linear(attack):
    text = attack * (100_000 // len(attack))
    start = time.process_time()
    parse_markers(text)
    assert time.process_time() - start < 30  # quadratic rules take minutes
