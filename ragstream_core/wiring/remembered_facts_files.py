"""The two files of remembered facts below the data root, kept in step with the journal (R-258).

The journal is the truth of what was decided, the files are what prompts read, and people edit them.
So a step forward is made, not a copy: what was accepted since the mark is added, what was taken
back is removed, and every other line stays. A kill between record and file costs nothing: the next
look takes the same step. A file that is gone is made again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.facts.records import (
    NAMES,
    bullets,
    fact_entries,
    fold_facts,
    lines_of,
    texts_of,
    with_lines,
)
from ragstream_core.conversations.journal.records import Entry, Fact
from ragstream_core.errors import FreeSpace, IntegrityError, RunCommand
from ragstream_core.platform import sidecar
from ragstream_core.platform.disk import disk_failure
from ragstream_core.platform.files import copy_durable, make_private_dir, replace_text
from ragstream_core.platform.locks import FolderLock
from ragstream_core.prompts.fences import one_line
from ragstream_core.prompts.render import PINNED
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from ragstream_core.text.fingerprints import TextFingerprints
    from ragstream_core.wiring.workspace import Workspace

MARK_NAME = ".written.json"
WAIT_S = 5.0
_MAX_LINE = 500
_HINT = (
    FreeSpace(),
    ", then run ",
    RunCommand("memory show"),
    ": what was accepted is in the journal",
)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The record of the journal up to which the files have come; no text."""

    seq: int


def read(workspace: Workspace, target: str) -> str:
    """Return the file of a target as it stands, empty where there is none."""
    path = workspace.layout.facts / NAMES[target]
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{path} is not UTF-8: {error}", hint="edit it, or move it") from None


def state_of(workspace: Workspace) -> tuple[tuple[int, int], ...]:
    """Return size and time of both files, which change whenever one of them is written."""
    found = []
    for name in NAMES.values():
        try:
            status = (workspace.layout.facts / name).stat()
            found.append((status.st_size, status.st_mtime_ns))
        except OSError:
            found.append((-1, 0))
    return tuple(found)


def pinned(workspace: Workspace, budget_tokens: int, count: Callable[[str], int]) -> dict[str, str]:
    """Return what a prompt of a budget shows of both files, by the name of its pinned text.

    One bullet a line, made harmless and cut; of each file the newest within `facts.max_tokens` and
    a tenth of the prompt's budget, so that facts never crowd the documents out. Writes nothing.
    """
    limit = min(workspace.config.settings.facts.max_tokens, budget_tokens // 10)
    shown = {
        name: _newest(read(workspace, target), limit, count) for target, name in PINNED.items()
    }
    return {name: text for name, text in shown.items() if text}


def _newest(text: str, limit: int, count: Callable[[str], int]) -> str:
    spent, kept = 0, []
    for fact in reversed(bullets(text)):
        line = f"- {one_line(fact)[:_MAX_LINE]}"
        spent += count(line)
        if spent > limit:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def sync(workspace: Workspace) -> list[str]:
    """Bring the files to what was decided since the last time; return the names that changed."""
    if not workspace.config.settings.history.persist or not _is_due(workspace):
        return []
    with _writing(workspace):
        log, mark = journal(workspace), _mark(workspace) or 0
        entries = fact_entries(log)
        reached = mark if mark <= log.newest().seq else 0  # else another journal took its place
        before = fold_facts(entries, upto=reached)
        then, now = lines_of(before.values()), lines_of(fold_facts(entries).values())
        changed = []
        for target in NAMES:
            lost = not (workspace.layout.facts / NAMES[target]).exists()
            new = [text for text in now[target] if lost or text not in then[target]]
            gone = [text for text in then[target] if text not in now[target]]
            changed += _rewrite(workspace, target, add=new, drop=gone)
        text = json.dumps(asdict(_Mark(_newest_step(entries))))
        replace_text(workspace.layout.facts / MARK_NAME, text)
    return changed


def _is_due(workspace: Workspace) -> bool:
    """Say whether anything was decided or cleared behind the mark, or a file is lost."""
    entries, mark = fact_entries(journal(workspace)), _mark(workspace)
    if mark != _newest_step(entries):
        return mark is not None or any(isinstance(entry.record, Fact) for entry in entries)
    accepted = lines_of(fold_facts(entries).values())
    return any(accepted[t] and not (workspace.layout.facts / NAMES[t]).exists() for t in NAMES)


def _newest_step(entries: Sequence[Entry]) -> int:
    return entries[-1].seq if entries else 0


def _mark(workspace: Workspace) -> int | None:
    """Return up to which step the files have come; None where unknown: all steps are made again."""
    mark = sidecar.read(workspace.layout.facts / MARK_NAME, _Mark)
    return mark.seq if mark else None


def erase(workspace: Workspace, gone: Sequence[Entry], traces: TextFingerprints) -> list[str]:
    """Take the bullets of cleared records out of the files; return the names that changed.

    A bullet with the words of a cleared turn goes as well, though a person changed it.
    """
    if not workspace.layout.facts.is_dir():
        return []
    mine = texts_of(gone)
    standing = lines_of(fold_facts(fact_entries(journal(workspace))).values())
    with _writing(workspace):
        changed = []
        for target in NAMES:
            drop = [
                fact
                for fact in bullets(read(workspace, target))
                if fact not in standing[target]
                and (fact in mine or traces.found_in(fact.encode("utf-8")))
            ]
            changed += _rewrite(workspace, target, drop=drop)
    return changed


def copy_memory(workspace: Workspace, target: Path) -> None:
    """Copy both files, and how far they have come, below the root of a backup."""
    folder = workspace.layout.facts
    if not folder.is_dir():
        return
    with _writing(workspace):
        for name in (*NAMES.values(), MARK_NAME):
            if (folder / name).exists():
                copy_durable(folder / name, target / folder.name / name)


def drop_line(workspace: Workspace, target: str, fact: str) -> list[str]:
    """Take one bullet out of a file that no record speaks of; return the names that changed."""
    with _writing(workspace):
        return _rewrite(workspace, target, drop=[fact])


@contextlib.contextmanager
def _writing(workspace: Workspace) -> Iterator[None]:
    """Keep other writers of the files out."""
    folder = workspace.layout.facts
    try:
        with FolderLock(make_private_dir(folder), "the remembered facts").held(wait_s=WAIT_S):
            yield
    except OSError as error:
        raise disk_failure(folder, error, hint=_HINT) from error


def _rewrite(
    workspace: Workspace, target: str, *, add: Sequence[str] = (), drop: Sequence[str] = ()
) -> list[str]:
    old = read(workspace, target)
    new = with_lines(old, add=add, drop=drop)
    path = workspace.layout.facts / NAMES[target]
    if new == old:
        return []
    if new:
        replace_text(path, new)
    else:
        path.unlink()
    return [path.name]
