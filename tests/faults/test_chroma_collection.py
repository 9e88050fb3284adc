"""The sealed Chroma collection: made, updated, opened by others, rebuilt, swept, healed."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from ragstream_core.errors import (
    GenerationGone,
    InputUnavailable,
    IntegrityError,
    ProjectLocked,
    StoreFailed,
)
from ragstream_core.index.schema import project_lock
from ragstream_core.ingestion import scan
from ragstream_core.proposers.chroma import child, seal
from ragstream_core.proposers.chroma import collection as publisher
from ragstream_core.proposers.chroma.collection import Collection
from ragstream_core.proposers.chroma.names import collection_name, kept
from ragstream_core.proposers.chroma.reader import CollectionReader
from ragstream_core.proposers.chroma.seal import copy_of, sweep
from ragstream_core.proposers.chroma.vector_store_chroma import VectorStoreChroma


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young


@pytest.fixture(scope="module")
def template(make_bench):
    """A root with six documents, ingested, and its first collection; made once."""
    made = make_bench()
    for i in range(6):
        made.write(f"f{i}.md", f"# Heading {i}\n\nA sentence about subject number {i}.\n")
    made.run()
    report = collection_in(made).sync()
    assert report.made == "rebuilt"
    assert report.verified == report.added == report.receipt.rows == 6
    return made


@pytest.fixture
def collection(template, bench):
    shutil.copytree(template.root, bench.root, dirs_exist_ok=True)
    return collection_in(bench)


def collection_in(bench):
    return Collection(bench.root / "chroma_db" / "demo", bench.index, bench.project, "toy")


def sealed(collection):
    return seal.current(collection.chroma_dir)


def plain(folder, code):
    """Run code in a process that knows chromadb and nothing of ours; return what it printed."""
    script = f"import chromadb, json\nclient = chromadb.PersistentClient({str(folder)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/"
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


def drop(folder, name):
    plain(folder, f"client.delete_collection({name!r}); client.create_collection({name!r})")


def test_it_opens_in_plain_chromadb_and_holds_the_manifest(collection, bench):
    folder = sealed(collection)
    name = seal.receipt_of(folder).collection
    found = plain(
        folder,
        f"rows = client.get_collection({name!r}, embedding_function=None)\n"
        "got = rows.get(include=['metadatas', 'documents', 'embeddings'])\n"
        "print(json.dumps([rows.count(), rows.metadata, got['ids'], got['metadatas'], "
        "got['documents'], got['embeddings'].tolist()]))",
    )
    count, about, ids, metadatas, documents, vectors = found
    view = bench.view()
    assert count == 6
    assert about["project"] == bench.project
    assert about["embed_fp"] == view.embed_fp
    assert sorted(ids) == list(view.chunk_ids)
    rows = {i: (m, d, v) for i, m, d, v in zip(ids, metadatas, documents, vectors, strict=True)}
    for chunk in view.chunks(view.chunk_ids):
        meta, text, vector = rows[chunk.id]
        assert text == chunk.snippet
        assert {"path", "sha256", "chunk_idx", "mtime", "source", "page_number", "chunk_id",
                "file_type"} <= set(meta)  # fmt: skip
        assert (meta["path"], meta["chunk_idx"]) == (chunk.source, 0)
        assert len(meta["chunk_id"]) == 8
        assert np.allclose(vector, view.vectors[view.loaded.row_of[chunk.id]], atol=1e-6)
    manifest = (folder / "file_manifest.json").read_bytes()
    assert manifest == (bench.index / "file_manifest.json").read_bytes()


def test_looking_at_it_with_plain_chromadb_does_not_break_the_seal(collection):
    folder = sealed(collection)
    name = seal.receipt_of(folder).collection
    plain(
        folder,
        f"c = client.get_collection({name!r}, embedding_function=None)\n"
        "c.query(query_embeddings=[[0.1] * 384], n_results=3)",
    )
    assert collection.sync().made == "unchanged"
    assert collection.faults(vectors=True) == []


def test_only_what_changed_is_written_and_nothing_is_embedded(collection, bench):
    first = sealed(collection)
    bench.write("f1.md", "# Another\n\nWholly different words.\n")
    (bench.docs / "f2.md").unlink()
    bench.write("new.md", "# New\n\nFresh words.\n")
    bench.run()
    seen = len(bench.embedder.seen)
    assert "generation 1" in "".join(collection.faults())
    report = collection.sync()
    assert (report.made, report.added, report.deleted, report.verified) == ("updated", 2, 2, 6)
    assert (report.receipt.rows, report.receipt.dead) == (6, 2)
    assert len(bench.embedder.seen) == seen
    assert collection.faults(vectors=True) == []
    assert not first.exists()
    assert collection.sync().made == "unchanged"


def test_a_touched_file_changes_its_metadata(collection, bench):
    os.utime(bench.docs / "f3.md", (1_000_000_000, 1_000_000_000))
    bench.run()
    report = collection.sync()
    assert (report.made, report.added, report.deleted) == ("updated", 1, 1)
    assert collection.faults(vectors=True) == []


def test_an_id_whose_text_changed_with_the_chunker_is_replaced(collection, bench):
    bench.write("long.md", "# Long\n\n" + "A sentence that fills the chunk. " * 200)
    bench.run()
    collection.sync()
    bench.run(profile="sentence_400")
    report = collection.sync()
    assert report.made == "updated"
    assert report.deleted
    assert collection.faults(vectors=True) == []


def rewrite(folder, **changes):
    receipt = json.loads((folder / seal.RECEIPT).read_text())
    (folder / seal.RECEIPT).write_text(json.dumps(receipt | changes))


def test_what_leads_to_a_new_collection(collection, monkeypatch):
    folder = sealed(collection)
    rewrite(folder, embed_fp="f" * 64)
    assert "made by model" in "".join(collection.faults())
    rewrite(folder, embed_fp=seal.receipt_of(folder).embed_fp, chromadb="99.1.0")
    receipt = seal.receipt_of(folder)
    assert receipt.chromadb == "99.1.0"
    assert "".join(collection.faults())
    report = collection.sync()
    assert report.made == "rebuilt"
    assert collection.faults() == []
    rewrite(report.folder, dead=7)
    assert "7 dead rows for 6 live ones" in "".join(collection.faults())
    assert (again := collection.sync()).made == "rebuilt"
    assert again.receipt.dead == 0


def damaged(path, kind, rng):
    data = bytearray(path.read_bytes())
    at = int(rng.integers(0, len(data)))
    if kind == "torn":
        path.write_bytes(data[:at])
    elif kind == "flipped":
        data[at] ^= 0xFF
        path.write_bytes(bytes(data))
    elif kind == "zeroed":
        path.write_bytes(b"\0" * len(data))
    else:
        path.unlink()


@pytest.mark.parametrize("kind", ["torn", "flipped", "zeroed", "missing"])
def test_damage_is_noticed_before_chroma_opens_it(collection, kind):
    """R6: no process of ours opens a torn store; flips in unused pages are no damage."""
    rng = np.random.default_rng(5)
    folder = sealed(collection)
    receipt = seal.receipt_of(folder)
    names = [name for name, digest in receipt.files.items() if digest]
    assert len(names) >= 3
    for name in names:
        for _ in range(8 if kind in ("torn", "flipped") else 1):
            before = (folder / name).read_bytes()
            damaged(folder / name, kind, rng)
            try:
                with copy_of(folder) as copy:
                    same = seal.answers_digest(copy / seal.DATABASE)
                    assert name == seal.DATABASE
                    assert same == receipt.answers
            except IntegrityError as error:
                assert name in error.message
            (folder / name).write_bytes(before)
    with copy_of(folder):
        pass


def test_damage_is_healed_from_the_catalog(collection, bench):
    seen = len(bench.embedder.seen)
    database = sealed(collection) / seal.DATABASE
    database.write_bytes(database.read_bytes()[:-5000])
    assert "not what was sealed" in collection.faults()[0]
    report = collection.sync()
    assert report.made == "rebuilt"
    assert report.verified == report.receipt.rows == 6
    assert len(bench.embedder.seen) == seen
    assert collection.faults(vectors=True) == []


def test_lost_parts_are_made_again(collection):
    folder = sealed(collection)
    pointer = collection.chroma_dir / "CURRENT"
    for text in ("../../etc\n", "", "gen-9-nothing\n"):
        pointer.write_text(text)
        assert sealed(collection) is None
        assert "".join(collection.faults())
    pointer.write_text(f"{folder.name}\n")
    assert collection.faults() == []
    (folder / seal.RECEIPT).write_text("{}")
    assert "".join(collection.faults())
    shutil.rmtree(collection.chroma_dir)
    assert collection.sync().made == "rebuilt"
    assert collection.faults(vectors=True) == []


def test_a_killed_builder_leaves_the_old_collection(collection, bench, monkeypatch):
    old = sealed(collection)
    bench.write("new.md", "# New\n\nFresh words.\n")
    bench.run()

    class Killed(publisher.ChromaProcess):
        def ask(self, verb, header, **given):
            if verb == "build":
                os.kill(self.pid, signal.SIGKILL)
            return super().ask(verb, header, **given)

    monkeypatch.setattr(publisher, "ChromaProcess", Killed)
    with pytest.raises(Exception, match="signal 9"):
        collection.sync()
    assert seal.current(collection.chroma_dir) == old
    monkeypatch.undo()
    assert collection.sync().made == "updated"
    left = {p.name for p in collection.chroma_dir.iterdir()}
    assert left == {
        ".lock",
        ".lock-holder",
        "CURRENT",
        seal.current(collection.chroma_dir).name,
    }


def test_rows_that_a_graph_hides_are_a_figure_and_no_fault(collection, bench, monkeypatch):
    """Near-equal rows may not find themselves; ids, texts and vectors are all there."""
    newest = bench.view()
    with copy_of(sealed(collection)) as copy:
        job = publisher.CollectionPublisher(collection, collection._newest())._job(copy, "standard")
        assert child.verify(job) == {"faults": [], "vectors": 6, "self_recall": 1.0}

        def blind(store, queries, n):
            return [[newest.chunk_ids[0]] for _ in queries]

        with monkeypatch.context() as hidden:
            hidden.setattr(VectorStoreChroma, "nearest", blind)
            assert child.verify(job) == {"faults": [], "vectors": 6, "self_recall": 1 / 6}
        real = VectorStoreChroma.vectors

        def off(store, ids):
            return real(store, ids) + np.eye(len(ids), 384, dtype=np.float32) * 1e-6

        monkeypatch.setattr(VectorStoreChroma, "vectors", off)
        (fault,) = child.verify(job)["faults"]
        assert "6 rows have another vector" in fault


def test_too_sparse_a_graph_is_built_once_more_denser_and_then_sealed(
    collection, bench, monkeypatch
):
    builds = []
    build = publisher.CollectionPublisher._build
    monkeypatch.setattr(publisher, "ENOUGH", 1.01)  # whatever is found is not enough

    def counted(making, staging, graph):
        builds.append(graph)
        return build(making, staging, graph)

    monkeypatch.setattr(publisher.CollectionPublisher, "_build", counted)
    bench.write("new.md", "# New\n\nFresh words.\n")
    bench.run()
    report = collection.sync()
    assert builds == ["standard", "dense"]  # the update, then one build
    assert (report.made, report.reason) == ("rebuilt", publisher.SPARSE)
    assert (report.receipt.graph, report.receipt.self_recall) == ("dense", 1.0)
    assert seal.receipt_of(report.folder) == report.receipt
    assert collection.sync().made == "unchanged" and collection.faults(vectors=True) == []
    bench.write("more.md", "# More\n\nOther words.\n")
    bench.run()
    assert collection.sync().made == "updated"
    assert builds == ["standard", "dense", "dense"]


def test_two_writers(collection):
    with project_lock(collection.chroma_dir), pytest.raises(ProjectLocked):
        collection.sync()


def test_a_folder_that_is_being_read_is_not_swept(collection, bench):
    first = sealed(collection)
    with copy_of(first) as copy:
        assert sweep(collection.chroma_dir, first) == []
        assert copy.is_dir()
    assert not copy.exists()
    (collection.chroma_dir / "open-dead").mkdir()
    (collection.chroma_dir / "staging-dead").mkdir()
    assert sweep(collection.chroma_dir, first) == ["open-dead", "staging-dead"]


def test_nothing_ingested(tmp_path):
    with pytest.raises(GenerationGone, match="ingest"):
        Collection(tmp_path / "c", tmp_path / "i", "demo").sync()


def test_one_project_leaves_the_other_alone(collection, bench):
    before = {p: p.read_bytes() for p in collection.chroma_dir.rglob("*") if p.is_file()}
    other = Collection(bench.root / "chroma_db" / "other", bench.index, "other")
    other.sync()
    after = {p: p.read_bytes() for p in collection.chroma_dir.rglob("*") if p.is_file()}
    assert after == before


@pytest.mark.parametrize("harm", ["drop", "kill", "remove"])
def test_a_dropped_collection_under_a_live_reader_heals(collection, bench, caplog, harm):
    """R-083: what was opened whole goes on answering; the damage is noticed and made good."""
    reader, view = CollectionReader(collection.chroma_dir, "demo"), bench.view()

    def near(asked):
        return view.chunk_ids[0] in asked.near(view.digest, view.vectors[:1], 3)[0]

    try:
        assert near(reader)
        folder = sealed(collection)
        if harm == "kill":  # a new child on the same collection is no repair
            os.kill(reader._open.child.pid, signal.SIGKILL)
            assert near(reader) and collection.sync().made == "unchanged"
            return
        if harm == "drop":
            drop(folder, seal.receipt_of(folder).collection)
            assert near(reader)
            reader.close()
        else:
            shutil.rmtree(folder)
        with pytest.raises((IntegrityError, StoreFailed)), caplog.at_level(logging.WARNING):
            reader.near(view.digest, view.vectors[:1], 3)
        assert harm != "drop" or "made again by the next ingest" in caplog.text
        assert sealed(collection) is None  # so that the next ingest knows
        assert collection.sync().made == "rebuilt" and near(reader)
    finally:
        reader.close()
    assert not list(collection.chroma_dir.glob("open-*"))


def test_the_reader_follows_the_collection_and_knows_no_other_generation(collection, bench):
    reader = CollectionReader(collection.chroma_dir, "demo")
    try:
        old = bench.view()
        assert reader.near(old.digest, old.vectors[:1], 1) is not None
        word = reader.seal()[:16]
        bench.write("new.md", "# New\n\nFresh words.\n")
        bench.run()
        new = bench.view()
        assert reader.near(new.digest, new.vectors[:2], 2) is None
        collection.sync()
        assert reader.near(old.digest, old.vectors[:1], 1, wanted=word) is not None
        assert reader.near(new.digest, new.vectors[:2], 2) is not None
        assert reader.near(old.digest, old.vectors[:1], 1) is None
        with pytest.raises(InputUnavailable, match="was replaced"):
            reader.near(old.digest, old.vectors[:1], 1, wanted=word)
    finally:
        reader.close()


def test_names_that_chroma_takes_and_values_that_it_takes():
    assert collection_name("handbook") == "handbook"
    odd = ["a-", "ab", "ünï", "a..b", "x" * 600, "", "a b", "a_b", "日本", "a/b"]
    names = [collection_name(name) for name in odd]
    assert len(set(names)) == len(odd)
    for name in names:
        assert 3 <= len(name) <= 512
        assert name[0].isalnum() and name[-1].isalnum() and name.isascii()
    assert kept({"tags": [], "heading": "", "page": 0, "none": None}) == {"page": 0}
    assert kept({"tags": ["GOLD"]}) == {"tags": ["GOLD"], "tag_GOLD": True}
