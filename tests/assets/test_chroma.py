"""The Chroma collection as an asset: after the commit, checked, and no danger to an ingest."""

import pytest

from ragstream_assets import recorder
from ragstream_assets.chroma import EQUAL, KEY
from ragstream_assets.definitions import defs
from ragstream_assets.resources import adopt
from ragstream_core.stores import chroma_making, chroma_seal


@pytest.fixture
def kept(root, open_root):
    return open_root(root, **{"vector_store.collection": "true"})


@pytest.fixture
def home(kept):
    from ragstream_assets import instance

    return instance.instance_of(kept.data_dir)


def materialise(space, home):
    home.add_dynamic_partitions("project", ["demo"])
    return defs.resolve_job_def("ingest_documents").execute_in_process(
        instance=home,
        partition_key="demo",
        run_config={"resources": {"workspace": {"config": adopt(space)}}},
        raise_on_error=False,
    )


def collection_event(result):
    (event,) = [e for e in result.get_asset_materialization_events() if e.asset_key == KEY]
    return {k: v.value for k, v in event.materialization.metadata.items()}, event


def checked(result):
    return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}


def test_the_job_makes_the_collection_and_the_check_compares_it(kept, home):
    first = materialise(kept, home)
    assert first.success
    made, event = collection_event(first)
    assert (made["made"], made["generation"], made["dead_rows"]) == ("rebuilt", 1, 0)
    assert made["rows"] == made["added"] == made["vectors_verified"] > 0
    assert event.partition == "demo"
    version = event.materialization.tags["dagster/data_version"]
    assert version == kept.status("demo")["digest"]
    assert checked(first)[EQUAL]

    second = materialise(kept, home)
    assert collection_event(second)[0]["made"] == "unchanged"


def test_a_damaged_collection_fails_the_check_and_the_next_run_heals_it(kept, home):
    materialise(kept, home)
    chroma_dir = kept.data_dir / "chroma_db" / "demo"
    database = chroma_seal.current(chroma_dir) / chroma_seal.DATABASE
    database.write_bytes(database.read_bytes()[:-5000])
    from ragstream_core.build.collections import compare

    (fault,) = compare(kept, "demo")
    assert "not what was sealed" in fault
    assert collection_event(materialise(kept, home))[0]["made"] == "rebuilt"
    assert compare(kept, "demo") == []


def test_a_collection_that_cannot_be_made_fails_its_step_and_not_the_ingest(
    kept, home, monkeypatch
):
    def refuse(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(chroma_making, "publish_dir", refuse)
    result = materialise(kept, home)
    assert not result.success
    assert kept.status("demo")["generation"] == 1
    stats, _ = recorder.record_ingest(kept, "demo")
    assert stats.generation == 1
    assert any("chroma_collection" in warning for warning in stats.warnings)
    monkeypatch.undo()
    stats, run_id = recorder.record_ingest(kept, "demo")
    assert run_id and not stats.warnings


def test_switched_off_nothing_is_made(space, home):
    result = materialise(space, home)
    assert result.success
    assert "switched off" in collection_event(result)[0]["made"]
    assert not (space.data_dir / "chroma_db").exists()
