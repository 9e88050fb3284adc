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


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_house_rules(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    name = path.name
    here = str(path.relative_to(ROOT))
    if name not in ("config.py",):
        names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert not {"environ", "getenv"} & names, "the environment is read in config.py only"
    if here != "ragstream_core/platform/files.py":
        made = {called for _, called in calls(tree)}
        assert "fsync" not in made, "fsync lives in platform/files.py only"
    forbidden = {"pickle", "dill", "joblib", "shelve", "marshal"}
    if here == "ragstream_core/ingestion/pickle_child.py":  # resolves no name, in a limited child
        forbidden -= {"pickle"}
    imported = {
        a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }
    imported |= {
        (n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
    }
    assert not forbidden & imported, "nothing is ever unpickled"
    plain = {node.func.id for node, _ in calls(tree) if isinstance(node.func, ast.Name)}
    assert not {"eval", "exec"} & plain, "no code is made from text"
    assert "yaml.load(" not in text
    if path.parts[-2] == "ragstream_assets" or "/ragstream_assets/" in here:
        assert "from __future__ import annotations" not in text, "it breaks Dagster's annotations"


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
        "ragstream_core/models/rerankers/reembed.py",
        "ragstream_core/services/embed.py",  # texts of clients; nothing is kept
    ]


def test_import_contracts_hold():
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
