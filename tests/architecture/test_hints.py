"""What a person can do is an action in the code, so that each face can say it in its own words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import ragstream_app.page
import ragstream_core
from ragstream_core.errors import Action

ROOTS = (ragstream_core, ragstream_app.page)
COMMAND = re.compile(r"\bragstream [a-z]|(?<![\w-])--?[a-z][a-z-]*\b|run the command again")
ACTIONS = {kind.__name__ for kind in get_args(Action)}


def words(node: ast.AST, named: dict[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the plain words of a hint, those of the names in it included."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ACTIONS:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.Name):
        for value in named.pop(node.id, []):
            yield from words(value, named)
    for child in ast.iter_child_nodes(node):
        yield from words(child, named)


def hints(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and plain words of each hint of a module."""
    named: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    named.setdefault(target.id, []).append(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            for text in words(node.value, dict(named)):
                yield node.value.lineno, text


def test_no_hint_holds_a_command_line_in_its_prose():
    paths = [path for root in ROOTS for path in sorted(Path(root.__path__[0]).rglob("*.py"))]
    sources = {path.name: text for path in paths if "hint" in (text := path.read_text("utf-8"))}
    assert len(sources) > 50
    assert not [
        f"{name}:{line}: {text!r}"
        for name, source in sources.items()
        for line, text in hints(ast.parse(source))
        if COMMAND.search(text)
    ]


def test_a_command_in_prose_is_found_also_behind_a_name():
    code = """
AGAIN = "ragstream ingest again"
raise UsageError("m", hint=("first ", RunCommand("ragstream x"), f" or {AGAIN}", other))
"""
    assert [text for _, text in hints(ast.parse(code)) if COMMAND.search(text)] == [
        "ragstream ingest again"
    ]
