"""Documents that come in through the page: saved under a safe name of ours, nothing overwritten.

The name somebody gave a file is kept beside the project, as a label only; no path is made of it.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import Refused, RunProgram, UsageError, quoted
from ragstream_core.index.schema import require_own
from ragstream_core.ingestion.file_types import (
    NOT_SUPPORTED,
    PARSED,
    file_type,
    is_archive,
    kind_of,
)
from ragstream_core.ingestion.junk import PREFIX as JUNK
from ragstream_core.ingestion.scan import refusal_of
from ragstream_core.platform.data_root import is_project_name
from ragstream_core.platform.files import (
    create_bytes,
    make_durable_dir,
    make_private_dir,
    replace_text,
)
from ragstream_core.platform.locks import serialized
from ragstream_core.records.identity import sha256_hex
from ragstream_core.wiring import projects

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

FOLDER = "uploads"
LABELS = "uploads.json"
MAX_STEM = 80
MAX_LABEL = 300
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Upload:
    """One saved document."""

    path: str  # relative to the project, with /
    label: str  # the name it was given, for people; control characters are replaced
    new: bool  # False where the same bytes existed already


def create_project(workspace: Workspace, name: str) -> str:
    """Make the folder of a new project; return its name.

    Raises:
        InvalidName: Not a project name.
        UsageError: There is one of that name, whatever its capitals.
        OSError: Disk full, permission denied.
    """
    workspace.require_unused(name)
    make_durable_dir(workspace.layout.doc_raw / name)
    return name


def save_upload(workspace: Workspace, project: str, given: str, data: bytes) -> Upload:
    """Save a document into a project; the next ingest reads it.

    Args:
        workspace: The data root.
        project: An existing project.
        given: The name it came with; any text.
        data: Its content.

    Raises:
        UnknownProject: There is no such project.
        InvalidName: Not a project name.
        UsageError: The type is not supported, or it is larger than the settings allow.
        Refused: Its name is one of those never read, or the place for uploads is a link.
        OSError: Disk full, permission denied.
    """
    name = safe_name(given)
    _require_size(workspace, name, data)
    workspace.require_project(project)
    require_own(workspace.index_dir(project))
    if projects.is_in_place(workspace.layout, project):
        raise Refused(
            f"{project} reads your own folder; nothing is written there",
            hint="copy the file there, or choose another project",
        )
    base = workspace.documents(project).roots[0].path
    folder = base if projects.is_flat(workspace.layout, project) else base / FOLDER
    if folder.is_symlink():
        raise Refused(
            f"{folder} is a link; uploads go into a real folder",
            hint=RunProgram(quoted("rm", folder)),
        )
    path, new = _kept(make_durable_dir(folder), name, data)
    inside = path.relative_to(base).as_posix()
    label = _label(given)
    with serialized(make_private_dir(_labels_path(workspace, project).parent)):
        _remember(workspace, project, inside, {"given": label, "sha256": sha256_hex(data)})
    return Upload(inside, label, new)


def labels(workspace: Workspace, project: str) -> dict[str, dict[str, str]]:
    """Return what is known of a project's uploads: path → ``given, sha256, at``.

    Raises:
        InvalidName: Not a project name.
    """
    try:
        rows = json.loads(_labels_path(workspace, project).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # only labels: a damaged file is made anew
        return {}
    return rows if isinstance(rows, dict) else {}


def safe_name(given: str) -> str:
    """Return a file name made of ASCII letters, digits, ``-``, ``_`` and the ending's dot.

    Args:
        given: Any text, a path of any system included; only its last part counts.

    Raises:
        UsageError: No type that can be read, or junk.
        Refused: A name that is never read, since it may hold secrets.
    """
    last = re.split(r"[/\\]", given)[-1].strip()
    if reason := refusal_of(last):
        if reason.startswith((NOT_SUPPORTED, JUNK)):
            raise UsageError(
                f"{_label(given)!r} is not read: {reason}",
                hint="PDF, Office files, web pages and whatever is text are",
            )
        what, _, way = reason.partition("; ")
        raise Refused(f"{_label(given)!r} is {what}", hint=way)
    name, dot, ending = last.rpartition(".")
    ending = _OTHER.sub("-", ending).lower() if dot and name else ""
    plain = unicodedata.normalize("NFKD", name if ending else last)
    plain = plain.encode("ascii", "ignore").decode()
    stem = _OTHER.sub("-", plain).strip("-_")[:MAX_STEM].strip("-_") or "document"
    ending = f".{ending}" if ending else ""
    if refusal_of(stem + ending) or not is_project_name(f"{stem[:8]}.x1"):  # CON, LPT1, …
        stem = f"file-{stem}"
    return stem + ending


def _require_size(workspace: Workspace, name: str, data: bytes) -> None:
    limits = workspace.config.settings.discovery
    parsed = kind_of(file_type(name)) in PARSED or is_archive(name)
    setting = "max_pdf_bytes" if parsed else "max_text_bytes"
    limit = int(getattr(limits, setting))
    if len(data) > limit:
        raise UsageError(
            f"{name} has {len(data):,} bytes, more than the limit of {limit:,}",
            hint=f"discovery.{setting} sets the limit",
        )


def _kept(folder: Path, name: str, data: bytes) -> tuple[Path, bool]:
    """Keep the bytes under the first name that is free; return where, and whether they are new."""
    digest = sha256_hex(data)
    ending = Path(name).suffix
    stem = name.removesuffix(ending)
    for candidate in (name, f"{stem}-{digest[:8]}{ending}", f"{stem}-{digest}{ending}"):
        path = folder / candidate
        try:
            create_bytes(path, data)  # tabs and programs may choose the same name at once
        except FileExistsError:
            if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
                return path, False
        else:
            return path, True
    raise Refused(f"{folder / name} cannot be saved: every name for it is taken")


def _label(given: str) -> str:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in given)
    return shown[:MAX_LABEL]


def _labels_path(workspace: Workspace, project: str) -> Path:
    return workspace.layout.project(project) / LABELS


def _remember(workspace: Workspace, project: str, path: str, row: dict[str, str]) -> None:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    known = {**labels(workspace, project), path: {**row, "at": now}}
    replace_text(_labels_path(workspace, project), json.dumps(known, indent=1, sort_keys=True))
