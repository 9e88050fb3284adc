"""Expiry of recorded prompts: a kept one can still be resumed, another takes its files along."""

import os
import time
from dataclasses import replace

from ragstream_core.prompts import chain
from ragstream_core.prompts.chain import OPS, ops_of
from ragstream_core.services import prompt_retention
from tests.assets.executing import execute
from tests.recorded import record_prompt, record_stage

YEAR = 365 * prompt_retention.DAY_S


def _stage_by_stage(space, request):
    steps = [record_prompt(space, request, through="preprocessed")]
    for button in chain.BUTTONS[1:]:
        steps.append(record_stage(space, steps[-1], ops_of(button)))
        assert steps[-1].warnings == ()
    return steps


def test_a_kept_prompt_keeps_every_run_it_was_made_from(ingested, home, request_):
    steps = _stage_by_stage(ingested, request_)
    runs = {step.run_id for step in steps}
    prompt_retention.keep(ingested, steps[-1].record.prompt_key)
    done = prompt_retention.gc(ingested, now=time.time() + YEAR)
    assert (done.prompts, done.runs) == ((), 0)
    assert {path.name for path in (ingested.store.root / "runs").iterdir()} == runs
    again = record_stage(ingested, steps[-1], OPS[OPS.index("reranker") :])
    assert again.warnings == () and again.record.output_sha256 == steps[-1].record.output_sha256


def test_without_keeping_all_of_it_goes(ingested, home, request_):
    steps = _stage_by_stage(ingested, request_)
    done = prompt_retention.gc(ingested, now=time.time() + YEAR)
    assert done.prompts == (steps[-1].record.prompt_key,) and done.runs == len(steps)
    assert not [path for path in ingested.store.root.rglob("*") if path.is_file()]
    resumed = record_stage(ingested, steps[-2], ops_of(chain.BUTTONS[-1]))
    assert resumed.run_id and resumed.warnings == ()  # its stage files are gone, not its prompt
    assert resumed.record.output_sha256 == steps[-1].record.output_sha256


def test_retention_drops_expired_prompts(ingested, home, request_):
    old = record_prompt(ingested, request_).record.prompt_key
    another = replace(request_, text="What does a second ingest do?")
    new = record_prompt(ingested, another).record.prompt_key
    past = time.time() - 31 * prompt_retention.DAY_S
    os.utime(ingested.store.root / old / "record.json", (past, past))
    result = execute(ingested, home, job="retention")
    (output,) = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    metadata = output.step_output_data.metadata
    assert metadata["prompts"].value == 1 and metadata["bytes"].value > 10_000
    assert ingested.store.keys() == [new]
