"""Benchmarks run seldom: each can be imported, each is registered; mypy checks what they name."""

import ast
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
BY_HAND = {"bench_everyday", "bench_follow_ups", "bench_map"}
"""Benchmarks that no page shows."""
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name):
    importlib.import_module(f"tests.benchmarks.{name}")


def test_every_benchmark_is_on_the_page():
    tree = ast.parse((FOLDER / "run.py").read_text(encoding="utf-8"))
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    known = {alias.name for node in froms for alias in node.names}
    known |= {(node.module or "").rpartition(".")[2] for node in froms}
    known |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    assert {name for name in NAMES if name.startswith("bench_")} - known == BY_HAND
