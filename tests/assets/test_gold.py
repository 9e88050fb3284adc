"""Asset `evaluation/gold_questions`: a project a partition, a typed table with a row an item."""

from ragstream_assets.evaluation import GOLD_QUESTIONS
from tests.assets.executing import execute, shown
from tests.workspaces import write_gold

ROWS = [
    {"question": "What does a killed ingest leave behind?", "file": "crash.md"},
    {"question": "Where is it?", "passage": "words that no document holds"},
]


def materialise(space, home):
    return execute(space, home, project="demo", asset_selection=[GOLD_QUESTIONS.key])


def test_the_ranks_are_a_table_with_types(ingested, home):
    write_gold(ingested.data_dir, *ROWS)
    found = shown(materialise(ingested, home))
    assert found["recall@10"] == 0.5 and found["missed"] == 1 and found["generation"] == 1
    table = found["ranks"]
    assert {c.name: c.type for c in table.schema.columns} == {
        "line": "int", "expected": "string", "rank": "int",
    }  # fmt: skip
    assert [tuple(row.data.values()) for row in table.records] == [
        (1, "crash.md", 1), (2, "a passage", None),
    ]  # fmt: skip


def test_a_project_without_gold_questions_fails_with_one_sentence(ingested, home):
    (event,) = [e for e in materialise(ingested, home).all_events if e.is_step_failure]
    assert "no gold questions" in str(event.step_failure_data.user_failure_data.description)
