"""No command, server or run imports what lies in the folder that it is started in."""

import contextlib
import importlib.metadata
import json
import os
import pkgutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from ragstream_app.server.processes import HOST
from ragstream_core.config import AppConfig, child_environment, state_dir
from ragstream_core.platform.import_path import closed, python
from tests.app.test_reference import commands
from tests.processes import free_port, until
from tests.workspaces import ROOT

TRAP = """import posix
_file = posix.open({marker!r}, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT)
posix.write(_file, (__name__ + chr(10)).encode())
posix.close(_file)
"""
SPY = """import os, sys
_folder, _marker = {folder!r}, {marker!r}
def _seen(event, args):
    path = str(args[0]) if event == "open" else ""
    path = path if os.sep in path else ""  # a bare name is one in a folder that was opened
    if os.path.abspath(path).startswith(_folder + os.sep):
        _file = os.open(_marker, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(_file, (path + chr(10)).encode())
        os.close(_file)
sys.addaudithook(_seen)
"""
SETTINGS = {
    ".streamlit/config.toml": '[theme]\nbase = "stranger.toml"\n[server]\nmaxUploadSize = 7\n',
    ".streamlit/secrets.toml": 'a = "b"\n',
    "stranger.toml": '[theme]\nprimaryColor = "#ff0000"\n',
    "workspace.yaml": "load_from:\n  - python_file: select.py\n",
    "dagster.yaml": "run_launcher:\n  module: select\n  class: Launcher\n",
    "pyproject.toml": '[tool.dagster]\nmodule_name = "select"\n[tool.dg]\nproject = {}\n',
    "dg.toml": 'directory_type = "workspace"\n',
    ".env": "RAGSTREAM_PROVIDER__BASE_URL=http://127.0.0.1:1/v1\nDAGSTER_HOME=/nowhere\n",
    "ragstream.yaml": "provider: {base_url: 'http://127.0.0.1:1/v1'}\n",
}
"""What the programs that we start would read in the folder of a project of theirs."""
PROGRAM = """import sys
from ragstream_app.cli.main import main
raise SystemExit(main())
"""
EVERY = """import json, sys
from ragstream_app.cli.main import main
for words in json.loads(sys.argv[1]):
    main(words)
"""
REAL = (
    ["ingest", "demo"], ["prompt", "What lasts?", "-p", "demo"], ["search", "lasts", "-p", "demo"],
    ["project", "add", "more", "../data/doc_raw/demo", "--force"], ["status"], ["doctor"],
    ["index", "check", "demo"],
    ["history", "append", "--session", "a", "--user", "u", "--assistant", "a"],
    ["index", "tsne", "demo"], ["index", "import-pkl", "p", "../data/doc_raw/demo/x.pkl"],
)  # fmt: skip
ENDLESS = {"up", "serve"}
"""Servers; `ragstream up` has a test of its own."""


def module_names() -> set[str]:
    """Every name that an import may ask for first: of Python, of what is installed, of ours."""
    ours = {"ragstream_core", "ragstream_assets", "ragstream_app", "sitecustomize", "usercustomize"}
    found = {module.name for module in pkgutil.iter_modules()}
    return {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *found, *ours}


class Folder:
    """A folder with a trap for every module."""

    def __init__(self, path: Path) -> None:
        self.path, self.marker = path, path.parent / "sprung"
        path.mkdir(parents=True)
        text = TRAP.format(marker=str(self.marker))
        for name in filter(str.isidentifier, module_names()):
            (path / f"{name}.py").write_text(text)
        for name, said in SETTINGS.items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_text(said)

    def spy(self) -> str:
        """Return a folder for `PYTHONPATH` with which every Python notes what it opens here."""
        home = self.path.parent / "spy"
        home.mkdir(exist_ok=True)
        told = SPY.format(folder=str(self.path), marker=str(self.marker))
        (home / "sitecustomize.py").write_text(told)
        return str(home)

    def sprung(self) -> set[str]:
        """The modules that were imported, and with a spy the files that were opened."""
        return set(self.marker.read_text().split()) if self.marker.exists() else set()


@pytest.fixture
def folder(tmp_path):
    found = Folder(tmp_path / "downloads")
    docs = tmp_path / "data" / "doc_raw" / "demo"
    docs.mkdir(parents=True)
    (docs / "a.md").write_text("# What lasts\n\nSomething that lasts.\n")
    (docs / "a.pdf").write_bytes(b"%PDF-1.4 and no more")
    (docs / "x.pkl").write_bytes(b"no pickle")
    yield found
    assert found.sprung() == set()


@pytest.fixture
def environment(tmp_path, folder):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "PYTHON"))}
    return kept | {
        "RAGSTREAM_DATA_DIR": str(tmp_path / "data"),
        "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
        "RAGSTREAM_RERANK__BACKEND": "none",
        "RAGSTREAM_API__ENABLED": "true",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def program(tmp_path):
    """Return the words that run code as an installed program runs: by its path."""

    def made(code: str) -> list[str]:
        path = tmp_path / "bin" / f"{len(code)}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        return [sys.executable, str(path)]

    return made


def test_the_traps_work(tmp_path):
    folder = Folder(tmp_path / "traps" / "downloads")
    subprocess.run([sys.executable, "-c", "import token, dagster"], cwd=folder.path, check=False)
    assert folder.sprung() >= {"token", "dagster"}


def test_every_command_of_the_program(folder, environment, program):
    """All in one process, for each would find its modules where the others do."""
    bare = [words for words in commands() if words and words[0] not in ENDLESS]
    done = subprocess.run(
        [*program(EVERY), json.dumps([*REAL, *bare])], env=environment, cwd=folder.path,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Something that lasts" in done.stdout


def test_the_spy_works(tmp_path):
    folder = Folder(tmp_path / "traps" / "downloads")
    for code in ("import streamlit.config as c; c.get_config_options()", "open('./.env')"):
        given = {**os.environ, "PYTHONPATH": folder.spy()}
        subprocess.run(python("-c", code), cwd=folder.path, env=given, check=True)
    seen = {os.path.relpath(folder.path / name, folder.path) for name in folder.sprung()}
    assert seen == {".streamlit/config.toml", "stranger.toml", ".env"}


def test_the_page_reads_nothing_of_the_folder_that_it_is_started_in(folder, environment):
    port = free_port()
    given = environment | {
        "RAGSTREAM_PAGE__PORT": str(port),
        "PYTHONPATH": os.pathsep.join([str(ROOT), folder.spy()]),
    }
    words = python("-m", "ragstream_app.server.page")
    with subprocess.Popen(words, env=given, cwd=folder.path, stderr=subprocess.PIPE) as process:
        try:
            assert until(lambda: _answers(port) or process.poll() is not None, 120)
            assert process.poll() is None
            _open_the_page(port)
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        _open_the_page(port)
        return True
    return False


def test_python_with_our_package_as_its_program(folder, environment):
    """Python itself has searched the folder for `runpy` by then, which -P forbids."""
    words = ["-m", "ragstream_app", "--version"]
    done = subprocess.run(
        python(*words), env=environment, cwd=folder.path, capture_output=True, check=True
    )
    assert done.stdout.startswith(b"ragstream")


@pytest.mark.slow
def test_up_and_a_run(folder, environment, program, tmp_path):
    ports = [free_port() for _ in range(3)]
    given = {**environment, "RAGSTREAM_API__PORT": str(ports[2])}
    given["PYTHONPATH"] = os.pathsep.join([str(ROOT), folder.spy()])
    words = ["up", "--port", str(ports[0]), "--page-port", str(ports[1])]
    log = tmp_path / "out"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*program(PROGRAM), *words], stdout=out, stderr=out, env=given, cwd=folder.path
        )
    try:
        assert until(lambda: b"Ctrl-C" in log.read_bytes() or process.poll() is not None, 180)
        assert process.poll() is None, log.read_text()
        _open_the_page(ports[1])
        assert until(lambda: _statuses(ports[0]) == {"SUCCESS"}, 180), log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def _open_the_page(port: int) -> None:
    with urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=60) as answer:
        assert answer.status == 200


def _statuses(port: int) -> set[str]:
    """How the runs stand that the folder's sensor asks for by itself."""
    query = "{ runsOrError { ... on Runs { results { status } } } }"
    request = urllib.request.Request(
        f"http://{HOST}:{port}/graphql", json.dumps({"query": query}).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=60) as answer:
        return {run["status"] for run in json.load(answer)["data"]["runsOrError"]["results"]}
    return set()


def test_what_a_child_is_given_of_a_python_path(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    given = [
        "", ".", "lib", str(here), f"{here}/", str(here / "lib"), str(tmp_path / "link"),
        str(tmp_path / "link" / ".." / "here"), str(tmp_path / "here-not"), "/opt/mine",
    ]  # fmt: skip
    found = closed({"PYTHONPATH": os.pathsep.join(given), "A": "1"}, str(here))
    kept = os.pathsep.join([str(tmp_path / "here-not"), "/opt/mine"])
    assert found == {"PYTHONPATH": kept, "PYTHONSAFEPATH": "1", "A": "1"}


def test_the_children_of_a_server_search_no_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}{tmp_path}")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    given = child_environment(AppConfig.load())
    code = "import sys; print(*sys.path, sep=chr(10))"
    said = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True)
    assert not {"", ".", str(tmp_path)} & set(said.stdout.split("\n")[:-1])


def test_what_a_deployment_starts_searches_no_working_directory():
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    words = [service.get("command", []) for service in compose["services"].values()]
    lines = (ROOT / "deploy" / "Procfile").read_text().splitlines()
    words += [line.partition(": ")[2].split() for line in lines]
    pythons = [word for word in words if word[:1] == ["python"]]
    assert len(pythons) == 6 and all(word[1] == "-P" for word in pythons)


def test_paths_from_the_working_directory_hold_for_a_child_that_leaves_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGSTREAM_PATHS__INDEX_DIR", "indexes")
    monkeypatch.setenv("RAGSTREAM_PATHS__LOGS", "/var/somewhere")
    monkeypatch.setenv("RAGSTREAM_STATE_DIR", "state")
    here = AppConfig.load(explicit={"history.lexicon": "words.yaml"})
    given = child_environment(here)
    assert "RAGSTREAM_PROVIDER__SCRIPT" not in given
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    found = AppConfig.load()
    assert (found.data_dir, found.layout.indexes) == (tmp_path / "data", tmp_path / "indexes")
    assert found.layout.logs == Path("/var/somewhere") and state_dir() == tmp_path / "state"
    assert found.settings.history.lexicon == str(tmp_path / "words.yaml")
