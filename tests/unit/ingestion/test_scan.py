import datetime as dt
import os
import socket

import pytest

from ragstream_core.errors import UnknownProject
from ragstream_core.ingestion.file_types import file_type
from ragstream_core.ingestion.folder_files import signature_of
from ragstream_core.ingestion.scan import Changes, Scan, ScanRules, compare, scan

S = (1, 2, 3, 4)
LATE = 10**19


def test_takes_every_supported_type_in_any_case(tmp_path):
    names = ["a.md", "b.TXT", "c.rst", "d.json", "e.yml", "f.YAML", "g.Md"]
    for name in names:
        (tmp_path / name).write_text("x")
    assert sorted(scan(tmp_path).files) == sorted(names)


def test_paths_are_posix_and_relative_and_nested(tmp_path):
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / "z.md").write_text("x")
    assert list(scan(tmp_path).files) == ["x/y/z.md"]


def test_signature_is_the_stat(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    st = path.stat()
    assert scan(tmp_path).files["a.md"] == (5, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)


@pytest.mark.parametrize("year", [1900, 1969, 2300, 2446])
def test_a_time_of_any_year_is_one_that_the_catalog_holds(bench, year):
    when = int(dt.datetime(year, 7, 1, tzinfo=dt.UTC).timestamp())
    path = bench.write("a.md", "Some words.", mtime=when)
    if int(path.stat().st_mtime) != when:
        pytest.skip("this file system keeps no such time")
    assert bench.run().documents == 1
    assert not bench.run().files["updated"]
    assert signature_of(path.stat()) == scan(bench.docs).files["a.md"]
    path.write_text("Other words.")
    os.utime(path, (when, when))
    assert bench.run().files["updated"] == 1


def test_refuses_what_is_no_regular_file_and_says_why(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "real.md").write_text("x")
    (root / "link.md").symlink_to(outside / "secret.md")
    (root / "dir").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "dangling.md").symlink_to(root / "nothing")
    os.mkfifo(root / "pipe.md")
    os.link(root / "real.md", root / "hard.md")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.fspath(root / "s.md"))
    found = scan(root)
    server.close()
    assert sorted(found.files) == ["hard.md", "real.md"]
    reasons = dict(found.refused)
    assert set(reasons) == {"link.md", "dir", "loop", "dangling.md", "pipe.md", "s.md"}
    assert "link" in reasons["loop"]
    assert "regular" in reasons["pipe.md"]


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".env.md", ".ENV.local.txt", ".envrc", ".envs/a.md", ".env-old.txt", "key.pem",
        "id_rsa", "id_rsa.txt", "ID_Ed25519.old.md", "id_ecdsa_sk.txt", ".git/config.md",
        ".env", ".env.production", ".git-credentials", ".bash_history", "prod.tfstate", "a.ppk",
    ],
)  # fmt: skip
def test_deny_list(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x")
    found = scan(tmp_path)
    assert not found.files
    assert "deny" in found.refused[0][1]


@pytest.mark.parametrize(
    "name",
    [
        "id_mapping.md", "id_cards/rules.md", "id_x.md", "ID_docs/id_list.txt", "identity.md",
        ".environment-notes.md", ".environments/a.md", "id_rsapolicy.md", "notes.env.md",
        ".env.example", ".env.sample",
    ],
)  # fmt: skip
def test_only_what_may_be_a_key_is_on_the_deny_list(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x")
    assert list(scan(tmp_path).files) == [name]


def test_the_deny_list_names_a_way_out(tmp_path):
    (tmp_path / "id_rsa.md").write_text("how to change the key")
    (tmp_path / ".git").mkdir()
    reasons = dict(scan(tmp_path).refused)
    assert reasons["id_rsa.md"].endswith("may hold secrets; give it another name if it holds none")
    assert reasons[".git/"].endswith("version control")


def test_unsupported_types_have_a_reason(tmp_path):
    for name in ("a.gif", "b.7z", "c.PST"):
        (tmp_path / name).write_text("x")
    found = scan(tmp_path)
    assert not found.files
    assert dict(found.refused) == {
        "a.gif": "type not supported: a picture; save it as .png, which the extra 'ocr' reads",
        "b.7z": "type not supported: an archive; unpack it",
        "c.PST": "type not supported: mail of Outlook; save or export it as .eml or .mbox",
    }


def test_globs_include_and_not_exclude(tmp_path):
    for name in ("a.md", "drafts/b.md", "drafts/keep/c.md", "d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = scan(tmp_path, ScanRules(("*.md",), ("drafts/",)))
    assert list(found.files) == ["a.md"]
    reasons = dict(found.refused)
    assert "exclude" in reasons["drafts/b.md"]
    assert "include" in reasons["d.txt"]


def test_undecodable_names_are_found_under_a_printable_one(tmp_path):
    with open(os.path.join(os.fsencode(tmp_path), b"a\xff.md"), "w") as handle:
        handle.write("x")
    assert list(scan(tmp_path).files) == ["a%FF.md"]


def test_the_folder_of_init_is_neither_read_nor_listed(tmp_path):
    for name in (".ragstream", ".git"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("x")
    found = scan(tmp_path)
    assert not found.files and [path for path, _ in found.refused] == [".git/"]


def test_a_project_without_a_folder_is_unknown(tmp_path):
    with pytest.raises(UnknownProject):
        scan(tmp_path / "none")


def test_file_type():
    expected = {
        "a/b.MD": "md", "x.tar": "", "a.PNG": "png", "a.GIF": "",
        "noext": "other", "a.b/c": "other",
        "a.b/README": "text", "README.old": "text", "Dockerfile": "dockerfile",
        "Dockerfile.dev": "dockerfile", "Makefile": "makefile", ".editorconfig": "editorconfig",
        ".md": "other", "x.adoc": "adoc", ".env.example": "env", "notes.2024-01-05": "text",
        "x.tf": "tf", "x.whatever": "other",
    }  # fmt: skip
    assert {path: file_type(path) for path in expected} == expected


def test_compare_sorts_into_classes():
    found = Scan({"same": S, "other": (9, 2, 3, 4), "new": S}, [], [])
    changes = compare(found, {"same": S, "other": S, "gone": S}, last_started_ns=LATE)
    assert changes == Changes(["new"], ["other"], ["gone"], [])


def test_equal_signatures_are_a_no_op():
    assert not compare(Scan({"a": S}, [], []), {"a": S}, last_started_ns=LATE).any()


@pytest.mark.parametrize("late", [(1, LATE, 3, 4), (1, 2, LATE, 4)])
def test_a_file_written_close_to_the_last_scan_is_racy(late):
    found = Scan({"a": late}, [], [])
    assert compare(found, {"a": late}, last_started_ns=LATE).racy == ["a"]
    assert compare(found, {"a": late}, last_started_ns=LATE + 1_999_999_999).racy == ["a"]
    assert compare(found, {"a": late}, last_started_ns=LATE + 2_000_000_000).racy == []


def test_files_of_a_folder_that_cannot_be_listed_are_not_gone():
    found = Scan({}, [], [("locked", "Permission denied")])
    changes = compare(found, {"locked/a": S, "lockedb": S}, last_started_ns=LATE)
    assert changes.removed == ["lockedb"]
