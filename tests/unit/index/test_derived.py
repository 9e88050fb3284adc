import json
import zlib

from ragstream_core.index.derived import MANIFEST_NAME, is_published, manifest
from ragstream_core.index.lexical import LEXICAL_FILE
from ragstream_core.index.rows import FileEntry
from ragstream_core.text.bm25 import LEXICAL_VERSION


def entry(path):
    return FileEntry(path, "a" * 64, 3, 1, "md", "ingested")


def test_the_manifest_has_the_union_of_both_schemas_and_a_stamp(bench):
    bench.write("a.md", "text")
    bench.run()
    found = bench.view().pinned
    data = json.loads(manifest(found, [entry("b"), entry("a")], [("c.png", "no document")]))
    assert (data["generation"], data["digest"]) == (found.n, found.digest)
    assert [row["path"] for row in data["files"]] == ["a", "b", "c.png"]
    wanted = {"path", "rel_path", "sha256", "size", "mtime", "type", "decision", "reason"}
    assert set(data["files"][0]) == wanted


def test_another_generations_files_are_told_by_their_stamp(bench):
    bench.write("a.md", "text")
    bench.run()
    first = bench.view().pinned
    assert is_published(bench.index, first)
    bench.write("a.md", "other")
    bench.run()
    assert is_published(bench.index, bench.fresh_view().pinned)
    assert not is_published(bench.index, first)


def test_an_interrupted_write_leaves_the_old_files_until_the_next_run(bench, monkeypatch):
    bench.write("a.md", "text")
    bench.run()
    before = (bench.index / MANIFEST_NAME).read_bytes()
    bench.write("a.md", "other")
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
        assert bench.run().committed
    assert (bench.index / MANIFEST_NAME).read_bytes() == before
    assert not list(bench.index.glob("**/.*.tmp"))
    bench.run()
    assert is_published(bench.index, bench.fresh_view().pinned)


def test_term_arrays_of_the_older_container_are_passed_over_until_the_next_ingest(bench):
    bench.write("a.md", "text of a file")
    bench.run()
    found, path = bench.view().pinned, bench.index / LEXICAL_FILE
    sound = bench.view().lexical.packed()
    stamp = json.dumps({"digest": found.digest, "lexical": LEXICAL_VERSION}).encode()
    older = stamp + b"\nRSLEX1\n" + zlib.crc32(sound).to_bytes(4, "little") + sound
    path.write_bytes(older)
    assert bench.fresh_view().lexical.packed() == sound
    assert path.read_bytes() == older and not is_published(bench.index, found)
    assert not bench.run().committed
    assert is_published(bench.index, found)
    pending = bench.pending()  # of a file this young it may say that it looks once more
    assert pending is None or (pending.changes and pending.changes.racy == ["a.md"])
