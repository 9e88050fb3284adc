"""A catalog as version 0 wrote it, before rows had crcs: brought up to date, or refused whole."""

from __future__ import annotations

import sqlite3

import pytest

from ragstream_core.errors import IntegrityError
from ragstream_core.index.schema import connect_reader, connect_writer
from ragstream_core.index.view import forget_views

VERSION_0 = """
CREATE TABLE files(
    path TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    type TEXT NOT NULL, decision TEXT NOT NULL, reason TEXT NOT NULL,
    from_gen INTEGER NOT NULL, to_gen INTEGER, PRIMARY KEY(path, from_gen)) WITHOUT ROWID;
CREATE INDEX files_dead ON files(to_gen) WHERE to_gen IS NOT NULL;
CREATE TABLE chunks(
    chunk_id TEXT NOT NULL, path TEXT NOT NULL, sha256 TEXT NOT NULL, chunk_idx INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, page INTEGER NOT NULL, heading TEXT NOT NULL,
    text_hash TEXT NOT NULL, heading_terms BLOB NOT NULL,
    from_gen INTEGER NOT NULL, to_gen INTEGER,
    PRIMARY KEY(chunk_id, from_gen)) WITHOUT ROWID;
CREATE INDEX chunks_path ON chunks(path) WHERE to_gen IS NULL;
CREATE TABLE texts(
    text_hash TEXT PRIMARY KEY, text TEXT NOT NULL, tokens INTEGER NOT NULL, terms BLOB NOT NULL)
    WITHOUT ROWID;
CREATE TABLE vectors(
    embed_fp TEXT NOT NULL, text_hash TEXT NOT NULL, epoch INTEGER NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY(embed_fp, text_hash)) WITHOUT ROWID;
"""
COLUMNS = {
    "files": "path, sha256, size, mtime_ns, type, decision, reason, from_gen, to_gen",
    "chunks": "chunk_id, path, sha256, chunk_idx, start, end, page, heading, text_hash, "
    "heading_terms, from_gen, to_gen",
    "texts": "text_hash, text, tokens, terms",
    "vectors": "embed_fp, text_hash, epoch, row",
}


def make_old(index):
    """Rewrite a catalog as version 0 would have written it: other tables, no crc anywhere."""
    db = sqlite3.connect(index / "catalog.sqlite")
    for table in COLUMNS:
        for (name,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? "
            "AND sql IS NOT NULL", (table,),
        ).fetchall():  # fmt: skip
            db.execute(f"DROP INDEX {name}")
        db.execute(f"ALTER TABLE {table} RENAME TO new_{table}")
    db.executescript(VERSION_0)
    for table, columns in COLUMNS.items():
        db.execute(f"INSERT INTO {table} SELECT {columns} FROM new_{table}")
        db.execute(f"DROP TABLE new_{table}")
    db.execute("PRAGMA user_version=0")
    db.commit()
    db.close()
    forget_views()


@pytest.fixture
def old(bench):
    for n in range(4):
        bench.write(f"{n}.md", f"# Heading {n}\n\nbody number {n}")
    bench.run()
    bench.write("0.md", "# Heading 0\n\nanother body")
    bench.run()
    make_old(bench.index)
    return bench


def version(bench):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    try:
        return db.execute("PRAGMA user_version").fetchone()[0]
    finally:
        db.close()


def schema(path):
    db = sqlite3.connect(path)
    try:
        query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        return db.execute(query).fetchall()
    finally:
        db.close()


def test_an_ingest_migrates_and_embeds_nothing(old, tmp_path):
    assert old.pending() is not None
    seen = len(old.embedder.seen)
    stats = old.run()
    assert not stats.committed and len(old.embedder.seen) == seen
    assert version(old) == 1
    assert old.health() == []
    connect_writer(tmp_path / "new").close()
    assert schema(old.index / "catalog.sqlite") == schema(tmp_path / "new" / "catalog.sqlite")


def test_old_generations_are_the_same_afterwards(old):
    old.run()
    texts = {n: [c.snippet for c in v.chunks(v.chunk_ids)]
             for n in (1, 2) for v in [old.fresh_view(n)]}  # fmt: skip
    assert any("body number 0" in text for text in texts[1])
    assert any("another body" in text for text in texts[2])
    assert old.view().digest == old.from_scratch().view().digest


def test_a_reader_migrates_too(old):
    with pytest.raises(Exception, match="older format 0"):
        connect_reader(old.index)
    view = old.fresh_view()
    assert len(view.chunks(view.chunk_ids)) == 4
    assert version(old) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET start = start + 1",
        "UPDATE files SET decision = 'skipped'",
        "DELETE FROM vectors WHERE row = 0",
        "UPDATE vectors SET row = 99 WHERE row = 1",
        "UPDATE generations SET row_sum = digest WHERE n = 1",
    ],
)
def test_what_is_damaged_is_not_given_a_crc(old, statement):
    db = sqlite3.connect(old.index / "catalog.sqlite")
    db.execute(statement)
    db.commit()
    db.close()
    if "DELETE" in statement:  # a missing vector is found by the view, as in every version
        old.run()
        with pytest.raises(IntegrityError):
            old.fresh_view(1)
        return
    before = (old.index / "catalog.sqlite").read_bytes()
    with pytest.raises(IntegrityError) as caught:
        old.run()
    assert caught.value.hint == "ragstream ingest demo --rebuild"
    assert (old.index / "catalog.sqlite").read_bytes() == before
    old.run(rebuild=True)
    assert old.health() == []
    assert old.view().digest == old.from_scratch().view().digest


def test_a_lost_vector_file_is_not_given_crcs(old):
    old.vector_file().unlink()
    with pytest.raises(IntegrityError, match=r"\.f32 is missing"):
        old.run()
    assert version(old) == 0
    old.run(rebuild=True)
    assert old.health() == []


def test_a_kill_before_the_commit_leaves_the_old_format(old, monkeypatch):
    from ragstream_core.index import migrations

    def fail(db, index_dir):
        raise KeyboardInterrupt

    before = (old.index / "catalog.sqlite").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "_require_digests", fail)
        with pytest.raises(KeyboardInterrupt):
            old.run()
    assert (old.index / "catalog.sqlite").read_bytes() == before
    old.run()
    assert version(old) == 1 and old.health() == []
