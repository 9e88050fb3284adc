"""The mirror: the folder equals the place, whatever happened before, and nothing is ever half."""

import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import OperationFailed, ProjectLocked, Refused
from ragstream_core.platform.locks import FolderLock
from ragstream_core.remote.mirror import MOST_BROKEN
from ragstream_core.remote.state import FILES, STATE
from tests.remote_servers import tree_of
from tests.unit.remote.memory_place import URL, Dies, Place, mirrored, rules

NAMES = st.sampled_from(["a", "b", "a/b", "a/c", "a/b/c", "d/e.md", "d", "f.md", "☃.md"])
CONTENT = st.binary(max_size=9)
PLACES = st.dictionaries(NAMES, CONTENT, min_size=1, max_size=6)


def sound(files):
    """Return the files that can stand side by side: no name is a folder of another one."""
    return {p: d for p, d in files.items() if not any(q.startswith(f"{p}/") for q in files)}


@settings(max_examples=150, deadline=None)
@given(places=st.lists(PLACES, min_size=1, max_size=4))
def test_the_folder_equals_the_place_each_time(places, tmp_path_factory):
    home = tmp_path_factory.mktemp("mirror")
    for files in places:
        report = mirrored(Place(files), home)
        assert tree_of(home / FILES) == sound(files)
        assert report.unchanged + len(report.fetched) == len(sound(files))
    shutil.rmtree(home)


@settings(max_examples=200, deadline=None)
@given(
    places=st.lists(PLACES, min_size=2, max_size=3),
    moments=st.lists(st.integers(1, 25), min_size=1, max_size=3),
)
def test_interrupted_anywhere_and_run_again_it_is_the_same(places, moments, tmp_path_factory):
    home = tmp_path_factory.mktemp("mirror")
    *before, last = places
    contents = {
        p: {d for files in places for q, d in files.items() if p == q} for f in places for p in f
    }
    for files in before:
        mirrored(Place(files), home)
    for moment in moments:
        try:
            mirrored(Place(last, dies_at=moment), home)
        except (Dies, OperationFailed):
            for path, data in tree_of(home / FILES).items() if (home / FILES).exists() else ():
                assert data in contents[path], "a file is one of its versions, never a part"
    mirrored(Place(last), home)
    assert tree_of(home / FILES) == sound(last)
    assert not (home / "parts").exists()
    again = mirrored(Place(last), home)
    assert again.fetched == again.removed == ()
    shutil.rmtree(home)


def test_what_came_before_an_interruption_is_not_fetched_again(tmp_path):
    files = {f"{n}.md": b"x" * 9 for n in range(10)}
    place = Place(files)
    place.parallel = 1
    place.dies_at = 10 + 3 * 6 + 2
    with pytest.raises(Dies):
        mirrored(place, tmp_path)
    here = tree_of(tmp_path / FILES)
    assert len(here) == 6
    place.dies_at, place.read = None, []
    report = mirrored(place, tmp_path)
    assert report.unchanged == 6 and len(report.fetched) == len(place.read) == 4


def test_nothing_old_goes_before_all_that_is_new_is_here(tmp_path):
    mirrored(Place({"old.md": b"old"}), tmp_path)
    with pytest.raises(Dies):
        mirrored(Place({"new.md": b"new", "other.md": b"other"}, dies_at=5), tmp_path)
    assert (tmp_path / FILES / "old.md").read_bytes() == b"old"


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_listing_that_ends_in_the_middle_changes_nothing(cut, tmp_path):
    files = {f"{n}.md": b"first" for n in range(4)}
    mirrored(Place(files), tmp_path)
    before = (tmp_path / STATE).read_bytes()
    place = Place({path: b"second" for path in files})
    place.cut = cut
    with pytest.raises(OperationFailed, match="broke off"):
        mirrored(place, tmp_path)
    assert tree_of(tmp_path / FILES) == files and (tmp_path / STATE).read_bytes() == before


def test_a_place_that_lists_nothing_empties_nothing_unless_it_may(tmp_path):
    mirrored(Place({"a.md": b"a"}), tmp_path)
    with pytest.raises(Refused, match="lists nothing") as raised:
        mirrored(Place({}), tmp_path)
    assert "--yes" in raised.value.hint and (tmp_path / FILES / "a.md").exists()
    assert mirrored(Place({}), tmp_path, empty_ok=True).removed == ("a.md",)
    assert tree_of(tmp_path / FILES) == {}


def test_a_file_that_changes_keeps_its_old_version_until_it_can_be_had(tmp_path):
    mirrored(Place({"a.md": b"old", "b.md": b"b"}), tmp_path)
    place = Place({"a.md": b"new", "b.md": b"b"})
    place.changed = {"a.md"}
    report = mirrored(place, tmp_path)
    assert report.failed == (("a.md", "it changed since it was listed"),)
    assert tree_of(tmp_path / FILES)["a.md"] == b"old"
    place.changed = set()
    assert mirrored(place, tmp_path).fetched == ("a.md",)
    assert tree_of(tmp_path / FILES)["a.md"] == b"new"


def test_a_place_that_dies_ends_it_and_the_next_run_goes_on(tmp_path):
    files = {f"{n}.md": b"x" for n in range(9)}
    place = Place(files)
    place.parallel, place.broken = 1, {f"{n}.md" for n in range(3, 9)}
    with pytest.raises(OperationFailed, match="broke off") as raised:
        mirrored(place, tmp_path)
    assert "3 files that came are kept" in raised.value.hint
    assert len(place.read) == 3 + 2 * MOST_BROKEN, "each is tried twice, and then no other one"
    place.broken = set()
    assert mirrored(place, tmp_path).unchanged == 3 and tree_of(tmp_path / FILES) == files


def test_one_file_that_cannot_be_had_does_not_end_it(tmp_path):
    place = Place({"a.md": b"a", "b.md": b"b", "c.md": b"c"})
    place.broken = {"b.md"}
    report = mirrored(place, tmp_path)
    assert report.failed == (("b.md", "the connection broke"),) and len(report.fetched) == 2


@pytest.mark.parametrize("longer", [True, False])
def test_bytes_that_do_not_fit_the_listing_are_not_taken(longer, tmp_path):
    place = Place({"a.md": b"12345"})
    read = place.blocks
    place.blocks = lambda file: iter([*read(file), b"6"]) if longer else iter([b"1234"])
    (told,) = mirrored(place, tmp_path).failed
    assert ("grew" if longer else "only 4 of 5") in told[1]
    assert not (tmp_path / FILES / "a.md").exists()


def test_limits_and_rules_are_said_by_name(tmp_path):
    place = Place({"a.md": b"a", "big.md": b"x" * 50, "c.mp4": b"c"})
    place.faults = {"link.md": "a symbolic link"}
    chosen = rules(lambda paths: {"c.mp4": "type not supported"}, max_file_bytes=9)
    report = mirrored(place, tmp_path, chosen=chosen)
    assert report.skipped == (
        ("big.md", "50 bytes, more than remote.max_file_mb"),
        ("c.mp4", "type not supported"),
    )
    with pytest.raises(Refused, match="more than 2 files"):
        mirrored(place, tmp_path, chosen=rules(max_files=2))
    with pytest.raises(Refused, match="GB of documents"):
        mirrored(place, tmp_path, chosen=rules(max_bytes=51))
    assert tree_of(tmp_path / FILES) == {"a.md": b"a"}


def test_a_rule_that_changed_takes_files_away_and_brings_them_back(tmp_path):
    place = Place({"a.md": b"a", "b.md": b"b"}, state="commit")
    mirrored(place, tmp_path)
    strict = rules(lambda paths: {"b.md": "excluded"})
    strict = type(strict)(strict.left_out, "others", 1000, 10_000, 100_000)
    assert mirrored(place, tmp_path, chosen=strict).removed == ("b.md",)
    assert mirrored(place, tmp_path).fetched == ("b.md",)


def test_a_place_with_a_state_of_its_own_is_not_listed_again(tmp_path):
    place = Place({"a.md": b"a"}, state="commit 1")
    mirrored(place, tmp_path)
    place.calls = 0
    assert mirrored(place, tmp_path).unchanged == 1 and place.calls == 0
    (tmp_path / FILES / "a.md").write_bytes(b"mine")
    assert mirrored(place, tmp_path).fetched == ("a.md",)


def test_the_time_of_a_file_is_that_of_the_place(tmp_path):
    mirrored(Place({"a.md": b"a"}), tmp_path)
    assert (tmp_path / FILES / "a.md").stat().st_mtime_ns == 1_700_000_000_000_000_000


def test_another_address_takes_the_place_of_the_first(tmp_path):
    mirrored(Place({"a.md": b"a", "b.md": b"b"}), tmp_path)
    report = mirrored(Place({"b.md": b"b"}), tmp_path, url="s3://other")
    assert report.fetched == ("b.md",) and tree_of(tmp_path / FILES) == {"b.md": b"b"}


def test_a_link_in_the_mirror_leads_nothing_out(tmp_path):
    outside, home = tmp_path / "outside", tmp_path / "home"
    outside.mkdir()
    (outside / "b.md").write_bytes(b"mine")
    mirrored(Place({"a/b.md": b"b", "c.md": b"c"}), home)
    shutil.rmtree(home / FILES / "a")
    os.symlink(outside, home / FILES / "a")
    (told,) = mirrored(Place({"a/b.md": b"new", "c.md": b"c"}), home).failed
    assert "not a folder of the mirror" in told[1]
    mirrored(Place({"c.md": b"c"}), home)
    assert tree_of(outside) == {"b.md": b"mine"}


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b'{"format": 9}\n', b'["a.md", ["v", 1]]\n'])
def test_a_damaged_state_only_means_that_files_come_again(damage, tmp_path):
    place = Place({"a.md": b"a", "b.md": b"b"})
    mirrored(place, tmp_path)
    (tmp_path / STATE).write_bytes(damage)
    assert mirrored(place, tmp_path).fetched == ("a.md", "b.md")
    assert tree_of(tmp_path / FILES) == place.files


def test_a_torn_last_line_is_one_file_more_to_fetch(tmp_path):
    place = Place({"a.md": b"a", "b.md": b"b"})
    mirrored(place, tmp_path)
    whole = (tmp_path / STATE).read_bytes()
    for end in range(len(whole)):
        (tmp_path / STATE).write_bytes(whole[:end])
        mirrored(place, tmp_path)
        assert tree_of(tmp_path / FILES) == place.files


def test_two_mirrors_of_one_place_do_not_run_at_once(tmp_path):
    with FolderLock(tmp_path, "it").held(), pytest.raises(ProjectLocked, match=URL):
        mirrored(Place({"a.md": b"a"}), tmp_path)


def test_a_full_disk_is_said_and_what_is_there_stays(tmp_path, monkeypatch):
    mirrored(Place({"a.md": b"old"}), tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(OperationFailed, match="bytes to write"):
        mirrored(Place({"a.md": b"new"}), tmp_path)
    assert tree_of(tmp_path / FILES) == {"a.md": b"old"}


def test_progress_tells_how_many_files_came(tmp_path):
    told = []
    mirrored(Place({"a.md": b"a", "b.md": b"b"}), tmp_path, progress=lambda *row: told.append(row))
    assert told == [("fetching", 1, 2), ("fetching", 2, 2)]
