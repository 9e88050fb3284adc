"""`ragstream index export`: one generation of a project as one Arrow file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragstream_core.atomic import create_bytes, replace_bytes
from ragstream_core.errors import GenerationGone, Refused
from ragstream_core.stores.disk import disk_failure, require_space

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.build.workspace import Workspace


def export(
    workspace: Workspace, project: str, out: Path, *, generation: int = 0, force: bool = False
) -> dict[str, Any]:
    """Write an export, whole or not at all; what is written was read back first.

    Args:
        workspace: The data root.
        project: Its name.
        out: The file.
        generation: Its number; 0 for the newest.
        force: Replace a file that is there.

    Returns:
        ``path, bytes``, and what the file says of itself; see `index_export.encode`.

    Raises:
        GenerationGone: That generation is not kept, or holds no chunk.
        Refused: The file already exists, or is a folder.
        IntegrityError: The index is damaged.
        OperationFailed: Disk full, permission denied; a file that was there stays.
    """
    from ragstream_core.stores.index_export import decode, encode

    require_new(out, force=force)
    view = workspace.view(project, generation)
    if not view.chunk_ids:
        raise GenerationGone(
            f"generation {view.generation} of {project} holds no chunk",
            hint=f"ragstream index generations {project}",
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
    return {"path": str(out), "bytes": len(data), **meta}


def require_new(out: Path, *, force: bool) -> None:
    """Refuse a file that already exists.

    Raises:
        Refused: It is, or is a folder.
    """
    if out.is_dir() or (out.exists() and not force):
        raise _there(out)


def _there(out: Path) -> Refused:
    return Refused(f"{out} already exists", hint="--force, or another name")
