"""A data root: where in it everything lies, what names projects have, and how one is found."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.errors import InvalidName

FOLDER = ".ragstream"
PROJECT_FILE = "project.yaml"
_DATA = ("doc_raw", "projects")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = (
    "1 to 64 letters, digits, '.', '_', '-', starting with a letter or digit, no '..', "
    "no name of a Windows device"
)
_PORTS = (f"{port}{number}" for port in ("com", "lpt") for number in range(10))
_DEVICES = frozenset({"con", "prn", "aux", "nul", *_PORTS})


def is_project_name(name: str) -> bool:
    """Whether a name can be a project's: see `NAME_RULE`."""
    device = name.split(".", maxsplit=1)[0].lower()
    return bool(_NAME.fullmatch(name)) and ".." not in name and device not in _DEVICES


def checked(project: str) -> str:
    """Return the name itself when it is a project name, so that it leads nowhere outside."""
    if not is_project_name(project):
        raise InvalidName(f"{project!r} cannot be a project name", hint=NAME_RULE)
    return project


class _Below:
    """A place below the root of a layout."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, layout: Layout, owner: type) -> Path:
        return layout.root.joinpath(*self._names)


@dataclass(frozen=True)
class Layout:
    """Where everything of a data root lies, whether it exists or not; looks at nothing."""

    root: Path
    indexes: Path
    logs: Path  # of the journal and the debug logs

    doc_raw = _Below("doc_raw")  # documents that were copied here, a folder a project
    projects = _Below("projects")  # what belongs to a project beside its documents
    mirrors = _Below("mirrors")  # what was fetched from addresses, a folder a project
    collections = _Below("chroma_db")  # Chroma's, a folder a project
    prompts = _Below("prompts")
    models = _Below("models")  # pulled or exported ones
    history = _Below("history")  # everything about conversations
    history_index = _Below("history", "index")
    history_snapshot = _Below("history", "vectors", "history_store.arrow")
    history_archive = _Below("history", "archive")  # conversations that were put aside
    memory = _Below("history", "index", "memory")  # what kept answers are found by, and summaries
    facts = _Below("memory")  # the remembered facts, as files that a person may edit
    evaluation = _Below("evaluation")  # what measurements keep
    specs = _Below("specs")  # drafts of test specifications, a folder a project
    dagster_home = _Below("dagster_home")
    server_logs = _Below("logs")  # what the servers that `ragstream up` starts print

    @classmethod
    def of(cls, root: Path) -> Layout:
        """Return the layout of a root whose settings put nothing elsewhere."""
        return cls(root, root / "index", root / "history" / "logs")

    def index(self, project: str) -> Path:
        """The index of a project; a name that could lead elsewhere is refused."""
        return self.indexes / checked(project)

    def project(self, project: str) -> Path:
        """What belongs to a project beside its documents; refuses as `index`."""
        return self.projects / checked(project)

    def project_file(self, project: str) -> Path:
        """The file that says where the documents of a project lie; refuses as `index`."""
        return self.project(project) / PROJECT_FILE


def find(start: Path) -> Path | None:
    """Return the nearest ``.ragstream`` in a folder or above it, None without one.

    One that belongs to another user is passed over: what it says would be read and written under
    our name. A ``data`` folder beside the command stays the data root that it always was.
    """
    for folder in (start, *start.parents):
        candidate = folder / FOLDER
        if _is_ours(candidate):
            return candidate
        if folder == start and any((folder / "data" / name).is_dir() for name in _DATA):
            return None
    return None


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.stat()
        complete = (folder / "projects").is_dir()
    except OSError:
        return False
    return complete and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
