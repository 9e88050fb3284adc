"""kill -9 of what writes about documents in place: a whole file, old or new, and no index lost."""

import pytest

from ragstream_core.errors import RagstreamError
from ragstream_core.platform.data_root import Layout
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add, init_folder
from ragstream_core.services.remove_project import remove
from ragstream_core.wiring import project_files
from tests.faults.harness import DONE, Child, Killer
from tests.lengths import by_length
from tests.workspaces import hashed_workspace

KILLS = by_length(4, 15, 100)


@pytest.mark.sweep
def test_the_file_of_a_project_is_the_old_one_or_the_new_one(tmp_path):
    folders = [tmp_path / f"folder{n}" for n in range(30)]
    for folder in folders:
        folder.mkdir()
    (tmp_path / "data").mkdir()
    space = hashed_workspace(tmp_path / "data")
    add(space, "shop", AddRequest(folders[:1]))

    def run():
        there = len(project_files.read(space.layout, "shop").roots)
        for folder in folders[there:]:
            add(space, "shop", AddRequest([folder]))
        add(space, "shop", AddRequest(folders[:1], replace=True))

    killer = Killer(95)
    for _ in killer.times(KILLS):
        killer.strike(Child(run, tmp_path / "said"))
        said = project_files.read(space.layout, "shop")
        names = [root.path for root in said.roots]
        assert names == [str(folder) for folder in folders[: len(names)]]
        assert len(space.documents("shop").roots) == len(names)
    last = Child(run, tmp_path / "said")
    last.go()
    assert last.wait() == DONE, last.words()
    print(f"\n{killer.line()}")


@pytest.mark.sweep
def test_a_removal_that_was_killed_is_finished_by_the_next_and_touches_no_document(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for n in range(20):
        (docs / f"{n}.md").write_text(f"# Part {n}\n\nwords of {n}\n")
    (tmp_path / "data").mkdir()
    space = hashed_workspace(tmp_path / "data")

    def run():
        try:
            remove(space, "shop")
        except RagstreamError as error:  # it was through already
            assert "no project" in str(error)

    killer = Killer(96, span_s=0.01)
    for _ in killer.times(KILLS):
        add(space, "shop", AddRequest([docs], replace=True))
        ingest_project(space, "shop", collection=False)
        killer.strike(Child(run, tmp_path / "said"))
        if "shop" in space.projects():
            project_files.read(space.layout, "shop")
        last = Child(run, tmp_path / "said")
        last.go()
        assert last.wait() == DONE, last.words()
        assert space.projects() == [] and not list((space.data_dir / "index").glob("*shop*"))
        assert len(list(docs.iterdir())) == 20
    print(f"\n{killer.line()}")


@pytest.mark.sweep
def test_a_data_root_is_whole_or_made_by_the_next_call(tmp_path):
    killer = Killer(97, span_s=0.01)
    for n in killer.times(KILLS):
        folder = tmp_path / f"shop{n}"
        folder.mkdir()
        killer.strike(Child(lambda folder=folder: init_folder(folder), tmp_path / "said"))
        file = folder / ".ragstream" / "projects" / folder.name / "project.yaml"
        if not file.exists():
            init_folder(folder)
        said = project_files.read(Layout.of(folder / ".ragstream"), folder.name)
        assert said.roots[0].path == ".."
        assert (folder / ".ragstream" / ".gitignore").read_text().endswith("*\n")
    print(f"\n{killer.line()}")
