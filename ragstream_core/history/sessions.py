"""One log a conversation, ``session-<id>.log``: projections of the journal, never a source (R-028).

Each holds the journal's own lines of its questions and answers, so every line can be verified by
itself. They are derived: a file that is lost or damaged is written again from the journal.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from ragstream_core.atomic import make_private_dir, replace_bytes, replace_text
from ragstream_core.errors import UsageError
from ragstream_core.history.fold import fold
from ragstream_core.history.framing import parse_line
from ragstream_core.history.journal import Journal
from ragstream_core.history.records import Asked, Cleared, Entry, Turn, checked_session

MARK_NAME = ".sessions.json"
"""How far the files have come, ``seq``, and how many ``files`` with how many ``bytes`` they are."""


def session_log_name(session: str) -> str:
    """Return the file name of a conversation's log.

    Raises:
        UsageError: The session has no valid name.
    """
    return f"session-{checked_session(session)}.log"


def write_session_logs(journal: Journal, folder: Path, since: int = 0) -> list[Path]:
    """Bring the logs of all conversations up to the journal; return the files that changed.

    Args:
        journal: The source.
        folder: Where they lie.
        since: Number up to which they are written; what their mark says counts where it is lower.
            0: write all of them anew and remove those of conversations that are gone.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
        OSError: Disk full, permission denied; each file is the old one or the new one.
    """
    start = min(since, _mark(folder))
    newest = journal.newest().seq
    if newest == start:
        return []
    lines = None if start == 0 or start > newest else _new_lines(journal, folder, start, newest)
    anew = lines is None
    if lines is None:
        lines = _all_lines(journal, newest)
    changed = _write(folder, lines)
    if anew:
        kept = {session_log_name(session) for session in lines}
        for path in folder.glob("session-*.log"):
            if path.name not in kept:
                path.unlink()
    files, size = _on_disk(folder)
    mark = {"seq": newest, "files": files, "bytes": size}
    replace_text(make_private_dir(folder) / MARK_NAME, json.dumps(mark))
    return changed


def _all_lines(journal: Journal, newest: int) -> dict[str, list[bytes]]:
    """Return session → its lines, without what was cleared."""
    hidden = fold(e for e in journal.entries() if isinstance(e.record, Cleared))
    lines: dict[str, list[bytes]] = {}
    for entry, raw in journal.lines(1, newest + 1):
        session = _session(entry)
        if session and not hidden.is_hidden(entry.seq):
            lines.setdefault(session, []).append(raw)
    return lines


def _new_lines(
    journal: Journal, folder: Path, start: int, newest: int
) -> dict[str, list[bytes]] | None:
    """Return session → its old and new lines; None: a file is damaged, or turns were cleared."""
    lines: dict[str, list[bytes]] = {}
    for entry, raw in journal.lines(start + 1, newest + 1):
        if isinstance(entry.record, Cleared):
            return None
        session = _session(entry)
        if session and session not in lines:
            present = _present(folder / session_log_name(session), start)
            if present is None:
                return None
            lines[session] = present
        if session:
            lines[session].append(raw)
    return lines


def _present(path: Path, start: int) -> list[bytes] | None:
    """Return the lines of a file up to a number; None: it is damaged."""
    if not path.exists():
        return []
    kept = []
    for raw in path.read_bytes().splitlines(keepends=True):
        parsed = parse_line(raw)
        if parsed is None:
            return None
        if parsed.seq <= start:
            kept.append(raw)
    return kept


def _session(entry: Entry) -> str:
    """Return the conversation of a question or answer that has a valid name, else ""."""
    record = entry.record
    if not isinstance(record, Turn | Asked):
        return ""
    with contextlib.suppress(UsageError):
        return checked_session(record.session_id)
    return ""


def _write(folder: Path, lines: Mapping[str, list[bytes]]) -> list[Path]:
    changed = []
    for session, raw in lines.items():
        path, data = folder / session_log_name(session), b"".join(raw)
        if not path.exists() or path.read_bytes() != data:
            replace_bytes(path, data, durable=False)
            changed.append(path)
    return changed


def _on_disk(folder: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in folder.glob("session-*.log")]
    return len(sizes), sum(sizes)


def _mark(folder: Path) -> int:
    """Return up to which number the files hold everything; 0 where they are not as they were."""
    try:
        mark = json.loads((folder / MARK_NAME).read_text(encoding="utf-8"))
        sound = (mark["files"], mark["bytes"]) == _on_disk(folder)
        return int(mark["seq"]) if sound else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0
