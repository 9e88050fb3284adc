"""kill -9 and failing disks while an index is published or pulled: the old state or the new one."""

import shutil

import pytest

from ragstream_core.index.check import verify_structure
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.services import publish_index
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.publish_index import PublishRequest, publish
from ragstream_core.services.pull_index import pull
from tests.faults.harness import DONE, EFFECTS, Child, Killer, hindered, need_strace
from tests.lengths import by_length
from tests.workspaces import docs_of, hashed_workspace, ingested_workspace

KILLS = by_length(4, 20, 100)
CALLS = ("write", "fsync", "rename", "unlink", "mkdir")
NTHS = by_length((1, 5), (1, 2, 4, 8, 14), tuple(range(1, 40)))
DOCS = {f"{n}.md": f"# Part {n}\n\n" + f"Sentence {n} of its own. " * 60 for n in range(40)}


@pytest.fixture
def writer(tmp_path):
    return ingested_workspace(tmp_path / "writer", docs=DOCS)


def digest_in(space):
    forget_views()
    return open_view(space.index_dir("demo")).digest


def commit(writer, n):
    (docs_of(writer) / "more.md").write_text(f"# More\n\nNumber {n} of many.\n")
    ingest_project(writer, "demo", collection=False)
    return digest_in(writer)


def pulled(place, root):
    """A new machine that pulls what is published; its digest."""
    root.mkdir()
    space = hashed_workspace(root)
    pull(space, place)
    assert verify_structure(space.index_dir("demo")) == []
    found = digest_in(space)
    shutil.rmtree(root)
    return found


@pytest.mark.sweep
def test_publishing_is_killed_at_random_moments(writer, tmp_path, monkeypatch):
    monkeypatch.setattr(publish_index, "GRACE_S", 0.0)  # what is not needed goes at once
    place, killer = str(tmp_path / "place"), Killer(161)
    publish(writer, "demo", place)
    states = [digest_in(writer)]

    def run():
        publish(writer, "demo", place, PublishRequest(keep=1))

    for n in killer.times(KILLS):
        states.append(commit(writer, n))
        killer.strike(Child(run, tmp_path / "said"))
        assert pulled(place, tmp_path / "reader") in states
        last = Child(run, tmp_path / "said")
        last.go()
        assert last.wait() == DONE, last.words()
        assert pulled(place, tmp_path / "reader") == states[-1]
        assert [p.name for p in writer.layout.indexes.iterdir()] == ["demo"]
    print(f"\n{killer.line()}")


@pytest.mark.sweep
def test_pulling_is_killed_at_random_moments(writer, tmp_path):
    place, killer = str(tmp_path / "place"), Killer(162)
    (tmp_path / "reader").mkdir()
    reader = hashed_workspace(tmp_path / "reader")
    publish(writer, "demo", place)
    pull(reader, place)
    for n in killer.times(KILLS):
        states = {digest_in(reader), commit(writer, n)}
        publish(writer, "demo", place)
        killer.strike(Child(lambda: pull(reader, place), tmp_path / "said"))
        assert digest_in(reader) in states and verify_structure(reader.index_dir("demo")) == []
        pull(reader, place)
        assert digest_in(reader) == digest_in(writer)
        assert [p.name for p in reader.layout.indexes.glob("[!.]*")] == ["demo"]
    print(f"\n{killer.line()}")


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("call", CALLS)
def test_pulling_is_hindered_at_the_nth_call(call, effect, writer, tmp_path):
    need_strace()
    place = str(tmp_path / "place")
    (tmp_path / "reader").mkdir()
    reader = hashed_workspace(tmp_path / "reader")
    publish(writer, "demo", place)
    pull(reader, place)
    for nth in NTHS:
        states = {digest_in(reader), commit(writer, nth)}
        publish(writer, "demo", place)
        hindered(lambda: pull(reader, place), call, effect, nth, tmp_path)
        assert digest_in(reader) in states
        pull(reader, place)
        assert digest_in(reader) == digest_in(writer)
