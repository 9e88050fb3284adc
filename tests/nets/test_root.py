"""A data root that commit ffedadb6 wrote is read, grows, replays, is cleared, backed up, restored.

Two projects (one in two generations), conversations with a cleared one, tags and an answer, a kept
prompt and its successor, remembered facts, a published history, a bundle. It is never written
anew: what people have on their disks does not change either. ``made.json`` holds the prompts' keys
and digests, and the versions that the stages had.
"""

import json
import os
import shutil
import tarfile
from pathlib import Path
from unittest.mock import patch

import pytest

from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.identity import sha256_hex
from tests.nets.commands import Life, alone

ARCHIVE = Path(__file__).with_name("root.tar.gz")


class OlderLife(Life):
    """The life goes on, and every command of it succeeds."""

    made: dict

    def __call__(self, *words, stdin=""):
        value = super().__call__(*words, stdin=stdin)
        assert self.printed[-1][2] == 0, (words, value)
        return value

    def replays(self):
        """Each prompt makes its bytes again, unless a stage's version was raised since."""
        for name, row in self.made["prompts"].items():
            verdict = Life.__call__(self, "replay", row["key"])["verdict"]
            differs = set() if self.is_of_now() else {"environment differs"}
            assert verdict in {"identical"} | differs, name

    def is_of_now(self):
        return self.made["versions"] == STAGE_VERSIONS


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    home = tmp_path_factory.mktemp("older")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(home, filter="data")
    return home


@pytest.fixture
def life(unpacked, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(unpacked, home)
    with alone(home):
        older = OlderLife(home)
        older.made = json.loads((home / "made.json").read_text())
        yield older


def files_with(root, words):
    return [path for path in root.rglob("*") if path.is_file() and words in path.read_bytes()]


def test_it_is_sound_and_says_what_it_holds(life):
    assert life("index", "check", "--read-data", "1/1")
    assert life("history", "check", "--read-data", "1/1")
    pending = [row["pending"] for row in life("status")["projects"]]
    assert not any(row["new"] or row["removed"] for row in pending)
    turns = life("history", "show", "--all")["turns"]
    assert [turn["session_id"] for turn in turns] == ["old", "old", "mine", "mine", "answers"]
    assert [turn["tags"] for turn in turns][:2] == [["GOLD"], ["robots"]]
    assert not files_with(life.root, b"Aquamarine")
    remembered = json.dumps(life("memory", "show"))
    assert "data engineer in Lisbon" in remembered and "tea" in remembered
    assert "bills in euros" not in remembered


def test_its_prompts_are_there_and_replay(life):
    for row in life.made["prompts"].values():
        text = (life.root / "prompts" / row["key"] / "super_prompt.md").read_bytes()
        assert sha256_hex(text.decode()) == row["sha256"]
    life.replays()
    kept, successor = (life.made["prompts"][name]["key"] for name in ("kept", "successor"))
    assert life("explain", kept)["prompt_key"] == kept
    assert life("diff", kept, successor)
    if life.is_of_now():
        assert life("replay", "--bundle", "kept.bundle")["verdict"] == "identical"


def test_an_ingest_reads_what_changed_and_the_prompts_replay(life):
    assert not any(row["committed"] for row in life("ingest"))
    docs = life.root / "doc_raw" / "demo"
    (docs / "catalog.md").write_text("# The catalog\n\nThe catalog is kept by two people.\n")
    (docs / "new.md").write_text("# New\n\nA page that came later.\n")
    grown = life("ingest", "demo")
    assert (grown["generation"], grown["committed"]) == (3, True)
    assert (grown["files"]["new"], grown["files"]["updated"], grown["chunks"]["embedded"]) == (
        1, 1, 2,
    )  # fmt: skip
    assert life("index", "check", "--read-data", "1/1")
    life.replays()
    assert "by two people" in life("prompt", "Who keeps the catalog?", "-p", "demo")["super_prompt"]


def test_its_conversation_goes_on_and_is_cleared(life):
    said = ("--user", "And Dagster's?", "--assistant", "Port 3000.")
    life("history", "append", "--session", "mine", *said)
    life("history", "embed")
    made = life("prompt", "Which port was it?", "-p", "demo", "--session", "mine")
    assert "Port 3000." in made["super_prompt"]
    life("history", "clear", "--session", "old", "--yes")
    life("history", "check", "--read-data", "1/1")
    assert {turn["session_id"] for turn in life("history", "show", "--all")["turns"]} == {
        "mine", "answers",
    }  # fmt: skip
    assert not files_with(life.root, b"Pegasus runs at two")
    life("memory", "remove", "The user likes tea.")
    assert not files_with(life.root / "memory", b"likes tea")


def test_it_is_backed_up_and_restored(life):
    life("backup", "saved", "--documents")
    with patch.dict(os.environ, {"RAGSTREAM_DATA_DIR": str(life.home / "second")}):
        life("restore", "saved")
        life("index", "check", "--read-data", "1/1")
        life("history", "check", "--read-data", "1/1")
        life.replays()


def test_a_file_is_forgotten(life):
    life("forget", "pumpe.md", "-p", "demo", "--delete")
    assert not files_with(life.root, "Kühlmittelpumpe".encode())
    life("index", "check", "--read-data", "1/1")
