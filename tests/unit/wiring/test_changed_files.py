"""What a prompt is told of changed documents: as the status counts them, nothing more is read."""

import pytest

from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import ingestion
from tests.workspaces import hashed_workspace


@pytest.fixture
def space(tmp_path):
    folder = tmp_path / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    for name in "abc":
        (folder / f"{name}.md").write_text(f"# {name}\n\nalpha words of {name}\n")
    return hashed_workspace(tmp_path)


def test_the_warning_before_a_prompt_measures_no_folder_and_asks_no_store(space, monkeypatch):
    folder = space.data_dir / "doc_raw" / "demo"
    assert ingestion.changed_files(space, ["demo"])[0].startswith("demo: 3 file(s) changed")
    ingest_project(space, "demo")
    assert ingestion.changed_files(space, ["demo"]) == []

    def never(*args, **more):
        raise AssertionError("the warning needs none of this")

    found, documents = ingestion.inspection(space, "demo")  # the files are so fresh that it is due
    with monkeypatch.context() as settled:
        idle = found._replace(pending=None), documents
        settled.setattr(ingestion, "inspection", lambda space, project: idle)
        for costly in ("known", "without_reader"):
            settled.setattr(ingestion, costly, never)
        assert ingestion.changed_files(space, ["demo"]) == []
    (folder / "a.md").write_text("# a\n\nother words\n")
    (folder / "b.md").unlink()
    (folder / "n.md").write_text("# n\n\nnew words\n")
    assert ingestion.status(space, "demo").pending.paths == ["a.md", "b.md", "n.md"]
    for costly in ("size_of", "forecast", "peeked"):
        monkeypatch.setattr(ingestion, costly, never)
    (told,) = ingestion.changed_files(space, ["demo"])
    assert told == "demo: 3 file(s) changed since the last ingest: a.md, b.md, n.md"
