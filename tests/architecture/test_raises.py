"""What people and faces call names in `Raises` each of our errors that it or a helper raises.

That is the library, the ports and the use cases; everything below says in one line what its name
cannot. Helpers of the same module count.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from ragstream_core import errors

CORE = Path(errors.__file__).parent
CALLED_FROM_OUTSIDE = ("library.py", "memory.py", "ports.py", "services/*.py")
Helpers = Mapping[str, ast.FunctionDef]


def error_of(name: str) -> type[errors.RagstreamError] | None:
    found = getattr(errors, name, None)
    ours = isinstance(found, type) and issubclass(found, errors.RagstreamError)
    return found if ours else None


def raised(function: ast.FunctionDef, helpers: Helpers, seen: frozenset[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name))):
                found.add(name)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(ast.Name("self"), attr=name)):
                if name.startswith("_") and name in helpers and name not in seen:
                    found |= raised(helpers[name], helpers, seen | {name})
    return found


def caught(function: ast.FunctionDef) -> set[str]:
    types = (n.type for n in ast.walk(function) if isinstance(n, ast.ExceptHandler) and n.type)
    return {name.id for kind in types for name in ast.walk(kind) if isinstance(name, ast.Name)}


def functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, Helpers, str]]:
    """Yield public functions and methods, what helps them, and what they say they raise."""
    own = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    bodies = [(own, "")]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
            bodies.append((methods, ast.get_docstring(node) or ""))
    for members, of_class in bodies:
        for name, function in members.items():
            if name == "__init__" or not name.startswith("_"):
                texts = (ast.get_docstring(function) or "", of_class if name == "__init__" else "")
                said = "".join(text.partition("Raises:")[2] for text in texts)
                yield function, {**own, **members}, said


def silent(path: Path) -> Iterator[str]:
    for function, helpers, said in functions(ast.parse(path.read_text(encoding="utf-8"))):
        known = caught(function)
        for name in sorted(raised(function, helpers, frozenset())):
            kinds = [kind.__name__ for kind in (error_of(name) or object).__mro__[:-1]]
            if error_of(name) and not any(kind in known or kind in said for kind in kinds):
                yield f"{path.relative_to(CORE)}:{function.lineno} {function.name}: {name}"


def test_our_errors_are_named_where_they_are_raised():
    paths = [path for pattern in CALLED_FROM_OUTSIDE for path in sorted(CORE.glob(pattern))]
    assert len(paths) > 20
    assert [line for path in paths for line in silent(path)] == []
