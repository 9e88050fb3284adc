from __future__ import annotations

from ragstream_core.index.rows import FileEntry
from ragstream_core.ingestion.survey import diff


def entry(path, sha="a", mtime=1, decision="ingested", reason=""):
    return FileEntry(path, sha * 64, 3, mtime, "md", decision, reason)


def test_each_class():
    old = {e.path: e for e in [entry("same"), entry("edit"), entry("touch"), entry("gone")]}
    now = {
        e.path: e
        for e in [
            entry("same"),
            entry("edit", "b", 2),
            entry("touch", "a", 2),
            entry("fresh"),
            entry("bad", decision="skipped", reason="binary"),
        ]
    }
    found = diff(old, now)
    assert (found.new, found.updated, found.touched) == (("fresh",), ("edit",), ("touch",))
    assert (found.unchanged, found.deleted) == (("same",), ("gone",))
    assert found.skipped == (("bad", "binary"),)


def test_new_bytes_under_the_old_mtime_are_an_update():
    assert diff({"a": entry("a")}, {"a": entry("a", "b", 1)}).updated == ("a",)


def test_a_skipped_file_that_becomes_readable_is_an_update():
    old = {"a": entry("a", decision="skipped", reason="binary")}
    assert diff(old, {"a": entry("a")}).updated == ("a",)
