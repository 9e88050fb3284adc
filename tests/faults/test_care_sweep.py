"""Backup and restore: every call that changes the disk is killed or fails once (strace).

Afterwards the old state or the new one can be read, and the next run completes. The full form takes
every call, the short form a sample of them.
"""

import functools
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from ragstream_core.errors import RagstreamError
from ragstream_core.index.check import Part
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.platform import files
from ragstream_core.services import verify
from ragstream_core.services.backup import backup
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.restore import restore
from ragstream_core.wiring.workspace import open_workspace
from tests.faults.harness import CRASH, DONE, EFFECTS, Child, need_strace
from tests.lengths import by_length, spread

CALLS = (
    "pwrite64", "write", "fsync", "fdatasync", "rename", "renameat2", "unlink", "unlinkat",
    "rmdir", "mkdir", "ftruncate",
)  # fmt: skip
SAMPLE = by_length(1, 2, 10_000)


@pytest.fixture(autouse=True)
def tracing():
    need_strace()


def open_root(root):
    return open_workspace(root, explicit={"embeddings.backend": "hashed"})


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A root of three generations with a prompt, and a backup of the first two."""
    root = tmp_path_factory.mktemp("care") / "data"
    docs = root / "doc_raw" / "demo"
    docs.mkdir(parents=True)
    space = open_root(root)
    notes = root / "projects" / "demo" / "notes.md"
    notes.parent.mkdir(parents=True)
    for n in range(3):
        for i in range(6):
            (docs / f"{i}.md").write_text(f"# Part {i}\n\nversion {n if i < 3 else 0} of {i}\n")
        notes.write_text(f"notes of version {n}\n")
        ingest_project(space, "demo")
        if n == 1:
            backup(space, root.with_name("copy"))
    forget_views()
    return root


def digest(space):
    forget_views()
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []
    return open_view(space.index_dir("demo")).digest


class Scene:
    """One task: where it runs, what must hold after it was hindered, and after the next run."""

    def __init__(self, origin, root):
        self.root = root
        shutil.copytree(origin.parent, root, symlinks=True)
        self.space = open_root(root / "data")
        self.copy = root / "copy"

    def in_backup(self):
        """The digest of what the backup gives back."""
        tried = self.root / "tried"
        restore(open_root(tried), self.copy)
        found = digest(open_root(tried))
        shutil.rmtree(tried)
        return found

    def left(self):
        """What is half-done below the root."""
        names = ("*.tmp", ".*.part", ".*.restored", ".*.replaced", "*-journal")
        return [path for name in names for path in self.root.rglob(name)]


class Backup(Scene):
    def run(self):
        backup(self.space, self.copy, force=True)

    def require(self, old, new):
        found = self.in_backup()  # there is no moment without one
        assert found in (old, new)
        assert digest(self.space) == new
        return found

    def finish(self, old, new):
        self.run()
        assert self.in_backup() == digest(self.space) == new


class Restore(Scene):
    def run(self):
        restore(self.space, self.copy, force=True)

    def require(self, old, new):
        found = digest(self.space)
        assert found in (old, new)
        assert self.in_backup() == old
        return found

    def finish(self, old, new):
        self.run()
        assert digest(self.space) == self.in_backup() == old
        notes = self.space.data_dir / "projects" / "demo" / "notes.md"
        assert notes.read_text() == "notes of version 1\n"


class RestoreIntoNothing(Restore):
    def __init__(self, origin, root):
        super().__init__(origin, root)
        self.space = open_root(root / "empty")

    def require(self, old, new):
        if (self.space.index_dir("demo") / "catalog.sqlite").exists():
            assert digest(self.space) == old
        return old


SCENES = {s.__name__: s for s in (Backup, Restore, RestoreIntoNothing)}


def traced(scene, said, *expressions):
    """Run a task under strace; return its exit status and the trace."""
    out = said.with_name("trace")
    child = Child(scene.run, said, clean=(RagstreamError, OSError, sqlite3.Error))
    child.trace(*expressions, out=out)
    child.go()
    status = child.wait()
    assert status != CRASH, child.words()
    return status, out.read_text()


@functools.lru_cache
def counts(kind, origin, folder):
    """How many calls of each kind an untouched run makes; the digests before and after."""
    scene = kind(origin, folder / "counted")
    status, trace = traced(scene, folder / "said", f"trace={','.join(CALLS)}")
    assert status == DONE
    scene.finish(*states(origin))
    shutil.rmtree(scene.root)
    lines = trace.splitlines()
    found = {call: sum(f" {call}(" in line for line in lines) for call in CALLS}
    return {call: n for call, n in found.items() if n}


@functools.lru_cache
def states(origin):
    """Digests of what the backup holds and of what the root holds."""
    return open_view(open_root(origin).index_dir("demo"), generation=2).digest, open_view(
        open_root(origin).index_dir("demo"), generation=3
    ).digest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("counts")


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("name", sorted(SCENES))
def test_every_call_may_be_the_last(origin, tmp_path, folder, name, effect, record_property):
    kind, (old, new) = SCENES[name], states(origin)
    expected = counts(kind, origin, folder / name)
    assert expected.get("fsync", 0) + expected.get("fdatasync", 0) > 2
    points = hits = saw_old = 0
    turn = EFFECTS.index(effect) + sorted(SCENES).index(name)
    for call in expected:
        for n in spread(expected[call], SAMPLE, turn):
            scene = kind(origin, tmp_path / f"n{points}")
            inject = f"inject={call}:{effect}:when={n}"
            _, trace = traced(scene, tmp_path / "said", f"trace={call}", inject)
            hits += "(INJECTED)" in trace or "killed by SIGKILL" in trace
            saw_old += scene.require(old, new) == old
            scene.finish(old, new)
            assert scene.left() == [], (call, n)
            shutil.rmtree(scene.root)
            points += 1
    line = f"{points} runs, {hits} hit: {saw_old} left the backup's state, the others the root's"
    record_property("sweep", line)
    print(f"\n{name} {effect}: {line}; 0 unreadable, all completed by the next run")
    assert hits >= points - 3  # threads and clocks move a few calls


def test_two_folders_swap_names_and_a_swap_in_three_steps_is_undone(tmp_path, monkeypatch):
    def pair():
        for name in ("new", "old"):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "what").write_text(name)

    def there():
        return {p.parent.name: p.read_text() for p in tmp_path.glob("*/what")}

    pair()
    files.put_in_place(tmp_path / "new", tmp_path / "old")
    assert there() == {"old": "new"}
    monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    pair()
    files.exchange_dirs(tmp_path / "new", tmp_path / "old")
    assert there() == {"old": "new", "new": "old"}
    pair()
    files.put_in_place(tmp_path / "new", tmp_path / "old")
    assert there() == {"old": "new"} and os.listdir(tmp_path) == ["old"]


def test_a_backup_whose_replacement_was_killed_half_way_is_put_back(origin, tmp_path):
    """Where two names cannot be swapped in one step."""
    scene = Backup(origin, tmp_path / "n")
    beside = files.aside_of(scene.copy)
    scene.copy.rename(beside)
    with pytest.raises(RagstreamError):  # it is there, so it is not replaced unasked
        backup(scene.space, scene.copy)
    assert scene.copy.exists() and not beside.exists()
    assert scene.in_backup() == states(origin)[0]
    assert isinstance(scene.copy, Path)
