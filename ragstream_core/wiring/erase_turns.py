"""Cleared turns as the subject of an erasure, and whether one is still to be finished.

The notice in the journal that hides the turns is the durable mark. What is left to do is read off:
cleared records that are still in the journal, cleared turns that are still in the history's
catalog, a tombstone there.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.conversations import clearing
from ragstream_core.conversations.edits import Folded
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
from ragstream_core.conversations.units import history_chunk_id
from ragstream_core.errors import RagstreamError
from ragstream_core.index import history, remove
from ragstream_core.index.schema import CATALOG_NAME, read
from ragstream_core.platform.locks import retry_while_locked
from ragstream_core.proposers import kept
from ragstream_core.proposers.collections import COLLECTION
from ragstream_core.text.fingerprints import TextFingerprints
from ragstream_core.wiring import erasure, memory_files, projects, remembered_facts_files
from ragstream_core.wiring.debug_log import vars_files
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.text_copies import CopyEraser, token_vectors
from ragstream_core.wiring.turn_prompts import TurnPrompts

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ragstream_core.conversations.clearing import Choice
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.index.remove import Tombstone
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.erasure import ErasureReport
    from ragstream_core.wiring.workspace import Workspace

# Of turns that are cleared; and of those that only leave the index: their prompts stay.
TOMBSTONE, ASIDE = "~cleared", "~aside"
# How long another writer of the history catalog is waited for.
WAIT_S = 60.0


def finish(
    workspace: Workspace,
    choice: Choice | None = None,
    progress: PhaseProgress | None = None,
) -> ErasureReport:
    """Finish every clearing that was begun, also by another process; nothing to do is quick."""
    turns, log = cleared_turns(workspace), journal(workspace)
    if choice is not None and log.folder.is_dir():
        for path in clearing.drop_fragments(log, choice.takes_bytes):
            turns.copies.note(path)
    if not turns.is_due:
        return erasure.ErasureReport(removed=turns.copies.removed)
    done = erasure.erase(turns, progress)
    return replace(done, warnings=_collection_made(workspace))


def _collection_made(workspace: Workspace) -> list[str]:
    """Make the Chroma collection of the conversations again; return what to know of it."""
    outcomes = kept.bring_up_to_date(workspace, HISTORY, stores=[COLLECTION])
    return [done.warning for done in outcomes if done.warning]


def resume(workspace: Workspace) -> None:
    """Finish what was killed: vectors being dropped, a clearing behind the catalog's mark.

    Cheap if there is nothing to finish.
    """
    finish_aside(workspace)
    folder = workspace.layout.history_index
    found = history.newest(folder)
    mark = found[0].position if found else Position()
    behind = journal(workspace).entries(mark.seq + 1, hint=mark)
    if _is_marked(folder) or any(isinstance(entry.record, Cleared) for entry in behind):
        finish(workspace)


def is_due(workspace: Workspace) -> bool:
    """Return whether a clearing was begun and not finished."""
    return cleared_turns(workspace).is_due


def cleared_turns(workspace: Workspace) -> ClearedTurns:
    """Return what all notices hide, and whether anything of it is left."""
    log, folder = journal(workspace), workspace.layout.history_index
    if not log.folder.is_dir():
        return ClearedTurns(workspace, Folded())
    gone, ranges, folded = clearing.still_there(log)
    turns = ClearedTurns(workspace, folded, gone, ranges, is_due=bool(ranges))
    if folded.hidden and not ranges and (folder / CATALOG_NAME).exists():
        turns.is_due = _is_marked(folder) or bool(read(folder, turns.paths))
    return turns


def _is_marked(folder: Path, name: str = TOMBSTONE) -> bool:
    """Return whether the catalog has a tombstone of that name."""
    there = (folder / CATALOG_NAME).exists()
    return there and name in read(folder, remove.tombstones)


def finish_aside(workspace: Workspace) -> bool:
    """Finish dropping the vectors of turns that were put aside; return whether that was due."""
    due = _is_marked(workspace.layout.history_index, ASIDE)
    if due:
        drop_vectors(workspace, Folded())  # hides no more turns: the tombstone names what is left
    return due


def drop_vectors(workspace: Workspace, folded: Folded) -> int:
    """Take turns out of the index only: chunks, texts, vectors; the journal keeps them."""
    turns = ClearedTurns(workspace, folded, tombstone=ASIDE)
    hidden = turns.hide()
    turns.publish()
    turns.erase_token_vectors(hidden)
    turns.erase_texts(hidden)
    _collection_made(workspace)
    return hidden.chunks


@dataclass
class ClearedTurns:
    """Turns as an `erasure.Subject`.

    Attributes:
        copies: Finds and removes copies, but in archives, which are made on purpose.
    """

    workspace: Workspace
    folded: Folded
    gone: Sequence[Entry] = ()  # those records that are still in the journal
    ranges: Sequence[tuple[int, int]] = ()  # their numbers and those of damaged lines
    is_due: bool = False  # whether there is anything to do
    name: str = "cleared turns"
    tombstone: str = TOMBSTONE  # the durable mark in the catalog

    def __post_init__(self) -> None:
        """Find the places."""
        self.log, self.home = journal(self.workspace), self.workspace.layout.history
        self.folder = self.workspace.layout.history_index
        self.copies = CopyEraser(
            self.workspace, self.folder, yours=("chroma_db",), unsearched=self.home / "archive"
        )

    def paths(self, db: sqlite3.Connection) -> list[str]:
        """Return what stands for the turns in any generation."""
        rows = db.execute("SELECT DISTINCT path FROM files")
        return [p for (p,) in rows if self.folded.is_hidden(int(p.rpartition("/")[2]))]

    def hide(self) -> Tombstone:
        """Take the turns out of every generation, and the mark behind the notices."""
        with self._catalog() as catalog:
            if catalog is None:
                return erasure.NOTHING
            paths = self.paths(catalog.db)
            hidden = remove.tombstone(catalog.db, catalog.path, self.tombstone, paths)
            self._advance(catalog)
            return hidden

    def publish(self) -> None:
        """Publish the snapshot and write the session logs; the old ones still hold the turns."""
        if retry_while_locked(History(self.workspace).publish, wait_s=WAIT_S) is None:
            self.workspace.layout.history_snapshot.unlink(missing_ok=True)
        write_session_logs(self.log, self.log.folder)

    @functools.cached_property
    def prompts(self) -> TurnPrompts:
        """The prompts in which the turns were asked or shown."""
        return TurnPrompts(self.workspace.store.root, self.log.entries(), self.gone)

    def sought(self, hidden: Tombstone) -> TextFingerprints:
        """Return the words of the turns, and the names that stand for them."""
        chunk_ids, names, said = [*hidden.chunk_ids], {*self.prompts.run_ids}, [*_said(self.gone)]
        for entry in self.gone:
            record = entry.record
            if isinstance(record, Turn):  # its first chunk has this id, whatever was embedded
                chunk_ids.append(history_chunk_id(record.session_id, entry.seq, entry.seq, 0))
            if isinstance(record, Turn | Asked):
                names.add(record.id)
            if isinstance(record, Fact):
                names.add(record.fact)
                said.append(record.quote)
        return TextFingerprints(said, chunk_ids=chunk_ids, names={*names, *chunk_ids})

    def erase_known(self, hidden: Tombstone, sought: TextFingerprints) -> None:
        """Remove facts, prompts, other stores, cut texts, token vectors and the memory's files.

        A language model may have worded the digest; a Chroma collection keeps deleted texts.
        """
        space, copies = self.workspace, self.copies
        changed = remembered_facts_files.erase(space, self.gone, sought)
        copies.removed += [f"memory/{name} (lines)" for name in changed]
        stores = (self.home / "vectors").glob("history_main*")
        for path in (*self.prompts.paths, *stores, *vars_files(space)):
            copies.remove(path)
        self.erase_token_vectors(hidden)
        copies.removed += memory_files.drop(space)

    def erase_token_vectors(self, hidden: Tombstone) -> None:
        """Remove the cached token vectors of the turns, in every index."""
        roots = (self.workspace.layout.indexes, self.home)
        folders = (folder for root in roots for folder in root.glob("*"))
        for path in [*token_vectors(folders, hidden.hashes)]:
            self.copies.remove(path)

    def staying(self) -> Iterator[str]:
        """Yield all texts that stay: other turns, documents, rules and memories of projects."""
        from ragstream_core.wiring.prompt_inputs import DEFAULT_HARD_RULES

        # every prompt shows these: who repeats them in a turn has left no copy there
        yield DEFAULT_HARD_RULES
        yield from _said(clearing.visible(self.log))
        for path in self.workspace.layout.projects.glob("*/*.md"):
            yield path.read_text(encoding="utf-8", errors="replace")
        for project in projects.indexed(self.workspace.layout):
            with contextlib.suppress(RagstreamError):  # damaged: its words are taken for copies
                yield from read(self.workspace.index_dir(project), _texts)

    def erase_source(self) -> list[str]:
        """Rewrite the segments one by one: appends go on between two of them."""
        cuts = [segment.first for segment in closed_segments(self.log.folder)[1:]]
        names = []
        for low, high in itertools.pairwise([0, *cuts, self.log.newest().seq + 1]):
            part = [(max(a, low), min(b, high - 1)) for a, b in self.ranges]
            part = [(a, b) for a, b in part if a <= b]
            names += self.log.purge(part) if part else []
        return list(dict.fromkeys(names))

    def erase_texts(self, hidden: Tombstone) -> int:
        """Take texts and vectors off the disk, also those that no commit came to name."""
        went = 0
        with self._catalog() as catalog:
            if catalog is not None:
                every = {*hidden.hashes, *remove.unnamed_texts(catalog.db)}
                hidden = hidden._replace(name=self.tombstone, hashes=every)
                went = remove.purge_texts(catalog.db, catalog.index_dir, hidden)
        self.publish()  # another process may have published meanwhile
        return went

    @contextlib.contextmanager
    def _catalog(self) -> Iterator[Catalog | None]:
        """Open the history catalog as soon as no other writer has it; None if there is none."""
        from ragstream_core.index.history import open_history_catalog

        if not (self.folder / CATALOG_NAME).exists():
            yield None
            return
        with contextlib.ExitStack() as stack:
            yield retry_while_locked(
                lambda: stack.enter_context(open_history_catalog(self.folder)), wait_s=WAIT_S
            )

    def _advance(self, catalog: Catalog) -> None:
        """Put the mark behind the notices if nothing else is to be embedded."""
        from ragstream_core.index.history import commit_turns

        mark = history.current_mark(catalog.db)
        behind = self.log.entries(mark.position.seq + 1, hint=mark.position)
        kept = [entry for entry in behind if not self.folded.is_hidden(entry.seq)]
        if mark.generation and kept and all(isinstance(e.record, Cleared) for e in kept):
            moved = replace(mark, position=kept[-1].position)
            provenance = {"cleared": TOMBSTONE}
            commit_turns(catalog, [], [], mark=moved, retagged={}, provenance=provenance)


def _said(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield what was said and learnt: questions, answers, facts."""
    for entry in entries:
        record = entry.record
        if isinstance(record, Turn | Asked):
            yield record.user_text
        if isinstance(record, Turn):
            yield record.assistant_text
        if isinstance(record, Fact):
            yield record.text


def _texts(db: sqlite3.Connection) -> list[str]:
    return [str(text) for (text,) in db.execute("SELECT text FROM texts")]
