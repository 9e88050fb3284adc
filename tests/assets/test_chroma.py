"""The Chroma collection as an asset: after the commit, checked, and no danger to an ingest."""

import shutil

import pytest

from ragstream_assets import instance
from ragstream_assets.documents import CHROMA, EQUAL
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.platform import extras
from ragstream_core.proposers import kept as cycle
from ragstream_core.proposers.chroma import collection, seal
from ragstream_core.proposers.collections import COLLECTION, compare
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest, ingest_project
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.journal import append_turn
from tests.assets.executing import checked, execute, values_of
from tests.recorded import record_ingest


@pytest.fixture
def kept(root, open_root):
    return open_root(root, **{"vector_store.collection": "true"})


@pytest.fixture
def home(kept):
    return instance.instance_of(kept.data_dir)


def materialise(space, home, *selected):
    given = {"asset_selection": list(selected) or None}
    return execute(space, home, job="ingest_documents", project="demo", **given)


def collection_event(result):
    (event,) = [e for e in result.get_asset_materialization_events() if e.asset_key == CHROMA]
    return values_of(event), event


def test_the_job_makes_the_collection_and_the_check_compares_it(kept, home):
    first = materialise(kept, home)
    assert first.success
    made, event = collection_event(first)
    assert (made["made"], made["generation"], made["dead_rows"]) == ("rebuilt", 1, 0)
    assert (made["self_recall"], made["graph"]) == (1.0, "standard")
    assert made["rows"] == made["added"] == made["vectors_verified"] > 0
    assert event.partition == "demo"
    version = event.materialization.tags["dagster/data_version"]
    assert version == ingestion.status(kept, "demo").digest
    assert checked(first)[EQUAL]

    second = materialise(kept, home)
    assert collection_event(second)[0]["made"] == "unchanged"


def test_what_is_forgotten_while_it_is_made_does_not_come_back(kept, monkeypatch, tmp_path):
    ingest_project(kept, "demo")
    sweep, gone, aside = collection.sweep, [], tmp_path / "aside"

    def meanwhile(chroma_dir, folder):
        if not gone:
            shutil.copytree(chroma_dir, aside)
            gone.append(forget(kept, "demo", "lock.md", delete=True))
            shutil.copytree(aside, chroma_dir, dirs_exist_ok=True)  # published after the erasure
        sweep(chroma_dir, folder)

    monkeypatch.setattr(collection, "sweep", meanwhile)
    (done,) = cycle.bring_up_to_date(kept, "demo", stores=[COLLECTION], rebuild=True)
    assert (done.made, compare(kept, "demo")) == ("rebuilt", [])
    there = (p for p in (kept.data_dir / "chroma_db").rglob("*") if p.is_file())
    assert b"names the holder" not in b"".join(path.read_bytes() for path in there)
    assert any(b"names the holder" in p.read_bytes() for p in aside.rglob("*") if p.is_file())


def test_a_damaged_collection_fails_the_check_and_the_next_run_heals_it(kept, home):
    materialise(kept, home)
    chroma_dir = kept.data_dir / "chroma_db" / "demo"
    database = seal.current(chroma_dir) / seal.DATABASE
    database.write_bytes(database.read_bytes()[:-5000])
    (fault,) = compare(kept, "demo")
    assert "not what was sealed" in fault
    assert collection_event(materialise(kept, home))[0]["made"] == "rebuilt"
    assert compare(kept, "demo") == []


def test_a_collection_that_cannot_be_made_fails_no_ingest_and_is_not_tried_again(
    kept, home, monkeypatch
):
    def refuse(*_, **__):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(collection, "publish_dir", refuse)
    phases = []
    stats, run_id = record_ingest(kept, "demo", progress=lambda *at: phases.append(at[0]))
    assert list(dict.fromkeys(phases))[-4:] == ["publish", "suspicion", "collection", "checks"]
    assert stats.to_json()["after_commit_seconds"] > 0
    assert home.get_run_by_id(run_id).is_success
    (warning,) = stats.warnings
    assert "no space left" in warning and "next: " in warning
    assert stats.generation == 1
    monkeypatch.setattr(collection, "ChromaProcess", None)
    again = materialise(kept, home)
    assert again.success and not checked(again)[EQUAL]
    assert "left as it was" in collection_event(again)[0]["made"]
    stats = ingest(kept, "demo")
    assert "not tried again" in stats.warnings[0]


def test_launched_alone_it_is_tried_again_and_fails_with_its_cause(kept, home, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "no space left on device")

    ingest_project(kept, "demo", collection=False)
    monkeypatch.setattr(collection, "publish_dir", refuse)
    alone = materialise(kept, home, CHROMA)
    assert not alone.success
    (event,) = [e for e in alone.all_events if e.is_step_failure]
    said = event.step_failure_data.user_failure_data.description
    assert "no space left" in said and "next: " in said
    monkeypatch.undo()
    assert materialise(kept, home, CHROMA).success


@pytest.mark.parametrize("reason", ["switched off", "not installed"])
def test_where_none_is_to_be_there_nothing_is_green(root, open_root, reason, monkeypatch):
    """Neither the asset, which does not exist, nor a check of it that compares nothing."""
    if reason == "not installed":
        monkeypatch.delenv("RAGSTREAM_VECTOR_STORE__COLLECTION", raising=False)
        monkeypatch.setattr(extras, "is_here", lambda _extra: False)
    space = open_root(root)
    (done,) = cycle.bring_up_to_date(space, "demo", stores=[COLLECTION])
    assert done.is_off and reason in done.reason
    result = materialise(space, instance.instance_of(space.data_dir))
    assert result.success
    assert CHROMA not in {e.asset_key for e in result.get_asset_materialization_events()}
    assert EQUAL not in {e.check_name for e in result.get_asset_check_evaluations()}
    assert not (space.data_dir / "chroma_db").exists()


def test_the_rest_of_the_history_is_checked_where_none_is_to_be_there(space, home):
    append_turn(space, Turn("", "s", "", "What lasts?", "Stone."))
    result = execute(space, home, job="reconcile_history")
    assert result.success
    made = {e.asset_key.path[-1] for e in result.get_asset_materialization_events()}
    assert "snapshot" in made and "chroma_collection" not in made
    names = checked(result)
    assert "journal_is_whole" in names and "history_main_equals_the_history" not in names
