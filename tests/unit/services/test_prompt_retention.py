"""Prompts expire; what is kept never does, nor what it was made from."""

import contextlib
import json
import os
import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import UnknownPrompt
from ragstream_core.platform.files import move_aside
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import prompt_retention
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import hashed_workspace, write_docs

NOW = 2_000_000_000.0
DAY = prompt_retention.DAY_S


class Shelf:
    """A prompt store written by hand: only names, times and what names what."""

    def __init__(self, root):
        self.root = root
        shutil.rmtree(root, ignore_errors=True)
        (root / "runs").mkdir(parents=True)

    def file(self, path, text, age):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (NOW - age, NOW - age))
        os.utime(path.parent, (NOW - age, NOW - age))

    def run(self, name, age, parent=""):
        if parent:
            self.file(self.root / "runs" / name / f"from-{parent}", "", age)
        self.file(self.root / "runs" / name / "a.json", "{}", age)

    def prompt(self, key, age, *, run="", blobs=(), kept=False, text="q"):
        receipts = {f"demo/{blob}": blob * 64 for blob in blobs}
        for blob in blobs:
            self.file(self.root / "blobs" / (blob * 64), "bytes", age)
        self.file(self.root / "inbox" / f"{key}.json", json.dumps({"text": text}), age)
        if kept:
            self.file(self.root / key / "kept", "now", age)
        record = {"run_id": run, "inputs": {"receipts": receipts, "text": text}}
        self.file(self.root / key / "record.json", json.dumps(record), age)

    def names(self, pattern):
        return {path.name for path in self.root.glob(pattern)}

    def prompts(self):
        return {path.parent.name for path in self.root.glob("*/record.json")}


def space_of(root, days=30, count=2000):
    explicit = {"retention.prompt_days": str(days), "retention.prompt_count": str(count)}
    return hashed_workspace(root, explicit)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("expiring")


shelves = st.lists(
    st.tuples(st.integers(2, 60), st.booleans(), st.sampled_from("abc"), st.integers(0, 2)),
    max_size=9,
)


def fill(root, rows):
    """Write prompts by age in days, kept or not, with shared blobs and so many parent runs."""
    shelf = Shelf(root)
    for i, (age, kept, blob, parents) in enumerate(rows):
        names = [f"r{i}-{n}" for n in range(parents + 1)]
        for n, name in enumerate(names):
            shelf.run(name, age * DAY + parents - n, parent=names[n - 1] if n else "")
        shelf.prompt(f"k{i}", age * DAY + i / 10, run=names[-1], blobs=[blob], kept=kept,
                     text=f"question {i % 3}")  # fmt: skip
    return shelf


@given(rows=shelves, days=st.integers(3, 50), count=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_laws(folder, rows, days, count):
    shelf = fill(folder / "prompts", rows)
    said = prompt_retention.gc(space_of(folder, days, count), now=NOW, dry_run=True)
    assert shelf.prompts() == {f"k{i}" for i in range(len(rows))}  # a dry run changes nothing
    done = prompt_retention.gc(space_of(folder, days, count), now=NOW)
    assert replace(said, dry_run=False) == done
    left = shelf.prompts()
    # kept ones stay; of the others exactly the newest that are young enough
    kept = {f"k{i}" for i, row in enumerate(rows) if row[1]}
    others = [(row[0] * DAY + i / 10, f"k{i}") for i, row in enumerate(rows) if not row[1]]
    assert left == kept | {key for age, key in sorted(others)[:count] if age <= days * DAY}
    assert set(done.prompts) == {f"k{i}" for i in range(len(rows))} - left
    # a prompt that stays has its bytes, its request and every run behind it
    for i, (_, _, blob, parents) in enumerate(rows):
        runs = {f"r{i}-{n}" for n in range(parents + 1)}
        stays = f"k{i}" in left
        assert runs & shelf.names("runs/*") == (runs if stays else set())
        if stays:
            assert blob * 64 in shelf.names("blobs/*") and f"k{i}.json" in shelf.names("inbox/*")
    assert not shelf.names(".*") and not shelf.names("*/.*")
    assert prompt_retention.gc(space_of(folder, days, count), now=NOW).bytes == 0


@given(rows=shelves, stop=st.integers(0, 25))
@settings(max_examples=40, deadline=None)
def test_stopped_anywhere_the_next_call_completes_it(folder, rows, stop):
    space = space_of(folder, 20, 3)
    fill(folder / "prompts", rows)
    prompt_retention.gc(space, now=NOW)
    wanted = {str(path) for path in (folder / "prompts").rglob("*")}
    shelf = fill(folder / "prompts", rows)
    calls = iter(range(stop))

    def limited(path, to):
        next(calls)  # StopIteration: the process is gone, before its next rename
        move_aside(path, to)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompt_retention, "move_aside", limited)
        with contextlib.suppress(StopIteration):
            prompt_retention.gc(space, now=NOW)
    before = shelf.prompts() | {p.parent.name for p in shelf.root.glob("*/record.expired")}
    assert {f"k{i}" for i, row in enumerate(rows) if row[1]} <= before
    prompt_retention.gc(space, now=NOW)
    assert {str(path) for path in (folder / "prompts").rglob("*")} == wanted


def test_runs_that_led_nowhere_count_as_prompts_and_young_ones_stay(tmp_path):
    shelf = Shelf(tmp_path / "prompts")
    for name, age, parent in (("one", 9, ""), ("two", 8, "one"), ("old", 20, ""), ("now", 0.5, "")):
        shelf.run(name, age * DAY, parent)
    shelf.prompt("k", 3 * DAY)
    assert prompt_retention.gc(space_of(tmp_path, count=2), now=NOW).runs == 1
    assert shelf.names("runs/*") == {"one", "two", "now"}
    assert prompt_retention.gc(space_of(tmp_path, count=1), now=NOW).runs == 2
    assert shelf.names("runs/*") == {"now"} and shelf.prompts() == {"k"}


def test_a_damaged_record_that_stays_holds_on_to_all_that_is_shared(tmp_path):
    shelf = Shelf(tmp_path / "prompts")
    shelf.run("r", 90 * DAY)
    shelf.prompt("old", 90 * DAY, run="r", blobs=["a"])
    shelf.prompt("new", 2 * DAY)
    shelf.file(shelf.root / "new" / "record.json", "{", 2 * DAY)
    assert prompt_retention.gc(space_of(tmp_path), now=NOW).prompts == ("old",)
    assert shelf.names("runs/*") == {"r"} and shelf.names("blobs/*") == {"a" * 64}


def test_what_was_torn_before_its_record_goes_after_a_day(tmp_path):
    shelf = Shelf(tmp_path / "prompts")
    torn, going_on = "1" * 64, "2" * 64
    shelf.file(shelf.root / torn / "super_prompt.md", "text", 2 * DAY)
    shelf.file(shelf.root / going_on / "super_prompt.md", "text", DAY / 2)
    shelf.file(shelf.root / "yours" / "notes.md", "no prompt", 99 * DAY)
    assert prompt_retention.gc(space_of(tmp_path), now=NOW).files == 1
    assert shelf.names("*") == {"runs", going_on, "yours"}


@pytest.fixture
def asked(tmp_path):
    write_docs(tmp_path)
    space = space_of(tmp_path)
    ingest_project(space, "demo")
    request = PromptRequest("What is in settings.yaml?", ("demo",))
    space.store.put_request(request)
    return space, save_prompt(space, run_prompt(space, pin_inputs(space, request))).prompt_key


def later(days):
    import time

    return time.time() + days * DAY


def test_a_kept_prompt_replays_after_a_year_and_another_does_not(asked):
    space, key = asked
    prompt_retention.keep(space, key)
    assert prompt_retention.gc(space, now=later(365)).files == 0
    assert replay_prompt(space, key).verdict == "identical"
    prompt_retention.unkeep(space, key)
    done = prompt_retention.gc(space, now=later(365))
    assert done.prompts == (key,) and done.files == 2  # the injected file, the request
    with pytest.raises(UnknownPrompt):
        replay_prompt(space, key)
    assert not [path for path in space.store.root.rglob("*") if path.is_file()]


def test_keeping_wins_over_an_expiry_that_is_under_way(asked, monkeypatch):
    space, key = asked
    real = prompt_retention.move_aside

    def keep_first(path, to):
        prompt_retention.keep(space, key)
        monkeypatch.setattr(prompt_retention, "move_aside", real)
        real(path, to)

    monkeypatch.setattr(prompt_retention, "move_aside", keep_first)
    assert prompt_retention.gc(space, now=later(99)).prompts == ()
    assert replay_prompt(space, key).verdict == "identical"


def test_keeping_what_expires_at_that_moment_is_refused(asked, monkeypatch):
    space, key = asked
    write = prompt_retention.replace_text

    def expire_first(path, text):
        prompt_retention.gc(space, now=later(99))
        write(path, text)

    monkeypatch.setattr(prompt_retention, "replace_text", expire_first)
    with pytest.raises(UnknownPrompt):
        prompt_retention.keep(space, key)
    assert not (space.store.root / key).exists()


def test_bytes_asked_for_again_are_new_again(asked):
    space, _ = asked
    digest = space.store.put_blob(b"again")
    os.utime(space.store.root / "blobs" / digest, (5, 5))
    space.store.put_blob(b"again")
    prompt_retention.gc(space)
    assert space.store.blob(digest) == b"again"
