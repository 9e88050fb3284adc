"""Layers, light imports, and the rules that the linter cannot say."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ragstream_core", "ragstream_assets", "ragstream_app")
SOURCES = sorted(p for name in PACKAGES for p in (ROOT / name).rglob("*.py"))
HEAVY = ("torch", "chromadb", "onnxruntime", "sentence_transformers", "dagster", "streamlit")


def loaded_by(statement):
    code = f"{statement}; import sys; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_library_loads_nothing_heavy():
    assert not {*HEAVY, "numpy", "pydantic"} & loaded_by("import ragstream_core")


def test_the_no_op_path_loads_neither_numpy_nor_an_engine():
    loaded = loaded_by(
        "import ragstream_core.services.ingest, ragstream_core.wiring.stages; "
        "import ragstream_app.cli.main"
    )
    assert not {*HEAVY, "numpy"} & loaded


def test_dagster_definitions_load_neither_torch_nor_chromadb():
    loaded = loaded_by("import ragstream_assets.definitions")
    assert not {"torch", "chromadb", "onnxruntime", "sentence_transformers"} & loaded


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            target = node.func
            yield (
                node,
                target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""),
            )


NAME_PYTHON = {
    "ragstream_core/platform/import_path.py",
    "ragstream_core/platform/sandbox.py",  # isolated altogether
    "ragstream_core/platform/extras.py",  # shows it to people
    "ragstream_app/cli/commands/mcp.py",  # finds the program beside it
}
"""Where the interpreter's path stands; elsewhere it would search the working directory."""


def house_rules_broken(here, text):
    """Return what a module does that none may do; ``here`` is its path from the root."""
    nodes = list(ast.walk(ast.parse(text)))
    made = [node.func for node in nodes if isinstance(node, ast.Call)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    called = {getattr(func, "attr", "") or getattr(func, "id", "") for func in made}
    plain = {func.id for func in made if isinstance(func, ast.Name)}
    imported = {a.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names}
    imported |= {(n.module or "").split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
    unpicklers = {"pickle", "dill", "joblib", "shelve", "marshal"}
    if here == "ragstream_core/ingestion/pickle_child.py":  # resolves no name, in a limited child
        unpicklers -= {"pickle"}
    broken = {
        "the environment is read in config.py only": {"environ", "getenv"} & attributes
        and not here.endswith("/config.py"),
        "fsync lives in platform/files.py only": "fsync" in called
        and here != "ragstream_core/platform/files.py",
        "a Python is started by platform/import_path.py": "executable" in attributes
        and here not in NAME_PYTHON,
        "nothing is ever unpickled": unpicklers & imported,
        "no code is made from text": {"eval", "exec"} & plain,
        "YAML is loaded safely": "yaml.load(" in text,
        "it breaks Dagster's annotations": here.startswith("ragstream_assets/")
        and "from __future__ import annotations" in text,
    }
    return [f"{here}: {rule}" for rule, so in broken.items() if so]


def test_house_rules():
    assert len(SOURCES) > 300
    assert not [
        fault
        for path in SOURCES
        for fault in house_rules_broken(
            path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        )
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ", "import sys\nsys.executable", "os.fsync(3)",
        "import pickle", "from joblib import load",
        "eval('1')", "yaml.load(text)", "from __future__ import annotations",
    ],
)  # fmt: skip
def test_a_broken_house_rule_is_found(text):
    assert len(house_rules_broken("ragstream_assets/new.py", text)) == 1


def test_chunk_ids_are_made_in_one_function():
    makers = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if "}::{" in path.read_text(encoding="utf-8")
    ]
    assert sorted(makers) == [
        "ragstream_core/conversations/units.py",  # those of turns, `history::…`
        "ragstream_core/records/identity.py",
    ]


def test_documents_are_embedded_in_one_place():
    users = sorted(
        str(path.relative_to(ROOT))
        for path in SOURCES
        if ".embed_documents(" in path.read_text(encoding="utf-8") and "embedders" not in path.parts
    )
    assert users == [
        "ragstream_core/evaluation/retrieval.py",
        "ragstream_core/ingestion/staging.py",
        "ragstream_core/models/rerankers.py",
        "ragstream_core/services/embed.py",  # texts of clients; nothing is kept
    ]


def test_import_contracts_hold():
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
