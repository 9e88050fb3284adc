"""The test specification as an asset: coverage, check, and a project without ids."""

import pytest

from ragstream_assets.extras import EXIST, SPEC_KEY
from ragstream_core.services.ingest import ingest_project
from tests.assets.executing import execute, values_of

REQUIREMENTS = (
    "# Doors\n\n- DO-1: The door must open. ![x](http://127.0.0.1/x.png)\n- DO-2: Nice things.\n"
)


@pytest.fixture
def doors(root, space):
    (root / "doc_raw" / "demo" / "doors.md").write_text(REQUIREMENTS)
    ingest_project(space, "demo")
    return space


def materialise(space, home, **config):
    ops = {"documentation__test_spec": config}
    return execute(space, home, job="write_test_spec", ops=ops, project="demo")


def event_of(result):
    (event,) = [e for e in result.get_asset_materialization_events() if e.asset_key == SPEC_KEY]
    return values_of(event), event.partition


def checked(result):
    return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}


def test_the_job_writes_the_specification_and_shows_its_coverage(doors, home):
    result = materialise(doors, home)
    assert result.success and checked(result) == {EXIST: True}
    told, partition = event_of(result)
    assert (told["requirements"], told["with_a_case"], told["cases"]) == (2, 1, 1)
    assert partition == "demo" and told["changed"]
    rows = [
        (row.data["requirement"], row.data["cases"], row.data["state"])
        for row in told["coverage"].records
    ]
    assert rows == [("DO-1", "TC-001", "covered"), ("DO-2", "-", "not testable as written")]
    path = doors.data_dir / "specs" / "demo" / "test-spec.md"
    assert told["file"] == str(path) and "TC-001" in path.read_text()
    assert not event_of(materialise(doors, home))[0]["changed"]


def test_a_requirement_that_is_gone_fails_the_check(doors, home):
    assert checked(materialise(doors, home)) == {EXIST: True}
    (doors.data_dir / "doc_raw" / "demo" / "doors.md").write_text("- DO-7: The door must shut.\n")
    ingest_project(doors, "demo")
    result = materialise(doors, home)
    assert result.success and checked(result) == {EXIST: False}
    told, _ = event_of(result)
    assert "no longer found in the sources" in told["states"]


def test_a_project_without_requirement_ids_is_no_failure(ingested, home):
    result = materialise(ingested, home)
    assert result.success and checked(result) == {EXIST: True}
    told, _ = event_of(result)
    assert told["requirements"] == 0 and "no document defines" in told["states"]
    assert not (ingested.data_dir / "specs").exists()


def test_where_nothing_may_be_kept_the_job_says_so(root, doors, open_root, home):
    silent = open_root(root, **{"history.persist": "false"})
    result = materialise(silent, home)
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert "history.persist is off" in str(failed.event_specific_data)
    assert not (root / "specs").exists()


def test_only_some_requirements_by_another_pattern(doors, home):
    told, _ = event_of(materialise(doors, home, requirements=["DO-1"], pattern="DO-[0-9]"))
    assert told["requirements"] == 1
