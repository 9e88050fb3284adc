"""``.gitignore`` and ``.ragignore`` decide as git does; git itself is the oracle where it is."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from ragstream_core.errors import UsageError
from ragstream_core.ingestion.ignore import is_pattern, rules_of
from ragstream_core.ingestion.scan import ScanRules, scan

TREE = [
    "a.md", "b.txt", "draft-1.md", "drafts/out.md", "drafts/keep/x.md", "src/drafts/y.md",
    "src/z.md", "deep/er/log.txt", "deep/er/keep.txt", "deep/log.txt", "logs/one.txt",
    "logs/two/three.txt", "notes/secret.md", "notes/open.md", "weird [x].md", "#hash.md",
    "!bang.md", "trail.md",
]  # fmt: skip
RULES = {
    ".gitignore": "# a comment\n/drafts/\ndraft-*.md\n*.txt\n!keep.txt\nlogs/**\n\\#hash.md\n\n",
    "src/.gitignore": "drafts\n!z.md\n",
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
    assert reasons["drafts/"] == "ignored by .gitignore"
    assert reasons["src/drafts/"] == "ignored by src/.gitignore"
    assert reasons["notes/secret.md"] == "ignored by notes/.gitignore"
    assert not any(path.startswith("drafts/") for path in found.files)


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
    assert dict(found.refused)[".gitignore"].startswith("1 line not used: too many wildcards")


@pytest.mark.parametrize("line", ["a*" * 8 + "b", "*a*a*a*a*a*b", "x/*a*a*a*b"])
def test_wildcards_of_one_name_are_counted_too(tree, line):
    write(tree, {".gitignore": f"{line}\na.md\n"})
    (tree / ("a" * 200 + ".md")).write_text("x")
    found = scan(tree)
    assert "a.md" not in found.files
    assert dict(found.refused)[".gitignore"].startswith("1 line not used: too many wildcards")


def test_three_wildcards_in_a_name_of_any_length_take_no_time(tree):
    write(tree, {".gitignore": "*a*a*b\n**/a*a*a*b/**\n"})
    (tree / ("a" * 250 + ".md")).write_text("x")
    began = time.process_time()
    assert len(scan(tree).files) == len(TREE) + 1
    assert time.process_time() - began < 20


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


HOSTILE = {
    "one long line": ("a" * 500_000, "what follows the first 100,000 bytes is not used"),
    "a line that is too long": ("a" * 90_000, "1 line not used: over 1,000 characters"),
    "folders in one line": ("**/" * 300 + "x", "1 line not used: too many wildcards"),
    "folders in many lines": ("**/\n" * 50_000, "what follows line 2,000 is not used"),
    "different lines": (
        "".join(f"{n}.x\n" for n in range(1_500)),
        "501 lines not used: at most 1,000 patterns hold for a folder",
    ),
    "different long lines": (
        "".join(f"{n}{'x' * 990}\n" for n in range(100)), "",
    ),
    "stars": ("".join(f"*a*a*{n}b\n" for n in range(1_000)), "889 lines not used"),
    "letters that nearly end": (
        "".join(f"*a*a*a[b{chr(200 + n)}]\n" for n in range(1_000)), "889 lines not used",
    ),
    "folders between folders": (
        "".join(f"**/a/**/a/**/{n}b\n" for n in range(1_000)), "889 lines not used",
    ),
}  # fmt: skip


@pytest.mark.parametrize("depth", [0, 6])
@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_hostile_ignore_file_costs_is_bounded_and_said(tmp_path, name, depth):
    text, reason = HOSTILE[name]
    folder = tmp_path.joinpath(*["a" * 20] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(200):
        (folder / f"{'a' * 100}{number}.md").write_text("x")
    (tmp_path / "secret.md").write_text("x")
    (tmp_path / ".gitignore").write_text(f"secret.md\n{text}")
    began = time.process_time()
    found = scan(tmp_path)
    assert time.process_time() - began < 20, "a tenth of a second; without a bound, many minutes"
    assert reason in dict(found.refused).get(".gitignore", "")
    assert dict(found.refused)["secret.md"] == "ignored by .gitignore"


def test_ignore_files_of_many_folders_are_bounded_together(tmp_path):
    for number in range(50):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "a.md").write_text("x")
        rules = "".join(f"{number}-{line}-{'x' * 50}\n" for line in range(500))
        (tmp_path / f"{number}" / ".gitignore").write_text(rules)
    found = scan(tmp_path)
    assert len(found.files) == 50
    unused = [reason for _, reason in found.refused]
    assert 10 < len(unused) < 50
    assert all("over 100,000 characters" in reason for reason in unused)


def test_rules_of_the_folders_above_count(tmp_path):
    folder = tmp_path
    for depth in range(3):
        folder = folder / "a" if depth else folder
        folder.mkdir(exist_ok=True)
        (folder / ".gitignore").write_text("".join(f"{depth}-{n}\n" for n in range(400)))
    (folder / "a.md").write_text("x")
    ((path, reason),) = scan(tmp_path).refused
    assert path == "a/a/.gitignore"
    assert reason.startswith("200 lines not used: at most 1,000 patterns hold for a folder")


letters = st.sampled_from(["a", "b", "*", "**", "/", "?", "[ab]", "[!a]", "\\*", "!", ".", "/**/"])
lines = st.lists(letters, min_size=1, max_size=8).map("".join)
paths = st.lists(st.text("ab*.", min_size=1, max_size=5), min_size=1, max_size=5).map("/".join)


@settings(max_examples=500)
@given(st.lists(lines, min_size=1, max_size=3), paths, st.sampled_from(["", "/"]))
def test_a_pattern_that_never_retries_decides_as_pathspec_does(patterns, path, end):
    """Also by what it matches, a folder or the file itself, for that decides between patterns."""
    assume(all(map(is_pattern, patterns)))
    oracle, ours = GitIgnoreSpec.from_lines(patterns), rules_of("", patterns).specs[0][1]
    assert ours.check_file(path + end).include == oracle.check_file(path + end).include


def test_line_ends_and_marks_of_other_systems(tree):
    (tree / ".gitignore").write_bytes(b"\xef\xbb\xbfa.md\r\n\0\r\nb.txt\r\n")
    assert not {"a.md", "b.txt"} & set(scan(tree).files)
