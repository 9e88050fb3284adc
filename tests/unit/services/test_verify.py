"""Kept prompts pin generations, gc frees what nobody needs, check names what to run."""

import pytest

from ragstream_core.errors import GenerationGone, IntegrityError, ProjectLocked, UnknownPrompt
from ragstream_core.index.check import Part
from ragstream_core.index.schema import project_lock
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.services import generations, prompt_retention, verify
from ragstream_core.services.disk_usage import disk_usage
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from tests.workspaces import ask_and_keep, docs_of, hashed_workspace, ingested_workspace


@pytest.fixture
def space(tmp_path):
    return ingested_workspace(tmp_path, {"ingestion.retain_generations": "2"})


def grow(space, times):
    for n in range(times):
        path = docs_of(space) / "notes" / "limits.txt"
        path.write_text(f"The limit is {n} and a half thousand tokens of text.\n")
        ingest_project(space, "demo")
    forget_views()


def numbers(space):
    return [row.n for row in generations.generations(space, "demo")]


def test_a_kept_prompt_replays_after_its_generation_would_have_gone(space):
    kept, lost = ask_and_keep(space), ask_and_keep(space, "How are long questions scored?")
    assert prompt_retention.keep(space, kept[:12]).pins == (("demo", 1),)
    grow(space, 4)
    assert numbers(space) == [5, 4, 1]
    assert generations.generations(space, "demo")[-1].kept_by == (kept,)
    assert replay_prompt(space, kept).verdict == "identical"
    prompt_retention.unkeep(space, kept)
    grow(space, 1)
    assert 1 not in numbers(space)
    forget_views()
    assert replay_prompt(space, lost).verdict != "identical"
    with pytest.raises(GenerationGone):
        prompt_retention.keep(space, kept)


def test_keeping_what_is_not_there_is_an_error(space):
    with pytest.raises(UnknownPrompt):
        prompt_retention.keep(space, "abcdef")


def test_a_damaged_record_of_a_kept_prompt_stops_retention_not_the_ingest(space):
    key = ask_and_keep(space)
    prompt_retention.keep(space, key)
    (space.store.root / key / "record.json").write_text("{")
    grow(space, 2)
    path = docs_of(space) / "catalog.md"
    path.write_text("# The catalog\n\nIt is another one now.\n")
    stats = ingest_project(space, "demo")
    assert stats.committed
    assert any("kept" in w or "needs" in w for w in stats.warnings)
    with pytest.raises(IntegrityError):
        generations.gc(space, "demo")
    prompt_retention.unkeep(space, key)
    assert numbers(space) == [4, 3, 2, 1]
    assert generations.gc(space, "demo").generations == [1, 2]


def test_gc_frees_what_its_dry_run_says(space):
    grow(space, 3)
    space = hashed_workspace(space.data_dir, {"ingestion.retain_generations": "1"})
    before = open_view(space.index_dir("demo")).digest
    said = generations.gc(space, "demo", dry_run=True)
    assert numbers(space) == [4, 3]
    done = generations.gc(space, "demo")
    assert numbers(space) == [4]
    for name in ("generations", "chunks", "files", "texts", "vectors"):
        assert getattr(said, name) == getattr(done, name)
    assert done.generations == [3] and done.texts > 0
    assert said.bytes > 0 and done.bytes > 0
    again = generations.gc(space, "demo")
    assert (again.generations, again.texts, again.vectors) == ([], 0, 0)
    forget_views()
    assert open_view(space.index_dir("demo")).digest == before
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


def test_gc_takes_texts_of_an_ingest_that_was_never_committed(space):
    from ragstream_core.index.catalog import open_catalog

    with open_catalog(space.index_dir("demo")) as catalog:
        catalog.db.execute("BEGIN")
        catalog.db.execute("DELETE FROM chunks WHERE path = 'settings.yaml'")
        assert catalog.db.execute("SELECT changes()").fetchone()[0] > 0
        catalog.db.execute("ROLLBACK")
        catalog.db.execute("INSERT INTO texts VALUES('00', 1, x'', 0, 'left by a kill')")
    assert generations.gc(space, "demo").texts == 1
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


def test_gc_and_check_respect_the_lock(space):
    with project_lock(space.index_dir("demo")):
        with pytest.raises(ProjectLocked):
            generations.gc(space, "demo")
        assert verify.verify_project(space, "demo").findings == []  # a check only reads


def test_verifying_repairs_what_is_derived_and_names_what_to_run(space):
    index = space.index_dir("demo")
    (index / "lexical-latest" / "arrays.bin").write_bytes(b"{}\n")
    result = verify.verify_project(space, "demo")
    assert (result.findings, result.healed) == ([], ["lexical-latest/arrays.bin"])
    (vectors,) = index.glob("*.f32")
    raw = bytearray(vectors.read_bytes())
    raw[100] ^= 4
    vectors.write_bytes(raw)
    forget_views()
    result = verify.verify_project(space, "demo", part=Part(1, 1))
    assert {f.run for f in result.findings} == {"ragstream ingest demo --rebuild"}
    assert ingest_project(space, "demo", rebuild=True).chunks["embedded"] == 1
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


def test_what_cannot_be_repaired_is_a_finding(space, monkeypatch):
    from ragstream_core.index import derived

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    (space.index_dir("demo") / "file_manifest.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(derived, "replace_bytes", full)
        (finding,) = verify.verify_project(space, "demo").findings
    assert (finding.check, finding.run) == ("derived", "ragstream ingest demo")
    assert verify.verify_project(space, "demo").healed == ["file_manifest.json"]


def test_a_lost_catalog_beside_its_vectors_is_damage(space):
    (space.index_dir("demo") / "catalog.sqlite").unlink()
    forget_views()
    (finding,) = verify.verify_project(space, "demo").findings
    assert finding.run == "ragstream ingest demo --rebuild"
    ingest_project(space, "demo", rebuild=True)
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


def test_a_project_that_was_never_ingested_is_not_damaged(space):
    (space.data_dir / "doc_raw" / "other").mkdir()
    result = verify.verify_project(space, "other")
    assert not result.findings and result.generation == 0
    with pytest.raises(GenerationGone):
        generations.gc(space, "other")


def test_every_byte_below_the_root_has_an_area(space):
    ask_and_keep(space)
    used = disk_usage(space)
    names = {area.name for area in used.areas}
    assert {"documents", "index", "prompts"} <= names
    assert used.total == sum(area.bytes for area in used.areas)
    parts = used.projects["demo"]
    assert parts["catalog"] > 0 and parts["vectors"] > 0 and parts["lexical"] > 0
