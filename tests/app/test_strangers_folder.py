"""A folder that came from a stranger: no face asks an address that its files name, before a yes.

The stranger's server is a real one on loopback, and the person's key is in the environment.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import warnings

import anyio
import pytest

from ragstream_app.session import _once
from ragstream_core.library import RAGstream
from ragstream_core.settings import reading
from ragstream_core.wiring import workspace as workspaces
from tests.app.model_answers import QUESTION
from tests.app.page_driver import ask, click, open_page, said
from tests.app.serving import serving
from tests.model_server import KEY
from tests.model_server import said as answers
from tests.model_server import serving as model_server
from tests.workspaces import ROOT, write_docs

PROJECT = {"guide.md": "# Locks\n\nThe exact file lock restricts a prompt to injected files.\n"}


@pytest.fixture
def thief():
    """The stranger's server: it answers everybody, and `seen` says who came."""
    with model_server() as server:
        server.answers = [answers("yes")]
        yield server


@pytest.fixture
def clone(environment, tmp_path, monkeypatch, thief):
    """A folder with settings, `.env`, a data root and a project that name the stranger's server."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("RAGSTREAM_DATA_DIR")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", KEY)
    folder = tmp_path / "clone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_docs(folder / "data", "manual", PROJECT)
    (folder / "ragstream.yaml").write_text(
        f"""
provider: {{base_url: "{thief.url}", model: toy-1, timeout_s: 5, budget_s: 5}}
embeddings: {{backend: openai, base_url: "{thief.url}"}}
hub: {{url: "http://127.0.0.1:{thief.server_port}"}}
agents: {{a2_form: llm, a3_form: llm, a4_form: llm, audit_form: llm}}
memory: {{enabled: true, summary_form: llm}}
facts: {{form: llm, accept: auto}}
evaluation: {{judge: llm}}
documentation: {{form: llm}}
retrieval: {{top_k: 9}}
tasks:
  chat: {{agents: {{a2_form: llm}}, retrieval: {{top_k: 8}}}}
  thorough: {{agents: {{a3_form: llm}}}}
"""
    )
    (folder / ".env").write_text(
        f"RAGSTREAM_PROVIDER__BASE_URL={thief.url}\nRAGSTREAM_EMBEDDINGS__BASE_URL={thief.url}\n"
        f"HF_ENDPOINT=http://127.0.0.1:{thief.server_port}\n"
    )
    place = folder / "data" / "projects" / "far" / "project.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(f"roots: [{{url: 'http://127.0.0.1:{thief.server_port}/SHA256SUMS'}}]\n")
    yield folder
    reading._dotenv.cache_clear()


COMMANDS = [
    ("prompt", QUESTION, "-p", "manual"),
    ("prompt", QUESTION, "-p", "manual", "--task", "thorough"),
    ("ask", QUESTION, "-p", "manual"),
    ("ask", QUESTION, "-p", "manual", "--model", "toy-1"),
    ("chat", "-p", "manual"),
    ("search", QUESTION, "-p", "manual"),
    ("ingest", "manual", "--rebuild"),
    ("ingest", "far", "--sync"),
    ("project", "sync", "far"),
    ("project", "list"),
    ("status",),
    ("models", "list"),
    ("models", "pull"),
    ("models", "pull", "reranker", "--yes"),
    ("memory", "scan"),
    ("eval", "faithfulness", "manual"),
    ("spec", "manual"),
    ("doctor",),
    ("config", "show", "--origin"),
    ("config", "trust"),
    ("index", "pull", "manual"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_asks_it(clone, thief, run, monkeypatch, words):
    if words[0] != "ingest":
        run("ingest", "manual")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(QUESTION.encode())))
    _once.cache_clear()
    code, out, err = run(*words)
    assert thief.seen == [] and "Traceback" not in out + err
    assert "cannot set provider.base_url" in err or code != 0 or words == ("config", "trust")


def test_an_ingest_with_the_model_of_the_settings_does_not_either(clone, thief, run, monkeypatch):
    monkeypatch.delenv("RAGSTREAM_EMBEDDINGS__BACKEND")
    run("ingest", "manual")
    assert thief.seen == []


def test_python_does_not_ask_it_and_warns(clone, thief):
    with pytest.warns(UserWarning, match="cannot set provider.base_url.*config trust"):
        library = RAGstream()
    library.ingest("manual")
    library.prompt(QUESTION, "manual")
    assert library.ask(QUESTION, "manual").origin == "extract"
    assert thief.seen == []


def test_the_page_does_not_ask_it_and_says_so(clone, thief, run):
    run("ingest", "manual")
    shutil.rmtree(clone / "data" / "projects" / "far")  # the page says of it what commands say
    page = open_page()
    assert "cannot set provider.base_url" in said(page) and "config trust" in said(page)
    click(ask(page), "Build prompt")
    assert thief.seen == []


def test_coding_agents_do_not_make_us_ask_it(clone, thief, run):
    import mcp

    from ragstream_app.mcp.desk import Desk
    from ragstream_app.mcp.server import make_server

    run("ingest", "manual")

    async def use():
        async with mcp.Client(make_server(Desk(workspaces.open_workspace()))) as client:
            for tool in (await client.list_tools()).tools:
                given = {"query": QUESTION, "question": QUESTION, "prompt": QUESTION}
                wanted = set(tool.input_schema["properties"])
                await client.call_tool(tool.name, {k: v for k, v in given.items() if k in wanted})

    anyio.run(use)
    assert thief.seen == []


def test_the_server_for_programs_does_not_ask_it(clone, thief, run):
    run("ingest", "manual")
    with serving(clone / "data", provider__api_key=KEY) as server:
        answer = server.chat()
    assert answer.status_code in (200, 502, 503) and thief.seen == []
    assert "cannot set provider.base_url" in server.log.read_text()


def test_children_do_not_ask_it(clone, thief, run):
    """Servers of `ragstream up` and runs of Dagster load the same settings by the same rules."""
    from ragstream_core.config import AppConfig, child_environment

    run("ingest", "manual")
    code = (
        "from ragstream_assets.resources import WorkspaceResource\n"
        "from ragstream_core.services.choose_model import listed\n"
        "c = WorkspaceResource().open().config\n"
        "print(listed(c), c.settings.provider.base_url, c.settings.retrieval.top_k)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=os.sep, capture_output=True, text=True, check=True,
        env={**child_environment(AppConfig.load()), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.split("\n")[0] == "[] http://127.0.0.1:11434/v1 9"
    assert thief.seen == []


def test_a_run_cannot_name_it_either(clone, thief):
    from ragstream_assets.resources import WorkspaceResource
    from ragstream_core.errors import UnknownSetting

    named = {"embeddings.base_url": thief.url, "embeddings.backend": "openai"}
    for settings in (named, {"retrieval.store": "evil:Store"}, {"hub.url": thief.url}):
        with pytest.raises(UnknownSetting, match="not taken from a run"):
            WorkspaceResource(settings=settings).open()
    assert WorkspaceResource(settings={"retrieval.store": "faiss"}).open()


def test_after_a_yes_it_is_asked_with_the_key(clone, thief, run):
    """The same files, confirmed: so the tests above can fail."""
    code, out, err = run("config", "trust")
    assert code == 3 and "no terminal" in err
    assert f"ragstream config trust {clone / 'ragstream.yaml'}" in err and "--yes" in err
    for shown in (f"provider.base_url: {thief.url}", "agents.a3_form (of task thorough): llm"):
        assert shown in out
    code, out, err = run("config", "trust", "--yes")
    assert code == 0 and err.count("confirmed until it changes") == 3
    run("ingest", "manual")
    code, out, err = run("ask", QUESTION, "-p", "manual")
    assert thief.seen and "cannot set" not in err
    assert {headers.get("authorization") for _, headers, _ in thief.seen} == {f"Bearer {KEY}"}
    seen = len(thief.seen)
    assert run("config", "untrust")[0] == 0
    reading._dotenv.cache_clear()
    run("ask", QUESTION, "-p", "manual", "--model", "other")
    assert len(thief.seen) == seen


def test_a_file_of_the_working_directory_has_no_say_over_another_root(clone, thief, run, tmp_path):
    root = tmp_path / "mine" / "data"
    write_docs(root, "manual", PROJECT)
    for words in (("ingest", "manual"), ("ask", QUESTION, "-p", "manual"), ("models", "list")):
        _, _, err = run("--data", str(root), *words)
        assert "ragstream.yaml is not read: the data root is" in err or words[0] != "ingest"
    assert thief.seen == []
    shown = json.loads(run("--data", str(root), "config", "show", "--json")[1])
    assert shown["retrieval.top_k"] == 50


def test_what_came_with_a_pulled_index_is_not_asked(clone, thief, run):
    index = clone / "data" / "index" / "theirs"
    index.mkdir(parents=True)
    mark = {"url": "s3://theirs/index", "pulled": "2026-01-01T00:00:00+00:00", "manifest": "{}"}
    (index / "pulled.json").write_text(json.dumps(mark))
    code, _, err = run("index", "pull", "theirs")
    assert code == 3 and "ragstream index pull s3://theirs/index --name theirs" in err


def test_config_show_and_doctor_say_what_counts(clone, run):
    out = run("config", "show", "--origin")[1]
    assert f"{clone / 'ragstream.yaml'}: not confirmed by you" in out
    assert "left out: facts.accept = auto" in out
    shown = json.loads(run("config", "show", "--origin", "--json")[1])
    assert shown["provider.base_url"]["origin"] == "default"
    files = {row["file"] for row in shown["provider.base_url"]["left_out"]}
    assert files == {str(clone / "ragstream.yaml"), str(clone / ".env")}
    checks = {
        row["detail"].partition(":")[0]: row
        for row in json.loads(run("doctor", "--json")[1])
        if row["name"] == "settings"
    }
    row = checks[str(clone / "ragstream.yaml")]
    assert row["level"] == "warn" and "config trust" in row["next_step"]
    run("config", "trust", "--yes")
    assert "confirmed by you: all of it counts" in run("config", "show", "--origin")[1]


def test_nothing_is_told_where_nothing_is_left_out(environment, tmp_path, run):
    environment.mkdir()
    (tmp_path / "ragstream.yaml").write_text("retrieval: {top_k: 9}\n")
    assert "note:" not in run("config", "show")[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RAGstream()
    assert "needs no confirmation" in run("config", "trust")[2]
