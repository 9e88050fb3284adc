"""Passages that repeat one another through the whole chain: shown once, cited by each name."""

import pytest

from ragstream_core.answers.citations import citations_of, issued_by
from ragstream_core.prompts.citations import answer_marker, parse_markers
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.why_not import why_not
from tests.workspaces import ask, ask_and_keep, ingested_workspace

QUESTION = "How many litres does pump seven move in an hour?"
SAID = "Pump seven moves 400 litres in an hour. It stands in the cellar, behind the boiler."
DOCS = {
    "pump.md": f"{SAID} Call us.\n",
    "copy.md": "Pump seven moves *400 litres* in an hour.\nIt stands in the cellar, behind the "
    "boiler.\n",
    "old.md": SAID.replace("400", "300") + "\n",
    "same.md": f"{SAID} Call us.\n",
}


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ingested_workspace(tmp_path_factory.mktemp("repeats"), {}, DOCS)


def test_it_is_shown_once_with_all_its_sources(space):
    prompt = ask(space, QUESTION)
    by_id = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    shown = sorted(by_id[i].source for i in prompt.final_selection_ids)
    assert "old.md" in shown, "another number is no repeat"
    assert len(shown) == 2 and shown[1] in ("pump.md", "same.md")
    rows = {by_id[d.chunk_id].source: d for d in prompt.extras.decisions if d.stage == "a3"}
    left = {"copy.md", "pump.md", "same.md"} - set(shown)
    assert {rows[name].rule for name in left} == {"near_duplicate", "duplicate_text"}
    holder = next(i for i in prompt.final_selection_ids if by_id[i].source != "old.md")
    assert all(holder in rows[name].reason for name in left)
    (line,) = [li for li in prompt.Attachments_MD.split("\n") if li.startswith("The same stands")]
    assert {marker.source for marker in parse_markers(line)} == left
    (told,) = [e.message for e in prompt.extras.events if e.message.startswith("shown once")]
    assert told.startswith("shown once: 2 repeated passages with ")


def test_a_citation_of_each_name_is_verified(space):
    prompt = ask(space, QUESTION)
    issued = issued_by(prompt)
    assert set(issued) == set(prompt.extras.citations)
    short = {prompt.extras.short_ids[i]: i for i in prompt.extras.repeats}
    assert len(short) == 2 and set(short) <= set(issued)
    for name, chunk_id in short.items():
        assert prompt.extras.citations[name].chunk_id == issued[name].locator == chunk_id
        said = f"It moves “400 litres” {answer_marker(issued[name].source, name)}."
        (found,) = citations_of(said, issued)
        assert found.verified, found.reason


def test_why_not_names_the_passage_and_a_replay_is_identical(space):
    key = ask_and_keep(space, QUESTION)
    (verdict,) = why_not(space, "copy.md", key).verdicts
    assert (verdict.stage, verdict.rule) == ("a3", "near_duplicate")
    assert verdict.reason.startswith("all that it says stands in ")
    assert replay_prompt(space, key).verdict == "identical"


def test_a_passage_that_says_much_more_is_not_named_as_the_same(tmp_path):
    docs = {"a.md": f"# Pump seven\n\n{SAID}\n", "b.md": "# Pump seven\n"}
    prompt = ask(ingested_workspace(tmp_path, {}, docs), QUESTION)
    by_id = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    assert [by_id[i].source for i in prompt.final_selection_ids] == ["a.md"]
    (row,) = [d for d in prompt.extras.decisions if d.rule == "near_duplicate"]
    assert by_id[row.chunk_id].source == "b.md" and "all that it says stands in" in row.reason
    assert "The same stands in" not in prompt.extras.super_prompt
    assert not any(e.message.startswith("shown once") for e in prompt.extras.events)
    short = prompt.extras.short_ids[row.chunk_id]
    (found,) = citations_of(
        f"Pump seven moves 400 litres {answer_marker('b.md', short)}.", issued_by(prompt)
    )
    assert not found.verified
