"""Asset `evaluation/gold_questions`: a project a partition, a typed table with a row an item."""

import json

from ragstream_assets.definitions import defs
from ragstream_assets.evaluation_assets import GOLD_QUESTIONS
from ragstream_assets.resources import adopt
from ragstream_core.wiring.quality_gate import gold_path

ROWS = [
    {"question": "What does a killed ingest leave behind?", "file": "crash.md"},
    {"question": "Where is it?", "passage": "words that no document holds"},
]


def materialise(space, home):
    home.add_dynamic_partitions("project", ["demo"])
    return defs.resolve_implicit_global_asset_job_def().execute_in_process(
        asset_selection=[GOLD_QUESTIONS.key],
        instance=home,
        partition_key="demo",
        run_config={"resources": {"workspace": {"config": adopt(space)}}},
        raise_on_error=False,
    )


def test_the_ranks_are_a_table_with_types(ingested, home):
    path = gold_path(ingested, "demo")
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(map(json.dumps, ROWS)))
    (event,) = materialise(ingested, home).get_asset_materialization_events()
    shown = {name: value.value for name, value in event.materialization.metadata.items()}
    assert shown["recall@10"] == 0.5 and shown["missed"] == 1 and shown["generation"] == 1
    table = shown["ranks"]
    assert {c.name: c.type for c in table.schema.columns} == {
        "line": "int", "question": "string", "expected": "string", "rank": "int",
    }  # fmt: skip
    assert [(row.data["line"], row.data["rank"]) for row in table.records] == [(1, 1), (2, None)]


def test_a_project_without_gold_questions_fails_with_one_sentence(ingested, home):
    (event,) = [e for e in materialise(ingested, home).all_events if e.is_step_failure]
    assert "no gold questions" in str(event.step_failure_data.user_failure_data.description)
