"""Tight evidence through the whole chain: the ledger, why-not, replay, and keys that stay."""

import pytest

from ragstream_core.answers.citations import citations_of, issued_by
from ragstream_core.prompts.blocks import selected_texts
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.compare import differing
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.why_not import why_not
from ragstream_core.settings import ChainSettings
from ragstream_core.wiring.prompt_inputs import pin_inputs
from tests.workspaces import ask, ask_and_keep, ingested_workspace

FULL = {"retrieval.evidence": "full"}
TIGHT = {"retrieval.evidence": "tight"}
QUESTION = "How many litres does pump seven move in an hour?"
DOCS = {
    "pump.md": "# Pump seven\n\nPump seven moves 400 litres in an hour. It stands in the cellar.\n",
    **{
        f"{name}.md": f"# {name}\n\nThe {name} of the house was painted in an hour of the year.\n"
        for name in ("roof", "gate", "wall", "door", "stair", "floor", "attic", "porch")
    },
}


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ingested_workspace(tmp_path_factory.mktemp("evidence"), {"agents.a3": False}, DOCS)


def rows(prompt):
    return {d.chunk_id: d for d in prompt.extras.decisions if d.stage == "a4"}


def test_a_single_question_ends_early_and_says_what_it_saved(space):
    full, tight = ask(space, QUESTION, settings=FULL), ask(space, QUESTION, settings=TIGHT)
    shown = full.final_selection_ids
    assert tight.final_selection_ids == shown[: len(tight.final_selection_ids)]
    left = [row for row in rows(tight).values() if row.rule == "evidence_ends"]
    assert left and not any(row.kept for row in left)
    assert [row.chunk_id for row in left] == shown[len(tight.final_selection_ids) :]
    assert all(row.scores["before"] >= 0.985 and "of the evidence" in row.reason for row in left)
    (told,) = [e.message for e in tight.extras.events if "the evidence ends" in e.message]
    assert told.startswith(f"the evidence ends: {len(left)} passages with ")
    assert tight.extras.token_tree.total < full.extras.token_tree.total
    assert not any("the evidence ends" in e.message for e in full.extras.events)
    assert "400 litres" in tight.extras.super_prompt


@pytest.mark.parametrize("text", ["Describe pump seven.", "What is pump seven? Who painted doors?"])
def test_what_is_no_single_question_does_not_end(space, text):
    full, tight = ask(space, text, settings=FULL), ask(space, text, settings=TIGHT)
    assert tight.extras.super_prompt == full.extras.super_prompt


def test_why_not_names_the_rule_and_a_replay_is_identical(space):
    key = ask_and_keep(space, QUESTION, settings=TIGHT)
    left = [r for r in rows(ask(space, QUESTION, settings=TIGHT)).values() if not r.kept]
    (verdict,) = why_not(space, left[0].chunk_id, key).verdicts
    assert (verdict.rule, verdict.lack.measure) == ("evidence_ends", "share of the evidence")
    assert verdict.lack.distance == pytest.approx(left[0].scores["before"] - 0.985)
    assert replay_prompt(space, key).verdict == "identical"


def test_full_leaves_keys_as_they_were_before_there_was_a_choice(space):
    tight = pin_inputs(space, PromptRequest(QUESTION, ("demo",)))
    assert tight.settings["retrieval"]["evidence"] == "tight"
    full = pin_inputs(space, PromptRequest(QUESTION, ("demo",), settings=FULL))
    assert "evidence" not in full.settings["retrieval"]
    assert ChainSettings.of_pins(full.settings).retrieval.evidence == "full"
    assert ChainSettings.of_pins(tight.settings) == space.config.chain()
    (said,) = differing(full, tight)["settings"]
    assert said == "retrieval.evidence: full → tight"


def test_where_the_best_passage_is_a_program_it_does_not_end(tmp_path):
    lines = {f"m{n}.py": f"RATE_{n} = {n}  # litres of pump seven in an hour\n" for n in range(12)}
    space = ingested_workspace(tmp_path, {"agents.a3": False}, lines)
    text = "How many litres does pump seven move in an hour?"
    full, tight = ask(space, text, settings=FULL), ask(space, text)
    assert tight.extras.super_prompt == full.extras.super_prompt
    assert len(tight.final_selection_ids) == 12


LONG = (
    "# The house\n\nThe garden has nine trees and a wall. The roof was painted green. "
    "Nobody lives in the barn. The cellar is dry in summer.\n\n## Pumps\n\n"
    "The porch has a lamp. Pump seven moves many litres in an hour of the day. "
    "The stairs are steep. The attic is full of hay and boxes. The windows look south. "
    "The door sticks in winter. "
    "The stove is old. The chimney was swept in spring and again in autumn by two men.\n"
)


def test_a_long_passage_is_shown_as_a_window_with_its_headings(tmp_path):
    docs = {f"p{n}.md": LONG.replace("nine", str(n)) for n in range(6)}
    space = ingested_workspace(tmp_path, {"agents.a3": False}, docs)
    prompt = ask(space, QUESTION)
    windows = prompt.extras.windows
    assert windows and set(windows) <= set(prompt.final_selection_ids[3:])
    cut = [row for row in rows(prompt).values() if row.rule == "window"]
    assert {row.chunk_id for row in cut} == set(windows) and all(row.kept for row in cut)
    shown = {source.id: (source, text) for source, text in selected_texts(prompt, history=False)}
    for chunk_id in windows:
        source, text = shown[prompt.extras.short_ids[chunk_id]]
        assert "moves many litres" in text and "The stove is old" not in text
        assert "## Pumps" in text and "[…]" in text and source.mode == "CUT"
    (told,) = [e.message for e in prompt.extras.events if "shortened" in e.message]
    assert told.startswith(f"{len(windows)} passages are shortened: ")
    key = ask_and_keep(space, QUESTION)
    assert replay_prompt(space, key).verdict == "identical"
    for row in cut:
        (verdict,) = why_not(space, row.chunk_id, key).verdicts
        assert verdict.kept and verdict.reason.endswith(f"; {row.reason}")
    assert not ask(space, QUESTION, settings=FULL).extras.windows


def test_both_sentences_of_a_disagreement_stay_in_the_windows(tmp_path):
    garden = "The pump in the garden moves {} litres to the pond. The pond has no fish at all."
    docs = {
        f"p{n}.md": LONG.replace("The garden has nine trees and a wall.", garden.format(400 + n))
        for n in range(6)
    }
    space = ingested_workspace(tmp_path, {"agents.a3": False}, docs)
    prompt = ask(space, QUESTION)
    issued = issued_by(prompt)
    issues = [i for i in prompt.extras.s_ctx.open_issues if i.kind == "conflict"]
    cited = {(passage.chunk_id, passage.short_id) for i in issues for passage in i.citations}
    hidden = {i: issued[name] for i, name in cited if i in prompt.extras.windows}
    assert hidden
    for chunk_id, found in hidden.items():
        said = garden.format(400 + int(found.source[1])).split(". ")[0]
        assert any(said in issue.text for issue in issues)
        answer = f"“{said}” {answer_marker(found.source, found.id)}"
        (citation,) = citations_of(answer, issued)
        assert citation.verified, (chunk_id, citation.reason)
