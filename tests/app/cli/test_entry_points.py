"""The commands that were drafted as scripts: they run, and share settings and console (R-099)."""

import re

import pytest
import typer
from typer.core import TyperGroup

from ragstream_app.cli.main import app
from tests.workspaces import ROOT

TABLE = (ROOT / "data/doc_raw/handbook/command-line.md").read_text(encoding="utf-8")
DRAFTED = dict(re.findall(r"^\| `(\w+\.py)` \| `ragstream ([a-z ]+)` \|$", TABLE, re.MULTILINE))
SCRIPTS = {
    "chat_cli.py", "ingest_markdown.py", "generate_test_spec.py", "inspect_index.py",
    "inspect_neighbors.py", "visualize_tsne.py",
}  # fmt: skip


def leaves(command, words=()):
    """Yield the words of every command."""
    if not isinstance(command, TyperGroup):
        yield words
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, (*words, name))


COMMANDS = sorted(leaves(typer.main.get_command(app)))


def test_every_drafted_script_has_its_command():
    assert set(DRAFTED) == SCRIPTS
    assert {tuple(words.split()) for words in DRAFTED.values()} <= set(COMMANDS)


@pytest.mark.parametrize("words", sorted(DRAFTED.values()))
def test_the_entry_points_run(words, spawn, indexed):
    done = spawn(*words.split(), "--help")
    assert done.returncode == 0 and f"ragstream {words} [OPTIONS]" in done.stdout


@pytest.mark.parametrize(
    "words",
    [("ingest", "manual"), ("chat", "-p", "manual"), ("index", "inspect", "manual"),
     ("index", "neighbors", "manual"), ("index", "tsne", "manual"), ("spec", "manual"),
     ("status",), ("doctor",)],
    ids=" ".join,
)  # fmt: skip
def test_each_reads_the_file_that_config_names(words, run, indexed, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("retrieval: {nosuch: 1}\n")
    code, out, err = run(*words, "--config", str(path))
    assert code == 2 and "retrieval.nosuch" in out + err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_takes_config_anywhere(words, run):
    assert run(*words, "--config", "mine.yaml", "--help")[0] == 0


def test_there_is_one_console():
    making = [
        path.name
        for path in sorted((ROOT / "ragstream_app").rglob("*.py"))
        if re.search(r"(?<!def )\bConsole\(", path.read_text(encoding="utf-8"))
    ]
    assert making == ["session.py"]
