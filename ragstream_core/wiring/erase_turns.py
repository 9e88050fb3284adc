"""Finishing a clearing: cleared turns out of every place below the data root.

Order: the history catalog's rows, with a tombstone that names their texts; the snapshot and the
session logs; every copy that a search of all files finds; the journal's lines, which say what to
look for; then texts and vectors, with the tombstone. A kill at any moment leaves a part that tells
the next call what is to be done.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations import clearing
from ragstream_core.conversations.journal.records import (
    HISTORY,
    Asked,
    Cleared,
    Entry,
    Fact,
    Position,
    Turn,
)
from ragstream_core.conversations.journal.segments import closed_segments
from ragstream_core.conversations.sessions import write_session_logs
from ragstream_core.errors import OperationFailed, RagstreamError
from ragstream_core.index import erase, generations, history_rows
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.platform.locks import retry_while_locked
from ragstream_core.wiring import projects
from ragstream_core.wiring.chroma_collections import sync_after_commit
from ragstream_core.wiring.history_publishing import publish
from ragstream_core.wiring.journal import history_index_dir, journal, snapshot_path
from ragstream_core.wiring.turn_copies import CopyEraser

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ragstream_core.conversations.clearing import Choice
    from ragstream_core.conversations.edits import Folded
    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.index.erase import Tombstone
    from ragstream_core.index.history_catalog import HistoryCatalog
    from ragstream_core.wiring.workspace import IngestProgress, Workspace


TOMBSTONE = "~cleared"
WAIT_S = 60.0
"""How long another writer of the history catalog is waited for."""
ROUNDS = 3
PHASES = ("index", "copies", "journal", "texts", "search")
UNREACHABLE = (
    "backups, archives and exports that you made, and copies on other machines",
    "what was sent to a language model or an embedding endpoint",
    "blocks that the disk itself keeps of deleted files",
)
_UNNAMED = (
    "SELECT text_hash FROM texts t "
    "WHERE NOT EXISTS (SELECT 1 FROM chunks c WHERE c.text_hash = t.text_hash)"
)


def finish(
    workspace: Workspace,
    choice: Choice | None = None,
    progress: IngestProgress | None = None,
) -> dict[str, Any]:
    """Finish every clearing that was begun, also by another process; nothing to do is quick.

    Args:
        workspace: The data root.
        choice: What is being cleared: also remove its fragments that crashes left.
        progress: Called with each of `PHASES` as it begins, its position and their number.

    Returns:
        ``segments, rows, texts, removed, left, searched, unreachable, warnings`` of all places.

    Raises:
        ProjectLocked: Another process kept writing; run it again.
        IntegrityError: The catalog is damaged.
        OperationFailed: Disk full, or something still holds the text; run it again.
        OSError: A file cannot be read or removed; run it again.
    """
    log = journal(workspace)
    todo = pending(workspace, log)
    if todo is not None:
        return todo.run(choice, progress)
    there = log.folder.is_dir()
    return report(removed=drop_fragments(workspace.data_dir, log, choice) if there else [])


def resume(workspace: Workspace) -> dict[str, Any] | None:
    """Finish a clearing that was killed, if one shows behind the catalog's mark; cheap else.

    Returns:
        As `finish`; None where there was nothing to do.

    Raises:
        RagstreamError: As `finish`.
        OSError: As `finish`.
    """
    folder = history_index_dir(workspace)
    found = history_rows.newest(folder)
    mark = found[0].position if found else Position()
    behind = journal(workspace).entries(mark.seq + 1, hint=mark)
    if is_marked(folder) or any(isinstance(entry.record, Cleared) for entry in behind):
        return finish(workspace)
    return None


def is_due(workspace: Workspace) -> bool:
    """Say whether a clearing was begun and not finished.

    Raises:
        RagstreamError: The journal or the catalog cannot be read.
    """
    return pending(workspace, journal(workspace)) is not None


def pending(workspace: Workspace, log: Journal) -> Erasing | None:
    """Return what is left to do of clearings that were begun, None where nothing is.

    Raises:
        RagstreamError: The journal or the catalog cannot be read.
    """
    if not log.folder.is_dir():
        return None
    gone, ranges, folded = clearing.still_there(log)
    found = bool(ranges)
    folder = history_index_dir(workspace)
    if not found and folded.hidden and (folder / CATALOG_NAME).exists():
        found = is_marked(folder) or bool(generations.read(folder, lambda db: _paths(db, folded)))
    return Erasing(workspace, log, gone, ranges, folded) if found else None


def is_marked(folder: Path) -> bool:
    """Say whether an erasing was begun in the history catalog and not finished.

    Raises:
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """
    there = (folder / CATALOG_NAME).exists()
    return there and bool(generations.read(folder, erase.tombstones))


def _paths(db: sqlite3.Connection, folded: Folded) -> list[str]:
    """Return what stands for the cleared turns in any generation."""
    rows = db.execute("SELECT DISTINCT path FROM files")
    return [path for (path,) in rows if folded.is_hidden(int(path.rpartition("/")[2]))]


def drop_fragments(data_dir: Path, log: Journal, choice: Choice | None) -> list[str]:
    """Remove what crashes left of the chosen turns; return names below the data root."""
    if choice is None:
        return []
    gone = [log.folder / name for name in clearing.drop_fragments(log, choice.takes_bytes)]
    return [
        str(path.relative_to(data_dir) if path.is_relative_to(data_dir) else path) for path in gone
    ]


def report(**known: Any) -> dict[str, Any]:
    """Return what a clearing reports of all places, empty but for what is known."""
    empty = {"segments": [], "rows": 0, "texts": 0, "removed": [], "left": [], "searched": 0}
    return {**empty, "warnings": [], "unreachable": list(UNREACHABLE), **known}


def _begin(progress: IngestProgress | None, phase: str) -> None:
    if progress is not None:
        progress(phase, PHASES.index(phase), len(PHASES))


class Erasing:
    """One pass over all places, with what is cleared in hand."""

    def __init__(
        self,
        workspace: Workspace,
        log: Journal,
        gone: Sequence[Entry],
        ranges: Sequence[tuple[int, int]],
        folded: Folded,
    ) -> None:
        self.workspace = workspace
        self.log = log
        self.gone = gone
        self.ranges = ranges
        self.folded = folded

    def run(self, choice: Choice | None, progress: IngestProgress | None = None) -> dict[str, Any]:
        """Do it, in the order that is law.

        Args:
            choice: As for `clearing.finish`.
            progress: Called with each of `PHASES` as it begins, its position and their number.

        Raises:
            OperationFailed: Something still holds the text.
        """
        begin = functools.partial(_begin, progress)
        begin("index")
        buried = self._bury()
        self._derive()
        begin("copies")
        copies = CopyEraser(self.workspace, self.log.entries(), self.gone, buried.chunk_ids)
        copies.drop_facts()
        copies.drop_prompts()
        copies.drop_token_vectors(buried.hashes)
        copies.drop_foreign_stores()
        copies.drop_debug_vars()
        copies.drop_memory()
        for _ in range(ROUNDS):
            if copies.purge(self._staying):
                break
        begin("journal")
        segments = self._purge_journal()
        begin("texts")
        erased = self._shred(buried)
        removed = [*copies.removed, *drop_fragments(self.workspace.data_dir, self.log, choice)]
        self._derive()
        begin("search")
        mine, left = copies.left(self._staying)
        if mine:
            raise OperationFailed(
                f"{len(mine)} files still hold cleared turns, first {mine[0]}",
                hint="end `ragstream up` and other processes, then run the command again",
            )
        return report(
            segments=segments,
            rows=buried.chunks,
            texts=erased,
            removed=sorted(set(removed)),
            left=sorted(left),
            searched=copies.finder.searched,
            warnings=list(sync_after_commit(self.workspace, HISTORY)),
        )

    def drop_vectors(self) -> int:
        """Take the turns out of the index only: chunks, texts, vectors; the journal keeps them.

        Returns:
            How many chunks went, of all generations.

        Raises:
            OperationFailed: Disk full or failing; run it again.
        """
        buried = self._bury()
        self._derive()
        copies = CopyEraser(self.workspace, self.log.entries(), [], buried.chunk_ids)
        copies.drop_token_vectors(buried.hashes)
        self._shred(buried)
        sync_after_commit(self.workspace, HISTORY)
        return buried.chunks

    @contextlib.contextmanager
    def _catalog(self) -> Iterator[HistoryCatalog | None]:
        """Open the history catalog, when whoever writes it is done; None where there is none."""
        from ragstream_core.index.history_catalog import open_history_catalog

        folder = history_index_dir(self.workspace)
        if not (folder / CATALOG_NAME).exists():
            yield None
            return
        with contextlib.ExitStack() as stack:
            yield retry_while_locked(
                lambda: stack.enter_context(open_history_catalog(folder)), wait_s=WAIT_S
            )

    def _bury(self) -> Tombstone:
        """Take the turns out of every generation; their texts stay, under a tombstone."""
        with self._catalog() as catalog:
            if catalog is None:
                return erase.Tombstone(TOMBSTONE, (), (), 0, 0)
            paths = _paths(catalog.db, self.folded)
            buried = erase.tombstone(catalog.db, catalog.path, TOMBSTONE, paths)
            self._advance(catalog)
            return buried

    def _advance(self, catalog: HistoryCatalog) -> None:
        """Put the mark behind the notices where nothing else is to be embedded."""
        mark = catalog.mark()
        behind = list(self.log.entries(mark.position.seq + 1, hint=mark.position))
        kept = [e for e in behind if not self.folded.is_hidden(e.seq)]
        if mark.generation and kept and all(isinstance(e.record, Cleared) for e in kept):
            moved = replace(mark, position=kept[-1].position)
            catalog.commit([], [], mark=moved, retagged={}, provenance={"cleared": TOMBSTONE})

    def _purge_journal(self) -> list[str]:
        """Rewrite the segments one by one: appends go on between two of them."""
        cuts = [segment.first for segment in closed_segments(self.log.folder)[1:]]
        names = []
        for low, high in itertools.pairwise([0, *cuts, self.log.newest().seq + 1]):
            part = [(max(a, low), min(b, high - 1)) for a, b in self.ranges]
            part = [(a, b) for a, b in part if a <= b]
            names += self.log.purge(part) if part else []
        return list(dict.fromkeys(names))

    def _shred(self, buried: Tombstone) -> int:
        """Take the texts and vectors off the disk, also those that no commit came to name."""
        with self._catalog() as catalog:
            if catalog is None:
                return 0
            unnamed = {str(h) for (h,) in catalog.db.execute(_UNNAMED)}
            every = buried._replace(hashes=tuple(sorted(unnamed | set(buried.hashes))))
            erase.purge_texts(catalog.db, catalog.index_dir, every)
            return len(unnamed)

    def _derive(self) -> None:
        """Publish the snapshot and write the session logs, without what was cleared.

        Raises:
            RagstreamError: The catalog is damaged or busy; the old files still hold the turns.
        """
        if retry_while_locked(lambda: publish(self.workspace), wait_s=WAIT_S) is None:
            snapshot_path(self.workspace).unlink(missing_ok=True)
        write_session_logs(self.log, self.log.folder)

    def _staying(self) -> Iterator[str]:
        """Yield all texts that stay: other turns, documents, rules and memories of projects."""
        from ragstream_core.wiring.prompt_inputs import DEFAULT_HARD_RULES

        yield DEFAULT_HARD_RULES
        for entry in clearing.visible(self.log):
            if isinstance(entry.record, Turn | Asked):
                yield entry.record.user_text
            if isinstance(entry.record, Turn):
                yield entry.record.assistant_text
            if isinstance(entry.record, Fact):
                yield entry.record.text
        for path in (self.workspace.data_dir / "projects").glob("*/*.md"):
            yield path.read_text(encoding="utf-8", errors="replace")
        for project in projects.indexed(self.workspace.config.index_dir):
            with contextlib.suppress(RagstreamError):  # damaged: its words are taken for copies
                yield from generations.read(self.workspace.index_dir(project), _texts)


def _texts(db: sqlite3.Connection) -> list[str]:
    return [str(text) for (text,) in db.execute("SELECT text FROM texts")]
