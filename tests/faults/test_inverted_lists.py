"""Making inverted lists is killed or hindered: the old file or the new one, never a part of one."""

import shutil

import pytest

from ragstream_core.errors import RagstreamError
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.ingestion import scan
from ragstream_core.platform import array_file
from ragstream_core.proposers import list_index, list_training
from ragstream_core.proposers.list_index import IvfIndex
from ragstream_core.proposers.list_paths import FOLDER, lists_path
from tests.faults.harness import Child, Killer, hindered, need_strace
from tests.lengths import by_length, spread

CALLS = ("write", "fsync", "rename", "unlink", "openat")
EFFECTS = ("signal=KILL", "error=ENOSPC", "error=EIO")
MOST = 40
"""More calls of one kind than making the lists of these few chunks takes."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young
    monkeypatch.setattr(list_training, "ROWS_A_LIST", 16)


@pytest.fixture(scope="module")
def template(make_bench):
    """Lists that are one generation behind their index, and what the next ones must be."""
    made = make_bench()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "RACY_NS", 0)
        patch.setattr(list_training, "ROWS_A_LIST", 16)
        for i in range(40):
            made.write(f"f{i}.md", f"# Heading {i}\n\nA sentence about subject number {i}.\n")
        made.run()
        IvfIndex(made.index).sync(open_view(made.index))
        old = {path.name: path.read_bytes() for path in (made.index / FOLDER).glob("lists-*")}
        made.write("f1.md", "# Another\n\nWholly different words.\n")
        (made.docs / "f2.md").unlink()
        made.run()
        done = IvfIndex(made.index).sync(open_view(made.index))
        assert (done.made, done.added, done.deleted) == ("updated", 1, 2)
        new = done.file.path.read_bytes()
        done.file.path.unlink()
        for name, data in old.items():
            (made.index / FOLDER / name).write_bytes(data)
    return made, new


@pytest.fixture
def behind(template, bench):
    made, new = template
    shutil.copytree(made.root, bench.root, dirs_exist_ok=True)
    forget_views()
    return bench, new


def require_old_or_new(bench, new):
    digest = open_view(bench.index).digest
    for path in (bench.index / FOLDER).glob("lists-*"):
        if array_file.has_stamp(path, {"digest": digest}):
            assert path.read_bytes() == new
        else:
            assert list_index.opened(path).rows == 40
    view = open_view(bench.index)
    file = IvfIndex(bench.index).lists(view)
    assert file is None or file.path == lists_path(bench.index, view.digest)


def require_healed(bench, new):
    view = open_view(bench.index)
    done = IvfIndex(bench.index).sync(view, verify=True)
    assert done.file.path.read_bytes() == new
    left = {path.name for path in (bench.index / FOLDER).iterdir()}
    assert left == {".lock", ".lock-holder", done.file.path.name}


def sync(bench):
    return lambda: IvfIndex(bench.index).sync(open_view(bench.index))


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("call", CALLS)
def test_every_call_may_be_the_last(template, make_bench, tmp_path, call, effect):
    need_strace()
    made, new = template
    turn = CALLS.index(call) + EFFECTS.index(effect)
    for n in spread(MOST, by_length(2, 8, MOST), turn):
        other = make_bench()
        shutil.copytree(made.root, other.root, dirs_exist_ok=True)
        forget_views()
        hindered(sync(other), call, effect, n, tmp_path)
        forget_views()
        require_old_or_new(other, new)
        require_healed(other, new)


@pytest.mark.sweep
def test_killed_at_any_moment(behind, make_bench):
    bench, new = behind
    killer = Killer(16, span_s=0.1)
    for _ in range(by_length(4, 20, 200)):
        killer.strike(Child(sync(bench)))
        require_old_or_new(bench, new)
    require_healed(bench, new)


@pytest.mark.parametrize("step", ["write_blocks", "rename_file", "sync_dir"])
def test_an_error_at_a_step_leaves_the_old_lists(behind, monkeypatch, step):
    bench, new = behind

    def refuse(*_):
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as full:
        full.setattr(list_index, step, refuse)
        with pytest.raises(RagstreamError, match="no space left"):
            sync(bench)()
    require_old_or_new(bench, new)
    require_healed(bench, new)
