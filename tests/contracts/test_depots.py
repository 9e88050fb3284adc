"""What every depot of published indexes must do: a folder, and a bucket on an S3 server."""

import pytest

from ragstream_core.errors import OperationFailed, UsageError
from ragstream_core.remote.depot import open_depot
from tests.remote_servers import s3_server

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def server():
    with s3_server() as url:
        yield url


@pytest.fixture(params=["folder", "file", "s3"])
def depot(request, tmp_path, monkeypatch):
    if request.param != "s3":
        scheme = "file://" if request.param == "file" else ""
        return open_depot(f"{scheme}{tmp_path / 'depot'}")
    import s3fs

    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("server"))
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(tmp_path.name.lower().replace("_", "-"))
    return open_depot(f"s3://{tmp_path.name.lower().replace('_', '-')}/team/demo")


def test_what_is_written_is_read_and_listed_until_it_is_removed(depot):
    assert depot.read("blocks/ab/one", most=9) is None and depot.names("blocks") == set()
    depot.write("blocks/ab/one", b"first")
    depot.write("blocks/cd/two", b"second")
    depot.write("newest", b"x")
    assert depot.read("blocks/ab/one", most=100) == b"first"
    assert depot.read("blocks/ab/one", most=3) == b"fir"
    assert depot.names("blocks") == {"blocks/ab/one", "blocks/cd/two"}
    depot.write("newest", b"another")
    assert depot.read("newest", most=100) == b"another"
    depot.remove(["blocks/ab/one", "blocks/ef/none"])
    assert depot.names("blocks") == {"blocks/cd/two"}


def test_an_empty_object_is_no_missing_one(depot):
    depot.write("blocks/ab/none", b"")
    assert depot.read("blocks/ab/none", most=9) == b""


def test_a_bucket_that_is_not_there(server, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    with pytest.raises(UsageError, match="no such bucket"):
        open_depot("s3://nowhere-at-all/x").write("newest", b"x")


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "depot").write_text("a file")
    with pytest.raises(OperationFailed, match="depot: "):
        open_depot(str(tmp_path / "depot")).write("newest", b"x")
