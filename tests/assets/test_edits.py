"""An edit by hand in Dagster: named in the config of the stage that reads it, repeated there."""

import json
from dataclasses import replace

import dagster as dg
import pytest

from ragstream_assets.definitions import defs
from ragstream_core.errors import InputUnavailable, IntegrityError
from ragstream_core.prompts.chain import BUTTONS, OPS, ops_of
from ragstream_core.prompts.edits import edited
from ragstream_core.records import to_json
from ragstream_core.records.identity import canonical_json
from ragstream_core.services.edit_prompt import put_edits, with_edits
from tests.recorded import record_prompt, record_stage

VALUES = {"audience": "auditors of banks", "intent": "compare"}
LAST = "prompt_builder"


def job():
    """Return the job with its resources, as a process of Dagster's finds it."""
    return defs.resolve_job_def("build_prompt")


def _json(prompt):
    return canonical_json(to_json(prompt))


@pytest.fixture
def shaped(ingested, request_):
    """A prompt after the shaper, and the same edited."""
    step = record_prompt(ingested, request_, through=ops_of(BUTTONS[1])[-1])
    return replace(step, prompt=edited(step.prompt, VALUES, when="2026-03-01T12:30:00+02:00"))


@pytest.fixture
def finished(ingested, shaped):
    return record_stage(ingested, shaped, OPS[3:])


def test_the_run_says_that_it_was_edited_and_holds_no_text(home, finished):
    run = home.get_run_by_id(finished.run_id)
    assert run.tags["ragstream/edited"] == "yes"
    assert run.run_config["ops"]["retrieval"]["config"]["edits"].startswith("sha256:")
    assert "auditors" not in json.dumps([run.run_config, dict(run.tags)])
    assert "auditors of banks" in finished.prompt.extras.super_prompt


def test_a_run_without_edits_says_nothing_of_them(ingested, home, request_):
    run = home.get_run_by_id(record_prompt(ingested, request_).run_id)
    assert "ragstream/edited" not in run.tags and '"edits"' not in json.dumps(run.run_config)


def test_the_config_alone_makes_the_edited_prompt(finished, home):
    config = home.get_run_by_id(finished.run_id).run_config
    again = defs.resolve_job_def("build_prompt").execute_in_process(run_config=config)
    assert _json(again.output_for_node(LAST)) == _json(finished.prompt)


def test_re_executed_from_the_stage_that_reads_it_the_edit_is_there(finished, home):
    run = home.get_run_by_id(finished.run_id)
    config = {name: part for name, part in run.run_config.items() if name != "loggers"}
    with dg.execute_job(
        dg.reconstructable(job),
        instance=home,
        run_config=config,
        reexecution_options=dg.ReexecutionOptions(run.run_id, list(OPS[3:8])),
    ) as result:
        assert result.success
        audited = result.output_for_node("a2_audit", "settled")
    assert audited.body["audience"] == "auditors of banks"
    assert audited.extras.trail == finished.prompt.extras.trail[:8]


def test_edits_are_made_once(ingested, shaped):
    named = put_edits(ingested, shaped.prompt)
    assert list(named) == ["retrieval"]
    assert with_edits(ingested, shaped.prompt, named["retrieval"]) is shaped.prompt
    assert with_edits(ingested, shaped.prompt, "") is shaped.prompt


def test_edits_that_are_not_kept_or_are_others_are_named(ingested, shaped):
    with pytest.raises(InputUnavailable, match="are not kept"):
        with_edits(ingested, shaped.prompt, "sha256:" + "0" * 64)
    named = put_edits(ingested, shaped.prompt)["retrieval"]
    path = ingested.store.root / "blobs" / named.removeprefix("sha256:")
    path.write_bytes(b"[]")
    with pytest.raises(IntegrityError):
        with_edits(ingested, shaped.prompt, named)
