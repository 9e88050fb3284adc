"""`ragstream init`: a data root beside a project, which reads that project's folder in place."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from ragstream_core.errors import Refused, RunCommand, UsageError
from ragstream_core.ingestion.junk import KINDS
from ragstream_core.platform import data_root
from ragstream_core.platform.data_root import Layout, checked
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.records.identity import Json
from ragstream_core.wiring import project_files, projects
from ragstream_core.wiring.project_files import ProjectFile, RootEntry

_IGNORE = "# Made by RAGstream: prompts, conversations and indexes are nobody else's.\n*\n"


@dataclass(frozen=True, slots=True)
class NewRoot:
    """A data root that was made.

    Attributes:
        folder: What it reads.
        data_dir: The data root.
        project: The name of the folder's project.
        exclude: Kinds of files that are left out besides what .gitignore leaves out.
        above: Another data root that commands found here before; empty: none.
    """

    folder: str
    data_dir: str
    project: str
    exclude: tuple[str, ...]
    above: str

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream init --json` prints."""
        return asdict(self)


def init_folder(folder: Path, name: str = "") -> NewRoot:
    """Make ``FOLDER/.ragstream`` with one project: the folder itself, read in place.

    The project is written last; after a kill the command can be run again.

    Args:
        folder: Of the project.
        name: Of the project; empty: the folder's own name.

    Raises:
        UsageError: There is no such folder.
        InvalidName: Not a project name.
        Refused: It has a data root already, or something else has that name.
        OSError: Disk full, permission denied.
    """
    try:
        path = folder.expanduser().resolve(strict=True)
    except FileNotFoundError:
        raise UsageError(f"there is no folder {folder}", hint="check the path") from None
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{folder} cannot be read: {why}", hint="check the path") from None
    if not path.is_dir() or path == Path(path.anchor):
        raise UsageError(f"{path} is no folder of a project", hint="name the folder that you mean")
    project = checked(name or project_files.label_of(path.name))
    data_dir = path / data_root.FOLDER
    layout = Layout.of(data_dir)
    if projects.names(layout):
        raise Refused(
            f"{path} has a data root already: {data_dir}",
            hint=(RunCommand("project list"), " shows what it reads"),
        )
    if os.path.lexists(data_dir) and not data_dir.is_dir():
        raise Refused(f"{data_dir} is there and is no folder", hint="move it away, then run again")
    above = data_root.find(path)
    make_private_dir(data_dir)
    replace_text(data_dir / ".gitignore", _IGNORE)
    content = ProjectFile(roots=(RootEntry(label=project, path=".."),))
    project_files.write(layout, project, content)
    return NewRoot(str(path), str(data_dir), project, KINDS, str(above or ""))
