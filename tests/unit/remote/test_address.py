"""Addresses: every kind is known, and no password, query or odd character gets into one."""

import pytest

from ragstream_core.errors import UsageError
from ragstream_core.remote.address import is_remote, parse


@pytest.mark.parametrize(
    ("text", "kind", "host", "location", "name"),
    [
        ("s3://bucket", "s3", "bucket", "", "bucket"),
        ("s3://bucket/docs/v2/", "s3", "bucket", "docs/v2", "v2"),
        ("gs://bucket/a%20b", "gs", "bucket", "a b", "a-b"),
        ("az://box/docs", "az", "box", "docs", "docs"),
        ("sftp://me@host:2022/srv/docs", "sftp", "me@host:2022", "/srv/docs", "docs"),
        ("sftp://host/~/docs", "sftp", "host", "docs", "docs"),
        ("https://host/a/guide.md", "https", "host", "https://host/a/guide.md", "guide.md"),
        ("http://127.0.0.1:8/SHA256SUMS", "https", "127.0.0.1:8", "http://127.0.0.1:8/SHA256SUMS",
         "SHA256SUMS"),
        ("https://host/team/docs.git", "git", "host", "https://host/team/docs.git", "docs"),
        ("git+https://host/team/docs", "git", "host", "https://host/team/docs", "docs"),
        ("git@host:team/docs.git", "git", "git@host", "git@host:team/docs.git", "docs"),
        ("ssh://git@host/team/docs", "git", "git@host", "ssh://git@host/team/docs", "docs"),
    ],
)  # fmt: skip
def test_each_kind_is_known(text, kind, host, location, name):
    address = parse(text)
    assert (address.kind, address.host, address.location) == (kind, host, location)
    assert address.name == name and is_remote(text)
    assert parse(address.url) == address, "what is kept is read as the same"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("https://host.org/team/docs/SHA256SUMS", "docs"),
        ("https://host.org/a%20b/llms.txt", "a-b"),
        ("https://me@host.org:8443/llms.txt", "host.org"),
        ("https://host.org//SHA256SUMS", "host.org"),
        ("https://host.org/docs/guide.md", "guide.md"),
        ("s3://bucket/SHA256SUMS", "SHA256SUMS"),
        ("git@host:team/docs.git", "docs"),
    ],
)
def test_a_listing_is_called_after_its_folder_or_host(text, title):
    assert parse(text).title == title


def test_a_branch_stands_behind_the_repository(tmp_path):
    assert parse("https://host/docs.git#release/1.2").ref == "release/1.2"
    assert parse("git@host:docs.git#v1").ref == "v1"
    bare = tmp_path / "docs.git"
    bare.mkdir()
    found = parse(f"{bare}#main")
    assert (found.kind, found.location, found.ref) == ("git", f"file://{bare}", "main")
    assert parse(found.url) == found and is_remote(str(bare)) and not is_remote(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s3://key:secret@bucket/docs", "password"),
        ("https://me:secret@host/a.md", "password"),
        ("git+https://me:ghp_secret@host/docs", "password"),
        ("https://host/a.md?X-Amz-Signature=secret", "query"),
        ("s3://", "no bucket"),
        ("ftp://host/a", "not encrypted"),
        ("git://host/a", "not encrypted"),
        ("file:///etc/passwd", "not known"),
        ("ext::sh -c 'touch x'", "not an address"),
        ("git+ext://sh", "not known"),
        ("javascript:alert(1)", "not an address"),
        ("http://host/a.md", "plain http"),
        ("git+http://host/a", "plain http"),
        ("https://host/", "no file"),
        ("https://host/docs/", "no file"),
        ("https:///a.md", "no host"),
        ("sftp://-oProxyCommand=x/a", "no host"),
        ("ssh://-oProxyCommand=x/a", "no host"),
        ("git+file://host/a", "absolute"),
        ("https://host/docs.git#--upload-pack=x", "branch"),
        ("https://host/docs.git#a..b", "branch"),
        ("https://host/docs.git#a:b", "branch"),
        ("s3://bucket/a#main", "branch"),
        ("s3://bucket/a\nb", "not an address"),
        ("s3://bucket/\x1b[31m", "not an address"),
        ("", "not an address"),
        ("s3://bucket/" + "x" * 2000, "not an address"),
        ("https://[::1/a.md", "address"),
    ],
)  # fmt: skip
def test_other_addresses_are_refused_and_no_key_is_repeated(text, reason):
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert reason in raised.value.message and "secret" not in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize("text", ["docs", "/srv/docs", "./a", "C:\\docs", "~/notes", ""])
def test_a_folder_of_this_machine_is_no_address(text):
    assert not is_remote(text)
