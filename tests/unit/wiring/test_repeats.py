"""Passages that repeat one another through the whole chain: shown once, cited by each name."""

import pytest

from ragstream_core.agents.context.condensed_notes import SHOWN_ONCE, savings_of
from ragstream_core.answers.citations import citations_of, issued_by
from ragstream_core.evaluation.prompt_quality import measured
from ragstream_core.evaluation.sweep import point_of
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.prompts.citations import answer_marker, parse_markers
from ragstream_core.prompts.edits import COUNTER
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.verify_prompt import verify_key, verify_text
from ragstream_core.services.why_not import why_not
from ragstream_core.wiring.saved_prompts import save_prompt
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


def test_a_source_that_is_only_named_is_compared_with_the_disk(tmp_path):
    space = ingested_workspace(tmp_path, {}, DOCS)
    prompt = ask(space, QUESTION)
    key, text = save_prompt(space, prompt).prompt_key, prompt.extras.super_prompt
    found = {row.path: row.state for row in verify_key(space, key).files}
    assert found == dict.fromkeys(DOCS, "current")
    (tmp_path / "doc_raw" / "demo" / "copy.md").write_text("Another text.\n")
    found = {row.path: row.state for row in verify_key(space, key).files}
    assert found == {**dict.fromkeys(DOCS, "current"), "copy.md": "changed"}
    (space.store.root / key / "record.json").unlink()
    framed = verify_text(space, text)
    assert framed.prompt_key == ""
    assert {row.path: row.state for row in framed.files} == found
    ingest_project(space, "demo")  # no index knows the passage any more
    assert {row.path: row.state for row in verify_text(space, text).files} == {
        **found,
        "copy.md": "unreadable",
    }


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


def test_an_expected_file_that_is_named_counts_as_kept_and_shown(space):
    prompt = ask(space, QUESTION)
    question = GoldQuestion(1, QUESTION, ("copy.md", "pump.md", "same.md"))
    found = measured(question, prompt, COUNTER)
    assert (found.expected, found.expected_shown) == (3, 3)
    point = point_of([(question, prompt)], 0.25, 0.42, COUNTER)
    assert (point.kept_relevant, point.shown) == (1.0, 1.0)
    (saved,) = [row for row in savings_of(prompt, COUNTER) if row.rule == SHOWN_ONCE]
    assert str(saved) in [event.message for event in prompt.extras.events]
    assert point.saved >= saved.tokens > 0 and found.tokens_saved == point.saved
