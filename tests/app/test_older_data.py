"""A data root written by an earlier version (commit 9e79283) opens, grows, replays and is cleared.

It was made with hashed embeddings and without recording: a project of three documents in two
generations with its Chroma collection, a conversation of two turns, two prompts (one of them kept,
and in a bundle).
"""

import contextlib
import json
import sqlite3
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


def format_of(catalog):
    with contextlib.closing(sqlite3.connect(catalog)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def as_json(run, *words):
    code, out, err = run(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_its_index_is_sound_and_an_ingest_embeds_only_what_is_new(older, run):
    assert run("index", "check", "manual")[0] == 0
    assert run("history", "check")[0] == 0
    cut = as_json(run, "ingest", "manual")  # by newer rules: other borders, perhaps, of all texts
    assert cut["chunks"]["embedded"] == 0 and cut["generation"] == 3
    (older / "doc_raw" / "manual" / "new.md").write_text("# New\n\nA page that came later.\n")
    found = as_json(run, "ingest", "manual")
    assert (found["generation"], found["chunks"]["embedded"]) == (4, 1)
    assert found["chunks"]["live"] == 4
    catalog = older / "index" / "manual" / "catalog.sqlite"
    assert format_of(catalog) == 1
    assert "would be written anew" in run("index", "gc", "manual", "--new-format", "--dry-run")[1]
    assert format_of(catalog) == 1
    assert as_json(run, "index", "gc", "manual", "--new-format")[0]["new_format"]
    assert format_of(catalog) == 2
    assert run("index", "check", "manual", "--read-data", "1/1")[0] == 0
    assert not as_json(run, "ingest", "manual")["committed"]
    assert not as_json(run, "index", "gc", "manual", "--new-format")[0]["new_format"]


@pytest.mark.parametrize("key", [KEPT, WITH_A_FILE])
def test_its_prompts_replay_or_say_that_the_code_is_another(older, run, key):
    """Scores may change between versions; then the replay names the first stage that differs."""
    code, out, err = run("replay", key, "--json")
    found = json.loads(out)
    assert code in (0, 3), err
    assert found["verdict"] in ("identical", "environment differs"), found
    assert run("explain", key)[0] == 0
    text = (older / "prompts").glob(f"{key}*/super_prompt.md")
    assert next(text).read_text().startswith("## [")


def test_its_bundle_is_read(older, run):
    code, out, err = run("replay", "--bundle", str(older.parent / "p1.zip"), "--json")
    assert code in (0, 3), err
    found = json.loads(out)  # its selection of older turns has the terms of earlier rules
    assert found["verdict"] == "input unavailable" and "lexical" in found["reason"], found


def test_its_conversation_goes_on(older, run):
    assert [t["seq"] for t in as_json(run, "history", "show", "--session", "plan")["turns"]] == [
        1,
        2,
    ]
    said = ("--user", "And Dagster's?", "--assistant", "Port 3000.")
    assert run("history", "append", "--session", "plan", *said)[0] == 0
    assert run("history", "embed")[0] == 0
    found = as_json(run, "prompt", "Which port was it?", "-p", "manual", "--session", "plan")
    assert "Port 8503." in found["super_prompt"] and "Port 3000." in found["super_prompt"]


def test_it_can_be_cleared_and_forgotten(older, run):
    assert run("history", "clear", "--session", "plan", "--yes")[0] == 0
    assert as_json(run, "history", "show", "--all")["turns"] == []
    assert run("forget", "ports.md", "-p", "manual", "--delete")[0] == 0
    left = [
        p for p in older.rglob("*") if p.is_file() and b"listens on port 8503" in p.read_bytes()
    ]
    assert not left
