"""What is text and yet no document: what programs write for programs, and copies of others' work.

One table for every way documents come in: a folder of `doc_raw`, one read in place, an address, the
page. A pattern that begins with ``!``, in an ignore file or among the excludes of the settings or
of the project, takes any of it back. Stdlib only: a scan asks for each name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

# Begins the reason of whatever is left out by these rules.
PREFIX = "junk: "


class FolderRule(NamedTuple):
    """Folders that are left out.

    Attributes:
        reason: Why.
        names: Of the folders, lower case.
        witnesses: Paths beside the folder, of which one must be there: ``vendor`` alone may hold
            the offers of vendors. ``{}`` stands for the folder's own name; none: always.
    """

    reason: str
    names: tuple[str, ...]
    witnesses: tuple[str, ...] = ()


_MANIFESTS = (
    "package.json", "composer.json", "go.mod", "Cargo.toml", "Gemfile", "pyproject.toml",
    "setup.py", "pom.xml", "build.gradle", "build.gradle.kts", "build.sbt", "CMakeLists.txt",
    "Makefile", "src",
)  # fmt: skip
FOLDERS = (
    FolderRule(
        "installed packages",
        (
            "node_modules", "bower_components", "jspm_packages", "site-packages", "__pypackages__",
            ".venv", ".tox", ".nox", ".eggs", ".bundle", ".yarn", ".pnpm-store",
        ),
    ),
    FolderRule("installed packages", ("venv", "env"), ("{}/pyvenv.cfg",)),
    FolderRule("packages of others", ("vendor", "third_party", "pods"), (*_MANIFESTS, "Podfile")),
    FolderRule(
        "made by a program",
        (
            "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints",
            ".gradle", ".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo", ".angular",
            ".terraform", ".dart_tool", ".sass-cache", ".nyc_output", ".hypothesis",
        ),
    ),
    FolderRule("made by a program", ("dist", "build", "out", "target", "coverage"), _MANIFESTS),
    FolderRule(
        "of an editor or a system",
        (".idea", ".vs", ".obsidian", "__macosx", ".trash", "$recycle.bin"),
    ),
)  # fmt: skip

# Reasons, and the names of files that they hold for, lower case.
FILES = (
    (
        "lock file",
        r".+\.lock|package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.ya?ml|bun\.lockb|go\.sum"
        r"|packages\.lock\.json|gradle\.lockfile|package\.resolved|\.terraform\.lock\.hcl",
    ),
    ("source map", r".+\.(?:[cm]?js|css|ts)\.map"),
    ("minified", r".+[.-]min\.(?:[cm]?js|css|json|html?|svg)"),
    ("bundle", r".+\.(?:bundle|chunk)\.(?:[cm]?js|css)"),
    (
        "made by a program",
        r".+_pb2(?:_grpc)?\.pyi?|.+\.pb\.(?:go|cc|h)|.+\.(?:g|freezed)\.dart"
        r"|.+\.(?:g|g\.i|designer)\.cs",
    ),
    (
        "of an editor or a system",
        r"\.ds_store|thumbs\.db|desktop\.ini|~\$.*|\._.*|\.#.*|.+~|.+\.sw[op]|.+\.pyc",
    ),
)
_SAVED = re.compile(r"(.+)(?:_files|\.files|-Dateien|_fichiers|_archivos|_bestanden)")
_OF_PAGE = "of a saved page"

# All reasons.
KINDS = tuple(
    dict.fromkeys([*(rule.reason for rule in FOLDERS), *(why for why, _ in FILES), _OF_PAGE])
)
_ENDINGS = """
.lock .json .yaml .yml .lockb .sum .lockfile .resolved .hcl .map .js .mjs .cjs .ts .css .html .htm
.svg .py .pyi .go .cc .h .dart .cs .ini
"""
# Endings of names that a rule may hold for, besides those that begin or end with a sign.
MAY_BE_JUNK = frozenset(_ENDINGS.split())
# What such a name of a type that is read has in it; many names are asked, so it must be quick.
seems_junk = re.compile(
    r"lock|shrinkwrap|[.-]min\.|\.(?:bundle|chunk|pb|g|freezed|designer)\.|_pb2|desktop",
    re.IGNORECASE,
).search

_FOLDER_RULES = {
    name: [rule for rule in FOLDERS if name in rule.names]
    for each in FOLDERS
    for name in each.names
}
_FILE_RULES = re.compile("|".join(f"({pattern})" for _, pattern in FILES))
_MADE = re.compile(
    r"@generated\b|\bgenerated\b.{0,200}\bdo not (?:edit|modify)\b"
    r"|\bdo not (?:edit|modify)\b.{0,200}\bgenerated\b",
    re.IGNORECASE | re.DOTALL,
)
_HEAD = 1_000  # characters of a program that may say so
_LONG_LINE = 4_000
_MINIFIED_LINE = 1_000

# Types that programs write for browsers.
BUNDLED = frozenset({"js", "mjs", "cjs", "jsx", "ts", "css"})
_LONG_RUN = 200
_FEW_LETTERS = 8  # different ones: packed bytes have more
_RUN = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{_LONG_RUN},}}={{0,2}}")
_BLOCK = re.compile(r"(?:^[ \t>]*[A-Za-z0-9+/]{56,100}\r?\n){3,}[ \t>]*[A-Za-z0-9+/]*={0,2}$", re.M)

# A picture or font whose bytes stand in a text.
_EMBEDDED = re.compile(
    r"(data:[a-z]{1,20}/[\w.+-]{1,80};(?:[\w=.-]{1,40};)*base64,)"
    r"[A-Za-z0-9+/=_%-]{64,}(?:\r?\n[A-Za-z0-9+/=]{40,})*"
)


def junk_folder(name: str, exists: Callable[[str], bool]) -> str:
    """Return why a folder is left out, or ""."""
    for rule in _FOLDER_RULES.get(name.lower(), ()):
        if not rule.witnesses or any(exists(path.format(name)) for path in rule.witnesses):
            return PREFIX + rule.reason
    saved = _SAVED.fullmatch(name)
    if saved and any(exists(saved[1] + ending) for ending in (".html", ".htm")):
        return PREFIX + _OF_PAGE
    return ""


def junk_file(name: str) -> str:
    """Return why a file of this name is left out, or ""."""
    found = _FILE_RULES.fullmatch(name.lower())
    return PREFIX + FILES[found.lastindex - 1][0] if found and found.lastindex else ""


def made_by_program(text: str) -> str:
    """Return why a program is left out that says of itself that nobody wrote it, or ""."""
    return PREFIX + "made by a program, as its head says" if _MADE.search(text[:_HEAD]) else ""


def minified(text: str) -> str:
    """Return why a script or a style sheet is left out that is written for browsers, or ""."""
    if len(text) < _LONG_LINE:
        return ""
    packed = sum(len(line) for line in text.split("\n") if len(line) > _MINIFIED_LINE)
    return PREFIX + "minified, as its lines show" if packed * 2 > len(text) else ""


def without_junk(text: str, *, long_lines: bool) -> tuple[str, str]:
    """Leave out the bytes of pictures and the like that a text holds; its lines stay as many."""
    if len(text) < _LONG_RUN:
        return text, ""
    if ";base64," in text:
        text = _EMBEDDED.sub(lambda found: found[1] + _gap(found[0]), text)
    counts = Counter[str]()

    def left_out(found: re.Match[str]) -> str:
        if not _is_packed(found[0]):
            return found[0]
        counts["run{} of base64"] += 1
        return _gap(found[0])

    text = _RUN.sub(left_out, _BLOCK.sub(left_out, text))
    if len(text) > _LONG_LINE:
        lines = text.split("\n")
        for at, line in enumerate(lines):
            if len(line) > _LONG_LINE and not (_is_prose(line) if long_lines else _says(line)):
                counts["line{} of no words"] += 1
                lines[at] = "…"
        text = "\n".join(lines)
    told = " and ".join(f"{n} {what.format('s' * (n > 1))}" for what, n in counts.items())
    return text, f"junk left out: {told}" if told else ""


def _gap(text: str) -> str:
    return "…" + "\n" * text.count("\n")


def _is_packed(run: str) -> bool:
    """Return whether letters are those of packed bytes: no path and no line of a drawing."""
    varied = len(set(run)) >= _FEW_LETTERS and any(map(str.isdigit, run))
    if not varied or sum(map(run.count, "+/_-")) * 12 > len(run):
        return False
    return _is_hex(run) or (any(map(str.isupper, run)) and any(map(str.islower, run)))


def _is_hex(run: str) -> bool:
    return not set(run.lower()) - set("0123456789abcdef \t\r\n>")


def _says(line: str) -> bool:
    """Return whether a line has a letter or a digit, rules a table or is of data."""
    return any(map(str.isalnum, line)) or line.startswith(("| ---", "[", "{"))


def _is_prose(line: str) -> bool:
    """Return whether a line has words as people write them; one of few letters costs nothing."""
    words, letters = line.split(), sum(map(str.isalpha, line))
    line = " ".join(words)
    if not _says(line):
        return False
    if len(set(line)) < _FEW_LETTERS:
        return True
    if letters and sum(c > "\u2e7f" for c in line) > len(line) / 2:
        return True  # Chinese, Japanese and the like
    return len(line) <= len(words) * 15 and letters > len(line) * 0.6
