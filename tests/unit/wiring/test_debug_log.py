"""The Debug Logger at work: it changes no prompt, keeps no secret, and goes with what it shows."""

import re
import subprocess
import sys

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import RagstreamError, UnknownProject
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.clear_history import clear
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import write_docs

QUESTION = "Who may write to the catalog, and what does LogAvgExp join?"
STAMP = re.compile(r"^\[[^\]]+\] ", re.MULTILINE)
NOW = "2026-03-01T10:00:00+01:00"
KEY = "k9-canary-of-the-provider"


def open_root(root, **settings):
    explicit = {"embeddings.backend": "hashed", "rerank.backend": "maxsim"}
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return open_workspace(root, explicit=explicit | given)


def logging(root, **settings):
    return open_root(root, debug__enabled=True, debug__vars_enabled=True, **settings)


def ask(space, text=QUESTION, **more):
    import datetime as dt

    request = PromptRequest(text=text, projects=("demo",), **more)
    prompt = run_prompt(space, pin_inputs(space, request, dt.datetime.fromisoformat(NOW)))
    return save_prompt(space, prompt), prompt.extras.super_prompt


def logs(root, kind="*"):
    return sorted((root / "history" / "logs").glob(f"debug_{kind}_*"))


def words(root, kind):
    return "".join(STAMP.sub("", path.read_text()) for path in logs(root, kind))


@pytest.fixture
def root(tmp_path):
    write_docs(tmp_path)
    return tmp_path


def test_off_nothing_is_written_and_on_the_prompt_is_the_same(root):
    plain = open_root(root)
    ingest_project(plain, "demo")
    before = ask(plain)
    assert not (root / "history" / "logs").exists()
    assert ask(logging(root))[0].prompt_key == before[0].prompt_key
    record, text = ask(logging(root, debug__min_level="DEBUG"))
    assert (record.prompt_key, text) == (before[0].prompt_key, before[1])
    assert [list(row) for row in record.trail] == [list(row) for row in before[0].trail]
    assert ask(open_root(root, debug__vars_enabled=True))[1] == before[1]
    assert len(logs(root, "trace")) == 2 == len(logs(root, "vars"))


def test_off_not_even_its_code_is_loaded(root):
    program = (
        "import sys; from ragstream_core.wiring.workspace import open_workspace\n"
        "from ragstream_core.prompts.inputs import PromptRequest\n"
        f"s = open_workspace({str(root)!r}, explicit={{'embeddings.backend': 'hashed'}})\n"
        "from ragstream_core.services.ingest import ingest_project\n"
        "from ragstream_core.wiring.prompt_inputs import pin_inputs\n"
        "from ragstream_core.wiring.stages import run_prompt\n"
        "ingest_project(s, 'demo')\n"
        "run_prompt(s, pin_inputs(s, PromptRequest('What is a lock?', ('demo',))))\n"
        "sys.exit('ragstream_core.platform.debug_log' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=root).returncode == 0


def test_every_step_says_what_it_did_and_the_trace_shows_no_text(root):
    space = logging(root)
    ingest_project(space, "demo")
    ask(space)
    trace = words(root, "trace")
    begun = re.findall(r"^\[INFO\] (\w+) begins: ", trace, re.MULTILINE)
    ended = re.findall(r"^\[INFO\] (\w+) ends: ", trace, re.MULTILINE)
    assert begun == ended and list(dict.fromkeys(begun)) == list(OPS)
    assert "generation 1 committed" in trace and re.search(r"\d+ kept and \d+ dropped", trace)
    assert not [w for w in ("LogAvgExp", "SQLite", "catalog.md", "write") if w in trace]
    assert "LogAvgExp" in words(root, "vars")


def test_the_same_work_writes_the_same_words(tmp_path):
    said = []
    for name in ("one", "two"):
        write_docs(tmp_path / name)
        space = logging(tmp_path / name, debug__min_level="DEBUG")
        ingest_project(space, "demo")
        ask(space)
        said.append((words(tmp_path / name, "trace"), words(tmp_path / name, "vars")))
    assert said[0] == said[1]


def test_each_session_has_files_of_its_own(root):
    space = logging(root)
    ingest_project(space, "demo")
    append_turn(space, Turn("", "sunday", NOW, "What is said?", "This."))
    for session in ("monday", "tuesday", "monday"):
        ask(space, session=session)
    traces = [path.read_text().count("a0_preprocessing begins") for path in logs(root, "trace")]
    assert sorted(traces) == [0, 1, 2]


def test_each_tab_of_the_page_has_files_of_its_own(root):
    from ragstream_app.page.jobs import presses
    from ragstream_app.page.prompt_session import PromptSession

    space = logging(root)
    ingest_project(space, "demo")
    desks, request = [PromptSession(), PromptSession()], PromptRequest(QUESTION, ("demo",))
    for desk in desks:
        presses.start(desk, presses.BUILD, request, space).get(60)
    presses.start(desks[0], "ReRanker", request, space).get(60)
    counts = [path.read_text().count("reranker begins") for path in logs(root, "trace")]
    assert sorted(counts) == [0, 1, 2]


def test_what_is_not_to_be_kept_is_not_logged(root):
    ingest_project(open_root(root), "demo")
    space = logging(root)
    ask(space, settings={"history.persist": "false"})
    off = logging(root, history__persist="false")
    ask(off)
    ingest_project(off, "demo", verify=True)
    assert logs(root) == []


def test_an_error_is_named_and_goes_on(root):
    space = logging(root)
    with pytest.raises(UnknownProject):
        ingest_project(space, "nowhere")
    ingest_project(space, "demo")
    with pytest.raises(RagstreamError):
        ask(space, settings={"prompt.budget_tokens": "200"}, text="Canaryword? " * 300)
    trace = words(root, "trace")
    assert re.search(r"\[ERROR\] \w+ failed: \w+", trace) and "Canaryword" not in trace


def test_a_log_that_cannot_be_written_fails_nothing(root):
    ingest_project(open_root(root), "demo")
    (root / "history").mkdir(exist_ok=True)
    (root / "history" / "logs").write_text("a file where the folder should be")
    assert ask(logging(root))[1] == ask(open_root(root))[1]


def test_keys_are_redacted(root, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", KEY)
    github = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    space = logging(root, debug__max_chars=5_000)
    ingest_project(space, "demo")
    ask(space, text=f"Why is {KEY} or {github} refused by the catalog?")
    shown = words(root, "vars")
    assert "refused by the catalog" in shown and "[redacted" in shown
    assert KEY not in shown and github not in shown


CANARY = "Quatermain keeps the umbrella-marzipan-cathedral in the vault."


@pytest.mark.parametrize("text", [CANARY, "918273!"])
def test_clearing_reaches_the_variables_while_their_writer_lives(root, text):
    space = logging(root)
    ingest_project(space, "demo")
    ask(space, text=text, session="secret")
    append_turn(space, Turn("", "secret", NOW, text, "I see."))
    assert text[:20] in words(root, "vars")
    clear(space, Choice("secret"))
    held = [p for p in root.rglob("*") if p.is_file() and text[:20].encode() in p.read_bytes()]
    assert held == [] and logs(root, "vars") == []
    ask(space, session="secret")  # the writer's file is gone: it begins another one
    assert "LogAvgExp" in words(root, "vars")


def test_forgetting_a_file_reaches_the_variables(root):
    (root / "doc_raw" / "demo" / "secret.md").write_text(f"# Vault\n\n{CANARY}\n")
    space = logging(root, debug__max_chars=5_000)
    ingest_project(space, "demo")
    ask(space, text="What does Quatermain keep?", files=("secret.md",))
    assert logs(root, "vars")
    forget(space, "demo", "secret.md", delete=True)
    held = [p for p in root.rglob("*") if p.is_file() and b"marzipan" in p.read_bytes()]
    assert held == [] and logs(root, "vars") == []
