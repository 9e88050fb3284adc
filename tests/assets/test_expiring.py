"""Expiry of recorded prompts: a kept one can still be resumed, another takes its files along."""

import os
import time
from dataclasses import replace

from ragstream_core.prompts.chain import OPS
from ragstream_core.services import prompt_retention
from tests.assets.executing import execute
from tests.recorded import config_of, record_prompt, run_steps

YEAR = 365 * prompt_retention.DAY_S


def _gone_on(space, home, request):
    """A prompt, and one that goes on from its run; return both runs and the key of the second."""
    first = record_prompt(space, request)
    ops = OPS[OPS.index("a4_condenser") :]
    config = {**config_of(home, first.run_id), ops[0]: {"settings": {"prompt.max_facts": 1}}}
    run = run_steps(space, home, config, parent=first.run_id, steps=ops)
    records = map(space.store.record, space.store.keys())
    (key,) = [record.prompt_key for record in records if record.run_id == run.run_id]
    return {first.run_id, run.run_id}, key


def test_a_kept_prompt_keeps_every_run_it_was_made_from(ingested, home, request_):
    runs, key = _gone_on(ingested, home, request_)
    prompt_retention.keep(ingested, key)
    done = prompt_retention.gc(ingested, now=time.time() + YEAR)
    assert key not in done.prompts and done.runs == 0
    assert {path.name for path in (ingested.store.root / "runs").iterdir()} == runs


def test_without_keeping_all_of_it_goes(ingested, home, request_):
    runs, key = _gone_on(ingested, home, request_)
    done = prompt_retention.gc(ingested, now=time.time() + YEAR)
    assert key in done.prompts and done.runs == len(runs)
    assert not [path for path in ingested.store.root.rglob("*") if path.is_file()]


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
