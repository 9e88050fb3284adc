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


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of a data root lies, whether it exists or not; looks at nothing."""

    root: Path
    indexes: Path
    logs: Path  # of the journal and the debug logs

    @classmethod
    def of(cls, root: Path) -> Layout:
        """Return the layout of a root whose settings put nothing elsewhere."""
        return cls(root, root / "index", root / "history" / "logs")

    @property
    def doc_raw(self) -> Path:
        """The documents that were copied here, a folder a project."""
        return self.root / "doc_raw"

    @property
    def projects(self) -> Path:
        """What belongs to a project beside its documents."""
        return self.root / "projects"

    @property
    def mirrors(self) -> Path:
        """What was fetched from addresses, a folder a project."""
        return self.root / "mirrors"

    @property
    def collections(self) -> Path:
        """The Chroma collections of documents, a folder a project."""
        return self.root / "chroma_db"

    @property
    def prompts(self) -> Path:
        """The prompt store."""
        return self.root / "prompts"

    @property
    def models(self) -> Path:
        """Models that were pulled or exported."""
        return self.root / "models"

    @property
    def history(self) -> Path:
        """Everything about conversations."""
        return self.root / "history"

    @property
    def history_index(self) -> Path:
        """The catalog of the conversations."""
        return self.history / "index"

    @property
    def history_snapshot(self) -> Path:
        """The published selection of turns."""
        return self.history / "vectors" / "history_store.arrow"

    @property
    def history_archive(self) -> Path:
        """Conversations that were put aside."""
        return self.history / "archive"

    @property
    def memory(self) -> Path:
        """What kept answers are found by, and summaries of conversations."""
        return self.history_index / "memory"

    @property
    def facts(self) -> Path:
        """The remembered facts, as files that a person may edit."""
        return self.root / "memory"

    @property
    def evaluation(self) -> Path:
        """What measurements keep."""
        return self.root / "evaluation"

    @property
    def specs(self) -> Path:
        """Drafts of test specifications, a folder a project."""
        return self.root / "specs"

    @property
    def dagster_home(self) -> Path:
        """Dagster's instance."""
        return self.root / "dagster_home"

    @property
    def server_logs(self) -> Path:
        """What the servers that `ragstream up` starts print."""
        return self.root / "logs"

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
