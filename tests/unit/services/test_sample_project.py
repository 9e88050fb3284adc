"""The sample project: what is written into a data root, and when a person is asked first."""

import re

import pytest

from ragstream_core.errors import OperationFailed, Refused
from ragstream_core.services import sample_project
from ragstream_core.services.sample_project import (
    FOLDERS,
    QUESTION,
    plan_sample,
    put_sample,
    sample_source,
)
from tests.workspaces import ROOT

FILES = {
    "doc_raw/handbook/a.md": "# A\n",
    "doc_raw/handbook/deep/b.md": "# B\n",
    "projects/handbook/hard_rules.md": "1. Cite.\n",
}


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def source(tmp_path):
    write(tmp_path / "source", FILES)
    return tmp_path / "source"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "data"


def test_an_empty_place_gets_every_file_unasked_and_once(source, root):
    plan = plan_sample(root, source)
    assert plan.new == tuple(sorted(FILES)) and not plan.changed and not plan.needs_consent
    put_sample(plan)
    assert {name: (root / name).read_text() for name in FILES} == FILES
    again = plan_sample(root, source)
    assert not again.new and not again.changed and not again.needs_consent


@pytest.mark.parametrize("name", sorted(FILES))
def test_what_was_interrupted_goes_on_unasked(source, root, name):
    write(root, {name: FILES[name]})
    plan = plan_sample(root, source)
    assert name not in plan.new and len(plan.new) == 2
    assert not plan.needs_consent


@pytest.mark.parametrize(
    "other", ["doc_raw/mine/x.md", "projects/mine/hard_rules.md", "history/logs/x", "x"]
)
def test_a_root_with_anything_else_asks(source, root, other):
    write(root, {other: "mine"})
    assert plan_sample(root, source).needs_consent
    put_sample(plan_sample(root, source))
    assert (root / other).read_text() == "mine"
    assert not plan_sample(root, source).needs_consent, "nothing is left to write"


def test_a_file_that_differs_asks_and_is_named(source, root):
    write(root, {**FILES, "doc_raw/handbook/a.md": "# Mine\n", "doc_raw/handbook/new.md": "x"})
    plan = plan_sample(root, source)
    assert plan.changed == ("doc_raw/handbook/a.md",) and plan.needs_consent
    put_sample(plan)
    assert (root / "doc_raw/handbook/new.md").read_text() == "x"


def test_a_project_with_its_documents_elsewhere_is_left_alone(source, root):
    write(root, {"projects/handbook/project.yaml": "roots: []\n"})
    with pytest.raises(Refused, match="elsewhere"):
        plan_sample(root, source)


def test_a_link_is_not_followed(source, root, tmp_path):
    (tmp_path / "outside").mkdir()
    (root / "doc_raw").mkdir(parents=True)
    (root / "doc_raw" / "handbook").symlink_to(tmp_path / "outside")
    with pytest.raises(Refused, match="elsewhere"):
        plan_sample(root, source)


def test_a_checkout_reads_its_own_handbook():
    assert sample_source() == ROOT / "data"
    assert all((sample_source() / folder).is_dir() for folder in FOLDERS)


def test_an_installation_without_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_project.ragstream_core, "__file__", str(tmp_path / "p" / "x.py"))
    with pytest.raises(OperationFailed, match="sample"):
        sample_source()


def test_make_demo_asks_the_same_question():
    (asked,) = re.findall(r"^QUESTION \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert asked == QUESTION
