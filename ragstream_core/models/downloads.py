"""Puts a model or a token file into the data root: whole and checked, or not at all.

Files come into a folder of their own, ``<models>/.pull/…``, which a killed transfer leaves behind
and the next one goes on with. When all of them have their digests the folder takes its place in one
step, with ``.pulled`` beside the files: where they came from, and the sha256 of each.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import (
    FreeSpace,
    IntegrityError,
    OperationFailed,
    Refused,
    RunCommand,
    WeightsMismatch,
)
from ragstream_core.models.hub import Hub, HubFile, HubModel
from ragstream_core.models.token_counters import TokenFile, token_folder
from ragstream_core.platform.files import (
    file_sha256,
    make_private_dir,
    put_in_place,
    replace_bytes,
    replace_text,
)
from ragstream_core.platform.locks import FolderLock

if TYPE_CHECKING:
    from ragstream_core.ports import Progress

STAMP = ".pulled"
SPARE_BYTES = 200_000_000
_MOST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class Pulled:
    """What `.pulled` says of a folder."""

    repo: str  # ``organisation/model``
    commit: str  # revision, 40 hex digits
    host: str
    files: dict[str, str]


def pulled(folder: Path) -> Pulled | None:
    """Return what was pulled into a folder; None if nothing was."""
    path = folder / STAMP
    if not path.is_file():
        return None
    try:
        return Pulled(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise IntegrityError(
            f"{path} is damaged", hint=f"remove the folder {folder} and pull the model again"
        ) from None


def verify_pulled(folder: Path) -> int:
    """Check every file of a pulled model against the sha256 it had; return how many there are."""
    stamp = pulled(folder)
    for name, sha256 in stamp.files.items() if stamp else ():
        path = folder / name
        if not path.is_file() or file_sha256(path) != sha256:
            what = "differs from what was pulled" if path.is_file() else "is missing"
            raise WeightsMismatch(
                f"{path} {what}",
                hint=RunCommand("models pull", stamp.repo if stamp else ""),
            )
    return len(stamp.files) if stamp else 0


def pull_model(
    hub: Hub, model: HubModel, models_dir: Path, *, progress: Progress | None = None
) -> Path:
    """Fetch a model into ``<models>/<organisation>/<model>`` and return that folder."""
    place = models_dir / model.repo
    staging = models_dir / ".pull" / f"{model.repo.replace('/', '--')}@{model.commit[:12]}"
    with FolderLock(models_dir / ".pull", "the folder of models").held():
        before = pulled(place) if place.is_dir() else None
        if before is not None and before.commit == model.commit and _is_whole(place):
            return place
        make_private_dir(staging)
        _require_room(models_dir, model.size)
        done = 0
        for file in model.files:
            path = staging / file.name
            make_private_dir(path.parent)
            hub.fetch(
                hub.url_of(model, file), file, path, progress=_from(done, model.size, progress)
            )
            _require_weights(path)
            done += file.size
        files = {file.name: file_sha256(staging / file.name) for file in model.files}
        stamp = {"repo": model.repo, "commit": model.commit, "host": hub.host, "files": files}
        replace_text(staging / STAMP, json.dumps(stamp, indent=1) + "\n")
        make_private_dir(place.parent)
        put_in_place(staging, place)
    return place


def pull_token_file(file: TokenFile, models_dir: Path, *, progress: Progress | None = None) -> Path:
    """Fetch one of tiktoken's token files from its publisher and return its path."""
    folder, part = token_folder(models_dir), models_dir / ".pull" / file.file_name
    with FolderLock(models_dir / ".pull", "the folder of models").held():
        _require_room(models_dir, file.size)
        wanted = HubFile(file.file_name, file.size, file.sha256)
        hub = Hub(file.url.rpartition("/")[0])
        hub.fetch(file.url, wanted, part, progress=_from(0, file.size, progress))
        make_private_dir(folder)
        replace_bytes(folder / file.file_name, part.read_bytes())
        part.unlink()
    return folder / file.file_name


def _from(done: int, total: int, progress: Progress | None) -> Callable[[int], None]:
    return lambda now: progress(done + now, total) if progress else None


def _is_whole(place: Path) -> bool:
    try:
        return bool(verify_pulled(place))
    except WeightsMismatch:
        return False


def _require_room(models_dir: Path, size: int) -> None:
    """Refuse to begin what cannot end."""
    free = shutil.disk_usage(models_dir).free
    if free < size + SPARE_BYTES:
        raise OperationFailed(
            f"{models_dir} has {free / 1e9:.1f} GB free, {size / 1e9:.1f} GB are needed",
            hint=(FreeSpace(), ", or set paths.data_dir to another disk"),
        )


def _require_weights(path: Path) -> None:
    """Refuse a file of weights that is none, whatever its name and digest say."""
    if path.suffix != ".safetensors":
        return
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        try:
            if not 2 <= length <= _MOST_HEADER:
                raise ValueError
            head: Any = json.loads(handle.read(length))
            if not isinstance(head, dict):
                raise ValueError
        except ValueError:
            path.unlink()
            raise Refused(f"{path.name} is named like a safetensors file but is not one") from None
