"""What a depot of published indexes must do: a folder, and buckets on servers of three kinds."""

import contextlib
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragstream_core.errors import OperationFailed, UsageError
from ragstream_core.remote.depot import open_depot
from tests.contracts.test_remote_places import Bucket, Container, GoogleBucket
from tests.remote_servers import azure_server, google_server, s3_server

KINDS = ["folder", "file", "s3", *(pytest.param(k, marks=pytest.mark.slow) for k in ("az", "gs"))]


@pytest.fixture(scope="module", params=KINDS)
def place(request, tmp_path_factory):
    """A folder or a bucket that holds other things already."""
    folder = tmp_path_factory.mktemp("depot")
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if request.param == "s3":
            yield Bucket(stack.enter_context(s3_server()), patch).url
        elif request.param == "az":
            pytest.importorskip("adlfs")
            yield Container(stack.enter_context(azure_server(folder)), patch).url
        elif request.param == "gs":
            pytest.importorskip("gcsfs")
            yield GoogleBucket(stack.enter_context(google_server()), patch).url
        else:
            yield f"{'file://' if request.param == 'file' else ''}{folder}"


@pytest.fixture
def depot(place, request):
    return open_depot(f"{place}/{request.node.originalname}")


def test_what_is_written_is_read_and_listed_until_it_is_removed(depot):
    assert depot.read("blocks/ab/one", most=9) is None and depot.times("blocks") == {}
    depot.write("blocks/ab/one", b"first")
    depot.write("blocks/cd/two", b"second")
    depot.write("newest", b"x")
    assert depot.read("blocks/ab/one", most=100) == b"first"
    assert depot.read("blocks/ab/one", most=3) == b"fir"
    assert set(depot.times("blocks")) == {"blocks/ab/one", "blocks/cd/two"}
    depot.write("newest", b"another")
    assert depot.read("newest", most=100) == b"another"
    depot.remove(["blocks/ab/one", "blocks/ef/none"])
    assert set(depot.times("blocks")) == {"blocks/cd/two"}


def test_an_object_is_exchanged_only_if_it_is_what_it_was(depot):
    assert depot.exchange("newest", b"one", None)
    assert not depot.exchange("newest", b"two", None)
    assert not depot.exchange("newest", b"two", b"none of these")
    assert depot.exchange("newest", b"one", None), "another machine put the same there"
    assert depot.exchange("newest", b"one", b"none of these")
    assert depot.read("newest", most=9) == b"one"
    assert depot.exchange("newest", b"two", b"one")
    assert not depot.exchange("newest", b"three", b"one")
    depot.remove(["newest"])
    assert not depot.exchange("newest", b"four", b"two")
    assert depot.read("newest", most=9) is None
    assert depot.exchange("newest", b"five", None)


def test_objects_have_the_times_at_which_they_were_put(depot):
    depot.write("blocks/ab/one", b"first")
    first = depot.times("blocks")["blocks/ab/one"]
    assert abs(first - time.time()) < 60
    time.sleep(1.1)  # stores count seconds
    depot.write("blocks/ab/one", b"first")
    assert depot.times("blocks")["blocks/ab/one"] > first, "put again, it is young again"


def test_nothing_is_removed_once_an_object_is_not_what_it_was(depot):
    depot.write("newest", b"one")
    depot.write("blocks/ab/one", b"first")
    assert not depot.remove(["blocks/ab/one"], if_still=("newest", b"two"))
    assert not depot.remove(["blocks/ab/one"], if_still=("none", b"two"))
    assert depot.read("blocks/ab/one", most=9) == b"first"
    assert depot.remove(["blocks/ab/one"], if_still=("newest", b"one"))
    assert depot.times("blocks") == {}


def test_opening_a_folder_leaves_the_mask_of_new_files_as_it_is(tmp_path):
    """Threads that set the mask to read it would leave 0o077 behind, for the whole process."""
    before = os.umask(0o022)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: open_depot(str(tmp_path)), range(2_000)))
        open_depot(str(tmp_path)).write("one", b"x")
        assert os.umask(0o022) == 0o022
        assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o644
    finally:
        os.umask(before)


def test_of_machines_that_exchange_at_once_one_does(place, request):
    if place.startswith("gs:"):
        pytest.skip("the emulator of Google's store ignores conditions of a write")
    depots = [open_depot(f"{place}/{request.node.originalname}") for _ in range(4)]
    for turn in range(3):
        before = depots[0].read("newest", most=99)
        words = [b"turn %d of machine %d" % (turn, n) for n in range(len(depots))]
        with ThreadPoolExecutor(len(depots)) as pool:
            done = pool.map(lambda d, w, b=before: d.exchange("newest", w, b), depots, words)
            winners = [word for word, won in zip(words, done, strict=True) if won]
        assert winners == [depots[0].read("newest", most=99)]


def test_an_empty_object_is_no_missing_one(depot):
    depot.write("blocks/ab/none", b"")
    assert depot.read("blocks/ab/none", most=9) == b""


def test_a_bucket_that_is_not_there(monkeypatch):
    with s3_server() as url:
        Bucket(url, monkeypatch)
        with pytest.raises(UsageError, match="no such bucket"):
            open_depot("s3://nowhere-at-all/x").write("newest", b"x")


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "depot").write_text("a file")
    with pytest.raises(OperationFailed, match="depot: "):
        open_depot(str(tmp_path / "depot")).write("newest", b"x")
