"""`ragstream index export`: one generation of a project as one Arrow file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import AddOption, GenerationGone, Refused, RunCommand
from ragstream_core.index.view import open_view
from ragstream_core.platform.disk import disk_failure, require_space
from ragstream_core.platform.files import create_bytes, replace_bytes

if TYPE_CHECKING:
    from ragstream_core.index.portable import ExportMeta
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


class Exported(NamedTuple):
    """A file with one generation: its path, its size, and what it says of itself."""

    path: str
    bytes: int
    meta: ExportMeta

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream index export --json` prints."""
        return {"path": self.path, "bytes": self.bytes, **self.meta._asdict()}


def export(
    workspace: Workspace, project: str, out: Path, *, generation: int = 0, force: bool = False
) -> Exported:
    """Write an export, whole or not at all; what is written was read back first.

    Args:
        workspace: The data root.
        project: Its name.
        out: The file.
        generation: Its number; 0 for the newest.
        force: Replace a file that is there.

    Raises:
        GenerationGone: That generation is not kept, or holds no chunk.
        Refused: The file already exists, or is a folder.
        IntegrityError: The index is damaged.
        OperationFailed: Disk full, permission denied; a file that was there stays.
    """
    from ragstream_core.index.portable import decode, encode

    require_new(out, force=force)
    view = open_view(workspace.index_dir(project), generation=generation)
    if not view.chunk_ids:
        raise GenerationGone(
            f"generation {view.generation} of {project} holds no chunk",
            hint=RunCommand("index generations", project),
        )
    data, meta = encode(view)
    decode(data)
    target = out.absolute()
    require_space(target.parent, len(data))
    try:
        (replace_bytes if force else create_bytes)(target, bytes(data))
    except FileExistsError:
        raise _there(out) from None
    except OSError as error:
        raise disk_failure(target, error, needed=len(data)) from error
    return Exported(str(out), len(data), meta)


def require_new(out: Path, *, force: bool) -> None:
    """Refuse a file that already exists.

    Raises:
        Refused: It does, or it is a folder.
    """
    if out.is_dir():
        raise Refused(f"{out} is a folder", hint="name a file in it")
    if out.exists() and not force:
        raise _there(out)


def _there(out: Path) -> Refused:
    return Refused(f"{out} already exists", hint=(AddOption("--force"), ", or another name"))
