import json
import zlib
from contextlib import closing

import pytest

from ragstream_core.errors import IntegrityError
from ragstream_core.index import derived
from ragstream_core.index.derived import LEXICAL_FILE, MANIFEST_NAME, is_published, manifest
from ragstream_core.index.rows import FileEntry
from ragstream_core.index.schema import CATALOG_NAME, LEXICAL_KEY, connect_writer
from ragstream_core.text.terms import LEXICAL_VERSION, term_blob


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


UPDATES = derived._REFRESH.values()


def other_terms(bench, said=""):
    """Leave the catalog as an earlier version of the rules for terms would have."""
    with closing(connect_writer(bench.index)) as db:
        old = term_blob("words of other rules")
        db.execute("UPDATE texts SET terms = pack_terms(?), terms_crc = ?", (old, zlib.crc32(old)))
        db.execute("UPDATE chunks SET heading_terms = pack_terms(?), heading_crc = ?",
                   (old, zlib.crc32(old)))  # fmt: skip
        db.execute("UPDATE meta SET value = ? WHERE key = ?", (said, LEXICAL_KEY))
    (bench.index / LEXICAL_FILE).unlink()


def test_a_reader_takes_no_terms_of_other_rules(bench):
    bench.write("a.md", "# Valves\n\nThe gate keeps what is near.\n")
    bench.run()
    sound = bench.fresh_view().lexical.packed()
    other_terms(bench, "snowball-english-0")
    assert bench.fresh_view().lexical.packed() == sound
    bench.run()
    assert is_published(bench.index, bench.fresh_view().pinned)
    assert bench.fresh_view().lexical.packed() == sound


@pytest.mark.parametrize("killed", [False, True])
def test_terms_are_derived_again_some_rows_at_a_time(bench, monkeypatch, killed):
    monkeypatch.setattr(derived, "REFRESHED_ROWS", 3)
    for n in range(11):
        bench.write(f"{n}.md", f"# Part {n}\n\nSentence number {n} of it stands here.\n")
    bench.run()
    sound = bench.fresh_view().lexical.packed()
    other_terms(bench)
    path = bench.index / CATALOG_NAME
    with closing(connect_writer(bench.index)) as db:
        if killed:
            with monkeypatch.context() as patch:
                patch.setitem(derived._REFRESH, "chunks", "UPDATE nothing_there SET a = 1")
                with pytest.raises(IntegrityError):
                    derived.refresh_terms(db, path)
            assert bench.fresh_view().lexical.packed() == sound
        derived.refresh_terms(db, path)
        explained = (f"EXPLAIN QUERY PLAN {update} WHERE rowid < 3" for update in UPDATES)
        assert all("INTEGER PRIMARY KEY" in row[3] for ask in explained for row in db.execute(ask))
        stored = list(db.execute("SELECT unpack_terms(terms), terms_crc FROM texts"))
        assert len(stored) == 11 and all(zlib.crc32(terms) == crc for terms, crc in stored)
    assert bench.fresh_view().lexical.packed() == sound
