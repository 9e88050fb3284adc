"""Asset `inspection/map`: a picture, figures and neighbours of one project, no conversation."""

import base64

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.index.view import open_view
from ragstream_core.services.history_update import embed
from ragstream_core.wiring.journal import append_turn
from tests.assets.executing import execute, shown
from tests.copies import said

CANARY = "The umbrella of the cathedral is made of marzipan."


def drawn(space, home, project="demo", config=None):
    ops = {"inspection__map": config} if config else {}
    return execute(space, home, job="draw_map", ops=ops, partition_key=project)


def picture(found):
    code = found["map"].removeprefix("![map](data:image/png;base64,").removesuffix(")")
    return base64.b64decode(code)


def test_the_job_runs_as_it_stands(ingested, home):
    home.add_dynamic_partitions("project", ["demo"])
    result = drawn(ingested, home)
    assert result.success
    found = shown(result)
    count = len(open_view(ingested.index_dir("demo")).chunk_ids)
    assert picture(found).startswith(b"\x89PNG") and found["points"] == count == found["chunks"]
    assert found["findings"] == 0
    assert sum(row.data["chunks"] for row in found["lengths"].records) == count
    rows = [row.data for row in found["neighbours"].records]
    assert len(rows) == 3 * count and all(-1 <= row["cosine"] <= 1 for row in rows)
    again = shown(drawn(ingested, home))
    assert picture(again) == picture(found)


def test_its_settings_are_taken(ingested, home):
    home.add_dynamic_partitions("project", ["demo"])
    found = shown(drawn(ingested, home, config={"method": "pca", "limit": 2}))
    assert (found["points"], found["method"]) == (2, "pca") and "sample" in found["notes"]


def test_nothing_ingested_fails_with_our_words(space, home):
    home.add_dynamic_partitions("project", ["demo"])
    result = drawn(space, home)
    assert not result.success
    (event,) = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    assert "has no generation yet" in event.event_specific_data.error.message


def test_no_turn_reaches_dagster(ingested, home):
    turn = Turn("", "talks", "2026-10-01T10:00:00+02:00", CANARY, "Noted.")
    append_turn(ingested, turn)
    embed(ingested)
    home.add_dynamic_partitions("project", ["demo"])
    assert drawn(ingested, home).success
    files = [p for p in (ingested.data_dir / "dagster_home").rglob("*") if p.is_file()]
    assert files and not [p for p in files if CANARY.encode() in said(p)]
