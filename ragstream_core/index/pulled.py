"""The mark of an index that is made elsewhere: it is read here, and never written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.errors import IntegrityError, Refused, RunCommand
from ragstream_core.platform.files import replace_text

PULLED_NAME = "pulled.json"


@dataclass(frozen=True, slots=True)
class PulledMark:
    """Where an index comes from.

    Attributes:
        url: The folder or bucket where it is published.
        pulled: When it was pulled, ISO 8601.
        manifest: What was pulled, the bytes of its manifest as text.
    """

    url: str
    pulled: str
    manifest: str


def publishing_copy(index_dir: Path) -> Path:
    """Return where a copy of an index lies while it is published, and after a kill."""
    return index_dir.with_name(f".{index_dir.name}.publishing")


def is_pulled(index_dir: Path) -> bool:
    """Return whether an index is made elsewhere."""
    return (index_dir / PULLED_NAME).is_file()


def read_mark(index_dir: Path) -> PulledMark:
    """Return the mark of an index that is pulled."""
    path = index_dir / PULLED_NAME
    try:
        said = json.loads(path.read_bytes())
        mark = PulledMark(said["url"], said["pulled"], said["manifest"])
        if all(isinstance(word, str) for word in (mark.url, mark.pulled, mark.manifest)):
            return mark
    except (ValueError, TypeError, KeyError):
        pass
    raise IntegrityError(
        f"{path} is damaged", hint=RunCommand("index pull", f"PLACE --name {index_dir.name}")
    )


def write_mark(index_dir: Path, mark: PulledMark) -> None:
    """Mark an index as made elsewhere."""
    said = {"url": mark.url, "pulled": mark.pulled, "manifest": mark.manifest}
    replace_text(index_dir / PULLED_NAME, json.dumps(said))


def require_own(index_dir: Path) -> None:
    """Refuse to write an index that is made elsewhere."""
    if is_pulled(index_dir):
        raise Refused(
            f"the index of {index_dir.name} is made elsewhere and only read here",
            hint=(RunCommand("index pull", index_dir.name), " brings it up to date"),
        )
