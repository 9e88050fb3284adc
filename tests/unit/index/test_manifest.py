from __future__ import annotations

import json

import pytest

from ragstream_core.index.manifest import manifest_is, manifest_stamp, write_manifest
from ragstream_core.index.rows import FileEntry


def entry(path):
    return FileEntry(path, "a" * 64, 3, 1, "md", "ingested")


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
