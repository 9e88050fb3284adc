"""Documents from a foreign ``.pkl`` snapshot: read by a limited child, written as text files.

Only the texts come over. Vectors in such a file say nothing of the model that made them, so the
next ingest embeds the texts with the model of this project.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import Refused, UsageError
from ragstream_core.platform.files import replace_text
from ragstream_core.platform.sandbox import run_child
from ragstream_core.records.identity import sha256_hex

FOLDER = "imported"
_CHILD = Path(__file__).with_name("pickle_child.py")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80
_HASH_DIGITS = 8
_EXPECTED = "a dict with ids, vectors, texts and metadata, or a list of records with a text each"


class PickleRefused(Refused):
    """The pickle could do more than hold arrays and texts, or is not one at all."""


@dataclass(frozen=True, slots=True)
class PickleLimits:
    """What the child may use."""

    file_bytes: int = 512 * 2**20  # larger files are refused unread
    memory_bytes: int = 3 * 2**30
    cpu_s: int = 120
    wall_s: int = 300  # seconds until it is killed


class Imported(NamedTuple):
    """What an import did."""

    written: tuple[str, ...]  # paths relative to the project, in the file's order
    unchanged: tuple[str, ...]  # paths that held the same text already
    empty: int
    vectors: int


def read_pickle(path: Path, limits: PickleLimits) -> tuple[list[tuple[str, str]], int]:
    """Return (name, text) of the records of a pickle, and how many vectors it holds."""
    try:
        if path.stat().st_size > limits.file_bytes:
            raise PickleRefused(f"{path} is larger than {limits.file_bytes} bytes")
        with path.open("rb") as handle:
            words = ["-S", str(_CHILD), str(limits.memory_bytes), str(limits.cpu_s)]
            code, output = run_child(words, handle, wall_s=limits.wall_s)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    if code is None:
        raise PickleRefused(f"{path}: reading it took more than {limits.wall_s} s")
    if code:
        raise PickleRefused(f"{path}: its reader was stopped by its limits ({code})")
    try:
        answer = json.loads(output)
        refused = answer.get("refused")
        if refused is None:
            rows = [(_plain(row["name"]), _plain(row["text"])) for row in answer["rows"]]
            return rows, int(answer["vectors"])
    except (ValueError, KeyError, TypeError, AttributeError):
        refused = "its reader returned nothing"
    raise PickleRefused(f"{path} {_plain(refused)}", hint=f"expected: {_EXPECTED}")


def _plain(text: object) -> str:
    """Return a text of the child without lone surrogates."""
    if not isinstance(text, str):
        raise TypeError
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def import_pickle(path: Path, doc_dir: Path, *, limits: PickleLimits | None = None) -> Imported:
    """Write every text of a pickle as ``imported/<name>.md`` below a project's documents."""
    rows, vectors = read_pickle(path, limits or PickleLimits())
    texts = [(name, text) for name, text in rows if text.strip()]
    targets = dict(zip(_file_names([name for name, _ in texts]), texts, strict=True))
    written, unchanged = [], []
    for name, (_, text) in targets.items():
        target = doc_dir / FOLDER / name
        if not target.exists():
            written.append(name)
        elif target.read_bytes() == _document(text).encode():
            unchanged.append(name)
        else:
            raise UsageError(
                f"{target} exists and holds another text; nothing was written",
                hint="move it away, or import into another project",
            )
    for name in written:
        replace_text(doc_dir / FOLDER / name, _document(targets[name][1]))
    return Imported(
        tuple(f"{FOLDER}/{name}" for name in written),
        tuple(f"{FOLDER}/{name}" for name in unchanged),
        len(rows) - len(texts),
        vectors,
    )


def _document(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _file_names(names: list[str]) -> list[str]:
    """Return a file name for each record: its own where that is safe and unique, else hashed."""
    file_names: list[str] = []
    taken: set[str] = set()
    for number, name in enumerate(names):
        safe = _UNSAFE.sub("-", name.removesuffix(".md")).strip("-.")[:_LONGEST_NAME]
        digest = sha256_hex(f"{name}\0{number}" if safe.lower() in taken else name)[:_HASH_DIGITS]
        if not safe or safe != name.removesuffix(".md") or safe.lower() in taken:
            safe = f"{safe}-{digest}" if safe else digest
        taken.add(safe.lower())
        file_names.append(f"{safe}.md")
    return file_names
