"""What no reader is installed for is left out before an ingest as it is after one."""

import pytest

from ragstream_core.ingestion.parsers import engines
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add, list_projects
from ragstream_core.wiring import ingestion
from tests.workspaces import hashed_workspace


@pytest.fixture
def space(tmp_path):
    (tmp_path / "data").mkdir()
    return hashed_workspace(tmp_path / "data")


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "mixed"
    home.mkdir()
    (home / "a.md").write_text("# A\n\nalpha words\n")
    (home / "b.html").write_text("<title>B</title><p>beta words</p>")
    (home / "c.png").write_bytes(b"\x89PNG")
    (home / "d.mp4").write_bytes(b"x")
    return home


def counts(space):
    found = ingestion.status(space, "mixed")
    return len(found.pending.paths), dict(found.skipped)


def test_the_counts_agree_before_and_after_and_once_it_is_installed(space, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engines, "_installed", dict)
        added = add(space, "mixed", AddRequest((folder,)))
        assert (added.project.roots[0].documents, added.left_out) == (1, 3)
        waiting, skipped = counts(space)
        assert waiting == 1 and "extra 'convert'" in skipped["b.html"]
        assert skipped["c.png"].startswith("type not supported without the extra 'ocr': ")
        stats = ingest_project(space, "mixed")
        assert stats.files["new"] == 1
        assert counts(space) == (0, skipped)
        assert list_projects(space)[0].roots[0].documents == 1
    waiting, skipped = counts(space)
    assert waiting == 2 and list(skipped) == ["d.mp4"]
    assert ingest_project(space, "mixed").documents == 2
    assert counts(space) == (0, skipped | {"c.png": "not a readable picture"})
