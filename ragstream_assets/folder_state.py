"""What the folder sensor remembers and decides; pure but for one pass over the folders.

The memory is a hint: losing it costs one superfluous scan, because the ingest compares contents.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragstream_core.build.projects import is_flat
from ragstream_core.build.workspace import Workspace
from ragstream_core.errors import UnknownProject
from ragstream_core.ingestion.scan import ScanRules, scan
from ragstream_core.records.identity import digest_of

CURSOR_VERSION = 1
DIGEST_DIGITS = 16
FIRST_RETRY_S = 30.0
LONGEST_RETRY_S = 3600.0


def folder_digest(workspace: Workspace, project: str) -> str:
    """Return the digest of a project's sorted (path, size, mtime_ns), 16 hex digits.

    A folder that has just gone has the digest of an empty one.
    """
    try:
        rules = ScanRules(flat=is_flat(workspace.data_dir, project))
        files = scan(workspace.doc_dir(project), rules).files
    except UnknownProject:
        files = {}
    rows: list[Any] = sorted((path, sig[0], sig[1]) for path, sig in files.items())
    return digest_of(rows)[:DIGEST_DIGITS]


def read_cursor(text: str | None) -> dict[str, str]:
    """Return the digest last dealt with by project; nothing for another version or damage."""
    try:
        data = json.loads(text or "")
        seen = data["projects"] if data["v"] == CURSOR_VERSION else {}
        return {str(project): str(digest) for project, digest in seen.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_cursor(seen: Mapping[str, str]) -> str:
    """Return the sensor's memory as text."""
    return json.dumps({"v": CURSOR_VERSION, "projects": dict(sorted(seen.items()))})


@dataclass(frozen=True, slots=True)
class Attempts:
    """The finished runs for one state of a folder.

    Attributes:
        ended: How many there are.
        failures: How many of them failed in a row, newest first.
        last_end: When the newest ended, seconds since the epoch.
    """

    ended: int
    failures: int
    last_end: float

    def due(self, now: float) -> bool:
        """Whether a failed state is to be tried again: after 30 s, then twice as long each time."""
        pause = min(FIRST_RETRY_S * 2 ** max(self.failures - 1, 0), LONGEST_RETRY_S)
        return self.failures > 0 and now - self.last_end >= pause
