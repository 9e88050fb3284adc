"""Which files are documents, and how their names are written.

Which files are documents, of what kind each is, and which names are never read.

File names of any bytes as text and back: injective, and a valid name is its own text.

A byte that is no UTF-8 becomes ``%80`` … ``%FF``. A ``%`` that would read as such an escape (or as
``%25``) becomes ``%25``; every other ``%`` stays. So two files never share a path in the index.
"""

from __future__ import annotations

import os
import re
from typing import Literal

from ragstream_core.text.code import BY_LINES, GRAMMARS

_AMBIGUOUS = re.compile(r"%(?=25|[89A-F][0-9A-F])")
_ESCAPED = re.compile(r"%(25|[89A-F][0-9A-F])")


def encode_name(name: str) -> str:
    """Return the text of a file name as `os.scandir` gives it (undecodable bytes as surrogates)."""
    safe = _AMBIGUOUS.sub("%25", name)
    return "".join(
        f"%{ord(char) - 0xDC00:02X}" if "\udc80" <= char <= "\udcff" else char for char in safe
    )


def decode_name(path: str) -> str:
    """Return the file-system form of a path made of encoded names; inverse of `encode_name`."""

    def restore(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return "%" if value == 0x25 else os.fsdecode(bytes([value]))

    return _ESCAPED.sub(restore, path)


Kind = Literal["text", "code", "pdf", "office"]

TEXT = ("md", "txt", "rst", "json", "yml", "yaml")
CODE = (*GRAMMARS, *sorted(BY_LINES))
OFFICE = (
    "docx", "pptx", "xlsx", "html", "htm", "odt", "odp", "ods", "rtf", "epub", "eml", "mbox",
    "ipynb", "srt", "vtt", "jsonl", "ndjson", "parquet",
)  # fmt: skip
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(CODE, "code"),
    **dict.fromkeys(OFFICE, "office"),
    "pdf": "pdf",
}
TYPES = {f".{name}": name for name in _KINDS}
"""Document type by ending."""

OWN_FOLDER = ".ragstream"
"""What `ragstream init` makes in a folder."""
_NO_DOCUMENTS = frozenset(
    [".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", OWN_FOLDER]
)
_SECRETS = frozenset(
    [".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".aws", ".ssh", ".gnupg"]
)
_SECRET = re.compile(  # id_rsa.old and .env.local, yet neither id_cards nor .environment
    r"(?:\.envs?|\.envrc|id_(?:rsa|dsa|ecdsa|ed25519|ed448|xmss))(?![a-z])"
)
_SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".jks", ".kdbx")


def file_type(path: str) -> str:
    """Return the document type of a path, e.g. ``md``; empty where it is not supported."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return TYPES.get(name[dot:].lower(), "") if dot > 0 else ""


def kind_of(file_type: str) -> Kind:
    """Return how files of a type are read; a type that is not supported is text."""
    return _KINDS.get(file_type, "text")


def denial(name: str) -> str:
    """Return why a file or folder of this name is never read, empty where it is.

    The deny list holds what may be a secret (``.env.local``, ``id_rsa``, keys, credentials), and
    folders of version control, of installed dependencies and of RAGstream itself.
    """
    lower = name.lower()
    if lower in _NO_DOCUMENTS:
        return "on the deny list: version control or installed packages"
    if lower in _SECRETS or lower.endswith(_SECRET_ENDS) or _SECRET.match(lower):
        return "on the deny list: may hold secrets; give it another name if it holds none"
    return ""
