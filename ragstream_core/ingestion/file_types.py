"""Which files are documents, of what kind each is, and which names are never read."""

from __future__ import annotations

from typing import Literal

from ragstream_core.chunking.grammars import BY_LINES, GRAMMARS

Kind = Literal["text", "code", "pdf", "office"]

TEXT = ("md", "txt", "rst", "json", "yml", "yaml")
CODE = (*GRAMMARS, *sorted(BY_LINES))
OFFICE = ("docx", "pptx", "xlsx", "html", "htm")
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(CODE, "code"),
    **dict.fromkeys(OFFICE, "office"),
    "pdf": "pdf",
}
TYPES = {f".{name}": name for name in _KINDS}
"""Document type by ending."""

_DENIED_NAMES = frozenset(
    [".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".netrc", ".npmrc", ".pypirc",
     ".pgpass", ".htpasswd", ".aws", ".ssh", ".gnupg"]
)  # fmt: skip
_DENIED_STARTS = (".env", "id_")
_DENIED_ENDS = (".pem", ".key", ".p12", ".pfx", ".jks", ".kdbx")


def file_type(path: str) -> str:
    """Return the document type of a path, e.g. ``md``; empty where it is not supported."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return TYPES.get(name[dot:].lower(), "") if dot > 0 else ""


def kind_of(file_type: str) -> Kind:
    """Return how files of a type are read; a type that is not supported is text."""
    return _KINDS.get(file_type, "text")


def denied(name: str) -> bool:
    """Say whether a file or folder name is on the deny list.

    The list holds what may be a secret (``.env…``, ``id_…``, keys, credentials), and folders of
    version control and of installed dependencies.
    """
    lower = name.lower()
    return (
        lower in _DENIED_NAMES or lower.startswith(_DENIED_STARTS) or lower.endswith(_DENIED_ENDS)
    )
