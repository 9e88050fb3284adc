"""A data root written by an earlier version (commit 9e79283): what it takes to go on with it.

It was made with hashed embeddings and without recording: a project of three documents in two
generations with its Chroma collection, a conversation of two turns, two prompts (one of them kept,
and in a bundle).
"""

import json
import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "data-9e79283.tar.gz"
KEPT = "db8e21a55608"
WITH_A_FILE = "2f0a5d5d52cc"


@pytest.fixture
def older(environment):
    """The older data root, in the place of this test's own."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(environment.parent, filter="data")
    return environment


def as_json(run, *words):
    code, out, err = run(*words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def made_anew(older, run):
    """The older data root after the two commands that its refusals name."""
    assert run("ingest", "manual", "--rebuild")[0] == 0
    assert run("history", "backfill", "--rebuild")[0] == 0
    return older


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("ingest", "manual"), "ingest manual --rebuild"),
        (("prompt", "Which port?", "-p", "manual"), "ingest manual --rebuild"),
        (("index", "check", "manual"), "ingest manual --rebuild"),
        (("forget", "ports.md", "-p", "manual", "--delete"), "ingest manual --rebuild"),
        (("history", "embed"), "history backfill --rebuild"),
    ],
)
def test_the_earlier_format_is_refused_with_the_command_that_makes_it_anew(
    older, run, words, command
):
    code, out, err = run(*words)
    assert code != 0
    assert "of format 1" in out + err and f"ragstream {command}" in out + err


def test_its_index_is_made_anew_of_the_documents_and_nothing_is_embedded(older, run):
    said = as_json(run, "ingest", "manual", "--rebuild")
    assert (said["generation"], said["chunks"]["embedded"], said["chunks"]["live"]) == (1, 0, 3)
    assert as_json(run, "history", "backfill", "--rebuild")["embedded"] == 0
    assert run("index", "check", "manual", "--read-data", "1/1")[0] == 0
    assert run("history", "check")[0] == 0
    (older / "doc_raw" / "manual" / "new.md").write_text("# New\n\nA page that came later.\n")
    found = as_json(run, "ingest", "manual")
    assert (found["generation"], found["chunks"]["embedded"]) == (2, 1)
    assert not as_json(run, "ingest", "manual")["committed"]


@pytest.mark.parametrize("key", [KEPT, WITH_A_FILE])
def test_its_prompts_are_there_and_say_that_their_generation_went(made_anew, run, key):
    code, out, _ = run("replay", key, "--json")
    found = json.loads(out)
    assert (code, found["verdict"]) == (3, "input unavailable"), found
    assert run("explain", key)[0] == 0
    text = (made_anew / "prompts").glob(f"{key}*/super_prompt.md")
    assert next(text).read_text().startswith("## [")


def test_its_bundle_is_read(older, run):
    code, out, err = run("replay", "--bundle", str(older.parent / "p1.zip"), "--json")
    assert code in (0, 3), err
    found = json.loads(out)  # its selection of older turns has the terms of earlier rules
    assert found["verdict"] == "input unavailable" and "lexical" in found["reason"], found


def test_its_conversation_goes_on(made_anew, run):
    assert [t["seq"] for t in as_json(run, "history", "show", "--session", "plan")["turns"]] == [
        1,
        2,
    ]
    said = ("--user", "And Dagster's?", "--assistant", "Port 3000.")
    assert run("history", "append", "--session", "plan", *said)[0] == 0
    assert run("history", "embed")[0] == 0
    found = as_json(run, "prompt", "Which port was it?", "-p", "manual", "--session", "plan")
    assert "Port 8503." in found["super_prompt"] and "Port 3000." in found["super_prompt"]


def test_it_can_be_cleared_and_forgotten(made_anew, run):
    assert run("history", "clear", "--session", "plan", "--yes")[0] == 0
    assert as_json(run, "history", "show", "--all")["turns"] == []
    assert run("forget", "ports.md", "-p", "manual", "--delete")[0] == 0
    left = [
        p for p in made_anew.rglob("*") if p.is_file() and b"listens on port 8503" in p.read_bytes()
    ]
    assert not left
