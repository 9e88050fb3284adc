"""`--file` and `--diff` as a person sees them, before and after the prompt is built."""

import json
import shutil
import subprocess

import pytest

from tests.app.page_driver import ask, click, control, desk, open_page, said
from tests.app.page_driver import run as draw

QUESTION = "Explain the exact file lock. type:md"
PAGE = "guide/locks.md"


@pytest.fixture
def page(indexed):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    found = indexed / "doc_raw" / "manual" / PAGE
    for words in (["init", "-q"], ["add", "doc_raw"], ["commit", "-q", "-m", "one"]):
        given = ["-c", "user.name=t", "-c", "user.email=t@t", "-C", str(indexed)]
        subprocess.run(["git", *given, *words], check=True, capture_output=True)
    found.write_text(found.read_text() + "\nA line that came later.\n")
    return found


def test_a_stage_before_the_builder_lists_files_and_diffs(page, run):
    wanted = ("--file", PAGE, "--diff", PAGE, "--stale", "ok")
    code, out, err = run("prompt", QUESTION, "-p", "manual", *wanted, "--through", "a2")
    assert code == 0, (out, err)
    assert "❖ FILES (2)" in out
    assert f"manual/{PAGE}  FULL  sha256 " in out
    assert f"manual/{PAGE}  DIFF  sha256 " in out


def test_the_json_form_lists_them_without_their_text(page, run):
    wanted = ("--diff", PAGE, "--stale", "ok", "--json")
    code, out, err = run("prompt", QUESTION, "-p", "manual", *wanted)
    assert code == 0, (out, err)
    (row,) = json.loads(out)["files"]
    assert (row["path"], row["mode"]) == (PAGE, "DIFF") and "text" not in row
    assert "| +A line that came later." in json.loads(out)["super_prompt"]


def test_a_citation_of_changes_and_of_a_file_says_which_it_is(page, run):
    wanted = ("--file", PAGE, "--diff", PAGE, "--stale", "ok", "--json")
    found = json.loads(run("prompt", QUESTION, "-p", "manual", *wanted)[1])
    ways = {}
    for row in found["files"]:
        code, ways[row["mode"]], err = run("trace", row["id"], found["prompt_key"])
        assert (code, err) == (0, "")
    assert f"changes     of manual/{PAGE} since its last commit: current" in ways["DIFF"]
    assert f"file        manual/{PAGE}, injected: current" in ways["FULL"]


def test_a_file_that_cannot_be_compared_is_wrong_usage(indexed, run, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(indexed))
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--diff", PAGE)
    assert (code, out) == (2, "") and PAGE in err and "work tree" in err


def test_filters_narrow_a_search(indexed, run):
    code, out, _ = run("search", "lock type:pdf", "-p", "manual", "--json")
    assert (code, json.loads(out)) == (0, [])


@pytest.mark.parametrize("several", [False, True])
def test_the_page_has_a_control_for_the_changes_of_a_file(page, run, write_pages, several):
    if several:
        write_pages(page.parents[3], "other")
        assert run("ingest", "other")[0] == 0
    tab = open_page()
    names = ["manual", *(["other"] if several else [])]
    control(tab, "multiselect", "Projects").set_value(names)
    control(draw(tab), "multiselect", "Changes since").set_value([f"manual/{PAGE}"])
    assert run("ingest", "manual")[0] == 0
    click(ask(draw(tab), QUESTION), "Build prompt")
    wanted = f"manual/{PAGE}" if several else PAGE
    assert desk(tab).request.diffs == (wanted,)
    assert "+A line that came later." in desk(tab).last.super_prompt.extras.super_prompt
    words = [word for name in names for word in ("-p", name)]
    made = json.loads(run("prompt", QUESTION, *words, "--diff", wanted, "--json")[1])
    assert made["super_prompt"] == desk(tab).last.super_prompt.extras.super_prompt
    control(tab, "multiselect", "Changes since").set_value([])
    assert desk(tab).stale(desk(tab).request) == [] and "the changes" in said(draw(tab))
