"""The life cycle of all stores made from an index, with one that does what it is told."""

import json

import pytest

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, ProjectLocked, StoreFailed
from ragstream_core.index.look import kept_generations
from ragstream_core.ingestion import scan
from ragstream_core.proposers import kept
from ragstream_core.proposers.derived_store import (
    FAILED,
    MEASURED,
    Outcome,
    StoreState,
    note_recall,
    noted_recall,
)
from ragstream_core.services import verify
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.workspace import open_workspace

CHECK = "ragstream index check demo"


class Obedient:
    """Is made of a generation as a file says, or raises what it is given."""

    name, report, check, what, healed = "obedient", "obedient", "obeying", "it", "the obedient one"

    def __init__(self, folder):
        self.home, self.raises, self.made, self.dropped = folder, [], [], []
        self.wanted, self.settings = True, "a"

    def why_unwanted(self, workspace, project, chunks):
        return "" if self.wanted and project != HISTORY else "not asked for"

    def is_asked(self, workspace):
        return self.wanted

    def folder(self, workspace, project):
        return self.home / project

    def conditions(self, workspace):
        return [self.settings]

    def is_current(self, workspace, project, newest):
        path = self.home / project / "made"
        return path.exists() and path.read_text() == newest.digest

    def make(self, workspace, project, how):
        self.made.append(how)
        if self.raises:
            raise self.raises.pop(0)
        newest = kept_generations(workspace.index_dir(project))[-1]
        (self.home / project).mkdir(parents=True, exist_ok=True)
        (self.home / project / "made").write_text(newest.digest)
        return Outcome(self, "rebuilt", is_repaired=True)

    def failure(self, project):
        return f"it was not made of {project}"

    def state(self, workspace, project, newest, failed):
        problem = failed.message if failed else ""
        return StoreState({}, problem, problem, figures={"f": 1})

    def drop(self, workspace, project):
        self.dropped.append(project)


@pytest.fixture
def store(tmp_path, monkeypatch):
    made = Obedient(tmp_path / "store")
    monkeypatch.setattr(kept, "STORES", (made,))
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young
    return made


@pytest.fixture
def space(tmp_path):
    (tmp_path / "doc_raw" / "demo").mkdir(parents=True)
    made = open_workspace(tmp_path, explicit={"embeddings.backend": "hashed"})
    write(made, "first")
    return made


def write(space, words):
    (space.data_dir / "doc_raw" / "demo" / "a.md").write_text(f"# A\n\nThe {words} words.\n")


def ingest(space):
    return ingest_project(space, "demo")


def brought_up(space, store, **how):
    (done,) = kept.bring_up_to_date(space, "demo", stores=[store], **how)
    return done


def test_it_is_due_once_a_generation(space, store):
    ingest(space)
    assert len(store.made) == 1 and ingestion.unchanged(space, "demo") is not None
    write(space, "other")
    ingest(space)
    assert len(store.made) == 2
    (store.home / "demo" / "made").unlink()
    assert ingestion.unchanged(space, "demo") is None
    assert not ingest(space).committed and len(store.made) == 3


@pytest.mark.parametrize("error", [StoreFailed("no room"), OSError(28, "no room")])
def test_what_failed_is_a_warning_noted_and_not_tried_again_before_anything_changed(
    space, store, error
):
    store.raises = [error]
    (warning,) = ingest(space).warnings
    assert "it was not made of demo: " in warning and "no room" in warning
    assert CHECK in warning.partition("\n  next: ")[2]
    for _ in range(2):
        idle = ingestion.unchanged(space, "demo")
        assert "no room" in idle.warnings[0]
        assert "not tried again for generation 1" in idle.warnings[0]
        assert "not tried again" in brought_up(space, store).problem
    assert len(store.made) == 1
    assert "no room" in ingestion.status(space, "demo").stores["obedient"].problem
    store.settings = "b"  # other conditions
    assert ingestion.unchanged(space, "demo") is None
    store.settings = "a"
    write(space, "other")  # another generation
    assert not ingest(space).warnings and len(store.made) == 2
    assert not (store.home / "demo" / FAILED).exists()
    assert not list(kept.failures(space, "demo", kept_generations(space.index_dir("demo"))[-1]))


@pytest.mark.parametrize("how", [{"again": True}, {"rebuild": True}])
def test_who_asks_for_it_has_it_tried_at_once(space, store, how):
    store.raises = [StoreFailed("no room")]
    ingest(space)
    assert brought_up(space, store, **how).made == "rebuilt"
    assert ingestion.unchanged(space, "demo").warnings == ()


def test_index_check_makes_it_good_and_says_what_it_could_not(space, store):
    ingest(space)
    assert verify.verify_project(space, "demo").healed == ["the obedient one"]
    store.raises = [StoreFailed("no room")]
    (finding,) = verify.verify_project(space, "demo").findings
    assert (finding.check, finding.message) == ("obeying", "it was not made of demo: no room")
    assert CHECK in finding.run


def test_another_process_that_makes_it_is_no_failed_attempt(space, store):
    store.raises = [ProjectLocked("it is being made by 7")]
    assert "being made by 7" in ingest(space).warnings[0]
    assert ingestion.unchanged(space, "demo") is None
    assert not ingest(space).warnings


def test_what_is_overtaken_is_made_again_and_left_for_later_after_some_tries(space, store):
    store.raises = [GenerationGone("overtaken")] * 2
    assert not ingest(space).warnings and len(store.made) == 3
    store.raises = [GenerationGone("overtaken")] * kept.TRIES
    done = brought_up(space, store, again=True)
    assert (done.made, done.problem, done.reason) == ("", "", "left for later: overtaken")
    assert not store.raises and not (store.home / "demo" / FAILED).exists()


def test_none_is_made_where_none_is_wanted_or_nothing_is_ingested(space, store):
    assert "has no generation yet" in brought_up(space, store).reason
    store.wanted = False
    ingest(space)
    done = brought_up(space, store)
    assert done.is_off and done.reason == "not asked for" and not store.made
    assert kept.asked_stores(space) == []
    assert ingestion.unchanged(space, "demo") is not None


@pytest.mark.parametrize("torn", ["", "torn {", "[]", '{"key": 1}'])
def test_a_torn_note_is_none(space, store, torn):
    store.raises = [StoreFailed("no room")]
    ingest(space)
    (store.home / "demo" / FAILED).write_text(torn)
    assert ingestion.unchanged(space, "demo") is None
    assert brought_up(space, store).made == "rebuilt"


def test_a_recall_holds_for_what_it_was_measured_for(tmp_path):
    stamp = {"digest": "d", "depth": 5}
    assert noted_recall(tmp_path, stamp) is None
    note_recall(tmp_path, stamp, 0.98765)
    assert noted_recall(tmp_path, stamp) == 0.9877
    assert noted_recall(tmp_path, {**stamp, "depth": 6}) is None
    for torn in ("", "[]", json.dumps({**stamp, "recall": "x"})):
        (tmp_path / MEASURED).write_text(torn)
        assert noted_recall(tmp_path, stamp) is None
    note_recall(tmp_path / "missing" / "folder", stamp, 1.0)  # a disk that cannot take it


def test_what_lies_elsewhere_is_dropped_by_all(space, store):
    kept.drop(space, "demo")
    assert store.dropped == ["demo"]
