"""Benchmarks run seldom and are not type-checked: what they name is there, each is registered."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
OURS = ("ragstream_core", "ragstream_assets", "ragstream_app", "tests")
BY_HAND = {"bench_map"}
"""Benchmarks that no page shows."""
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield (local name, module, name) of what is imported of ours, also in functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            for alias in node.names:
                yield alias.asname or alias.name, node.module or "", alias.name


def missing(module: str, name: str) -> bool:
    """Whether a module has no such name, and no such submodule."""
    if hasattr(importlib.import_module(module), name):
        return False
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_everything_of_ours_that_a_benchmark_names_is_there(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    importlib.import_module(f"tests.benchmarks.{name}")
    rows = set(imported(tree))
    gone = [f"{module}.{there}" for _, module, there in rows if missing(module, there)]
    assert not gone
    modules = {}
    for local, module, there in rows:
        home = importlib.import_module(module)
        found = getattr(home, there, None)
        if found is None or type(found).__name__ == "module":
            modules[local] = importlib.import_module(f"{module}.{there}")
    used = (
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )
    bad = {f"{at}.{what}" for at, what in used if at in modules and not hasattr(modules[at], what)}
    assert not bad


def test_every_benchmark_is_on_the_page():
    text = (FOLDER / "run.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    known = {there for _, _, there in imported(tree)}
    known |= {module.rpartition(".")[2] for _, module, _ in imported(tree)}
    known |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    assert {name for name in NAMES if name.startswith("bench_")} - known == BY_HAND
