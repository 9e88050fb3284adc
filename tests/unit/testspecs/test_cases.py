"""The strict schema of a test case."""

import json
from dataclasses import asdict

import pytest

from ragstream_core.errors import IntegrityError
from ragstream_core.testspecs.llm_form import Written, checker
from ragstream_core.testspecs.markdown import cell, sections_of
from ragstream_core.testspecs.specification import case_from

SOURCE = {
    "marker": "[source: a.md, chunk: 0a1b2c3d]", "chunk_id": "a.md::0::0", "prompt_key": "",
    "path": "a.md", "lines": [1, 2], "page": 0, "quote": "The door must open.",
}  # fmt: skip
CASE = {
    "id": "TC-001", "title": "Door", "precondition": "none stated", "actions": ["Ring."],
    "expected": ["must open"], "postcondition": "none stated", "requirements": ["R-1"],
    "sources": [SOURCE], "quote": "The door must open.", "form": "deterministic", "model": "",
    "notes": [],
}  # fmt: skip


def test_a_case_is_read_whole_and_nothing_else_is():
    case = case_from(json.dumps(CASE))
    assert case.sources[0].place == "a.md:1-2" and asdict(case).keys() == CASE.keys()
    with pytest.raises(IntegrityError, match="not a test case"):
        case_from(json.dumps({**CASE, "more": 1}))


@pytest.mark.parametrize(
    "change",
    [
        {"expected": ["one", "two"]},
        {"actions": [], "expected": []},
        {"requirements": []},
        {"sources": []},
        {"quote": "The door must shut."},
        {"title": 7},
        {"form": "poem"},
        {"extra": 1},
        {"sources": [{**SOURCE, "lines": [-1, 2]}]},
        {"sources": [{**SOURCE, "prompt_key": "../x"}]},
        {"sources": [{**SOURCE, "page": "1"}]},
    ],
)
def test_what_does_not_fit_is_refused(change):
    with pytest.raises(IntegrityError, match="not a test case"):
        case_from(json.dumps({**CASE, **change}))


def test_a_bar_ends_no_cell_and_a_heading_in_code_is_no_case():
    assert cell("a | b") == "`a \\| b`"
    text = "## TC-001: one\n\nRequirements: `R-1`\n\n```text\n## TC-002: quoted\n```\n"
    assert [one.id for one in sections_of(text)] == ["TC-001"]


def test_a_quote_of_a_model_is_taken_letter_by_letter():
    source = case_from(json.dumps(CASE)).sources[0]
    written = Written(
        title="Door", precondition="", actions=["Ring."], expected=["Open."], postcondition="",
        requirements=["R-1"], quote="The door must open.",
    )  # fmt: skip
    assert checker([(source, "Hm. The door must open.")])(written) == ""
    assert "no passage" in checker([(source, "Hm. the door must open.")])(written)
