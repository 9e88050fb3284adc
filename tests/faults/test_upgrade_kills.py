"""A catalog that is written anew is the old one or the new one, whatever call dies or fails."""

import itertools
import shutil
import sqlite3
from contextlib import closing

import pytest

from ragstream_core.index import schema, upgrade
from ragstream_core.index.verify import WHOLE, verify_data
from tests.faults.harness import hindered, need_strace
from tests.lengths import by_length

MOST = by_length(2, 8, 1_000)
CASES = [
    ("pwrite64", "signal=KILL"), ("pwrite64", "error=EIO"), ("pwrite64", "error=ENOSPC"),
    ("fsync,fdatasync", "signal=KILL"), ("fsync,fdatasync", "error=EIO"),
    ("/rename", "signal=KILL"), ("/rename", "error=EIO"), ("/unlink", "signal=KILL"),
]  # fmt: skip


@pytest.fixture
def older(bench, monkeypatch):
    """An index whose catalog is of the format before."""
    need_strace()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", schema.WIDE_TERMS)
        schema.connect_writer(bench.index).close()
    for n in range(40):
        bench.write(f"{n}.md", f"# Part {n}\n\n" + f"words of their own {n} " * 30)
    bench.run()
    return bench


def format_of(index_dir):
    with closing(sqlite3.connect(index_dir / "catalog.sqlite")) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.sweep
@pytest.mark.parametrize(("call", "effect"), CASES)
def test_every_call_dies_or_fails_once(older, tmp_path, call, effect):
    kept = tmp_path / "kept"
    shutil.copytree(older.index, kept)
    digest = older.fresh_view().digest
    formats = set()
    for n in itertools.islice(itertools.count(1), MOST):
        shutil.rmtree(older.index)
        shutil.copytree(kept, older.index)
        there_was = hindered(lambda: upgrade.upgrade(older.index), call, effect, n, tmp_path)
        formats.add(format_of(older.index))
        assert verify_data(older.index, WHOLE) == []
        assert older.fresh_view().digest == digest
        upgrade.upgrade(older.index)
        assert format_of(older.index) == 2
        assert not older.run().committed
        assert not list(older.index.glob(".*.tmp*"))
        if not there_was:
            break
    assert n > 1 and formats <= {1, 2}
