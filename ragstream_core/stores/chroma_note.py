"""The note of a Chroma collection that could not be made, beside where it would lie.

What is derived may fail, and must not fail again at every ingest: nobody tries by himself until the
generation or the settings are other ones. Whoever asks for the collection itself tries at once.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragstream_core.atomic import replace_text
from ragstream_core.errors import RagstreamError, StoreFailed

NOTE = "failed.json"


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed.

    Attributes:
        key: Digest of the generation and the settings that it was made with.
        generation: Number of the generation.
        message: What went wrong.
        hint: What tries again.
        at: When, in ISO 8601.
    """

    key: str
    generation: int
    message: str
    hint: str
    at: str

    @property
    def error(self) -> StoreFailed:
        """The error to raise in place of another attempt."""
        said = f"{self.message}; not tried again for generation {self.generation}"
        return StoreFailed(said, hint=self.hint)


def note(chroma_dir: Path, key: str, generation: int, *, error: RagstreamError) -> None:
    """Write the note of an attempt that just failed.

    Args:
        chroma_dir: The collection's folder; it is there.
        key: Digest of the generation and the settings.
        generation: Number of the generation.
        error: What went wrong; its hint says what tries again.

    Raises:
        OSError: Disk full: then the next ingest tries again.
    """
    now = dt.datetime.now(dt.UTC).isoformat("T", "seconds")
    found = FailedAttempt(key, generation, error.message, error.hint, now)
    replace_text(chroma_dir / NOTE, json.dumps(asdict(found), indent=1))


def noted(chroma_dir: Path) -> FailedAttempt | None:
    """Return the note, None where there is none that can be read."""
    try:
        data: dict[str, Any] = json.loads((chroma_dir / NOTE).read_text(encoding="utf-8"))
        return FailedAttempt(**data)
    except (OSError, ValueError, TypeError):
        return None


def forget(chroma_dir: Path) -> None:
    """Remove the note, if any.

    Raises:
        OSError: Permission denied.
    """
    (chroma_dir / NOTE).unlink(missing_ok=True)
