"""Which grammar stands for which type of program."""

from __future__ import annotations

GRAMMARS = {
    **dict.fromkeys(("py", "pyi"), ("tree_sitter_python", "language")),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx"), ("tree_sitter_javascript", "language")),
    "ts": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rs": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    **dict.fromkeys(("c", "h"), ("tree_sitter_c", "language")),
    **dict.fromkeys(("cc", "cpp", "cxx", "hpp"), ("tree_sitter_cpp", "language")),
    **dict.fromkeys(("sh", "bash"), ("tree_sitter_bash", "language")),
}
"""Module and function of a type's grammar (the extra ``code``)."""

BY_LINES = frozenset({"kt", "scala", "swift", "cs", "rb", "php", "lua", "sql", "toml"})
"""Types of programs that are cut by their lines alone."""


def is_code(file_type: str) -> bool:
    """Say whether a type is cut as a program."""
    return file_type in GRAMMARS or file_type in BY_LINES
