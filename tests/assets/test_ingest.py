"""Ingesting through Dagster: one generation, four materialisations, checks by project."""

import dagster as dg
import pytest

from ragstream_assets import events
from ragstream_core.errors import UnknownProject
from ragstream_core.services.ingest import ingest_project
from tests.assets.executing import execute, values_of
from tests.recorded import record_ingest
from tests.workspaces import docs_of

KEYS = [dg.AssetKey(["documents", n]) for n in ("file_manifest", "chunks", "embeddings", "index")]


def _materialise(space, home, project="demo"):
    given = {"project": project, "raise_on_error": True}
    return execute(space, home, job="ingest_documents", **given)


def _metadata(result, name):
    (event,) = [
        e
        for e in result.get_asset_materialization_events()
        if e.asset_key == dg.AssetKey(["documents", name])
    ]
    return values_of(event), event


def test_materialise_then_no_op(space, home):
    first = _materialise(space, home)
    index, event = _metadata(first, "index")
    assert (index["generation"], index["committed"]) == (1, True)
    assert event.partition == "demo"
    assert event.materialization.tags["dagster/data_version"] == index["digest"]
    files, _ = _metadata(first, "file_manifest")
    assert (files["new"], files["unchanged"]) == (4, 0)
    assert {r.data["path"] for r in files["changes"].records} == {
        "lock.md", "crash.md", "setup.txt", "limits.rst"
    }  # fmt: skip

    second = _materialise(space, home)
    index, _ = _metadata(second, "index")
    assert (index["generation"], index["committed"]) == (1, False)
    assert _metadata(second, "embeddings")[0]["embedded"] == 0
    assert _metadata(second, "file_manifest")[0]["unchanged"] == 4


def test_skipped_files_are_listed_with_their_reason(space, home):
    (docs_of(space) / "blob.md").write_bytes(b"\0\1\2" * 100)
    (space.data_dir / "doc_raw" / "two words").mkdir()
    manifest = _metadata(_materialise(space, home), "file_manifest")[0]
    (unfit,) = manifest["no_projects"].records
    assert unfit.data["folder"] == "two words" and "not a project name" in unfit.data["reason"]
    rows = manifest["changes"].records
    skipped = [r.data for r in rows if r.data["what"] == "skipped"]
    assert [r["path"] for r in skipped] == ["blob.md"]
    assert skipped[0]["reason"]


def test_checks_pass_and_belong_to_their_project(space, home):
    result = _materialise(space, home)
    checks = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert set(checks) == {
        "manifest_covers_the_folder", "ids_are_the_manifests", "vectors_are_finite_and_unit",
        "no_truncated_input", "retrieval_quality_is_kept",
    }  # fmt: skip
    assert all(e.passed for e in checks.values())
    assert {e.partition for e in checks.values()} == {"demo"}


def test_a_torn_vector_file_and_a_waiting_document_fail_their_checks(ingested):
    from ragstream_assets.documents import checked

    (docs_of(ingested) / "late.md").write_text("# Late\n\nNobody has ingested this.\n")
    vectors = next(ingested.index_dir("demo").glob("vectors-*.f32"))
    vectors.write_bytes(b"\0" * vectors.stat().st_size)
    failed = {r.check_name: r for r in checked(ingested, "demo") if not r.passed}
    assert set(failed) == {"manifest_covers_the_folder", "vectors_are_finite_and_unit"}
    assert failed["manifest_covers_the_folder"].metadata["findings"].value == 1


def test_an_ingest_by_its_job(space, home):
    seen = []
    stats, run_id = record_ingest(
        space, "demo", progress=lambda phase, done, total: seen.append(phase)
    )
    assert (stats.generation, stats.committed, stats.warnings) == (1, True, ())
    run = home.get_run_by_id(run_id)
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert run.tags["ragstream/project"] == run.tags["dagster/partition"] == "demo"
    assert home.get_dynamic_partitions("project") == ["demo"]
    assert seen
    assert all(home.get_materialized_partitions(key) == {"demo"} for key in KEYS)


def _grow(space, word):
    (docs_of(space) / "late.md").write_text(f"# Late\n\nSomething {word} to say.\n")


def _told(home):
    """What Dagster knows of the index of `demo`, newest first."""
    wanted = dg.AssetRecordsFilter(KEYS[-1], asset_partitions=["demo"])
    events = home.fetch_materializations(wanted, limit=30).records
    return [event.asset_materialization for event in events]


def _numbers(home):
    return [event.metadata["generation"].value for event in _told(home)]


def test_all_missed_generations_are_reported_by_the_next_ingest(ingested, home):
    for word in ("old", "newer"):
        _grow(ingested, word)
        ingest_project(ingested, "demo")
    _grow(ingested, "newest")
    record_ingest(ingested, "demo")
    assert _numbers(home) == [4, 3, 2, 1]
    known, missed = _told(home)[0], _told(home)[1]
    assert missed.tags["dagster/data_version"] == missed.metadata["digest"].value
    assert (missed.metadata["documents"], missed.metadata["chunks"]) == (
        known.metadata["documents"],
        known.metadata["chunks"],
    )
    assert events.report_missed_generations(home, ingested, "demo") == []


def test_after_the_loss_of_dagsters_home_the_kept_ones_are_reported(ingested, home, open_root):
    for n in range(4):
        _grow(ingested, str(n))
        ingest_project(
            open_root(ingested.data_dir, **{"ingestion.retain_generations": "3"}), "demo"
        )
    assert events.report_missed_generations(home, ingested, "demo") == [3, 4, 5]
    assert _numbers(home) == [5, 4, 3]


def test_a_store_made_anew_is_reported_from_its_start(ingested, home):
    import shutil

    _grow(ingested, "old")
    record_ingest(ingested, "demo")
    shutil.rmtree(ingested.index_dir("demo"))
    _grow(ingested, "other")
    ingest_project(ingested, "demo")
    assert events.report_missed_generations(home, ingested, "demo") == [1]
    assert _numbers(home) == [1, 2, 1]


def test_nothing_is_reported_of_a_project_without_a_readable_index(space, home):
    assert events.report_missed_generations(home, space, "demo") == []
    ingest_project(space, "demo")
    (space.index_dir("demo") / "catalog.sqlite").write_bytes(b"damaged")
    assert events.report_missed_generations(home, space, "demo") == []


def test_an_unknown_project_is_said_as_such(space):
    with pytest.raises(UnknownProject, match="no project 'demos'"):
        record_ingest(space, "demos")


def test_a_refused_ingest_is_raised_as_itself_and_its_run_failed(space, home):
    from ragstream_core.errors import ProjectLocked
    from ragstream_core.index.schema import project_lock

    with project_lock(space.index_dir("demo")), pytest.raises(ProjectLocked) as caught:
        record_ingest(space, "demo")
    assert caught.value.hint
    (run,) = home.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE
