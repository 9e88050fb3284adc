"""What a mirror needs of every kind of place, over real servers on loopback."""

import contextlib
import os
import stat
from types import SimpleNamespace

import pytest

from ragstream_core.errors import RagstreamError, Refused
from ragstream_core.remote.address import parse
from ragstream_core.remote.mirror import MirrorRules, mirror, opened
from ragstream_core.remote.state import FILES
from tests.remote_servers import (
    PASSWORD,
    USER,
    Repository,
    SftpServer,
    WebServer,
    azure_server,
    google_server,
    s3_server,
    tree_of,
    write_tree,
)

BUCKETS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("az", "gs")]
FIRST = {
    "guide.md": b"# Guide\r\n\r\nOne writer holds the lock.\n",
    "notes/deep/limits.txt": b"6000 tokens\n",
    "notes/naïve ☃ #1%20.md": b"A name with everything.\n",
    "empty.md": b"",
    "large.txt": bytes(range(256)) * 5000,
}
SECOND = {
    **FIRST,
    "guide.md": b"# Guide\r\n\r\nTwo writers wait.\n",
    "new.md": b"New.\n",
}
del SECOND["notes/deep/limits.txt"]


class Bucket:
    """Files below a prefix of a bucket."""

    def __init__(self, endpoint, monkeypatch):
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        import boto3

        self.client = boto3.client("s3", endpoint_url=endpoint)
        self.name = f"bucket-{os.urandom(4).hex()}"
        where = {"LocationConstraint": "eu-west-1"}
        self.client.create_bucket(Bucket=self.name, CreateBucketConfiguration=where)
        self.client.put_object(Bucket=self.name, Key="elsewhere.md", Body=b"no")
        self.client.put_object(Bucket=self.name, Key="docs/", Body=b"")
        self.url = f"s3://{self.name}/docs"

    def put(self, files):
        listed = self.client.list_objects_v2(Bucket=self.name, Prefix="docs/")
        for row in listed.get("Contents", ()):
            if row["Key"].removeprefix("docs/") not in {*files, ""}:
                self.client.delete_object(Bucket=self.name, Key=row["Key"])
        for path, data in files.items():
            self.client.put_object(Bucket=self.name, Key=f"docs/{path}", Body=data)


class Container:
    """Files below a prefix of a container of Azure."""

    def __init__(self, connection, monkeypatch):
        from azure.storage.blob import BlobServiceClient

        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
        service = BlobServiceClient.from_connection_string(connection)
        self.name = f"container-{os.urandom(4).hex()}"
        self.container = service.create_container(self.name)
        self.container.upload_blob("elsewhere.md", b"no")
        self.held = {}
        self.url = f"az://{self.name}/docs"

    def put(self, files):
        for blob in list(self.container.list_blob_names(name_starts_with="docs/")):
            if blob.removeprefix("docs/") not in files:
                self.container.delete_blob(blob)
        for path, data in files.items():
            if self.held.get(path) != data:  # each write makes another etag
                self.container.upload_blob(f"docs/{path}", data, overwrite=True)
        self.held = dict(files)


class GoogleBucket:
    """Files below a prefix of a bucket of Google."""

    def __init__(self, endpoint, monkeypatch):
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage

        monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
        client = storage.Client(project="tests", credentials=AnonymousCredentials())
        self.name = f"bucket-{os.urandom(4).hex()}"
        self.bucket = client.create_bucket(self.name)
        self.bucket.blob("elsewhere.md").upload_from_string(b"no")
        self.url = f"gs://{self.name}/docs"

    def put(self, files):
        for blob in list(self.bucket.list_blobs(prefix="docs/")):
            if blob.name.removeprefix("docs/") not in files:
                blob.delete()
        for path, data in files.items():
            self.bucket.blob(f"docs/{path}").upload_from_string(data)


class SshFolder:
    """A folder behind an SSH server, whose key and password the user's home knows."""

    def __init__(self, folder, monkeypatch):
        self.server = SftpServer(folder / "served")
        self.server.root.mkdir()
        home = folder / "home"
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "known_hosts").write_text(self.server.known_hosts())
        netrc = home / ".netrc"
        netrc.write_text(f'machine 127.0.0.1 login {USER} password "{PASSWORD}"\n')
        netrc.chmod(0o600)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        self.url = f"{self.server.url}/"

    def put(self, files):
        write_tree(self.server.root, files)


class Listed:
    """Files of a web server with a listing."""

    def __init__(self, listing):
        self.listing, self.server = listing, WebServer()
        self.url = f"{self.server.url}/docs/{listing}"

    def put(self, files):
        self.server.put(files, listing=self.listing)


class Committed:
    """Files of a bare repository."""

    def __init__(self, folder):
        self.repository = Repository(folder)
        self.url = str(self.repository.bare)

    def put(self, files):
        self.repository.git("rm", "-rq", "--ignore-unmatch", ".")
        for name, data in files.items():
            path = self.repository.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.repository.commit()


@pytest.fixture(scope="module", params=[*("s3", "sftp", "SHA256SUMS", "llms.txt", "git"), *BUCKETS])
def kind(request, tmp_path_factory):
    """A place of each kind."""
    folder = tmp_path_factory.mktemp("place")
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if request.param == "s3":
            yield Bucket(stack.enter_context(s3_server()), patch)
        elif request.param == "az":
            pytest.importorskip("adlfs")
            yield Container(stack.enter_context(azure_server(folder)), patch)
        elif request.param == "gs":
            pytest.importorskip("gcsfs")
            pytest.importorskip("gcp_storage_emulator")
            yield GoogleBucket(stack.enter_context(google_server()), patch)
        elif request.param == "sftp":
            made = SshFolder(folder, patch)
            stack.callback(made.server.close)
            yield made
        elif request.param == "git":
            yield Committed(folder)
        else:
            made = Listed(request.param)
            stack.callback(made.server.server_close)
            yield made


@pytest.fixture
def place(kind):
    """A place with the first files."""
    kind.put(FIRST)
    return kind


def rules(**more):
    limits = {"max_files": 100, "max_file_bytes": 10_000_000, "max_bytes": 100_000_000, **more}
    return MirrorRules(lambda paths: {}, "all", **limits)


def mirrored(place, home, **more):
    address = parse(place.url)
    limits = {k: more.pop(k) for k in list(more) if k.startswith("max")}
    with opened(address, home / "work", max_bytes=1 << 30) as source:
        return mirror(source, home, url=address.url, rules=rules(**limits), **more)


def documents(place, home):
    """Return the mirrored files but for a listing that is a document itself."""
    found = tree_of(home / FILES)
    if getattr(place, "listing", "") == "llms.txt":
        assert found.pop("llms.txt").startswith(b"# Docs")
    return found


def test_the_folder_becomes_what_the_place_has_and_follows_it(place, tmp_path):
    home = tmp_path / "mirror"
    first = mirrored(place, home)
    assert documents(place, home) == FIRST and not first.failed and not first.removed
    assert first.bytes >= sum(map(len, FIRST.values()))

    place.put(SECOND)
    second = mirrored(place, home)
    assert documents(place, home) == SECOND
    assert {"guide.md", "new.md"} <= {*second.fetched} <= {"guide.md", "new.md", "llms.txt"}
    assert second.removed == ("notes/deep/limits.txt",)
    assert not (home / FILES / "notes" / "deep").exists()


def test_what_has_not_changed_is_not_fetched(place, tmp_path):
    home = tmp_path / "mirror"
    mirrored(place, home)
    before = {p: p.lstat().st_ino for p in (home / FILES).rglob("*")}
    again = mirrored(place, home)
    assert (again.fetched, again.removed, again.failed, again.bytes) == ((), (), (), 0)
    assert again.unchanged >= len(FIRST)
    assert {p: p.lstat().st_ino for p in (home / FILES).rglob("*")} == before


def test_a_file_that_was_changed_or_removed_here_comes_again(place, tmp_path):
    home = tmp_path / "mirror"
    mirrored(place, home)
    (home / FILES / "guide.md").write_text("mine")
    (home / FILES / "empty.md").unlink()
    again = mirrored(place, home)
    assert again.fetched == ("empty.md", "guide.md") and documents(place, home) == FIRST


def test_a_dry_run_changes_nothing(place, tmp_path):
    home = tmp_path / "mirror"
    told = mirrored(place, home, dry_run=True)
    assert {*FIRST} <= {*told.fetched} and told.dry_run
    assert not (home / FILES).exists() and not (home / "work").exists()


def test_limits_are_kept_before_anything_is_fetched(place, tmp_path):
    home = tmp_path / "mirror"
    with pytest.raises(Refused, match=r"more than 3 files"):
        mirrored(place, home, max_files=3)
    sizes_are_listed = getattr(place, "listing", "") != "SHA256SUMS"
    if sizes_are_listed:
        with pytest.raises(Refused, match="GB of documents"):
            mirrored(place, home, max_bytes=1000)
    assert not (home / FILES).exists()
    report = mirrored(place, home, max_file_bytes=100_000)
    (told,) = report.skipped or report.failed
    assert told[0] == "large.txt" and not (home / FILES / "large.txt").exists()


def test_files_are_for_their_owner_and_nothing_else_is_left(place, tmp_path):
    home = tmp_path / "mirror"
    mirrored(place, home)
    assert {p.name for p in home.iterdir()} == {FILES, "state.jsonl", ".lock", ".lock-holder"}
    for path in home.rglob("*"):
        if path.name != ".lock-holder":
            assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path


def test_a_place_that_is_not_there_is_one_clear_error_and_nothing_goes(place, tmp_path):
    home = tmp_path / "mirror"
    mirrored(place, home)
    before = documents(place, home)
    for url in wrong(place):
        with pytest.raises(RagstreamError) as raised:
            mirrored(SimpleNamespace(url=url), home)
        assert "\n" not in raised.value.message and raised.value.hint, url
        assert documents(place, home) == before


def wrong(place):
    """Return addresses of the same kind at which there is nothing."""
    if isinstance(place, Bucket):
        return [f"s3://no-such-{place.name}/docs", f"s3://{place.name}/nothing"]
    if isinstance(place, Container):
        return [f"az://no-such-{place.name}/docs", f"az://{place.name}/nothing"]
    if isinstance(place, GoogleBucket):
        return [f"gs://no-such-{place.name}/docs", f"gs://{place.name}/nothing"]
    if isinstance(place, SshFolder):
        return [f"{place.server.url}/no/such/folder"]
    if isinstance(place, Committed):
        return [f"git+file://{place.url}x", f"{place.url}#no-such-branch"]
    return [f"{place.server.url}/nowhere/{place.listing}"]
