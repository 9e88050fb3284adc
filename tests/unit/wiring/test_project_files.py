"""The laws of documents in place, and what a damaged ``project.yaml`` is told."""

import os
import string
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import UsageError
from ragstream_core.ingestion.document_tree import DocumentTree, Root
from ragstream_core.ingestion.scan import Scan
from ragstream_core.platform.data_root import Layout
from ragstream_core.wiring import project_files
from ragstream_core.wiring.project_files import ProjectFile, RootEntry

LABELS = st.lists(
    st.text(string.ascii_letters + string.digits, min_size=1, max_size=5),
    min_size=1, max_size=4, unique_by=str.lower,
)  # fmt: skip
NAMES = st.text(string.ascii_lowercase + "%8F ", min_size=1, max_size=6).map(
    lambda name: name.strip() or "x"
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def write(folder, path, data):
    target = folder / f"{path}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


@settings(max_examples=60)
@given(LABELS.flatmap(lambda labels: st.fixed_dictionaries(
    {label: st.sets(PATHS, max_size=5) for label in labels}
)))  # fmt: skip
def test_paths_are_one_to_one_and_each_opens_exactly_its_file(wanted):
    with tempfile.TemporaryDirectory() as base:
        roots, put = [], set()
        for label, paths in wanted.items():
            folder = Path(base, f"folder-{label}")
            folder.mkdir()
            roots.append(Root(label if len(wanted) > 1 else "", folder))
            for path in paths:
                write(folder, path, f"{label}\0{path}".encode())
                put.add(f"{label}\0{path}".encode())
        tree = DocumentTree(tuple(roots), in_place=True)
        opened = {}
        for path in tree.scan().files:
            with os.fdopen(tree.open(path), "rb") as handle:
                opened[path] = handle.read()
            assert tree.location(path).read_bytes() == opened[path]
        assert set(opened.values()) == put and len(opened) == len(put)


@given(
    st.dictionaries(st.sampled_from(["a/1", "a/2", "b/1", "b/2", "b/3"]), st.integers(1, 9)),
    st.dictionaries(st.sampled_from(["a/1", "a/2", "a/9", "b/1", "b/9"]), st.integers(1, 9)),
)
def test_a_folder_is_lost_if_and_only_if_none_of_its_documents_is_left(before, after):
    """By name, or by the file itself: renamed, it keeps size, time and inode."""
    tree = DocumentTree((Root("a", Path("/x")), Root("b", Path("/y"))), in_place=True)
    known = {path: (1, 1, n, inode) for n, (path, inode) in enumerate(before.items())}
    now = {path: (1, 1, 99, inode) for path, inode in after.items()}
    found = tree.guarded(Scan(dict(now), [], []), (), known)
    lost = {top for top, _ in found.unreadable}
    for label in "ab":
        mine = {p for p in before if p.startswith(label)}
        here = {p for p in after if p.startswith(label)}
        same = mine & here or {before[p] for p in mine} & {after[p] for p in here}
        assert (label in lost) == bool(mine and not same)
    assert found.files == {p: s for p, s in now.items() if p[0] not in lost}


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "ignore")))
def test_any_bytes_are_a_project_or_a_clear_error(data):
    try:
        project_files.parsed(data, Path("p.yaml"))
    except UsageError as error:
        assert error.message.startswith("p.yaml") and error.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.yaml: Input should be"),
        ("roots: []\n", "p.yaml:1: roots"),
        ("include: ['*.md']\n", "roots: Field required"),
        ("roots:\n- path: /a\ncolour: red\n", "p.yaml:3: colour"),
        ("roots:\n- path: /a\n- path: /b\n", "each needs a label"),
        ("roots:\n- {label: a, path: /a}\n- {label: A, path: /b}\n", "comes twice"),
        ("roots:\n- label: a/b\n  path: /a\n", "p.yaml:2: roots.0.label"),
        ("roots:\n- label: a\n  path: ''\n", "p.yaml:3: roots.0.path: no path"),
        ("roots:\n- path: 7\n", "p.yaml:2: roots.0.path"),
        ("roots:\n- path: ~nobody-of-that-name/x\n", "p.yaml:2: roots.0.path"),
        ("roots:\n- path: /a\nexclude:\n- ok\n- '" + "*a" * 9 + "'\n", "p.yaml:5: exclude.1"),
        ("roots: [\n", "p.yaml:2"),
        ("a: &a [*a]\n", "p.yaml"),
        ("!!python/object/apply:os.system ['true']\n", "p.yaml:1"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text, said):
    with pytest.raises(UsageError) as refused:
        project_files.parsed(text.encode(), Path("p.yaml"))
    assert said in refused.value.message


def test_what_is_written_is_read(tmp_path):
    said = ProjectFile(
        roots=(RootEntry(label="a", path="/x: y"), RootEntry(label="b", path="~/#z")),
        include=("*.md",), exclude=("!drafts/", "\\#x"),
    )  # fmt: skip
    project_files.write(Layout.of(tmp_path), "demo", said)
    assert project_files.read(Layout.of(tmp_path), "demo") == said


def test_a_relative_path_is_seen_from_the_data_root(tmp_path):
    data = tmp_path / "repo" / ".ragstream"
    assert project_files.folder_of(Layout.of(data), RootEntry(path="..")) == tmp_path / "repo"
    assert project_files.folder_of(Layout.of(data), RootEntry(path="~/x")) == Path.home() / "x"


def test_globs_keep_their_meaning_when_a_folder_gets_its_label():
    one = ProjectFile(
        roots=(RootEntry(path="/srv/code"),), exclude=("/a/", "b/c", "*.log", "!/a/x", "dir/")
    )
    two = project_files.labelled(one)
    assert two.roots[0].label == "code"
    assert two.exclude == ("/code/a/", "/code/b/c", "*.log", "!/code/a/x", "dir/")


@pytest.mark.parametrize(
    ("name", "label"),
    [("Ünï ço", "Uni-co"), ("U\u0308n", "Un"), ("資料", "folder"), ("a..b", "a.b")],
)
def test_a_label_keeps_what_it_can_of_the_folders_name(name, label):
    assert project_files.label_of(name) == label
