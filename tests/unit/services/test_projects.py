import errno
import os
import stat

import pytest

from ragstream_core.errors import InputUnavailable, Refused, UnknownProject, UsageError
from ragstream_core.index.look import manifest_of
from ragstream_core.ingestion.document_tree import EMPTY, MISSING
from ragstream_core.services.backup import backup
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add, list_projects, project_state
from ragstream_core.services.remove_project import remove
from ragstream_core.services.search import search
from ragstream_core.services.uploads import save_upload
from ragstream_core.wiring import file_sources, ingestion
from ragstream_core.wiring.file_states import CURRENT, DELETED, state_now
from tests.workspaces import hashed_workspace, write_docs


@pytest.fixture
def space(tmp_path):
    (tmp_path / "data").mkdir()
    return hashed_workspace(tmp_path / "data")


@pytest.fixture
def code(tmp_path):
    return folder(tmp_path / "shop" / "code", {"a.md": "# A\n\nalpha words", "src/b.py": "b = 1\n"})


@pytest.fixture
def wiki(tmp_path):
    return folder(tmp_path / "shop" / "wiki", {"a.md": "# W\n\nwiki words", "c.md": "gamma words"})


def folder(path, files):
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def made(space, *paths, name="shop", **given):
    return add(space, name, AddRequest(paths, **given))


def paths_of(space, name="shop"):
    return sorted(manifest_of(space.index_dir(name), 0))


def everything(path):
    return {
        str(inside): (inside.read_bytes() if inside.is_file() else b"", inside.stat().st_mtime_ns)
        for inside in [path, *path.rglob("*")]
    }


def test_who_was_killed_before_the_answer_may_add_the_same_again(space, code, wiki):
    for paths in ((code,), (code, wiki), (wiki,)):
        given = {"include": ("*.md",), "labels": tuple(path.name for path in paths)}
        first = made(space, *paths, **given)
        text = space.layout.project_file("shop").read_text()
        again = made(space, *paths, **given)
        assert again.project == first.project
        assert "shop reads all of that already" in again.notes
        assert space.layout.project_file("shop").read_text() == text
    with pytest.raises(UsageError, match="twice"):  # another folder of that name is no repetition
        made(space, folder(space.data_dir.parent / "else" / "code", {"b.md": "b"}))


def test_one_folder_is_read_where_it_lies_and_nothing_is_written_there(space, code):
    before = everything(code)
    done = made(space, code)
    assert done.written and done.project.roots[0].documents == 2
    stats = ingest_project(space, "shop")
    assert stats.files["new"] == 2 and paths_of(space) == ["a.md", "src/b.py"]
    assert everything(code) == before
    found = search(space, "alpha words", ["shop"], k=3)
    assert found.hits[0].source == "a.md"


def test_several_folders_have_labels_and_equal_names_stay_apart(space, code, wiki):
    made(space, code, wiki)
    ingest_project(space, "shop")
    assert paths_of(space) == ["code/a.md", "code/src/b.py", "wiki/a.md", "wiki/c.md"]
    assert file_sources.read_file(space, "shop", "wiki/a.md") == b"# W\n\nwiki words"
    assert file_sources.injectable(space, "shop") == paths_of(space)
    assert space.documents("shop").location("code/a.md") == code / "a.md"
    with pytest.raises(FileNotFoundError):
        space.open_document("shop", "none/a.md")


def test_a_dry_run_says_the_same_and_writes_nothing(space, code):
    would = add(space, "shop", AddRequest([code]), dry_run=True)
    assert would.project == made(space, code).project and not would.written
    assert not (space.data_dir / "doc_raw").exists()


def test_a_second_folder_brings_labels_and_embeds_nothing_again(space, code, wiki):
    made(space, code, exclude=["/src/", "*.tmp.md"])
    ingest_project(space, "shop")
    done = made(space, wiki)
    assert any("begin with the label" in line for line in done.notes)
    assert done.project.exclude == ("/code/src/", "*.tmp.md")
    stats = ingest_project(space, "shop")
    assert paths_of(space) == ["code/a.md", "wiki/a.md", "wiki/c.md"]
    assert stats.chunks["embedded"] == 2, "only what the new folder holds"


def test_the_folder_moves_and_no_document_changes(space, code, tmp_path):
    made(space, code)
    first = ingest_project(space, "shop")
    moved = code.rename(tmp_path / "elsewhere")
    made(space, moved, replace=True)
    again = ingest_project(space, "shop")
    assert again.digest == first.digest and not again.committed


@pytest.mark.parametrize("how", ["missing", "empty", "other", "closed"])
def test_a_folder_that_went_keeps_its_documents_until_yes(space, code, wiki, how, monkeypatch):
    made(space, code, wiki)
    ingest_project(space, "shop")
    before = paths_of(space)
    wiki.rename(wiki.with_name("aside"))
    if how != "missing":
        wiki.mkdir()
    if how == "other":
        (wiki / "NOTHING-MOUNTED.md").write_text("this disk is not here")
    if how == "closed":
        _close(wiki, monkeypatch)
    (code / "new.md").write_text("delta words")
    for _ in range(2):  # what lies in an empty mount point must not pass for the disk next time
        stats = ingest_project(space, "shop")
        assert paths_of(space) == sorted([*before, "code/new.md"])
        assert any(str(wiki) in line and "stay" in line for line in stats.warnings)
    monkeypatch.setattr("ragstream_core.ingestion.scan.RACY_NS", 0)  # files here are young
    idle = ingestion.unchanged(space, "shop")
    assert idle is not None and idle.warnings == stats.warnings and idle.digest == stats.digest
    assert idle.files == stats.files
    state = ingestion.status(space, "shop")
    assert state.absent and not state.reason
    assert project_state(space, "shop").roots[1].state == (
        "unreadable" if how == "closed" else "missing"
    )
    monkeypatch.undo()
    accepted = ingest_project(space, "shop", accept_missing=True)
    assert accepted.files["deleted"] == 2
    assert [p for p in paths_of(space) if p.startswith("wiki/")] == (
        ["wiki/NOTHING-MOUNTED.md"] if how == "other" else []
    )


def test_what_comes_back_is_as_if_it_had_never_gone(space, code, wiki):
    made(space, code, wiki)
    first = ingest_project(space, "shop")
    aside = wiki.rename(wiki.with_name("aside"))
    ingest_project(space, "shop")
    aside.rename(wiki)
    stats = ingest_project(space, "shop")
    assert stats.digest == first.digest and not stats.warnings


def test_a_project_of_which_no_folder_is_there_is_refused(space, code):
    made(space, code)
    aside = code.with_name("aside")
    code.rename(aside)
    with pytest.raises(InputUnavailable, match="are not there"):
        ingest_project(space, "shop")
    assert not space.index_dir("shop").exists(), "nothing is left behind"
    aside.rename(code)
    ingest_project(space, "shop")
    code.rename(aside)
    for reason, what in ((MISSING, lambda: None), (EMPTY, code.mkdir)):
        what()
        with pytest.raises(InputUnavailable, match=reason.replace("?", ".")):
            ingestion.unchanged(space, "shop")
        with pytest.raises(InputUnavailable, match=reason.replace("?", ".")):
            ingest_project(space, "shop", verify=True)
    assert len(paths_of(space)) == 2
    ingest_project(space, "shop", accept_missing=True)
    assert paths_of(space) == []


def test_a_rebuild_without_one_folder_is_refused(space, code, wiki):
    made(space, code, wiki)
    ingest_project(space, "shop")
    wiki.rename(wiki.with_name("aside"))
    with pytest.raises(InputUnavailable, match="some documents"):
        ingest_project(space, "shop", rebuild=True)
    assert len(paths_of(space)) == 4


def test_a_renamed_document_is_no_folder_that_went(space, code):
    made(space, code)
    ingest_project(space, "shop")
    (code / "a.md").rename(code / "z.md")
    (code / "src" / "b.py").unlink()
    ingest_project(space, "shop")
    assert paths_of(space) == ["z.md"]


def test_ignore_files_globs_and_the_data_root_itself(tmp_path):
    repo = folder(
        tmp_path / "repo",
        {"a.md": "a", "b.txt": "b", "drafts/d.md": "d", "build/o.md": "o", ".gitignore": "build/\n",
         "data/doc_raw/x/x.md": "x", "keep/.gitignore": "!drafts/\n", "keep/drafts/e.md": "e",
         "sub/.ragstream/prompts/p.md": "p"},
    )  # fmt: skip
    (repo / "up").symlink_to(repo)
    space = hashed_workspace(repo / "data")
    done = made(space, repo, include=["*.md"], exclude=["drafts/"])
    assert any("RAGstream's own" in line for line in done.notes)
    ingest_project(space, "shop")
    assert paths_of(space) == ["a.md"], "an exclude is stronger than what an ignore file takes back"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nothing", "there is no folder"), ("file", "is a file"), ("loop", "cannot be read"),
        ("inside", "lies within the data root"), ("/", "the whole machine"),
        ("bad\0name", "cannot be read"),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_one_is_refused_and_nothing_is_written(
    space, tmp_path, code, what, said
):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "data" / "doc_raw" / "in").mkdir(parents=True)
    given = {
        "file": code / "a.md", "inside": tmp_path / "data" / "doc_raw" / "in", "/": "/",
        "bad\0name": "bad\0name",
    }.get(what, tmp_path / what)  # fmt: skip
    with pytest.raises(UsageError, match=said):
        made(space, given)
    assert not space.layout.project_file("shop").exists()


def test_a_folder_that_may_not_be_listed_is_refused(space, code, monkeypatch):
    _close(code, monkeypatch)
    with pytest.raises(UsageError, match="permission denied"):
        made(space, code)


def _close(folder, monkeypatch):
    """Have a folder not be listed, for root as well."""
    real = os.scandir

    def scandir(path):
        if os.fspath(path) == os.fspath(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_folders_that_hold_the_same_documents_are_refused(space, code, wiki):
    with pytest.raises(UsageError, match="already"):
        made(space, code, code, labels=["a", "b"])
    with pytest.raises(UsageError, match="one lies in the other"):
        made(space, code.parent, code)
    made(space, code)
    for path in (code, code / "src", code.parent):
        with pytest.raises(Refused, match="of project shop"):
            made(space, path, name="other")
    assert made(space, code / "src", name="other", overlap=True).written


@pytest.mark.parametrize(
    ("labels", "said"),
    [(["a"], "2 folders and 1 labels"), (["a", "A"], "comes twice"), (["a", "b/c"], "cannot be")],
)
def test_labels_that_cannot_be_told_apart_are_refused(space, code, wiki, labels, said):
    with pytest.raises(UsageError, match=said):
        made(space, code, wiki, labels=labels)


def test_two_folders_of_one_name_ask_for_labels(space, tmp_path):
    one, two = (folder(tmp_path / name / "docs", {"a.md": "a"}) for name in "xy")
    with pytest.raises(UsageError, match="comes twice") as refused:
        made(space, one, two)
    assert "--label" in refused.value.hint
    assert made(space, one, two, labels=["x", "y"]).project.roots[1].label == "y"


def test_names_that_fall_together_are_refused(space, code):
    write_docs(space.data_dir)
    for name in ("demo", "Demo"):
        with pytest.raises(UsageError, match=r"lie in|already"):
            made(space, code, name=name)


def test_a_link_to_a_folder_is_its_folder_and_a_link_in_it_is_not_followed(space, tmp_path, code):
    outside = folder(tmp_path / "outside", {"secret.md": "secret"})
    (code / "out").symlink_to(outside)
    link = tmp_path / "link"
    link.symlink_to(code)
    made(space, link)
    ingest_project(space, "shop")
    assert paths_of(space) == ["a.md", "src/b.py"]
    for path in ("out/secret.md", "../outside/secret.md", "src/../a.md"):
        with pytest.raises(OSError):
            os.close(space.open_document("shop", path))


def test_all_projects_are_listed_with_what_is_wrong(space, code, wiki):
    write_docs(space.data_dir)
    made(space, code, wiki)
    made(space, code, name="broken", overlap=True)
    ingest_project(space, "broken")
    file = space.layout.project_file("broken")
    file.write_text("roots:\n- label: a\n  path: /x\n  color: red\n")
    wiki.rename(wiki.with_name("aside"))
    found = {project.name: project for project in list_projects(space)}
    assert list(found) == ["broken", "demo", "shop"]
    assert (found["broken"].indexed, found["broken"].generation) == (2, 1)
    assert "project.yaml:4" in found["broken"].problem and "color" in found["broken"].problem
    assert not found["demo"].in_place and found["demo"].roots[0].documents == 4
    assert [(r.label, r.state) for r in found["shop"].roots] == [
        ("code", "ok"),
        ("wiki", "missing"),
    ]
    assert found["shop"].roots[1].reason == MISSING


def test_removing_touches_no_document_and_says_what_stays(space, code):
    made(space, code, exclude=["drafts/"])
    ingest_project(space, "shop")
    forget(space, "shop", "a.md", exclude=True)
    before = everything(code)
    would = remove(space, "shop", dry_run=True)
    assert space.index_dir("shop").exists() and not would.removed
    done = remove(space, "shop")
    assert done.index_bytes == would.index_bytes > 0 and done.folders == (str(code),)
    assert everything(code) == before
    assert would.exclude == done.exclude == ("drafts/", "/a.md")
    assert not space.index_dir("shop").exists() and space.projects() == []
    with pytest.raises(UnknownProject):
        remove(space, "shop")


def test_an_index_that_was_kept_serves_the_project_when_it_is_added_again(space, code):
    made(space, code)
    first = ingest_project(space, "shop")
    assert remove(space, "shop", keep_index=True).index_bytes == 0
    done = made(space, code)
    assert any("index of shop from before" in line for line in done.notes)
    assert ingest_project(space, "shop").digest == first.digest
    remove(space, "shop", keep_index=True)
    assert remove(space, "shop").index_bytes > 0, "what is left over of a project can go too"


def test_a_copied_project_is_not_removed(space):
    write_docs(space.data_dir)
    with pytest.raises(Refused, match="below the data root"):
        remove(space, "demo")


def test_a_document_in_place_is_never_deleted_but_can_be_left_out(space, code, wiki):
    made(space, code, wiki)
    ingest_project(space, "shop")
    for given in ({}, {"delete": True}):
        with pytest.raises(Refused, match="deletes nothing in place"):
            forget(space, "shop", "wiki/a.md", **given)
    done = forget(space, "shop", "wiki/a.md", exclude=True)
    assert done.texts == 1 and (wiki / "a.md").exists()
    ingest_project(space, "shop")
    assert "wiki/a.md" not in paths_of(space) and "code/a.md" in paths_of(space)
    wiki.rename(wiki.with_name("aside"))
    for _ in range(2):  # also while its folder is an empty mount point
        with pytest.raises(Refused, match="may come back"):
            forget(space, "shop", "wiki/c.md")
        wiki.mkdir(exist_ok=True)
    assert forget(space, "shop", "wiki/c.md", exclude=True).texts == 1


@pytest.mark.parametrize("name", ["a*b.md", "[x] y?.md", "#c.md", "!d.md", " e.md", "caf\udce9.md"])
def test_any_name_can_be_left_out_alone(space, code, name):
    (code / name).write_text("special words")
    (code / "aXb.md").write_text("other words")
    made(space, code)
    ingest_project(space, "shop")
    (path,) = {*paths_of(space)} - {"a.md", "aXb.md", "src/b.py"}
    forget(space, "shop", path, exclude=True)
    assert ingest_project(space, "shop").files["scanned"] == 3


def test_uploads_go_into_no_folder_in_place(space, code):
    made(space, code)
    with pytest.raises(Refused, match="reads your own folder"):
        save_upload(space, "shop", "a.md", b"x")
    assert sorted(p.name for p in code.iterdir()) == ["a.md", "src"]


def test_a_backup_holds_the_project_and_names_the_folders_it_leaves(space, code, tmp_path):
    made(space, code)
    ingest_project(space, "shop")
    made(space, code, name="fresh", overlap=True)
    done = backup(space, tmp_path / "copy", documents=True)
    assert done.in_place == (str(code),)
    for name in ("shop", "fresh"):
        assert (tmp_path / "copy" / "projects" / name / "project.yaml").is_file()
    assert not (tmp_path / "copy" / "doc_raw").exists()


def test_what_became_of_a_document_is_told_beneath_its_folder(space, code, wiki):
    made(space, code, wiki)
    ingest_project(space, "shop")
    sha256 = manifest_of(space.index_dir("shop"), 0)["wiki/a.md"].sha256
    assert state_now(space, "shop", "wiki/a.md", sha256) == CURRENT
    (wiki / "a.md").unlink()
    assert state_now(space, "shop", "wiki/a.md", sha256) == DELETED


def test_the_file_is_its_owners_alone(space, code):
    made(space, code)
    mode = space.layout.project_file("shop").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize("path", ["", " "])
def test_an_empty_path_is_not_the_working_directory(space, code, path, monkeypatch):
    monkeypatch.chdir(code)
    with pytest.raises(UsageError, match="empty"):
        made(space, path)
    assert not space.projects()


def test_what_is_ragstreams_own_is_named_once(code):
    (code / "rs").mkdir()
    done = made(hashed_workspace(code / "rs"), code)
    assert [line for line in done.notes if "RAGstream's own" in line] == [
        f"{code / 'rs'} is left out: RAGstream's own"
    ]


def test_a_named_file_of_a_missing_folder_is_no_slip_of_the_pen(space, code, wiki):
    made(space, code, wiki)
    names = file_sources.injectable(space, "shop")
    assert file_sources.named_files(space, "c.md", names, ["shop"]) == ["wiki/c.md"]
    wiki.rename(wiki.with_name("away"))
    names = file_sources.injectable(space, "shop")
    with pytest.raises(UsageError, match="wiki/c.md") as refused:
        file_sources.named_files(space, "wiki/c.md", names, ["shop"])
    assert f"{wiki}: {MISSING}" in refused.value.hint
    with pytest.raises(UsageError, match="wiki/c.md") as refused:
        file_sources.pinned_diffs(space, ["wiki/c.md"], ["shop"])
    assert f"{wiki}: {MISSING}" in refused.value.hint
