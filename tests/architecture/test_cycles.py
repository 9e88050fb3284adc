"""No import cycle, imports inside functions counted."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ragstream_core", "ragstream_assets", "ragstream_app")

KNOWN_CYCLES: tuple[frozenset[str], ...] = ()
"""Cycles that are still there. This list may only shrink."""


def imports_in(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements at any depth, but for those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from imports_in(ast.Module([other], []))
        else:
            yield from imports_in(child)


def targets(statement: ast.Import | ast.ImportFrom, here: str) -> Iterator[str]:
    """Yield the dotted names that a statement may import, each as a module and as a name in one."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    base = statement.module or ""
    if statement.level:
        above = here.split(".")[: -statement.level]
        base = ".".join([*above, base] if base else above)
    yield base
    yield from (f"{base}.{alias.name}" for alias in statement.names)


def graph_of(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return module → the modules that it imports, among those given as name → source text."""
    return {
        name: {
            target
            for statement in imports_in(ast.parse(text))
            for target in targets(statement, name)
            if target in sources and target != name
        }
        for name, text in sources.items()
    }


def cycles_of(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the strongly connected components of more than one module."""
    reach = {name: reachable(graph, name) for name in nodes_on_cycles(graph)}
    return {
        frozenset(other for other in reach if other in reach[name] and name in reach[other])
        for name in reach
        if name in reach[name]
    }


def nodes_on_cycles(graph: dict[str, set[str]]) -> set[str]:
    """Return what is left when modules are taken away that import nothing, again and again."""
    left = {name: set(imported) for name, imported in graph.items()}
    while done := {name for name, imported in left.items() if not imported & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in done}
    return set(left)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that one imports, directly or through others."""
    found: set[str] = set()
    todo = [start]
    while todo:
        new = graph[todo.pop()] - found
        found |= new
        todo += new
    return found


def read_sources() -> dict[str, str]:
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): (
            path.read_text(encoding="utf-8")
        )
        for path in paths
    }


@pytest.fixture(scope="module")
def graph():
    return graph_of(read_sources())


def test_there_is_no_import_cycle_but_the_known_ones(graph):
    found = cycles_of(graph)
    new = [sorted(cycle) for cycle in found if not any(cycle <= known for known in KNOWN_CYCLES)]
    assert not new, "import cycles, those inside functions counted"


def test_the_list_of_known_cycles_names_no_module_that_is_free_of_them(graph):
    found = cycles_of(graph)
    assert set(KNOWN_CYCLES) <= found, "a known cycle shrank or went: say so in KNOWN_CYCLES"


@pytest.mark.parametrize(
    ("b", "cycle"),
    [
        ("from p import a", True),
        ("from p.a import f", True),
        ("import p.a", True),
        ("from . import a", True),
        ("from .a import f", True),
        ("def f():\n    from p import a", True),
        ("class C:\n    def f(self):\n        if self:\n            import p.a", True),
        ("if TYPE_CHECKING:\n    from p import a", False),
        ("if typing.TYPE_CHECKING:\n    from p import a", False),
        ("if TYPE_CHECKING:\n    import os\nelse:\n    import p.a", True),
        ("import os", False),
    ],
)
def test_every_import_counts_but_those_for_a_type_checker(b, cycle):
    sources = {"p": "", "p.a": "from p import b", "p.b": b, "p.c": "from p import a, b"}
    found = cycles_of(graph_of(sources))
    assert found == ({frozenset({"p.a", "p.b"})} if cycle else set())
