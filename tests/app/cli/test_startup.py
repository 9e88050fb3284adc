"""What the light commands import, and what they cost (performance.md G1, G13)."""

import json
import sys

import pytest

from ragstream_app.cli.commands.chat import DEFAULT_TASK
from ragstream_core.settings.reading import CHAT_TASK

READERS = ("bs4", "lxml", "markitdown", "mammoth", "openpyxl", "pptx", "markdownify", "pdfplumber",
           "pypdfium2", "mailbox")  # fmt: skip
"""What reads files that are no plain text; an ingest has them in another process, or not at all."""
HEAVY = ("dagster", "chromadb", "numpy", "torch", "onnxruntime", "pyarrow", "streamlit", "pandas",
         "huggingface_hub.file_download", *READERS)  # fmt: skip
RUN = f"""
import json, sys
from ragstream_app.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, [m for m in {HEAVY!r} if m in sys.modules]]), file=sys.stderr)
"""


@pytest.fixture
def imported(spawn):
    """Which heavy packages a command imported."""

    def call(*words: str) -> list[str]:
        result = spawn(*words, code=RUN)
        code, found = json.loads(result.stderr.strip().splitlines()[-1])
        assert code == 0, result.stderr
        return found

    return call


@pytest.mark.parametrize("words", [["--help"], ["prompt", "--help"], ["config", "show"]])
def test_looking_around_imports_nothing_heavy(environment, imported, words):
    assert imported(*words) == []


def test_the_command_line_itself_loads_nothing_of_the_library(spawn):
    """Each command imports what it needs: else the lightest pays for the heaviest."""
    code = "import sys; from ragstream_app.cli import main; print(*sorted(sys.modules))"
    loaded = spawn(code=code).stdout.split()
    own = {name for name in loaded if name.startswith(("ragstream_core.", "ragstream_assets"))}
    plurals = {"ragstream_core.text", "ragstream_core.text.plurals"}
    assert own == {"ragstream_core.errors"} | plurals
    assert "pydantic" not in loaded


def test_chat_without_a_task_takes_the_profile_of_chats():
    assert DEFAULT_TASK == CHAT_TASK


def test_status_and_a_noop_ingest_import_nothing_heavy(settled, imported, monkeypatch):
    for words in (["status"], ["status", "--json"], ["ingest"], ["ingest", "--json"]):
        assert imported(*words) == [], words


def test_a_kept_prompt_and_its_ways_import_only_what_they_need(settled, imported, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_RERANK__BACKEND", "auto")  # looks for a cross-encoder
    asked = ("prompt", "Who may write?", "-p", "manual")
    assert set(imported(*asked)) <= {"numpy", "pyarrow"}
    (key,) = (path.parent.name for path in (settled / "prompts").glob("*/record.json"))
    assert set(imported("explain", key)) <= {"numpy", "pyarrow"}


def test_an_ingest_loads_no_reader_that_its_files_do_not_need(data, imported):
    assert not set(imported("ingest")) & set(READERS)
    (data / "doc_raw" / "manual" / "film.srt").write_text("1\n00:00:01,0 --> 00:00:02,0\nYes.\n")
    (data / "doc_raw" / "manual" / "page.html").write_text("<p>It is read in another process.")
    assert not set(imported("ingest")) & set(READERS)


def test_the_probe_itself_can_fail(data, imported):
    assert "numpy" in imported("ingest")


def test_importing_the_command_line_reads_no_environment(environment, spawn, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_NONSENSE__KEY", "1")
    result = spawn(code="import ragstream_app.cli.main, sys; print('numpy' in sys.modules)")
    assert result.stdout.strip() == "False", result.stderr


def test_a_closed_pipe_is_no_traceback(environment, spawn):
    pipe = f"{sys.executable} -m ragstream_app.cli.main config reference | head -1"
    result = spawn(pipe, code="import subprocess, sys; subprocess.run(['sh', '-c', sys.argv[1]])")
    assert "Settings reference" in result.stdout
    assert result.stderr == ""
