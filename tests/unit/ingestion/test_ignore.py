"""``.gitignore`` and ``.ragignore`` decide as git does; git itself is the oracle where it is."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from ragstream_core.errors import UsageError
from ragstream_core.ingestion.scan import ScanRules, scan

TREE = [
    "a.md", "b.txt", "draft-1.md", "build/out.md", "build/keep/x.md", "src/build/y.md", "src/z.md",
    "deep/er/log.txt", "deep/er/keep.txt", "deep/log.txt", "logs/one.txt", "logs/two/three.txt",
    "notes/secret.md", "notes/open.md", "weird [x].md", "#hash.md", "!bang.md", "trail.md",
]  # fmt: skip
RULES = {
    ".gitignore": "# a comment\n/build/\ndraft-*.md\n*.txt\n!keep.txt\nlogs/**\n\\#hash.md\n\n",
    "src/.gitignore": "build\n!z.md\n",
    "notes/.gitignore": "*\n!.gitignore\n!open.md\n",
    "deep/.gitignore": "!log.txt\n",
    "deep/er/.gitignore": "log.txt\n",
}


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "project"
    for name in TREE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    return root


def write(root, rules):
    for name, text in rules.items():
        (root / name).write_text(text)


def test_without_ignore_files_pathspec_is_never_loaded(tree):
    code = (
        "import sys; from pathlib import Path; from ragstream_core.ingestion.scan import scan; "
        "print(len(scan(Path(sys.argv[1])).files), 'pathspec' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.fspath(tree)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(TREE)), "False"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the oracle")
def test_git_decides_the_same(tree):
    write(tree, RULES)
    quiet = {"cwd": tree, "check": True, "capture_output": True}
    subprocess.run(["git", "init", "-q"], **quiet)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"], **quiet
    ).stdout.split(b"\0")
    wanted = {name.decode() for name in listed if name and not name.endswith(b".gitignore")}
    assert set(scan(tree).files) == wanted
    assert wanted != set(TREE)


def test_every_ignored_file_or_folder_is_listed_once_with_the_file_that_ignores_it(tree):
    write(tree, RULES)
    found = scan(tree)
    reasons = dict(found.refused)
    assert len(reasons) == len(found.refused)
    assert reasons["build/"] == "ignored by .gitignore"
    assert reasons["src/build/"] == "ignored by src/.gitignore"
    assert reasons["notes/secret.md"] == "ignored by notes/.gitignore"
    assert not any(path.startswith("build/") for path in found.files)


def test_ragignore_comes_after_gitignore(tree):
    write(tree, {".gitignore": "*.md\n", ".ragignore": "!a.md\nb.txt\n"})
    found = scan(tree)
    assert "a.md" in found.files
    assert "src/z.md" not in found.files
    assert dict(found.refused)["b.txt"] == "ignored by .ragignore"


def test_a_change_of_an_ignore_file_is_a_change_of_the_folder(bench):
    bench.write("a.md", "a")
    bench.write("b.md", "b")
    assert bench.run().documents == 2
    (bench.docs / ".ragignore").write_text("b.md\n")
    assert bench.pending().changes.removed == ["b.md"]
    stats = bench.run()
    assert (stats.documents, stats.files["deleted"]) == (1, 1)
    assert ("b.md", "ignored by .ragignore") in stats.skipped_reasons
    (bench.docs / ".ragignore").unlink()
    assert bench.run().documents == 2


def test_a_link_is_no_ignore_file(tree, tmp_path):
    (tmp_path / "rules").write_text("*\n")
    (tree / ".gitignore").symlink_to(tmp_path / "rules")
    found = scan(tree)
    assert len(found.files) == len(TREE)
    assert "link" in dict(found.refused)[".gitignore"]


def test_a_line_that_would_take_for_ever_is_not_used_and_said(tree):
    write(tree, {".gitignore": "a*a*a*a*a*a*a*a*a*a*b\na.md\n"})
    (tree / ("a" * 200 + ".md")).write_text("x")
    found = scan(tree)
    assert "a.md" not in found.files
    assert dict(found.refused)[".gitignore"].startswith("1 lines with too many wildcards")


@pytest.mark.parametrize("line", ["a*" * 8 + "b", "*a*a*a*a*a*b", "x/*a*a*a*b"])
def test_wildcards_of_one_name_are_counted_too(tree, line):
    write(tree, {".gitignore": f"{line}\na.md\n"})
    (tree / ("a" * 200 + ".md")).write_text("x")
    found = scan(tree)
    assert "a.md" not in found.files
    assert dict(found.refused)[".gitignore"].startswith("1 lines with too many wildcards")


def test_three_wildcards_in_a_name_of_any_length_take_no_time(tree):
    write(tree, {".gitignore": "*a*a*b\n**/a*a*a*b/**\n"})
    (tree / ("a" * 250 + ".md")).write_text("x")
    began = time.process_time()
    assert len(scan(tree).files) == len(TREE) + 1
    assert time.process_time() - began < 2


@pytest.mark.parametrize("line", ["[z-a]*", "!", "a[b-\\\\]", "trailing\\"])
def test_a_line_that_is_no_pattern_takes_no_other_with_it(tree, line):
    write(tree, {".gitignore": f"notes/\n{line}\na.md\n"})
    found = scan(tree)
    assert "a.md" not in found.files and not any(p.startswith("notes/") for p in found.files)
    assert len(found.files) == len(TREE) - 3
    assert dict(found.refused)[".gitignore"] == f"no pattern, so not used: {line!r}"


@pytest.mark.parametrize("glob", ["[z-a]*", "!"])
def test_a_glob_of_the_settings_that_is_no_pattern_is_named(tree, glob):
    for rules in (ScanRules((glob,)), ScanRules(exclude=("a.md", glob))):
        with pytest.raises(UsageError, match="is no git-style glob") as refused:
            scan(tree, rules)
        assert repr(glob) in refused.value.message and "discovery." in str(refused.value)


def test_include_and_exclude_still_hold(tree):
    write(tree, {".gitignore": "a.md\n"})
    found = scan(tree, ScanRules(("*.md",), ("src/",)))
    assert "a.md" not in found.files
    assert "src/z.md" not in found.files
    assert "draft-1.md" in found.files


def test_flat_reads_the_ignore_file_of_the_root(tree):
    write(tree, {".ragignore": "draft-*\n"})
    assert "draft-1.md" not in scan(tree, ScanRules(flat=True)).files
