"""Where requirements are found: defined, mentioned, or neither."""

import pytest

from ragstream_core.testspecs.identifiers import id_pattern
from ragstream_core.testspecs.requirements import Document, find

PATTERN = id_pattern(r"[A-Z]{1,6}-\d{1,5}")


def found(text, *, path="a.md", file_type="md", pattern=PATTERN):
    return find([Document(path, file_type, text)], pattern)


def words(text, spans):
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    "text",
    [
        "R-7: The lock must hold.",
        "**R-7** The lock must hold.",
        "[R-7] The lock must hold.",
        "- R-7 – the lock must hold.",
        "3. `R-7` the lock must hold.",
        "| R-7 | The lock must hold. |",
        "### R-7 The lock must hold.",
        "R-7 The lock must hold.",
        "R-7\n---\n\nThe lock must hold.",
        "## R-7: Locks\n\nWords first.\n\nThe lock must hold.\n\n## Next\n\nNot this.",
    ],
)
def test_what_begins_with_an_id_defines_it(text):
    (one,) = found(text).definitions
    assert one.ids == ("R-7",)
    said = words(text, one.sentences)
    assert any("lock must hold." in sentence for sentence in said)
    assert not any("Not this" in sentence for sentence in said)


@pytest.mark.parametrize(
    "text",
    [
        "R-7 is late.",
        "See R-7.",
        "UTF-8 is the encoding of every file.",
        "```\n| R-7 | The lock must hold. |\n```",
        "CVE-2024-1234: The lock must hold.",
        "XR-7b: The lock must hold.",
        "R-7.2: The lock must hold.",
        "    | R-7 | The lock must hold. |",
        "<!-- ragstream test specification 1 -->\n# x\n\n| `R-7` | It must hold. |\n\n## TC-001: x",
    ],
)
def test_what_only_holds_an_id_defines_nothing(text):
    assert found(text).definitions == () and found(text).ids == ()


def test_code_defines_nothing_and_mentions_count_where_something_is_defined():
    code = Document("a.py", "py", "# R-7: the lock must hold\nx = 1  # UTF-8\n")
    prose = Document("b.md", "md", "R-7: It must hold.\n\nAs R-7 says, it shall. R-8 is gone.\n")
    told = find([code, prose], PATTERN)
    assert [one.path for one in told.definitions] == ["b.md"]
    assert told.ids == ("R-7", "R-8")
    places = [(m.path, m.is_sentence) for m in told.mentions["R-7"]]
    assert places[0][0] == "a.py" and ("b.md", True) in places


def test_a_row_knows_the_column_that_says_how_it_is_checked():
    text = (
        "| # | Requirement | Seed | Acceptance check |\n|---|---|---|---|\n"
        "| R-1 | The lock `a|b` holds for all | 003 | A second ingest stops |\n"
        "| R-2, R-3 | Two of them in one row here | 004 | |\n"
    )
    first, second = found(text).definitions
    assert words(text, first.sentences) == ["The lock `a|b` holds for all"]
    assert words(text, first.checks) == ["A second ingest stops"]
    assert second.ids == ("R-2", "R-3") and second.checks == ()
    assert first.title == "The lock a|b holds for all"


def test_a_colon_takes_the_list_below_and_no_further():
    text = "- R-1: The import must:\n- refuse links\n- return its figures\n\nAnd this is prose.\n"
    (one,) = found(text).definitions
    said = words(text, one.sentences)
    assert said[-2:] == ["refuse links", "return its figures"]


def test_ids_are_in_the_order_of_their_numbers():
    text = "\n\n".join(f"R-{n}: It must hold." for n in (10, 9, 2))
    assert found(text).ids == ("R-2", "R-9", "R-10")


def test_another_pattern_finds_other_ids():
    text = "req_a.1: It must hold.\n"
    assert found(text, pattern=id_pattern(r"req_[a-z]\.\d")).ids == ("req_a.1",)
