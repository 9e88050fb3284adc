"""The weather tool stands apart (R-002, R-265, R-266, C-28, C-29): who knows it, what it may do."""

import ast
import json
import subprocess
import sys

import pytest

from ragstream_core.weather import open_meteo
from tests.architecture.test_imports import ROOT, SOURCES, calls

TOOL = sorted((ROOT / "ragstream_core" / "weather").glob("*.py"))
FACES = {
    "ragstream_app/cli/main.py", "ragstream_app/cli/commands/weather.py",
    "ragstream_app/page/jobs/background.py",
    "ragstream_app/page/main.py", "ragstream_app/page/panels/weather.py",
    "ragstream_app/output/weather.py",
    "ragstream_assets/extras.py",
    "ragstream_core/services/weather.py",
}  # fmt: skip
STANDARD = {
    "__future__", "collections.abc", "dataclasses", "datetime", "itertools", "json", "math", "time",
    "typing",
}  # fmt: skip
OURS = ("pydantic", "ragstream_core.platform", "ragstream_core.errors", "ragstream_core.ports",
        "ragstream_core.records.chat", "ragstream_core.weather")  # fmt: skip
MAKES_CODE = {
    "exec", "eval", "compile", "__import__", "import_module", "getattr", "setattr", "globals",
    "open", "system", "popen", "run", "Popen",
}  # fmt: skip


def imports(path):
    """Every module that a file names in an import, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_only_its_faces_know_the_tool():
    users = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path not in TOOL
        and "weather" in path.read_text(encoding="utf-8")  # reading is cheaper than parsing
        and any("weather" in name.split(".") for name in imports(path))
    }
    assert users <= FACES
    assert "ragstream_core/services/weather.py" in users, "the search finds what there is"


def test_a_whole_prompt_loads_nothing_of_it(tmp_path):
    """Ingest and prompt in a process of their own: the package is not even imported."""
    folder = tmp_path / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("# Weather\n\nIt rains in Berlin.\n", encoding="utf-8")
    code = """
import json, sys
from ragstream_core.config import quiet_environment; quiet_environment()
from ragstream_core.wiring.workspace import open_workspace
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.prompts.inputs import PromptRequest
space = open_workspace(sys.argv[1], explicit={"embeddings.backend": "hashed",
                                              "rerank.backend": "none"})
ingest_project(space, "demo")
inputs = pin_inputs(space, PromptRequest("What is the weather in Berlin?", ("demo",)))
save_prompt(space, run_prompt(space, inputs))
print(json.dumps([name for name in sys.modules if "weather" in name.split(".")]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("path", TOOL, ids=lambda p: p.name)
def test_it_makes_no_code_and_imports_what_is_listed(path):
    text = path.read_text(encoding="utf-8")
    for name in imports(path):
        listed = name in STANDARD or name.rpartition(".")[0] in STANDARD
        assert listed or name.startswith(OURS), f"{path.name} imports {name}"
    made = {called for _, called in calls(ast.parse(text))}
    assert not made & MAKES_CODE
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    assert not names & {"__builtins__", "exec", "eval", "compile", "__import__", "open"}


def test_the_arithmetic_is_plain_python_and_math():
    found = {name.split(".")[0] for name in imports(ROOT / "ragstream_core/weather/analytics.py")}
    assert found == {
        "__future__", "collections", "dataclasses", "datetime", "itertools", "math",
        "ragstream_core",
    }  # fmt: skip
    ours = {n for n in imports(ROOT / "ragstream_core/weather/analytics.py") if "ragstream" in n}
    assert all(name.startswith("ragstream_core.weather.records") for name in ours)


def test_two_hosts_are_named_and_no_third():
    written = {
        node.value
        for path in [*TOOL, ROOT / "ragstream_core" / "services" / "weather.py"]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "://" in node.value
    }
    assert written == {open_meteo.GEOCODING_URL, open_meteo.FORECAST_URL}
    assert {"https://" + host.removesuffix(":443") + "/v1" for host in open_meteo.HOSTS} == written


def test_nobody_but_a_test_gives_other_addresses():
    """`OpenMeteo` and `WeatherTool` are made without an address everywhere in the project."""
    made = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if "OpenMeteo" not in text and "WeatherTool" not in text:
            continue
        for node, called in calls(ast.parse(text)):
            if called in ("OpenMeteo", "WeatherTool"):
                made.append(called)
                assert not node.args, path
                assert {keyword.arg for keyword in node.keywords} <= {"model"}, path
    assert sorted(made) == ["OpenMeteo", "WeatherTool"]
