import json

import pytest
from ragstream_core.ingestion.manifest import (
    FileEntry,
    diff,
    manifest_is,
    manifest_stamp,
    write_manifest,
)


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


def test_manifest_file_has_the_union_of_both_schemas_and_a_stamp(tmp_path):
    path = tmp_path / "file_manifest.json"
    stamp = manifest_stamp(3, "d" * 64)
    write_manifest(path, [entry("b"), entry("a")], [("c.png", "type not supported")], stamp=stamp)
    data = json.loads(path.read_text())
    assert (data["generation"], data["digest"]) == (3, "d" * 64)
    assert [row["path"] for row in data["files"]] == ["a", "b", "c.png"]
    wanted = {"path", "rel_path", "sha256", "size", "mtime", "type", "decision", "reason"}
    assert set(data["files"][0]) == wanted
    assert manifest_is(path, stamp)
    assert not manifest_is(path, manifest_stamp(4, "d" * 64))


def test_an_interrupted_write_leaves_the_old_manifest(tmp_path, monkeypatch):
    path = tmp_path / "file_manifest.json"
    write_manifest(path, [entry("a")], [], stamp=manifest_stamp(1, "d"))
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError):
        write_manifest(path, [entry("b")], [], stamp=manifest_stamp(2, "d"))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["file_manifest.json"]
