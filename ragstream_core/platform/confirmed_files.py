"""The memory of which files a person has confirmed: path and SHA-256 of each, in a private file.

A file that changed, or that lies elsewhere, is another file and is asked about again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.platform.locks import serialized

NAME = "confirmed.json"
_FORMAT = 1

# Begins the first line of a file that is ours to replace; the SHA-256 of the rest ends it.
STAMP = "# written by ragstream, replaced when ragstream changes, kept when you edit it: "


def is_confirmed(state: Path, path: Path, data: bytes) -> bool:
    """Return whether a person has confirmed a file with these very bytes."""
    return _read(state).get(os.path.realpath(path)) == hashlib.sha256(data).hexdigest()


def was_confirmed(state: Path, path: Path) -> bool:
    """Return whether a person has confirmed a file of this path, perhaps with other bytes."""
    return os.path.realpath(path) in _read(state)


def is_stamped(text: str) -> bool:
    """Return whether a file is as RAGstream wrote it, in whatever version; see `STAMP`."""
    head, _, body = text.partition("\n")
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    return head == f"{STAMP}{digest}"


def confirm(state: Path, path: Path, data: bytes) -> None:
    """Remember that a person has confirmed a file with these bytes."""
    with serialized(make_private_dir(state)):
        digest = hashlib.sha256(data).hexdigest()
        _write(state, {**_read(state), os.path.realpath(path): digest})


def forget(state: Path, path: Path) -> bool:
    """Forget that a file was confirmed; return whether it was."""
    real = os.path.realpath(path)
    if real not in _read(state):
        return False
    with serialized(state):
        _write(state, {name: kept for name, kept in _read(state).items() if name != real})
    return True


def _read(state: Path) -> dict[str, str]:
    """Return path → SHA-256; empty if there is none, it is damaged, or others could write it."""
    try:
        with (state / NAME).open("rb") as handle:
            about = os.fstat(handle.fileno())
            if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return {}
            said = json.load(handle)
        return dict(said["files"]) if said["format"] == _FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _write(state: Path, files: dict[str, str]) -> None:
    said = {"format": _FORMAT, "files": dict(sorted(files.items()))}
    replace_text(state / NAME, json.dumps(said, indent=1, ensure_ascii=True) + "\n")
