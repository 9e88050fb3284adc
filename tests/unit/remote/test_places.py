"""What single kinds of places do beyond the contract: keys, redirects, hostile answers, faults."""

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler

import paramiko
import pytest

from ragstream_core.errors import (
    ExtraMissing,
    OperationFailed,
    RagstreamError,
    Refused,
    UsageError,
)
from ragstream_core.remote.address import parse
from ragstream_core.remote.mirror import MirrorRules, mirror, opened
from ragstream_core.remote.state import FILES
from tests.processes import LoopbackServer
from tests.remote_servers import PASSWORD, USER, Repository, SftpServer, WebServer, tree_of


def mirrored(url, home, **more):
    address = parse(str(url))
    rules = MirrorRules(lambda paths: {}, "all", 1000, 10_000_000, 100_000_000)
    with opened(address, home / "work", max_bytes=1 << 30) as source:
        return mirror(source, home, url=address.url, rules=rules, **more)


@pytest.fixture
def web():
    with WebServer() as server:
        yield server


def test_one_file_of_a_web_server(web, tmp_path):
    web.files, web.times = {"/a/guide one.md": b"# Guide\n"}, {"/a/guide one.md": 1_700_000_000}
    url = f"{web.url}/a/guide%20one.md"
    assert mirrored(url, tmp_path).fetched == ("guide one.md",)
    assert (tmp_path / FILES / "guide one.md").stat().st_mtime == 1_700_000_000
    before = [method for method, _ in web.seen]
    assert mirrored(url, tmp_path).unchanged == 1
    assert [method for method, _ in web.seen[len(before) :]] == ["HEAD"]


def test_a_redirect_on_the_host_is_followed_and_to_another_one_is_not(web, tmp_path):
    other = WebServer({"/a.md": b"other"})
    web.files = {"/b.md": b"here"}
    web.redirect = {
        "/a.md": "/b.md",
        "/out.md": f"{other.url}/a.md",
        "/file.md": "file:///etc/passwd",
    }
    assert mirrored(f"{web.url}/a.md", tmp_path / "one").fetched == ("a.md",)
    for name in ("out.md", "file.md"):
        with pytest.raises(Refused, match="redirects to"):
            mirrored(f"{web.url}/{name}", tmp_path / name)
    assert other.seen == []
    web.redirect = {"/a.md": "/a.md"}
    with pytest.raises(Refused, match="redirects"):
        mirrored(f"{web.url}/a.md", tmp_path / "loop")
    other.server_close()


def test_links_out_of_the_folder_of_a_listing_are_named_and_not_asked_for(web, tmp_path):
    text = (
        "# Docs\n- [a](a.md) [twice](a.md)\n- [up](../secret.md)\n- [root](/etc.md)\n"
        "- [other](https://example.invalid/x.md)\n- [query](b.md?token=1)\n- [gone](gone.md)\n"
        "- [dots](sub/../../up.md)\n- [me](llms.txt) [folder](sub/)\n- [mail](mailto:a@b.c)\n"
    )
    web.files = {"/docs/llms.txt": text.encode(), "/docs/a.md": b"a", "/secret.md": b"no"}
    report = mirrored(f"{web.url}/docs/llms.txt", tmp_path)
    assert report.fetched == ("a.md", "llms.txt")
    assert {path for path, _ in report.skipped} == {
        "../secret.md", "/etc.md", "https://example.invalid/x.md", "b.md?token=1", "gone.md",
        "sub/../../up.md", "mailto:a@b.c",
    }  # fmt: skip
    assert {path for _, path in web.seen} == {"/docs/llms.txt", "/docs/a.md", "/docs/gone.md"}


def test_names_in_a_list_of_digests_that_lead_out_are_refused(web, tmp_path):
    url = web.put({"a.md": b"a"})
    web.files["/docs/SHA256SUMS"] += f"{'0' * 64}  ../b.md\n{'0' * 64}  /etc/passwd\n".encode()
    report = mirrored(url, tmp_path)
    assert report.fetched == ("a.md",)
    assert dict(report.skipped) == {
        "../b.md": "leads out of the folder",
        "/etc/passwd": "an absolute path",
    }


def test_bytes_without_the_listed_digest_are_not_taken(web, tmp_path):
    url = web.put({"a.md": b"a", "b.md": b"b"})
    web.files["/docs/a.md"] = b"x"
    report = mirrored(url, tmp_path)
    assert report.failed == (("a.md", "it does not have the digest that SHA256SUMS says"),)
    assert tree_of(tmp_path / FILES) == {"b.md": b"b"}


@pytest.mark.parametrize("listing", ["SHA256SUMS", "llms.txt"])
def test_a_listing_that_breaks_off_changes_nothing(listing, web, tmp_path):
    url = web.put({"a.md": b"a", "b.md": b"b"}, listing=listing)
    mirrored(url, tmp_path)
    before = tree_of(tmp_path / FILES)
    for length in (0, 5, len(web.files[f"/docs/{listing}"]) - 3):
        web.cut = {f"/docs/{listing}": length}
        with pytest.raises(OperationFailed):
            mirrored(url, tmp_path)
        assert tree_of(tmp_path / FILES) == before


@pytest.mark.parametrize("text", [b"not a listing\n", b"abc  a.md\n", b"<html></html>\n"])
def test_a_list_of_digests_that_is_none_is_refused(text, web, tmp_path):
    web.files = {"/SHA256SUMS": text}
    with pytest.raises(OperationFailed, match="line 1"):
        mirrored(f"{web.url}/SHA256SUMS", tmp_path)


def test_a_transfer_that_breaks_and_an_etag_that_changes_leave_the_old_file(web, tmp_path):
    web.files = {
        "/docs/llms.txt": b"[a](a.md) [b](b.md)\n",
        "/docs/a.md": b"old",
        "/docs/b.md": b"b",
    }
    url = f"{web.url}/docs/llms.txt"
    mirrored(url, tmp_path)
    web.files["/docs/a.md"] = b"new and longer"
    web.cut = {"/docs/a.md": 4}
    assert mirrored(url, tmp_path).failed[0][0] == "a.md"
    web.cut, web.changing = {}, {"/docs/a.md"}
    assert mirrored(url, tmp_path).failed == (("a.md", "it changed since it was listed"),)
    assert tree_of(tmp_path / FILES)["a.md"] == b"old"
    web.changing = set()
    assert mirrored(url, tmp_path).fetched == ("a.md",)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, Refused), (403, Refused), (404, UsageError), (500, OperationFailed),
     (418, OperationFailed)],
)  # fmt: skip
def test_each_refusal_of_a_web_server_is_one_line(status, error, web, tmp_path):
    web.files, web.status = {"/a.md": b"a"}, {"/a.md": status}
    with pytest.raises(error) as raised:
        mirrored(f"{web.url}/a.md", tmp_path)
    assert "\n" not in raised.value.message and "/a.md" in raised.value.message


def test_a_login_of_netrc_goes_to_its_host_and_is_never_shown(web, tmp_path, monkeypatch):
    web.files, web.login = {"/a.md": b"a"}, "Basic bWU6aHVudGVyMg=="
    monkeypatch.setenv("HOME", str(tmp_path))
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    netrc.chmod(0o600)
    assert mirrored(f"{web.url}/a.md", tmp_path / "home").fetched == ("a.md",)
    assert "hunter2" not in (tmp_path / "home" / "state.jsonl").read_text()
    netrc.unlink()
    with pytest.raises(Refused, match=r"401"):
        mirrored(f"{web.url}/a.md", tmp_path / "home")


def test_a_web_server_that_is_away_is_one_line(tmp_path):
    with pytest.raises(OperationFailed, match="does not answer"):
        mirrored("http://127.0.0.1:9/a.md", tmp_path)


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """An SSH server with two files, and a home that knows its key and password."""
    server = SftpServer(tmp_path / "served")
    (server.root / "sub").mkdir(parents=True)
    (server.root / "a.md").write_bytes(b"a" * 200_000)
    (server.root / "sub" / "b.md").write_bytes(b"b")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts())
    (home / ".netrc").write_text(f'machine 127.0.0.1 login {USER} password "{PASSWORD}"\n')
    (home / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    server.home = home
    yield server
    server.close()


def test_links_and_pipes_of_a_server_are_named(ssh, tmp_path):
    os.symlink("/etc/passwd", ssh.root / "link.md")
    os.symlink("..", ssh.root / "sub" / "loop")
    os.mkfifo(ssh.root / "pipe.md")
    report = mirrored(f"{ssh.url}/", tmp_path / "m")
    assert report.fetched == ("a.md", "sub/b.md")
    assert {path for path, _ in report.skipped} == {"link.md", "sub/loop", "pipe.md"}


def test_one_file_over_ssh(ssh, tmp_path):
    assert mirrored(f"{ssh.url}/sub/b.md", tmp_path / "m").fetched == ("b.md",)


def test_a_host_that_is_not_known_or_has_another_key_is_refused(ssh, tmp_path):
    known = ssh.home / ".ssh" / "known_hosts"
    known.write_text("")
    with pytest.raises(Refused, match="known_hosts") as raised:
        mirrored(f"{ssh.url}/", tmp_path / "m")
    assert "ssh -p" in raised.value.hint
    ssh_key = paramiko.ECDSAKey.generate()
    line = ssh.known_hosts().split(" ")
    known.write_text(f"{line[0]} {ssh_key.get_name()} {ssh_key.get_base64()}\n")
    with pytest.raises(Refused, match="another host key"):
        mirrored(f"{ssh.url}/", tmp_path / "m")


def test_without_the_right_password_nobody_gets_in_and_none_is_shown(ssh, tmp_path):
    ssh.password = "changed"
    with pytest.raises(Refused) as raised:
        mirrored(f"{ssh.url}/", tmp_path / "m")
    assert PASSWORD not in str(raised.value) and ".netrc" in raised.value.hint
    (ssh.home / ".netrc").unlink()
    with pytest.raises(Refused, match="key"):
        mirrored(f"{ssh.url}/", tmp_path / "m")


def test_a_folder_that_cannot_be_listed_ends_it_and_nothing_goes(ssh, tmp_path):
    mirrored(f"{ssh.url}/", tmp_path / "m")
    ssh.refused = {"/sub"}
    with pytest.raises(Refused, match="nothing was changed"):
        mirrored(f"{ssh.url}/", tmp_path / "m")
    assert (tmp_path / "m" / FILES / "sub" / "b.md").exists()


def test_a_file_that_cannot_be_read_is_named_and_the_others_come(ssh, tmp_path):
    ssh.refused = {"/sub/b.md"}
    report = mirrored(f"{ssh.url}/", tmp_path / "m")
    assert report.failed == (("sub/b.md", "the server does not allow to read it"),)
    assert report.fetched == ("a.md",)


def test_a_server_that_dies_leaves_whole_files_and_the_next_run_goes_on(ssh, tmp_path):
    for n in range(6):
        (ssh.root / f"{n}.md").write_bytes(bytes([n]) * 50_000)
    ssh.most_reads = 5
    with pytest.raises(OperationFailed, match="broke off"):
        mirrored(f"{ssh.url}/", tmp_path / "m")
    here = tree_of(tmp_path / "m" / FILES)
    assert 0 < len(here) < 8
    assert all(data == (ssh.root / path).read_bytes() for path, data in here.items())
    ssh.most_reads = None
    report = mirrored(f"{ssh.url}/", tmp_path / "m")
    assert report.unchanged == len(here) and tree_of(tmp_path / "m" / FILES) == tree_of(ssh.root)


def test_a_host_that_is_away_or_speaks_no_ssh_is_one_line(web, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(OperationFailed, match="does not answer"):
        mirrored("sftp://me@127.0.0.1:9/a", tmp_path / "m")
    with pytest.raises(OperationFailed):
        mirrored(f"sftp://me@127.0.0.1:{web.server_port}/a", tmp_path / "m")


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "git")
    (made.work / "a.md").write_bytes(b"# A\r\n")
    made.commit()
    return made


def test_nothing_of_a_repository_is_executed_or_checked_out(repository, tmp_path):
    proof, work = tmp_path / "proof", repository.work
    (work / ".gitattributes").write_text("*.md filter=evil text eol=crlf ident\n")
    (work / ".gitmodules").write_text('[submodule "s"]\npath = s\nurl = ext::touch% /tmp/x\n')
    (work / ".lfsconfig").write_text("[lfs]\nurl = http://127.0.0.1:9\n")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"
    (work / "big.pdf").write_bytes(pointer)
    os.symlink("/etc/passwd", work / "link.md")
    for hook in ("post-checkout", "reference-transaction", "post-update", "pre-receive"):
        path = repository.bare / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {proof}\n")
        path.chmod(0o755)
    repository.git("add", "--all", "--force")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    repository.git("commit", "--quiet", "-m", "evil")
    repository.git(
        "-c", "core.hooksPath=/dev/null", "push", "--quiet", "-f", str(repository.bare), "HEAD:main"
    )
    proof.unlink(missing_ok=True)
    report = mirrored(repository.bare, tmp_path / "m")
    committed = (tmp_path / "m" / FILES / "a.md").read_bytes()
    assert committed == b"# A\n", "a checkout would have written other line ends"
    assert dict(report.skipped) == {
        "big.pdf": "kept in Git LFS, which is not fetched",
        "link.md": "a symbolic link; only regular files are mirrored",
        "sub": "a submodule; only regular files are mirrored",
    }
    assert not proof.exists()
    assert not (tmp_path / "m" / "work").exists()


def test_the_settings_of_the_user_and_of_the_place_have_no_say(repository, tmp_path, monkeypatch):
    proof = tmp_path / "proof"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f"[core]\n\tsshCommand = touch {proof}\n\tfsmonitor = touch {proof}\n"
        f'[credential]\n\thelper = "!touch {proof}"\n'
        f'[url "ext::touch {proof}"]\n\tinsteadOf = file://\n[protocol "ext"]\n\tallow = always\n'
        f"[uploadpack]\n\tpackObjectsHook = touch {proof}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    for name, value in {"GIT_SSH_COMMAND": f"touch {proof}", "GIT_ASKPASS": f"touch {proof}",
                        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor",
                        "GIT_CONFIG_VALUE_0": f"touch {proof}"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert mirrored(repository.bare, tmp_path / "m").fetched == ("a.md",)
    assert not proof.exists()


def test_a_branch_and_a_tag_are_what_they_name(repository, tmp_path):
    repository.git("tag", "-a", "v1", "-m", "v1")
    (repository.work / "a.md").write_bytes(b"second")
    repository.commit()
    repository.git("push", "--quiet", str(repository.bare), "v1", "HEAD:refs/heads/next/one")
    mirrored(f"{repository.bare}#v1", tmp_path / "tag")
    mirrored(f"{repository.bare}#next/one", tmp_path / "branch")
    assert tree_of(tmp_path / "tag" / FILES)["a.md"] == b"# A\r\n"
    assert tree_of(tmp_path / "branch" / FILES)["a.md"] == b"second"


def test_an_unchanged_commit_is_not_fetched(repository, tmp_path, monkeypatch):
    mirrored(repository.bare, tmp_path / "m")
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda words, **kw: started.append(words) or popen(words, **kw)
    )
    assert mirrored(repository.bare, tmp_path / "m").unchanged == 1
    assert [words for words in started if "fetch" in words] == [] and len(started) == 1


def test_an_empty_repository_is_one_line(tmp_path):
    made = Repository(tmp_path / "git")
    with pytest.raises(UsageError, match="no commit in it"):
        mirrored(made.bare, tmp_path / "m")


def test_names_that_git_can_hold_and_a_folder_cannot_are_refused(repository, tmp_path):
    blob = repository.git("hash-object", "-w", "a.md")
    names = (b"ok.md", b"a\nb.md", b"c\\d.md", b"\xff.md", b"OK.md")
    rows = b"".join(b"100644 blob %s\t%s\0" % (blob.encode(), name) for name in names)
    tree = subprocess.run(["git", "mktree", "-z"], input=rows, cwd=repository.work, check=True,
                          capture_output=True, text=False).stdout.decode().strip()  # fmt: skip
    commit = repository.git("commit-tree", tree, "-m", "names")
    repository.git("push", "--quiet", "--force", str(repository.bare), f"{commit}:refs/heads/main")
    report = mirrored(repository.bare, tmp_path / "m")
    assert report.fetched == ("OK.md",) and len(report.skipped) == 4


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:9/x.git", "ssh://git@127.0.0.1:9/x", "git@127.0.0.1:x.git"]
)
def test_a_git_server_that_is_away_is_one_line_and_asks_nothing(url, tmp_path):
    with pytest.raises(RagstreamError) as raised:
        mirrored(url, tmp_path)
    assert "\n" not in raised.value.message and raised.value.hint


class Pages(LoopbackServer):
    """An S3 server whose listing has two pages, the second as a test wants it."""

    def __init__(self):
        super().__init__(_Page)
        self.second = "whole"


class _Page(BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.send_error(404)

    def do_GET(self):
        second, how = "continuation-token" in self.path, self.server.second
        if "list-type" not in self.path:
            return self._say(b"a")
        key = "b" if second else "a"
        more = (
            ""
            if second or how == "no token"
            else "<NextContinuationToken>t</NextContinuationToken>"
        )
        text = (
            '<?xml version="1.0"?><ListBucketResult><Name>bucket</Name>'
            f"<IsTruncated>{'false' if second else 'true'}</IsTruncated>{more}"
            f"<Contents><Key>docs/{key}.md</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f'<ETag>"{key}"</ETag><Size>1</Size></Contents></ListBucketResult>'
        ).encode()
        if second and how in ("denied", "failing"):
            return self.send_error(403 if how == "denied" else 500)
        return self._say(text, cut=60 if second and how == "cut" else None)

    def _say(self, data, cut=None):
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.send_header("etag", '"a"')
        self.end_headers()
        self.wfile.write(data[:cut])
        self.close_connection = True


@pytest.fixture
def pages(monkeypatch):
    server = Pages()
    for name, value in {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
                        "AWS_ACCESS_KEY_ID": "AKIAKEY", "AWS_SECRET_ACCESS_KEY": "hunter2",
                        "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
                        "AWS_DEFAULT_REGION": "eu-west-1"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield server
    server.server_close()


def test_a_bucket_whose_listing_does_not_end_changes_nothing(pages, tmp_path):
    mirrored("s3://bucket/docs", tmp_path)
    before = tree_of(tmp_path / FILES)
    assert set(before) == {"a.md", "b.md"}
    for pages.second in ("no token", "cut", "denied"):
        with pytest.raises(RagstreamError) as raised:
            mirrored("s3://bucket/docs", tmp_path)
        assert tree_of(tmp_path / FILES) == before, pages.second
        assert "hunter2" not in str(raised.value) and "AKIAKEY" not in str(raised.value)
    assert (tmp_path / FILES / "a.md").stat().st_mtime == 1767323045


def test_a_bucket_without_credentials_and_a_store_that_is_away_are_one_line(
    pages, tmp_path, monkeypatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(OperationFailed, match="does not answer"):
        mirrored("s3://bucket/docs", tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Refused, match="no credentials") as raised:
        mirrored("s3://bucket/docs", tmp_path)
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("s3://box/d", "s3fs", "s3"), ("gs://box/d", "gcsfs", "gcs"), ("az://box/d", "adlfs", "azure"),
     ("sftp://box/d", "paramiko", "sftp")],
)  # fmt: skip
def test_a_library_that_is_missing_is_named_with_its_extra(
    url, module, extra, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ExtraMissing) as raised:
        mirrored(url, tmp_path)
    assert raised.value.hint == f"pip install 'ragstream[{extra}]'"
