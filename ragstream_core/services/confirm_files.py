"""`ragstream config trust`: what files of a folder would set, and that a person has confirmed them.

These are files that may have come with a folder: settings, ``.env``, the files of projects in
place, and Dagster's own settings of a data root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.config import (
    CONFIG_NAME,
    DOTENV_NAME,
    found_root,
    is_confirmed,
    settings_folders,
    state_dir,
)
from ragstream_core.errors import TryAgain, UsageError
from ragstream_core.platform import confirmed_files, data_root
from ragstream_core.platform.data_root import PROJECT_FILE, Layout
from ragstream_core.settings.confirmation import LeftOut
from ragstream_core.settings.reading import ReadFile, read_dotenv, read_settings
from ragstream_core.wiring import project_files

DAGSTER_FILE = "dagster.yaml"


@dataclass(frozen=True, slots=True)
class FileSaid:
    """A file and what of it counts only once it is confirmed."""

    path: Path
    data: bytes
    asks: tuple[LeftOut, ...]  # what a person has to confirm; nothing: the file can do no harm
    confirmed: bool  # whether these very bytes are confirmed
    changed: bool  # whether others of this path were


def files_of(data: Path | None, place: Path | None = None) -> tuple[FileSaid, ...]:
    """Return the files that a call would read, or those of one place, with what they say.

    Args:
        data: The data root that was named; None: as it is found.
        place: A file, or a folder that may hold settings or a data root; None: this folder.

    Raises:
        UsageError: There is no such place.
        RagstreamError: A file cannot be read, or is no file of settings.
    """
    if place is not None and not place.exists():
        raise UsageError(f"there is no {place}", hint="name a settings file or a folder")
    if place is not None and not place.is_dir():
        return (_said(place),)
    found = _in_folder(place) if place is not None else _in_use(data)
    return tuple(map(_said, dict.fromkeys(path.absolute() for path in found)))


def confirm(files: Iterable[FileSaid]) -> None:
    """Remember that a person has confirmed files, as they were when they were shown.

    Raises:
        OSError: The memory cannot be written.
    """
    for file in files:
        confirmed_files.confirm(state_dir(), file.path, file.data)


def forget(files: Iterable[FileSaid]) -> tuple[Path, ...]:
    """Forget that files were confirmed; return those that were.

    Raises:
        OSError: The memory cannot be written.
    """
    return tuple(f.path for f in files if confirmed_files.forget(state_dir(), f.path))


def _in_use(data: Path | None) -> Iterator[Path]:
    explicit = {} if data is None else {"paths.data_dir": str(data)}
    found = found_root(explicit)
    folders = settings_folders(explicit, found)
    for name in (CONFIG_NAME, DOTENV_NAME):
        yield from [folder / name for folder in folders if (folder / name).is_file()][:1]
    for root in (found, *folders, *(folder / "data" for folder in folders)):
        yield from _of_root(root) if root is not None else ()


def _in_folder(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in (CONFIG_NAME, DOTENV_NAME) if (folder / name).is_file())
    for root in (folder, folder / data_root.FOLDER, folder / "data"):
        yield from _of_root(root)


def _of_root(root: Path) -> Iterator[Path]:
    yield from sorted(Layout.of(root).projects.glob(f"*/{PROJECT_FILE}"))
    path = Layout.of(root).dagster_home / DAGSTER_FILE
    yield from (path,) if path.is_file() else ()


def _said(path: Path) -> FileSaid:
    data = path.read_bytes()
    asks = _asks(path, data)
    is_known = confirmed_files.was_confirmed(state_dir(), path)
    confirmed = is_confirmed(path, data)
    return FileSaid(path, data, asks, confirmed, is_known and not confirmed)


def _asks(path: Path, data: bytes) -> tuple[LeftOut, ...]:
    """Return what of a file's bytes counts only once they are confirmed."""
    if path.name == PROJECT_FILE:
        content = project_files.parsed(data, path)
        what = "what is read outside of its folder"
        led = project_files.led_out(Layout.of(path.parents[2]), content)
        return tuple(LeftOut("roots", place, what) for place in led)
    text = data.decode("utf-8", "replace")
    if path.name == DAGSTER_FILE:
        if confirmed_files.is_stamped(text):
            return ()
        return (LeftOut("all of it", text, "whose code Dagster loads and where it records"),)

    def as_a_stranger(_: Path, read: bytes) -> bool:
        """Say no to the file that is shown, and refuse another one."""
        if read != data:
            raise UsageError(f"{path} changes while it is read", hint=TryAgain())
        return False

    read: ReadFile = (
        read_dotenv(path, confirmed=as_a_stranger)
        if path.name == DOTENV_NAME
        else read_settings(path, named=False, confirmed=as_a_stranger)
    )
    return read.file.left_out
