"""A catalog of the format before stays as it is: it grows and is read beside new ones."""

import sqlite3
from contextlib import closing

import pytest

from ragstream_core.errors import IntegrityError
from ragstream_core.index import schema, upgrade
from ragstream_core.index.repair import repair_derived
from ragstream_core.index.verify import WHOLE, verify_data
from ragstream_core.index.view import forget_views, open_view

FIRST = {f"{n}.md": f"# Heading {n}\n\nwords number {n}" + " again" * n * 40 for n in range(9)}
DELTA = {"3.md": "# Heading\n\nanother body", "new.md": "# New\n\nwords that came later"}


def stored(bench):
    with closing(sqlite3.connect(bench.index / "catalog.sqlite")) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        rows = db.execute("SELECT terms, terms_crc FROM texts ORDER BY text_hash").fetchall()
    return version, rows


def ingested(bench, texts):
    """Ingest documents; return the digest and the term arrays."""
    for name, text in texts.items():
        bench.write(name, text)
    bench.run()
    forget_views()
    view = open_view(bench.index)
    assert verify_data(bench.index, WHOLE) == []
    assert repair_derived(bench.index) == []
    return view.digest, view.lexical.packed()


@pytest.fixture
def older(make_bench, monkeypatch):
    """A bench whose catalog is of the format before."""
    made = make_bench()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", schema.WIDE_TERMS)
        schema.connect_writer(made.index).close()
    return made


def test_both_formats_hold_the_same_and_grow_by_the_same(older, make_bench):
    ours = make_bench()
    assert ingested(ours, FIRST) == ingested(older, FIRST)
    assert ingested(ours, DELTA) == ingested(older, DELTA)
    (version, packed), (before, wide) = stored(ours), stored(older)
    assert (version, before) == (2, 1)
    assert [crc for _, crc in wide] == [crc for _, crc in packed]
    assert sum(len(blob) for blob, _ in packed) < sum(len(blob) for blob, _ in wide) * 0.6


def test_a_catalog_is_written_anew_when_that_is_asked_for(older):
    ingested(older, FIRST)
    expected = ingested(older, DELTA)
    reader = older.view(1)
    before = (older.index / "catalog.sqlite").stat()
    assert upgrade.is_older(older.index)
    assert upgrade.upgrade(older.index)
    assert not upgrade.upgrade(older.index)
    after = (older.index / "catalog.sqlite").stat()
    assert after.st_mode == before.st_mode and after.st_ino != before.st_ino
    assert stored(older)[0] == 2
    assert ingested(older, {}) == expected
    assert older.fresh_view(1).digest == reader.digest
    assert reader.chunks(reader.chunk_ids) == older.fresh_view(1).chunks(reader.chunk_ids)
    assert not older.run().committed
    assert {path.name for path in older.index.glob(".*")} <= {".lock", ".lock-holder"}


def test_a_damaged_catalog_is_not_written_anew(older):
    ingested(older, FIRST)
    path = older.index / "catalog.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE texts SET terms = x'00' WHERE text LIKE '%number 3%'")
        db.commit()
    before = path.read_bytes()
    with pytest.raises(IntegrityError, match="crc"):
        upgrade.upgrade(older.index)
    assert path.read_bytes() == before
