"""gc, forget, backup and restore killed at random moments: run again, they complete."""

import shutil
from functools import partial

import pytest

from ragstream_core.index.check import Part
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.prompts.recorded import packed
from ragstream_core.services import generations, verify
from ragstream_core.services.backup import backup
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.restore import restore
from tests.copies import holders
from tests.faults.harness import Child, Killer, hindered, need_strace
from tests.lengths import by_length
from tests.workspaces import hashed_workspace

KILLS = by_length(4, 12, 100)
CANARY = "umbrella marzipan cathedral"


def open_root(root, keep=1):
    return hashed_workspace(root, {"ingestion.retain_generations": str(keep)})


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Five generations of eleven files, one of them to be forgotten."""
    root = tmp_path_factory.mktemp("care") / "data"
    docs = root / "doc_raw" / "demo"
    docs.mkdir(parents=True)
    space = open_root(root, keep=20)
    (docs / "secret.md").write_text(f"# Vault\n\nThe phrase of the vault is {CANARY}, says he.\n")
    for n in range(5):
        for i in range(10):
            (docs / f"{i}.md").write_text(f"# Part {i}\n\nversion {n if i < 4 else 0} of {i}\n")
        ingest_project(space, "demo")
    (docs / "secret.md").unlink()
    runs = root / "prompts" / "runs" / "r"
    runs.mkdir(parents=True)
    text = f"The phrase of the vault is {CANARY}, says he."
    (runs / "a.json.gz").write_bytes(packed({"chunks": [text]}))
    forget_views()
    return root


def kill_often(tmp_path, make, task, after):
    """Kill a task at random moments; each time run what must hold afterwards."""
    killer = Killer(31)
    for n in killer.times(KILLS):
        space = make(n)
        killer.strike(Child(lambda space=space: task(space), tmp_path / "said"))
        after(space)
        shutil.rmtree(space.data_dir)
    print(f"\n{killer.line()}, all completed by the next run")


def copies(template, tmp_path):
    def make(n):
        root = tmp_path / f"n{n}"
        shutil.copytree(template, root)
        return open_root(root)

    return make


def require_sound(space):
    forget_views()
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


def finish_forget(space):
    forget_views()
    still = verify.verify_project(space, "demo").findings
    if still or holders(space.data_dir, CANARY):
        forget(space, "demo", "secret.md")
    assert holders(space.data_dir, CANARY) == []
    require_sound(space)
    assert "secret.md" not in open_view(space.index_dir("demo"), generation=1).paths


def finish_gc(space):
    forget_views()
    digest = open_view(space.index_dir("demo")).digest
    require_sound(space)
    generations.gc(space, "demo")
    assert [row.n for row in generations.generations(space, "demo")] == [5]
    require_sound(space)
    assert open_view(space.index_dir("demo")).digest == digest
    assert generations.gc(space, "demo").texts == 0


TASKS = {
    "forget": (lambda space: forget(space, "demo", "secret.md"), finish_forget),
    "gc": (lambda space: generations.gc(space, "demo"), finish_gc),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(TASKS))
def test_killed_at_random_moments(template, tmp_path, name):
    task, finish = TASKS[name]
    kill_often(tmp_path, copies(template, tmp_path), task, finish)


@pytest.mark.sweep
@pytest.mark.parametrize("effect", ["signal=KILL", "error=EIO"])
@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_call_may_be_the_last(template, tmp_path, name, effect):
    """The same by strace, call by call; a sample of them in the short form."""
    need_strace()
    task, finish = TASKS[name]
    make, points, hits = copies(template, tmp_path), 0, 0
    for call in ("pwrite64", "fsync", "fdatasync", "unlink", "unlinkat", "rename"):
        n, hit = 1, True
        while hit:
            space = make(points)
            hit = hindered(partial(task, space), call, effect, n, tmp_path)
            finish(space)
            shutil.rmtree(space.data_dir)
            points, hits, n = points + 1, hits + hit, n + by_length(67, 23, 1)
    print(f"\n{name} {effect}: {points} runs, {hits} hit, all completed by the next run")
    assert hits > 4


@pytest.mark.sweep
def test_backup_and_restore(template, tmp_path):
    source = open_root(template)
    digest = open_view(source.index_dir("demo")).digest
    backup(source, tmp_path / "copy")

    def finish_backup(space):
        target = space.data_dir.with_suffix(".copy")
        if target.exists():
            restore(open_root(tmp_path / "tried"), target)  # what has its name is whole
            shutil.rmtree(tmp_path / "tried")
        backup(space, target, force=True)
        restore(open_root(tmp_path / "tried"), target)
        shutil.rmtree(tmp_path / "tried")

    def finish_restore(space):
        forget_views()
        if (space.index_dir("demo") / "catalog.sqlite").exists():
            require_sound(space)
        restore(space, tmp_path / "copy", force=True)
        require_sound(space)
        assert open_view(space.index_dir("demo")).digest == digest

    kill_often(
        tmp_path, copies(template, tmp_path),
        lambda s: backup(s, s.data_dir.with_suffix(".copy")), finish_backup,
    )  # fmt: skip
    kill_often(
        tmp_path, copies(template, tmp_path),
        lambda s: restore(s, tmp_path / "copy", force=True), finish_restore,
    )  # fmt: skip
