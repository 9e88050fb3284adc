"""Opening a generation again asks the catalog nothing until it has changed, and then at once."""

import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragstream_core.errors import GenerationGone, IntegrityError
from ragstream_core.index import schema, view
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.index.view import open_view
from ragstream_core.ingestion import scan
from ragstream_core.services.ingest import ingest_project
from tests.workspaces import ingested_workspace


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)
    workspace = ingested_workspace(tmp_path)
    view.forget_views()
    return workspace


@pytest.fixture
def asked(monkeypatch):
    """How often the catalog is opened."""
    found, connect = [], schema.connect_reader
    monkeypatch.setattr(schema, "connect_reader", lambda d: found.append(d) or connect(d))
    return found


def catalog(space):
    return space.index_dir("demo") / CATALOG_NAME


def test_an_unchanged_catalog_is_asked_once(space, asked):
    first = open_view(space.index_dir("demo"))
    texts = first.chunks(first.chunk_ids)
    times = len(asked)
    for _ in range(3):
        again = open_view(space.index_dir("demo"))
        assert again is first and again.chunks(again.chunk_ids) == texts
    assert len(asked) == times
    assert open_view(space.index_dir("demo"), generation=1) is first and len(asked) == times + 1


def test_threads_that_open_a_generation_at_once_load_it_once(space, monkeypatch):
    loaded = []

    def slow(real):
        def counted(*given, **named):
            loaded.append(real)
            time.sleep(0.1)
            return real(*given, **named)

        return counted

    monkeypatch.setattr(view, "load_rows", slow(view.load_rows))
    monkeypatch.setattr(view, "load_saved", lambda *_: None)
    monkeypatch.setattr(view.derived, "load_terms", slow(view.derived.load_terms))

    def opened(_):
        found = open_view(space.index_dir("demo"))
        return found, found.lexical

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(opened, range(4))
    assert all(other[0] is first[0] and other[1] is first[1] for other in others)
    assert len(loaded) == 2


def test_a_commit_is_seen_at_once_and_texts_are_read_again(space, asked, tmp_path):
    first = open_view(space.index_dir("demo"))
    first.chunks(first.chunk_ids)
    (tmp_path / "doc_raw" / "demo" / "fresh.md").write_text("# Fresh\n\nThis came in later.\n")
    ingest_project(space, "demo")
    second = open_view(space.index_dir("demo"))
    assert (first.generation, second.generation) == (1, 2)
    assert "fresh.md" in second.paths
    assert open_view(space.index_dir("demo"), generation=1) is first
    times = len(asked)
    first.chunks(first.chunk_ids[:1])
    assert len(asked) == times + 1


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen(space):
    first, path = open_view(space.index_dir("demo")), catalog(space)
    before = path.stat()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE generations SET digest = ?", ("0" * 64,))
    db.close()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    with pytest.raises(IntegrityError):
        open_view(space.index_dir("demo"))
    assert first.generation == 1


def test_beside_a_journal_the_catalog_is_asked(space, asked):
    open_view(space.index_dir("demo"))
    times = len(asked)
    catalog(space).with_name(f"{CATALOG_NAME}-journal").touch()
    open_view(space.index_dir("demo"))
    assert len(asked) > times


def test_a_catalog_that_is_gone_is_gone(space):
    open_view(space.index_dir("demo"))
    catalog(space).unlink()
    with pytest.raises(GenerationGone):
        open_view(space.index_dir("demo"))
