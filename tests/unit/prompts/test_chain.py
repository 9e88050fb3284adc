"""The chain: order, ways through it, the audit's one re-run, and what a step notes."""

import pytest

from ragstream_core.errors import EmptyPrompt, UsageError
from ragstream_core.prompts.chain import (
    BUTTONS,
    CHAIN,
    OPS,
    RERUN,
    change_digest,
    last_op,
    ops_of,
    run_chain,
    step,
)
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records import Decision, Extras, SuperPrompt, evolve, from_json, to_json
from ragstream_core.records.stage_results import AuditResult
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt, stages_of


def request(text="How are the signals added, and who may write?", **more):
    return PromptRequest(text=text, projects=("demo",), **more)


def test_the_buttons_are_those_of_the_seed_in_its_order():
    assert BUTTONS == (
        "PreProcessing", "A2 PromptShaper", "Retrieval", "ReRanker",
        "A3 NLI Gate", "A4 Condenser", "A5 Format Enforcer", "Prompt Builder",
    )  # fmt: skip
    assert tuple(op for button in BUTTONS for op in ops_of(button)) == OPS


def test_a_stage_or_an_op_names_the_last_op_that_makes_it():
    assert last_op("a2") == "a1_file_injector"
    assert last_op("reranked") == "reranker"
    assert last_op("a5") == last_op("prompt_builder") == "prompt_builder"
    with pytest.raises(UsageError, match="unknown stage"):
        last_op("a9")


def test_the_trail_of_stages_is_the_seeds(workspace):
    prompt = run_prompt(workspace, pin_inputs(workspace, request()))
    assert prompt.history_of_stages == [
        "raw", "preprocessed", "a2", "retrieval", "reranked", "a3", "a4", "a5",
    ]  # fmt: skip
    assert [op for op, _ in prompt.extras.trail] == list(OPS)
    assert set(prompt.views_by_stage) <= {spec.stage for spec in CHAIN}
    base = {chunk.id for chunk in prompt.base_context_chunks}
    assert all(set(view) <= base for view in prompt.views_by_stage.values())
    assert set(prompt.final_selection_ids) <= base


def test_stopping_and_going_on_gives_what_running_through_gives(workspace):
    inputs = pin_inputs(workspace, request())
    whole = run_prompt(workspace, inputs)
    for at in range(1, len(OPS)):
        half = run_prompt(workspace, inputs, through=OPS[at - 1])
        stored = from_json(to_json(half))
        rest = run_chain(stages_of(workspace), stored, first=OPS[at])
        assert to_json(rest) == to_json(whole)


def test_no_stage_changes_what_it_was_given(workspace):
    import json

    prompt = None
    from ragstream_core.prompts.chain import step
    from ragstream_core.prompts.inputs import begin

    prompt = begin(pin_inputs(workspace, request()))
    for op in OPS:
        before = json.dumps(to_json(prompt), sort_keys=True)
        result = step(stages_of(workspace), op, prompt)
        assert json.dumps(to_json(prompt), sort_keys=True) == before, op
        prompt = result


def test_a_rescoped_audit_runs_the_four_ops_once_more():
    ran = []

    def make(op, prompt):
        def stage(prompt: SuperPrompt) -> SuperPrompt:
            ran.append(op)
            result = evolve(prompt)
            if op == "a2_audit":
                result.extras.audit = AuditResult("rescoped")
            return result

        return stage

    done = run_chain(make, SuperPrompt())
    cut = OPS.index("a2_audit") + 1
    assert ran == [*OPS[:cut], *RERUN, *OPS[cut:]]
    assert [op for op, _ in done.extras.trail] == ran
    ran.clear()
    run_chain(make, done, first="a2_audit")
    assert ran == [*OPS[OPS.index("a2_audit") :]]


def test_bad_ways_and_bad_requests_are_refused(workspace):
    with pytest.raises(UsageError, match="no such way"):
        run_chain(
            stages_of(workspace), SuperPrompt(), first="a5_format_enforcer", through="retrieval"
        )
    with pytest.raises(EmptyPrompt):
        request("  \n … ")
    with pytest.raises(UsageError, match="no project"):
        PromptRequest(text="x", projects=(), files=("a.md",))
    with pytest.raises(UsageError, match="one project"):
        PromptRequest(text="x", projects=("a", "b"), as_of=2)


DECIDED = Decision("raw", "c", 1, 0.5, True, "r", "why")._asdict()


def changed(before, **entries):
    return change_digest(before, evolve(before, extras=extras_with(before, **entries)))()


def extras_with(prompt, **entries):
    return Extras.from_json({**prompt.extras.to_json(), **entries})


def test_the_digest_of_a_step_is_that_of_all_it_changed():
    before = SuperPrompt(body={"task": "x"})
    bare = {"trail": [["a", "b"]], "decisions": []}
    before.extras = Extras.from_json({**bare, "kept": [1], "scores": {"c": {"score": 0.5}}})
    same = changed(before)
    assert same == changed(before, scores={"c": {"score": 0.5}}) == changed(before, kept=[1])
    others = [
        changed(before, scores={"c": {"score": 0.6}}), changed(before, fresh=1),
        changed(before, fresh=2),
        changed(before, decisions=[DECIDED]),
        change_digest(before, evolve(before, body={"task": "y"}))(),
        change_digest(before, evolve(before, views_by_stage={"a3": ["c"]}))(),
        change_digest(before, evolve(before, extras=Extras.from_json(bare)))(),
    ]  # fmt: skip
    assert len({same, *others}) == 1 + len(others)
    first = evolve(before, extras=extras_with(before, trail=[]))
    assert changed(first) != changed(evolve(first, body={"task": "y"}))  # the first step has it all


def test_what_happens_after_a_step_does_not_change_its_digest():
    before = SuperPrompt(body={"task": "x"})

    def stage(prompt):
        return evolve(prompt, body={**prompt.body, "task": "y"})

    def made():
        return step(lambda op, prompt: stage, "a0_preprocessing", before)

    one, other = made(), made()
    other.body["task"] = "z"
    other.extras.raw_text = "later"
    assert one.extras.trail == other.extras.trail
