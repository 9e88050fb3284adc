"""Uploads: whatever a file is called, it lands inside, under a name of ours, and replaces none."""

import contextlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.errors import InvalidName, RagstreamError, Refused, UnknownProject, UsageError
from ragstream_core.ingestion.file_types import denial, file_type
from ragstream_core.ingestion.scan import scan
from ragstream_core.platform.data_root import is_project_name
from ragstream_core.platform.files import create_bytes
from ragstream_core.services import uploads
from ragstream_core.services.uploads import create_project, labels, safe_name, save_upload
from tests.workspaces import docs_of, hashed_workspace

_PLACES = (
    "../../etc/passwd", "..\\..\\boot", "/etc/shadow", "C:\\Windows\\win", "//host/share/x",
    "~/x", "a/../../b", "....//x", "..", ".", "", " ", "-", "--help", "x\x00y", "x\ny", "x\x1b[2J",
    "\u202egpj", "CON", "nul", "com1", "LPT9.tar", "aux.", "x" * 300, "日本", "é ü ñ", "%2e%2e%2f",
    "$(id)", "`id`", "a;rm -rf", "a|b", "<img src=x>", "![i](http://h/x)", "x:y", "x*?", "id_rsa",
    ".env", ".git", "\ud800", "default",
)  # fmt: skip
HOSTILE = [f"{place}.{ending}" for place in _PLACES for ending in ("md", "TXT")]


@pytest.fixture
def space(tmp_path):
    (tmp_path / "data" / "doc_raw" / "demo").mkdir(parents=True)
    return hashed_workspace(tmp_path / "data")


def everything(root):
    return {p.relative_to(root) for p in root.rglob("*")}


def test_eighty_hostile_names_stay_inside(space, tmp_path):
    assert len(HOSTILE) == 80
    before = everything(tmp_path)
    saved = {}
    for number, name in enumerate(HOSTILE):
        with contextlib.suppress(UsageError, Refused):
            data = f"document {number}".encode()
            saved[save_upload(space, "demo", name, data).path] = data
    made = {p for p in everything(tmp_path) - before if (tmp_path / p).is_file()}
    inside = {p.relative_to("data/doc_raw/demo").as_posix() for p in made if "doc_raw" in p.parts}
    assert inside == set(saved) and len(saved) > 60
    assert made - {p for p in made if "doc_raw" in p.parts} == {
        (tmp_path / "data" / "projects" / "demo" / "uploads.json").relative_to(tmp_path)
    }
    folder = docs_of(space)
    assert all((folder / path).read_bytes() == data for path, data in saved.items())
    assert set(scan(folder).files) == set(saved)  # each of them is read by the next ingest


@given(st.text(max_size=60), st.sampled_from([".md", ".pdf", ".TXT", ".py", ".x", ""]))
def test_a_safe_name_is_plain_and_a_name_of_itself(stem, ending):
    try:
        name = safe_name(f"{stem}{ending}")
    except RagstreamError:
        return
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[a-z0-9_-]+)?", name) and len(name) <= 180
    assert file_type(name) and not denial(name)
    assert safe_name(name) == name


def test_other_bytes_get_another_name_and_the_same_are_kept(space):
    first = save_upload(space, "demo", "Notes.md", b"one")
    second = save_upload(space, "demo", "Notes.md", b"two")
    folder = docs_of(space)
    before = (folder / first.path).stat()
    again = save_upload(space, "demo", "a/Notes.md", b"one")
    assert (first.path, first.new, again.path, again.new) == (
        "uploads/Notes.md", True, "uploads/Notes.md", False
    )  # fmt: skip
    assert second.new and second.path != first.path
    assert (folder / first.path).read_bytes() == b"one"
    assert (folder / second.path).read_bytes() == b"two"
    after = (folder / first.path).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_given_name_is_a_label_and_nothing_else(space):
    upload = save_upload(space, "demo", "../Quarterly report \x1b[31m.txt", b"text")
    assert upload.path == "uploads/Quarterly-report-31m.txt"
    assert "\x1b" not in upload.label
    assert labels(space, "demo")[upload.path]["given"] == upload.label
    (space.data_dir / "projects" / "demo" / "uploads.json").write_text("{ torn")
    assert labels(space, "demo") == {}
    assert save_upload(space, "demo", "b.txt", b"text").new


@pytest.mark.parametrize("place", ["folder", "file"])
def test_a_link_leads_nowhere(space, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    uploads = docs_of(space) / "uploads"
    if place == "folder":
        uploads.symlink_to(outside)
        with pytest.raises(Refused, match="is a link"):
            save_upload(space, "demo", "a.md", b"text")
    else:
        uploads.mkdir()
        (uploads / "a.md").symlink_to(outside / "target.md")
        assert save_upload(space, "demo", "a.md", b"text").path != "uploads/a.md"
    assert os.listdir(outside) == []


@pytest.mark.parametrize(
    ("name", "setting"), [("a.md", "max_text_bytes"), ("a.pdf", "max_pdf_bytes")]
)
def test_a_file_over_the_limit_is_refused(space, name, setting):
    small = hashed_workspace(space.data_dir, {f"discovery.{setting}": 4})
    assert save_upload(small, "demo", name, b"1234").new
    with pytest.raises(UsageError, match="more than the limit of 4"):
        save_upload(small, "demo", name, b"12345")


@pytest.mark.parametrize("name", ["a.exe", "archive.7z", "yarn.lock", "a.min.js"])
def test_a_type_that_cannot_be_read_is_refused(space, name):
    with pytest.raises(UsageError, match="is not read: "):
        save_upload(space, "demo", name, b"text")


@pytest.mark.parametrize("project", ["../demo", "", "demo/..", ".."])
def test_a_project_is_a_name(space, project):
    with pytest.raises((InvalidName, UnknownProject)):
        save_upload(space, project, "a.md", b"text")
    with pytest.raises(InvalidName):
        create_project(space, project)


def test_a_project_without_a_folder_takes_no_upload(space):
    with pytest.raises(UnknownProject):
        save_upload(space, "other", "a.md", b"text")


def test_flat_files_stay_flat(space):
    (space.data_dir / "doc_raw" / "flat.md").write_text("flat")
    assert save_upload(space, "default", "a.md", b"text").path == "a.md"
    assert space.projects() == ["default", "demo"]


def test_a_new_project_is_there_and_a_second_of_its_name_is_refused(space):
    assert create_project(space, "notes") in space.projects()
    for name in ("notes", "Notes"):
        with pytest.raises(UsageError, match="already"):
            create_project(space, name)


@pytest.mark.parametrize("name", ["id_rsa.md", "a/b/ID_ed25519.txt", ".env.md", ".ENV.local.txt"])
def test_what_may_be_a_secret_is_refused(space, name):
    with pytest.raises(Refused, match="deny list"):
        save_upload(space, "demo", name, b"x")
    assert everything(docs_of(space)) == set()


@pytest.mark.parametrize("stem", ["CON", "nul", "aux", "LPT9", "\uff29\uff24_rsa", "=.env="])
def test_a_name_that_became_a_special_one_is_made_a_usual_one(stem):
    name = safe_name(f"{stem}.md")
    assert not denial(name) and is_project_name(f"{name.partition('.')[0]}.x1")


def test_two_tabs_with_one_name_lose_nothing(space):
    texts = [f"text {number}".encode() for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        paths = [u.path for u in pool.map(lambda t: save_upload(space, "demo", "a.md", t), texts)]
    assert [(docs_of(space) / path).read_bytes() for path in paths] == texts
    assert set(labels(space, "demo")) == set(paths)
    assert everything(docs_of(space) / "uploads") == {Path(p).relative_to("uploads")
                                                             for p in paths}  # fmt: skip


UPLOADER = """
import sys
from ragstream_core.services.uploads import save_upload
from ragstream_core.wiring.workspace import open_workspace

space = open_workspace(sys.argv[1], explicit={"embeddings.backend": "hashed"})
print("ready", flush=True)
sys.stdin.readline()
for number in range(25):
    print(save_upload(space, "demo", f"{number}.md", sys.argv[2].encode()).path)
"""


def test_two_programs_with_one_name_lose_nothing(space):
    command = [sys.executable, "-c", UPLOADER, str(space.data_dir)]
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    both = [subprocess.Popen([*command, t], env=environment, **given) for t in ("one", "two")]
    assert [program.stdout.readline() for program in both] == ["ready\n"] * 2
    for program in both:
        program.stdin.write("\n")
        program.stdin.flush()
    paths = [program.communicate(timeout=240)[0].split() for program in both]
    folder = docs_of(space)
    for text, mine in zip(("one", "two"), paths, strict=True):
        assert [(folder / path).read_text() for path in mine] == [text] * 25
    assert len({*paths[0], *paths[1]}) == 50
    assert set(labels(space, "demo")) == {*paths[0], *paths[1]}


def test_a_name_that_is_taken_at_the_last_moment_is_not_replaced(space, monkeypatch):
    """By a program that is not ours: it copies a file to the very name while ours is written."""
    real, folder = uploads.create_bytes, docs_of(space) / "uploads"

    def late(path, data):
        if path.name == "a.md":
            path.write_bytes(b"of another program")
        real(path, data)

    monkeypatch.setattr(uploads, "create_bytes", late)
    mine = save_upload(space, "demo", "a.md", b"mine")
    assert mine.new and (docs_of(space) / mine.path).read_bytes() == b"mine"
    assert (folder / "a.md").read_bytes() == b"of another program"


def test_without_hard_links_a_name_is_still_taken_once(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    create_bytes(tmp_path / "a", b"one")
    with pytest.raises(FileExistsError):
        create_bytes(tmp_path / "a", b"two")
    assert [p.name for p in tmp_path.iterdir()] == ["a"] and (tmp_path / "a").read_bytes() == b"one"
