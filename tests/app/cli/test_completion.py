"""What the Tab key completes, asked by a real shell with the script that is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash")
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_ragstream_completion ragstream
printf '%s\\n' "${COMPREPLY[@]}"
"""
pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of its own, in which completion was installed as a person does it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = subprocess.run(
        ["ragstream", "--install-completion", "bash"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.fixture
def complete(home):
    def call(*words):
        script = home / ".bash_completions" / "ragstream.sh"
        command = [BASH, "--norc", "-c", ASK, "bash", str(script), "ragstream", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return call


def test_a_shell_completes_commands_and_names(data, home, complete):
    for name in ("alpha", "alto"):
        (data / "doc_raw" / name).mkdir()
    (home / "ragstream.yaml").write_text("tasks:\n  shipping: {}\n")
    assert complete("inge") == ["ingest"]
    assert complete("ingest", "al") == ["alpha", "alto"]
    for words in (("prompt", "x", "-p"), ("mcp", "-p"), ("serve", "-p"), ("project", "remove")):
        assert complete(*words, "m") == ["manual"], words
    assert complete("prompt", "x", "--task", "sh") == ["shipping", "short"]
    assert "gate.theta=" in complete("prompt", "x", "--set", "gate.")
    assert complete("prompt", "x", "--mod") == ["--model-target"]


def test_another_data_root_and_recorded_prompts_complete(indexed, complete, run, tmp_path):
    (tmp_path / "other" / "doc_raw" / "theirs").mkdir(parents=True)
    assert complete("--data", str(tmp_path / "other"), "ingest", "") == ["theirs"]
    key = run("prompt", "What restricts a prompt?", "-p", "manual")[2]
    (found,) = complete("explain", "")
    assert found in key


def test_a_broken_configuration_completes_to_nothing_without_a_word(home, data, complete):
    (home / "ragstream.yaml").write_text("nonsense: [")
    assert complete("ingest", "") == []


def test_completing_a_command_loads_nothing_of_the_library(home):
    code = (
        "import os, sys, ragstream_app.cli.main as m\n"
        "try: m.main([])\n"
        "finally:\n"
        " own = [x for x in sys.modules if x.startswith('ragstream_core.')]\n"
        " print(own, file=sys.stderr)"
    )
    env = {**os.environ, "_RAGSTREAM_COMPLETE": "complete_bash", "COMP_WORDS": "ragstream inge"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**env, "COMP_CWORD": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["ingest"]
    plurals = ["ragstream_core.text", "ragstream_core.text.plurals"]
    assert done.stderr.strip() == str(["ragstream_core.errors", *plurals])
