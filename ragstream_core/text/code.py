"""Where program text may be cut: beside its definitions, at blank lines, never inside a line.

With the grammar of a language installed, semantic-text-splitter's CodeSplitter finds the joints of
the syntax; without one the lines tell them.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Sequence
from typing import Any

from ragstream_core.text.cuts import BLOCK_CHARACTERS, INSIDE, Cut, starts_behind_space
from ragstream_core.text.tokenizer import Sizes

# Module and function of a type's grammar (the extra ``code``).
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
    "cs": ("tree_sitter_c_sharp", "language"),
    **dict.fromkeys(("kt", "kts"), ("tree_sitter_kotlin", "language")),
    "swift": ("tree_sitter_swift", "language"),
    "rb": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "scala": ("tree_sitter_scala", "language"),
    "lua": ("tree_sitter_lua", "language"),
    "sql": ("tree_sitter_sql", "language"),
    **dict.fromkeys(("tf", "hcl"), ("tree_sitter_hcl", "language")),
}

_LINE_TYPES = """
toml r jl pl pm dart groovy gradle ex exs erl hs clj cljs
elm fs fsx vb pas m mm nim zig sol asm vhd awk sed zsh fish ps1 psm1 bat cmd vim el lisp scm
css scss sass less vue svelte astro proto graphql gql prisma cmake mk dockerfile makefile
jenkinsfile ini cfg conf properties env editorconfig service xml xsd xsl xslt wsdl plist diff
patch log bib other
"""
# Types of programs and other files that are cut by their lines alone.
BY_LINES = frozenset(_LINE_TYPES.split())


# Types of data that are cut by their lines, the outer ones first.
DATA = frozenset({"yaml", "yml", "json", "jsonc", "geojson"})


def is_code(file_type: str) -> bool:
    """Return whether a type is cut by its lines, as programs are."""
    return file_type in GRAMMARS or file_type in BY_LINES or file_type in DATA


CODE_VERSION = 1

_UNIT_CHARACTERS = 200
_MAX_PARSED = 400_000
_MAX_NESTED, _MAX_CHAINED = 500, 1_000  # the splitter's time grows with the cube of the levels
_BRACKETS = re.compile(r"[(\[{]+|[)\]}]+")
_CHAINED = re.compile(r"\belse\s+if\b")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_DEFINITION = re.compile(
    r"(?:export |default |public |private |protected |internal |static |abstract |final |async |"
    r"pub(?:\([^)]{1,20}\))? |unsafe |const |inline |open |override )*"
    r"(?:def|class|function|func|fn|impl|trait|struct|enum|interface|type|module|namespace|object|"
    r"mod|CREATE|create|package|\[)\b|\[{1,2}\w",
)
_CONTROL = re.compile(
    r"(?:if|elif|else|for|foreach|while|do|try|except|catch|finally|with|switch|case|default|match|"
    r"return|throw|raise|yield|await|assert|new|goto|using|lock|synchronized|loop|select|defer|go|"
    r"async (?:for|with))\b"
)
_HEAD = re.compile(r"[\w~\"'$][^;{}]{0,200}\([^;]*\{$")
_ATTACHED = re.compile(r"@|#|//|/\*|\*|--|'''|\"\"\"")
_DEFINES, _JOINT, _BLANK_ABOVE, _PLAIN = 0.0, 0.3, 0.8, 1.4
_DEPTH = 0.2  # a cut deeper inside hurts more, a step a level
_MAX_DEPTH = 6
_TORN = 2.0  # between a comment or decorator and what it belongs to


def joints_of(text: str, *, file_type: str) -> list[int]:
    """Return where the units of a program start by its grammar; none if it is not installed.

    Args:
        text: The program; a very long one, or one that nests as only programs write, is cut by its
            lines, parsing it takes too long.
        file_type: Its type, e.g. ``py``.
    """
    language = _language(*GRAMMARS[file_type]) if file_type in GRAMMARS else None
    if language is None or not text.strip() or len(text) > _MAX_PARSED or _is_deep(text):
        return []
    from semantic_text_splitter import CodeSplitter

    splitter = CodeSplitter(language, (_UNIT_CHARACTERS, BLOCK_CHARACTERS), trim=False)
    return [start for start, _ in splitter.chunk_indices(text)]


def _is_deep(text: str) -> bool:
    """Return whether brackets, or conditions in the ``else`` of others, nest very deep."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        width = match.end() - match.start()
        depth = depth + width if match.group()[0] in "([{" else max(0, depth - width)
        if depth > _MAX_NESTED:
            return True
    return len(_CHAINED.findall(text)) > _MAX_CHAINED


@functools.cache
def _language(module: str, function: str) -> Any:
    try:
        return getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError):
        return None


def opens_scope(body: str, below: str) -> bool:
    """Return whether a line is the head of a class, a function or the like.

    Args:
        body: The line without white space around it.
        below: The next line likewise; some styles put the brace there.
    """
    if _DEFINITION.match(body):
        return True
    return not _CONTROL.match(body) and _HEAD.match(body + below * (below == "{")) is not None


def code_cuts(
    text: str, *, joints: Sequence[int], sizes: Sizes, limit: int, defines: bool = True
) -> list[Cut]:
    """Return all places where a chunk of a program may start, in order.

    Args:
        text: The whole program.
        joints: From `joints_of`; may be empty.
        sizes: Measures spans of the text.
        limit: Largest size of a chunk: a line above it is cut inside.
        defines: Whether words such as ``type`` define something; they do not in data.
    """
    starts = starts_behind_space(text, joints)
    cuts: list[Cut] = []
    blank, attached = True, False
    for match in _LINE.finditer(text):
        body = match.group().strip()
        if not body:
            blank, attached = True, False
            continue
        start = match.start() + len(match.group()) - len(match.group().lstrip())
        indent = len(match.group().expandtabs(4)) - len(match.group().expandtabs(4).lstrip())
        cost = _BLANK_ABOVE if blank else _PLAIN
        if defines:
            cost = _cost(body, blank=blank, joint=start in starts)
        cost += _DEPTH * min(_MAX_DEPTH, indent // 2)
        cuts.append(Cut(start, _TORN if attached else cost))
        end = match.start() + len(match.group().rstrip())
        if sizes.between(start, end) > limit:
            places = sizes.grid(start, end, limit=limit)
            cuts.extend(Cut(at, INSIDE, sentence=False) for at in places)
        blank, attached = False, _ATTACHED.match(body) is not None
    return cuts


def _cost(body: str, *, blank: bool, joint: bool) -> float:
    if _DEFINITION.match(body) or (blank and _ATTACHED.match(body)):
        return _DEFINES if blank else _JOINT
    if joint:
        return _JOINT if blank else _BLANK_ABOVE
    return _BLANK_ABOVE if blank else _PLAIN


def line_starts(text: str) -> list[int]:
    """Return the offset after each line break."""
    return [match.end() for match in re.finditer("\n", text) if match.end() < len(text)]
