import sqlite3

import pytest

from ragstream_core.errors import IntegrityError, OperationFailed
from ragstream_core.index.schema import connect_reader, connect_writer, guard, transaction


def test_the_pragmas_are_those_that_keep_the_promise(tmp_path):
    db = connect_writer(tmp_path)
    got = {
        name: db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "secure_delete", "cache_spill")
    }
    assert got == {"journal_mode": "delete", "synchronous": 3, "secure_delete": 1, "cache_spill": 0}
    assert (tmp_path / "catalog.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_reader_creates_and_changes_nothing(tmp_path):
    with pytest.raises(OperationFailed):
        connect_reader(tmp_path)
    assert list(tmp_path.iterdir()) == []
    connect_writer(tmp_path).close()
    db = connect_reader(tmp_path)
    with pytest.raises(sqlite3.OperationalError):
        db.execute("DELETE FROM meta")


@pytest.mark.parametrize("version", [3, 99, 0])
def test_another_format_is_refused_not_repaired(tmp_path, version):
    db = connect_writer(tmp_path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = (tmp_path / "catalog.sqlite").read_bytes()
    for connect in (connect_reader, connect_writer):
        with pytest.raises(IntegrityError) as caught:
            connect(tmp_path)
        assert str(version) in caught.value.message
        assert "--rebuild" in caught.value.hint
    assert (tmp_path / "catalog.sqlite").read_bytes() == before


def test_garbage_is_refused_by_name(tmp_path):
    (tmp_path / "catalog.sqlite").write_bytes(b"this is no database" * 1000)
    for connect in (connect_reader, connect_writer):
        with pytest.raises(IntegrityError, match=r"catalog\.sqlite"):
            connect(tmp_path)


def test_an_emptied_catalog_beside_vectors_is_damage(tmp_path):
    (tmp_path / "catalog.sqlite").touch()
    connect_writer(tmp_path).close()  # a first ingest killed early
    (tmp_path / "catalog.sqlite").write_bytes(b"")
    (tmp_path / "vectors-x-1.f32").touch()
    with pytest.raises(IntegrityError, match="empty"):
        connect_writer(tmp_path)


def test_a_failed_transaction_leaves_nothing(tmp_path):
    db = connect_writer(tmp_path)
    with pytest.raises(RuntimeError), transaction(db, tmp_path / "catalog.sqlite"):
        db.execute("INSERT INTO meta VALUES('a', 'b')")
        raise RuntimeError
    assert db.execute("SELECT * FROM meta").fetchall() == []


def test_a_full_disk_is_no_damage(tmp_path):
    with pytest.raises(OperationFailed), guard(tmp_path / "catalog.sqlite"):
        raise sqlite3.OperationalError("database or disk is full")
