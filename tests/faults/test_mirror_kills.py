"""kill -9 and failing disks in the middle of a mirror: run again, it is complete, never half."""

import shutil

import pytest

from ragstream_core.remote.state import FILES
from tests.faults.harness import DONE, EFFECTS, Child, Killer, hindered, need_strace
from tests.lengths import by_length
from tests.remote_servers import tree_of
from tests.unit.remote.memory_place import Place, mirrored

KILLS = by_length(5, 30, 200)
CALLS = ("write", "fsync", "rename", "unlink", "mkdir")
NTHS = by_length((1, 7), (1, 2, 5, 9, 14, 20), tuple(range(1, 60)))
OLD = {f"folder{n % 4}/{n}.md": f"old {n}".encode() * 9 for n in range(24)}
NEW = {
    **{path: data.replace(b"old", b"new") for path, data in list(OLD.items())[:12]},
    **{f"folder{n % 4}/more/{n}.md": b"more" * n for n in range(12)},
}


def require_whole_versions(home):
    """Each file is one version of it, from the first byte to the last."""
    for path, data in tree_of(home / FILES).items():
        assert data in (OLD.get(path), NEW.get(path)), path


def mirrored_old(tmp_path, n):
    home = tmp_path / f"home{n}"
    mirrored(Place(OLD), home)
    return home


@pytest.mark.sweep
def test_killed_at_random_moments(tmp_path):
    killer = Killer(96)
    for n in killer.times(KILLS):
        home = mirrored_old(tmp_path, n)
        for _ in range(2):
            killer.strike(Child(lambda home=home: mirrored(Place(NEW), home), tmp_path / "said"))
            require_whole_versions(home)
        last = Child(lambda home=home: mirrored(Place(NEW), home), tmp_path / "said")
        last.go()
        assert last.wait() == DONE, last.words()
        assert tree_of(home / FILES) == NEW
        assert {p.name for p in home.iterdir()} <= {FILES, "state.jsonl", ".lock", ".lock-holder"}
        shutil.rmtree(home)
    print(f"\n{killer.line()}")


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("call", CALLS)
def test_hindered_at_the_nth_call(call, effect, tmp_path):
    need_strace()
    for nth in NTHS:
        home = mirrored_old(tmp_path, nth)
        hindered(lambda home=home: mirrored(Place(NEW), home), call, effect, nth, tmp_path)
        require_whole_versions(home)
        mirrored(Place(NEW), home)
        assert tree_of(home / FILES) == NEW
        shutil.rmtree(home)
