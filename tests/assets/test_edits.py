"""An edit by hand in Dagster: named in the config of the stage that reads it, repeated there."""

import json
from dataclasses import replace

import dagster as dg
import pytest

from ragstream_core.errors import InputUnavailable, IntegrityError
from ragstream_core.prompts.chain import BUTTONS, OPS, ops_of
from ragstream_core.prompts.edits import edited
from ragstream_core.records import to_json
from ragstream_core.records.identity import canonical_json
from ragstream_core.services.edit_prompt import put_edits, with_edits
from ragstream_core.wiring.make_prompt import make_prompt, make_stages
from tests.assets.executing import execute
from tests.recorded import job, run_steps

VALUES = {"audience": "auditors of banks", "intent": "compare"}
LAST = "prompt_builder"


def _json(prompt):
    return canonical_json(to_json(prompt))


@pytest.fixture
def shaped(ingested, request_):
    """A prompt after the shaper, and the same edited."""
    step = make_prompt(ingested, request_, through=ops_of(BUTTONS[1])[-1])
    return replace(
        step, super_prompt=edited(step.super_prompt, VALUES, when="2026-03-01T12:30:00+02:00")
    )


@pytest.fixture
def named(ingested, shaped, request_):
    """The config of a run that makes the edited prompt."""
    inputs = shaped.inputs
    first = {"now": inputs.now, "time_zone": inputs.time_zone}
    first["prompt_ref"] = ingested.store.put_request(request_)
    edits = put_edits(ingested, shaped.super_prompt)
    return {OPS[0]: first, **{op: {"edits": reference} for op, reference in edits.items()}}


def test_the_config_names_the_edit_and_makes_the_edited_prompt(ingested, home, shaped, named):
    assert "auditors" not in json.dumps(named)
    finished = make_stages(ingested, shaped, OPS[3:])
    made = execute(ingested, home, job="build_prompt", ops=named).output_for_node(LAST)
    assert _json(made) == _json(finished.super_prompt)
    assert "auditors of banks" in made.extras.super_prompt


def test_re_executed_from_the_stage_that_reads_it_the_edit_is_there(ingested, home, shaped, named):
    run = run_steps(ingested, home, named)
    with dg.execute_job(
        dg.reconstructable(job),
        instance=home,
        run_config=run.run_config,
        reexecution_options=dg.ReexecutionOptions(run.run_id, list(OPS[3:8])),
    ) as result:
        assert result.success
        audited = result.output_for_node("a2_audit", "settled")
    assert audited.body["audience"] == "auditors of banks"
    assert audited.extras.trail == make_stages(ingested, shaped, OPS[3:8]).super_prompt.extras.trail


def test_edits_are_made_once(ingested, shaped):
    named = put_edits(ingested, shaped.super_prompt)
    assert list(named) == ["retrieval"]
    assert with_edits(ingested, shaped.super_prompt, named["retrieval"]) is shaped.super_prompt
    assert with_edits(ingested, shaped.super_prompt, "") is shaped.super_prompt


def test_edits_that_are_not_kept_or_are_others_are_named(ingested, shaped):
    with pytest.raises(InputUnavailable, match="are not kept"):
        with_edits(ingested, shaped.super_prompt, "sha256:" + "0" * 64)
    named = put_edits(ingested, shaped.super_prompt)["retrieval"]
    path = ingested.store.root / "blobs" / named.removeprefix("sha256:")
    path.write_bytes(b"[]")
    with pytest.raises(IntegrityError):
        with_edits(ingested, shaped.super_prompt, named)
