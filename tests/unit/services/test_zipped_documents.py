"""A ZIP among the documents: uploaded, ingested, quoted, replayed, followed, forgotten."""

import io
import shutil
import zipfile

import pytest

from ragstream_core.errors import Refused, UsageError
from ragstream_core.index.look import manifest_of
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.sync_project import _unfit
from ragstream_core.services.uploads import save_upload
from ragstream_core.wiring.file_sources import read_file
from ragstream_core.wiring.file_states import CURRENT, DELETED, indexed_text, state_now
from tests.workspaces import ask, ask_and_keep, docs_of, hashed_workspace

PATH = "uploads/export.zip/notes/valve.md"
TEXT = "# Valve\n\nThe zebra valve closes at 7 bar.\n"


@pytest.fixture
def space(tmp_path):
    (tmp_path / "doc_raw" / "demo").mkdir(parents=True)
    space = hashed_workspace(tmp_path)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        package.writestr("notes/valve.md", TEXT)
        package.writestr("other.md", "# Other\n\nThe heron gate is green.\n")
    save_upload(space, "demo", "../export.zip", out.getvalue())
    ingest_project(space, "demo")
    return space


def test_a_document_in_it_is_quoted_and_the_prompt_is_made_again(space):
    question = "At how many bar does the zebra valve close?"
    key, text = ask_and_keep(space, question), ask(space, question).extras.super_prompt
    assert "The zebra valve closes at 7 bar." in text
    assert f'source="{PATH}"' in text
    assert replay_prompt(space, key).verdict == "identical"


def test_a_document_in_it_is_followed(space):
    assert read_file(space, "demo", PATH).decode() == TEXT
    sha256 = manifest_of(space.index_dir("demo"), 1)[PATH].sha256
    assert state_now(space, "demo", PATH, sha256) == CURRENT
    assert indexed_text(space, "demo", PATH, sha256) == TEXT
    (docs_of(space) / "uploads" / "export.zip").unlink()
    assert state_now(space, "demo", PATH, sha256) == DELETED


def test_nothing_is_erased_that_the_next_ingest_would_take_in_again(space):
    for delete in (False, True):
        with pytest.raises(Refused, match="still holds it"):
            forget(space, "demo", PATH, delete=delete)
    shutil.move(docs_of(space) / "uploads" / "export.zip", space.data_dir / "elsewhere.zip")
    assert forget(space, "demo", PATH).chunks == 1


def test_a_second_ingest_has_nothing_to_do_and_another_state_of_it_is_seen(space):
    archive = docs_of(space) / "uploads" / "export.zip"
    assert not ingest_project(space, "demo").committed
    with zipfile.ZipFile(archive, "a") as package:
        package.writestr("new.md", "# New\n\nThe otter pump is loud.\n")
    done = ingest_project(space, "demo")
    assert done.changed["new"] == ("uploads/export.zip/new.md",)
    assert not done.changed["updated"]
    archive.write_bytes(archive.read_bytes()[:100])
    done = ingest_project(space, "demo")
    assert len(done.changed["deleted"]) == 3
    assert any(path == "uploads/export.zip" for path, _ in done.skipped_reasons)


def test_other_archives_are_refused_with_what_is_read(space):
    with pytest.raises(UsageError, match="type not supported"):
        save_upload(space, "demo", "export.7z", b"x")


def test_one_at_an_address_is_fetched(space):
    assert not _unfit("shared/export.zip")
    assert _unfit("shared/export.7z").startswith("type not supported")
