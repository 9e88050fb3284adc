"""Which folders are projects, and what is said of those that are none."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.errors import InvalidName, UnknownProject
from ragstream_core.platform.data_root import NAME_RULE, Layout, checked
from ragstream_core.proposers.chroma.names import collection_name
from ragstream_core.wiring import projects


@pytest.fixture
def root(tmp_path):
    docs = tmp_path / "doc_raw"
    for name in ("a", "pg", "notes", "two words", ".git", "CON", "a..b"):
        (docs / name).mkdir(parents=True)
    (docs / "flat.md").write_text("flat")
    (docs / "linked").symlink_to(tmp_path)
    (docs / "nowhere").symlink_to(tmp_path / "not-there")
    (docs / "file-link.md").symlink_to(docs / "flat.md")
    return tmp_path


def test_names_of_one_letter_are_projects(root):
    assert projects.names(Layout.of(root)) == ["a", "default", "notes", "pg"]
    projects.require(Layout.of(root), "a")
    (only,) = projects.copied(Layout.of(root), "a").roots
    assert only == ("", root / "doc_raw" / "a", frozenset(), "")


def test_a_folder_that_cannot_be_a_project_is_told_with_its_reason(root):
    told = dict(projects.unfit(Layout.of(root)))
    assert list(told) == ["CON", "a..b", "linked", "nowhere", "two words"]
    assert "1 to 64 letters" in told["two words"] and "Windows device" in told["CON"]
    assert "a link" in told["linked"] and "leads nowhere" in told["nowhere"]
    with pytest.raises(UnknownProject, match="linked is not a project") as refused:
        projects.require(Layout.of(root), "linked")
    assert refused.value.hint == told["linked"]
    assert projects.unfit(Layout.of(root / "absent")) == []


def test_bytes_that_are_no_text_are_told_as_text(tmp_path):
    os.mkdir(os.fsencode(tmp_path / "doc_raw"))
    os.mkdir(os.fsencode(tmp_path / "doc_raw") + b"/caf\xe9")
    ((name, reason),) = projects.unfit(Layout.of(tmp_path))
    assert name == "caf\ufffd" and reason


@given(st.text(min_size=1, max_size=70))
def test_every_project_has_a_collection_that_chroma_takes(name):
    try:
        checked(name)
    except InvalidName as error:
        assert error.hint == NAME_RULE
        return
    found = collection_name(name)
    assert 3 <= len(found) <= 512 and found[0].isalnum() and found[-1].isalnum()
    assert found == name or len(name) < 3 or not name[-1].isalnum()
