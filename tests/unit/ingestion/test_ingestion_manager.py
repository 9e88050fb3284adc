import json
import os

import numpy as np
import pytest

from ragstream_core.errors import EmbeddingFailed, ModelMismatch, UnknownProject
from ragstream_core.ingestion import staging
from ragstream_core.ingestion.ingestion_config import IngestionConfig

CONFIG = IngestionConfig()


def manifest(bench):
    return json.loads((bench.index / "file_manifest.json").read_text())


def test_four_files_give_the_counts_of_a_hand(bench):
    for name in "abcd":
        bench.write(f"{name}.md", f"# {name}\n\nbody of {name}")
    first = bench.run()
    assert first.to_json()["files"] == {
        "scanned": 4, "new": 4, "updated": 0, "touched": 0, "unchanged": 0, "deleted": 0,
        "skipped": 0,
    }  # fmt: skip
    bench.write("a.md", "# a\n\nother")
    bench.write("b.md", "# b\n\nbody of b", mtime=5)
    (bench.docs / "c.md").unlink()
    bench.write("e.md", b"\xff\xff")
    second = bench.run()
    assert second.files == {
        "scanned": 4, "new": 0, "updated": 1, "touched": 1, "unchanged": 1, "deleted": 1,
        "skipped": 1,
    }  # fmt: skip
    assert second.changed["updated"] == ("a.md",)
    assert second.skipped_reasons[0][0] == "e.md"
    assert (second.generation, second.committed, second.documents) == (2, True, 3)
    assert bench.health() == []


def test_the_second_run_embeds_nothing_and_makes_no_generation(bench):
    bench.write("a.md", "text")
    first = bench.run()
    bench.embedder.seen.clear()
    second = bench.run()
    assert not bench.embedder.seen
    assert (second.generation, second.committed, second.digest) == (1, False, first.digest)


def test_touched_embeds_nothing_but_the_new_mtime_is_known(bench):
    bench.write("a.md", "text", mtime=1000)
    bench.run()
    bench.embedder.seen.clear()
    bench.write("a.md", "text", mtime=2000)
    stats = bench.run()
    assert (stats.files["touched"], stats.committed, bench.embedder.seen) == (1, False, [])
    assert manifest(bench)["files"][0]["mtime"] == 2000
    view = bench.fresh_view()
    assert view.chunks(view.chunk_ids)[0].meta["mtime"] == 2000


def test_a_rename_embeds_nothing(bench):
    bench.write("a.md", "text")
    bench.run()
    bench.embedder.seen.clear()
    (bench.docs / "a.md").rename(bench.docs / "b.md")
    stats = bench.run()
    assert (stats.files["new"], stats.files["deleted"], stats.committed) == (1, 1, True)
    assert bench.embedder.seen == []
    assert bench.view().paths == ("b.md",)


def test_same_size_and_mtime_with_new_bytes_is_found(bench):
    for n in range(6):
        bench.write("a.md", f"text {n:03}", mtime=1000)
        assert bench.run().committed


def test_within_a_changed_file_only_changed_chunks_are_embedded(bench):
    sections = [f"# S{n}\n\n" + f"word{n} " * 150 for n in range(10)]
    bench.write("a.md", "\n\n".join(sections))
    first = bench.run()
    assert first.chunks["embedded"] >= 10
    bench.embedder.seen.clear()
    sections[4] = "# S4\n\nchanged"
    bench.write("a.md", "\n\n".join(sections))
    second = bench.run()
    assert len(bench.embedder.seen) == second.chunks["embedded"] <= 3
    assert second.chunks["reused"] == second.chunks["live"] - second.chunks["embedded"]


def test_equal_texts_are_embedded_once(bench):
    for n in range(5):
        bench.write(f"{n}.md", "the same text")
    stats = bench.run()
    assert stats.chunks == {"embedded": 1, "reused": 4, "live": 5}


def test_empty_and_blank_files_are_documents_without_chunks(bench):
    bench.write("empty.md", "")
    bench.write("blank.txt", " \n\t\n")
    stats = bench.run()
    assert (stats.files["new"], stats.documents, stats.chunks["live"]) == (2, 2, 0)
    assert {f["decision"] for f in manifest(bench)["files"]} == {"ingested"}
    assert bench.view().vectors.shape[0] == 0
    assert bench.health() == []


def test_a_file_that_becomes_unreadable_text_loses_its_chunks(bench):
    bench.write("a.md", "text")
    bench.run()
    bench.write("a.md", b"\xff\xff\xff")
    stats = bench.run()
    assert (stats.files["skipped"], stats.chunks["live"], stats.committed) == (1, 0, True)
    assert bench.from_scratch().view().digest == stats.digest


def test_a_project_without_folder_is_unknown_and_leaves_nothing(bench):
    with pytest.raises(UnknownProject):
        bench.manager().run("nobody", CONFIG)
    assert not (bench.root / "index" / "nobody").exists()


def test_a_failed_embedding_leaves_everything_as_it_was(bench):
    bench.write("a.md", "one")
    first = bench.run()
    before = (bench.index / "file_manifest.json").read_bytes()
    bench.write("b.md", "two")

    class Broken(type(bench.embedder)):
        def embed_documents(self, texts, *, progress=None):
            raise EmbeddingFailed("no")

    with pytest.raises(EmbeddingFailed):
        bench.manager(embedder=Broken()).run(bench.project, CONFIG)
    assert (bench.index / "file_manifest.json").read_bytes() == before
    assert bench.view().digest == first.digest
    assert bench.pending() is not None
    assert bench.run().changed["new"] == ("b.md",)


def nan(rows):
    rows[0, 0] = np.nan
    return rows


FAULTS = {
    "nan": nan,
    "inf": lambda r: r + np.inf,
    "zero": lambda r: r * 0,
    "half": lambda r: r / 2,
    "short vectors": lambda r: r[:, :-1],
    "too few": lambda r: r[:-1],
    "too many": lambda r: np.concatenate([r, r]),
    "flat": lambda r: r.ravel(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_unusable_vectors_are_never_stored(bench, fault):
    for n in range(3):
        bench.write(f"{n}.md", f"text {n}")
    good = bench.embedder

    class Faulty(type(good)):
        def embed_documents(self, texts, *, progress=None):
            return FAULTS[fault](good.embed_documents(texts).copy())

    with pytest.raises(EmbeddingFailed):
        bench.manager(embedder=Faulty()).run(bench.project, CONFIG)
    assert not list(bench.index.glob("*.f32"))
    assert bench.run().chunks["embedded"] == 3
    assert bench.health() == []


def test_another_model_is_refused_by_name_and_rebuild_accepts_it(bench, counting_embedder):
    bench.write("a.md", "text")
    bench.run()
    other = counting_embedder(fingerprint="f" * 64)
    bench.embedder, before = other, bench.embedder
    with pytest.raises(ModelMismatch) as caught:
        bench.run()
    assert before.fingerprint[:12] in caught.value.message
    assert other.fingerprint[:12] in caught.value.message
    assert "--rebuild" in caught.value.hint
    assert other.seen == []
    stats = bench.run(rebuild=True)
    assert (stats.generation, stats.committed, stats.chunks["embedded"]) == (2, True, 1)
    assert bench.view().embed_fp == other.fingerprint
    assert bench.view(1).embed_fp == before.fingerprint
    assert bench.health() == []


def test_another_profile_chunks_again_and_reuses_equal_texts(bench):
    bench.write("short.md", "short text")
    bench.write("long.md", "word " * 600)
    bench.run()
    bench.embedder.seen.clear()
    stats = bench.run(profile="recursive_1024")
    assert stats.committed
    assert stats.files["unchanged"] == 2
    assert "short text" not in bench.embedder.seen
    assert bench.embedder.seen
    assert bench.health() == []


def test_texts_are_embedded_in_batches_that_are_durable(bench, monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 4)
    for n in range(10):
        bench.write(f"{n}.md", f"text {n}")

    class Dies(type(bench.embedder)):
        def embed_documents(self, texts, *, progress=None):
            if len(self.seen) >= 8:
                raise KeyboardInterrupt
            return super().embed_documents(texts)

    with pytest.raises(KeyboardInterrupt):
        bench.manager(embedder=Dies()).run(bench.project, CONFIG)
    stats = bench.run()
    assert len(bench.embedder.seen) == 2  # eight were kept
    assert stats.chunks == {"embedded": 2, "reused": 8, "live": 10}
    assert bench.health() == []


def test_a_changing_file_keeps_its_old_version_and_is_reported(bench, monkeypatch):
    bench.write("a.md", "old")
    bench.write("b.md", "b")
    bench.run()
    bench.write("a.md", "new text")
    from ragstream_core.ingestion import loader

    real = loader.DocumentLoader._read_once
    monkeypatch.setattr(
        loader.DocumentLoader,
        "_read_once",
        lambda self, path, *more, **named: (
            None if path == "a.md" else real(self, path, *more, **named)
        ),
    )
    stats = bench.run()
    assert not stats.committed
    assert any("a.md" in line for line in stats.warnings)
    assert bench.pending() is not None
    monkeypatch.undo()
    assert bench.run().changed["updated"] == ("a.md",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_loses_nothing(bench):
    bench.write("d/a.md", "text")
    bench.run()
    (bench.docs / "d").chmod(0)
    stats = bench.run()
    (bench.docs / "d").chmod(0o755)
    assert (stats.files["deleted"], stats.committed) == (0, False)


def test_verify_reads_everything_and_remakes_damaged_vectors(bench):
    for n in range(4):
        bench.write(f"{n}.md", f"text {n}")
    first = bench.run()
    raw = bytearray(bench.vector_file().read_bytes())
    raw[10] ^= 1
    bench.vector_file().write_bytes(raw)
    assert [f.check for f in bench.health()] == ["vectors"]
    stats = bench.run(verify=True)
    assert stats.chunks["embedded"] == 1
    assert (stats.digest, stats.committed) == (first.digest, False)
    assert "made again" in stats.warnings[0]
    assert bench.health() == []


def test_globs_and_limits_have_reasons_and_changing_them_looks_again(bench):
    bench.write("a.md", "a")
    bench.write("drafts/b.md", "b")
    bench.write("big.md", "x" * 100)
    stats = bench.run(exclude=("drafts/",), max_text_bytes=50)
    assert stats.documents == 1
    assert {path for path, _ in stats.skipped_reasons} == {"drafts/b.md", "big.md"}
    assert bench.pending(exclude=("drafts/",), max_text_bytes=50).changes.racy
    assert bench.run().documents == 3
    assert {row["path"] for row in manifest(bench)["files"]} == {"a.md", "big.md", "drafts/b.md"}


def test_flat_takes_the_files_of_the_root_alone(bench):
    (bench.doc_root / "top.md").write_text("top")
    bench.write("inner.md", "inner")
    stats = bench.manager().run("default", IngestionConfig(flat=True))
    assert stats.changed["new"] == ("top.md",)


def test_stats_are_complete_and_json(bench):
    bench.write("a.md", "text " * 400)
    bench.embedder.device = "cuda:0"
    stats = bench.run(provenance={"run": "r1"})
    data = json.loads(json.dumps(stats.to_json()))
    assert list(data)[:6] == ["project", "generation", "committed", "files", "chunks", "seconds"]
    assert data["dimension"] == bench.embedder.dimension
    assert (data["model"], data["device"]) == (bench.embedder.name, "cuda:0")
    assert (data["truncated_inputs"], data["documents"]) == (0, 1)
    provenance = dict(bench.view().pinned.provenance)
    assert float(provenance.pop("embed_seconds")) >= 0
    assert provenance == {"run": "r1", "truncated_inputs": "0", "embedded": "2"}


def test_progress_names_the_phases(bench):
    bench.write("a.md", "text")
    phases = []
    manager = bench.manager(progress=lambda phase, done, total: phases.append(phase))
    manager.run(bench.project, CONFIG)
    assert list(dict.fromkeys(phases)) == ["read", "embed", "verify", "commit", "publish"]


def test_chunk_metadata_is_the_union_of_what_is_asked_for(bench):
    bench.write("sub/a.md", "# Title\n\n## Part\n\nbody", mtime=1234)
    bench.run()
    view = bench.view()
    (chunk,) = view.chunks(view.chunk_ids)
    assert chunk.id == f"sub/a.md::{chunk.meta['sha256']}::0"
    assert chunk.source == "sub/a.md"
    assert chunk.meta == {
        "project": "demo", "path": "sub/a.md", "source": "a.md", "mtime": 1234.0,
        "sha256": chunk.meta["sha256"], "file_type": "md", "chunk_index": 0, "page_number": 0,
        "heading": chunk.meta["heading"], "generation": 1,
    }  # fmt: skip


def test_hostile_names_round_trip(bench):
    names = [
        b"new\nline.md", b"-dash.md", b"quo'te\".md", b"a::b::0.md", b"\xff\xfe.md", b"50%FF.md",
        "e\u0301.md".encode(), "é.md".encode(), b"Case.md", b"case.md", "\u202ertl.md".encode(),
        b"x" * 252 + b".md", b"con.md", b" space .md", b"tab\t.md",
    ]  # fmt: skip
    for n, name in enumerate(names):
        with open(os.path.join(os.fsencode(bench.docs), name), "w") as handle:
            handle.write(f"text {n}")
    stats = bench.run()
    assert stats.files["new"] == len(names) == stats.chunks["live"]
    assert len(set(bench.view().chunk_ids)) == len(names)
    assert bench.health() == []


def test_retention_keeps_the_last_generations_and_delete_replaced_one(bench):
    for n in range(5):
        bench.write("a.md", f"version {n}")
        bench.run(retain_generations=3)
    assert [bench.view(n).generation for n in (3, 4, 5)] == [3, 4, 5]
    assert "version 2" in bench.view(3).chunks(bench.view(3).chunk_ids)[0].snippet
    bench.write("a.md", "version 5")
    bench.run(delete_replaced=True)
    raw = (bench.index / "catalog.sqlite").read_bytes()
    assert b"version 5" in raw
    assert b"version 4" not in raw  # replaced rows are gone from the file


def test_texts_that_the_encoder_cut_are_counted_and_kept_with_the_generation(
    make_bench, counting_embedder
):
    class Cutting(counting_embedder):
        def embed_documents(self, texts, *, progress=None):
            self.truncated_inputs += sum(len(text) > 100 for text in texts)
            return super().embed_documents(texts)

    bench = make_bench(embedder=Cutting())
    bench.write("long.md", "word " * 60)
    bench.write("short.md", "word")
    assert bench.run().truncated_inputs == 1
    newest = bench.view().pinned
    assert newest.provenance["truncated_inputs"] == "1"
    bench.write("other.md", "another word")
    assert bench.run().truncated_inputs == 0
    assert bench.view().pinned.provenance["truncated_inputs"] == "1"  # its text is still live


def test_progress_knows_totals_and_ends_at_them(bench, monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 8)
    monkeypatch.setattr("ragstream_core.ingestion.staging._PROGRESS_EVERY_S", 0.0)
    for n in range(40):
        bench.write(f"{n:02}.md", f"text number {n} " * 30)
    seen = []
    bench.manager(progress=lambda *report: seen.append(report)).run(bench.project, CONFIG)
    embedded = [(done, total) for phase, done, total in seen if phase == "embed"]
    assert [r for r in seen if r[0] == "read"][-1] == ("read", 40, 40)
    assert embedded[-1] == (40, 40)
    assert all(0 < done <= total for done, total in embedded)
    assert all(30 <= total <= 50 for _, total in embedded)  # an estimate while files are read
    assert [done for done, _ in embedded] == sorted(done for done, _ in embedded)


def test_an_embedder_says_how_many_texts_it_wants_at_once(bench, monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 2)
    for n in range(7):
        bench.write(f"{n}.md", f"text number {n}")
    sizes, real = [], bench.embedder.embed_documents

    def counted(texts, *, progress=None):
        sizes.append(len(texts))
        return real(texts, progress=progress)

    monkeypatch.setattr(bench.embedder, "embed_documents", counted)
    monkeypatch.setattr(bench.embedder, "texts_at_once", 5, raising=False)
    bench.run()
    assert sizes == [5, 2]
