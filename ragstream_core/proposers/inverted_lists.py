"""Inverted lists of large projects: which project has them, how they stand, what they propose.

Light to import: the path on which nothing changed asks whether they are due.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import (
    GenerationGone,
    InputUnavailable,
    IntegrityError,
    OperationFailed,
    StoreFailed,
    TryAgain,
    worded,
)
from ragstream_core.index import look
from ragstream_core.index.schema import check_hint, label, read
from ragstream_core.index.vectors import VectorFile
from ragstream_core.platform import array_file, extras
from ragstream_core.proposers.derived_store import (
    DerivedStore,
    FailedAttempt,
    How,
    Outcome,
    StoreState,
    note_recall,
    noted_recall,
    proposer_state,
    recall_words,
)
from ragstream_core.proposers.list_paths import FOLDER, MOVED, NONE, lists_path

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.index.view import CatalogView
    from ragstream_core.ports import F32
    from ragstream_core.proposers.list_file import IvfFile
    from ragstream_core.proposers.list_training import I64
    from ragstream_core.records.identity import Json
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

NOT_INSTALLED = "the extra 'faiss' is not installed"
NOT_MADE = "there are none of the newest generation"
TOO_SMALL = "the project is smaller than retrieval.approximate_at"
FIGURES = {
    "inverted_lists": "lists", "nprobe": "nprobe", "inverted_lists_recall": "recall",
    "inverted_lists_state": "sentence",
}  # fmt: skip


class InvertedLists(DerivedStore):
    """The inverted lists of projects as a `ragstream_core.proposers.derived_store.DerivedStore`."""

    name = "faiss_ivf"
    report, check = "inverted_lists", "lists"
    what, healed = "the inverted lists", "the index of inverted lists"

    def why_unwanted(self, workspace: Workspace, project: str, chunks: int) -> str:
        """Return why a project has none: too small, another store, no engine."""
        if project == HISTORY or not self._are_for(workspace.config.chain().retrieval, chunks):
            return TOO_SMALL
        return "" if extras.is_here("faiss") else NOT_INSTALLED

    def _are_for(self, chosen: RetrievalConfig, chunks: int) -> bool:
        if chosen.store == self.name:
            return chunks > 0
        return chosen.store == "catalog" and 0 < chosen.approximate_at <= chunks

    def is_asked(self, workspace: Workspace) -> bool:
        """Return whether prompts of large projects ask them."""
        return workspace.config.chain().retrieval.store in (self.name, "catalog")

    def folder(self, workspace: Workspace, project: str) -> Path:
        """Return the folder of the file."""
        return workspace.index_dir(project) / FOLDER

    def is_current(self, workspace: Workspace, project: str, newest: Generation) -> bool:
        """Return whether there are lists of a generation; reads the end of a file."""
        return bool(_description(workspace.index_dir(project), newest))

    def make(self, workspace: Workspace, project: str, how: How) -> Outcome:
        """Make the lists those of the newest generation, and measure what they overlook."""
        from ragstream_core.index.view import open_view
        from ragstream_core.proposers.list_index import IvfIndex

        index_dir = workspace.index_dir(project)
        view = open_view(index_dir)
        if not len(view.chunk_ids):
            return Outcome(self)
        with _errors_of_faiss():
            done = IvfIndex(index_dir).sync(
                view, rebuild=how.rebuild, verify=how.verify or how.again
            )
            if not look.is_as_it_was(index_dir, view.pinned):
                done.file.path.unlink(missing_ok=True)
                raise GenerationGone(
                    f"{label(index_dir)}: generation {view.generation} was changed meanwhile",
                    hint=check_hint(index_dir),
                )
            _measure(index_dir, view, done.file, workspace.config.chain().retrieval)
        repaired = done.made == "rebuilt" and done.reason != NONE
        return Outcome(self, done.made, done.reason, is_repaired=repaired)

    def failure(self, _: str) -> str:
        """Return what a failure means for questions."""
        return "the inverted lists were not made, so questions score every row"

    def state(
        self,
        workspace: Workspace,
        project: str,
        newest: Generation | None,
        failed: FailedAttempt | None,
    ) -> StoreState:
        """Return how they stand; reads the ends of small files."""
        chosen, index_dir = workspace.config.chain().retrieval, workspace.index_dir(project)
        own: dict[str, Json] = {
            "wanted": False, "generation": 0, "lists": 0, "nprobe": 0, "recall": None
        }  # fmt: skip
        if newest is None or not self._are_for(chosen, newest.counts.get("chunks", 0)):
            return StoreState(own)
        own["wanted"] = True
        if not extras.is_here("faiss"):
            install = extras.install("faiss").line
            return proposer_state(own, FIGURES, "", NOT_INSTALLED, install)
        described, problem, remedy = _description(index_dir, newest), "", ""
        lists = described["arrays"]["sizes"][1] // 8 if described else 0  # of int64
        stamp = _measured_for(newest.digest, described.get("training", ""), chosen)
        share = noted_recall(index_dir / FOLDER, stamp)
        own |= {"lists": lists, "nprobe": chosen.nprobe, "recall": share}
        own["generation"] = newest.n if described else 0
        if failed is not None:
            problem, remedy = failed.message, failed.hint
        elif not described:
            problem, remedy = NOT_MADE, worded((check_hint(index_dir),))
        sentence = (
            f"questions look at {min(chosen.nprobe, lists):,} of {lists:,} inverted lists; "
            f"share of the nearest chunks that they find: {recall_words(share)}"
        )
        return proposer_state(own, FIGURES, sentence, problem, remedy)

    def pin(
        self, workspace: Workspace, chosen: RetrievalConfig, pins: Sequence[Pin]
    ) -> list[tuple[str, str]]:
        """Return the digest of each project's training, or why its lists cannot be asked."""
        from ragstream_core.index.view import open_view

        words = []
        for pin in pins:
            index_dir = workspace.index_dir(pin.project)
            view = open_view(index_dir, generation=pin.generation)
            asked = self._are_for(chosen, len(view.chunk_ids)) and extras.is_here("faiss")
            words.append(_training_of(index_dir, view) if asked else ("", ""))
        return words

    def require(self, workspace: Workspace, pin: Pin, word: str) -> None:
        """Refuse a training that is gone."""
        from ragstream_core.proposers.list_index import IvfIndex

        if IvfIndex(workspace.index_dir(pin.project)).trained(word) is None:
            raise InputUnavailable(
                f"the inverted lists of {pin.project} that proposed the candidates are gone, or "
                f"were trained anew (training {word[:16]})",
                hint="prompts with retrieval.approximate_at=0 do not depend on them",
            )

    def near(
        self,
        workspace: Workspace,
        chosen: RetrievalConfig,
        view: CatalogView,
        word: str,
        queries: F32,
        n: int,
    ) -> list[I64] | None:
        """Return the rows in the lists nearest to each query, about twice as many as wanted."""
        asked = self._are_for(chosen, len(view.chunk_ids)) and extras.is_here("faiss")
        if not (word or asked):  # before an engine is loaded
            return None
        import numpy as np

        from ragstream_core.proposers.list_index import IvfIndex

        lists = IvfIndex(workspace.index_dir(view.project))
        file = lists.again(view, word) if word else lists.lists(view)
        if file is None and word:
            raise InputUnavailable(
                f"the inverted lists of {view.project} that this prompt names are gone",
                hint=TryAgain(),
            )
        if file is None:
            return None
        found = file.search(queries, n, chosen.nprobe)
        return [np.array(view.loaded.rows_at(places), dtype=np.int64) for places in found]


LISTS = InvertedLists()


def _description(index_dir: Path, newest: Generation) -> dict[str, Any]:
    """Return what the lists of a generation say of themselves; empty if there are none as yet."""
    said = array_file.read_description(lists_path(index_dir, newest.digest))
    if said.get("digest") != newest.digest:
        return {}
    epoch = read(index_dir, lambda db: VectorFile.of(db, index_dir, newest.embed_fp).epoch)
    return said if said.get("epoch") == epoch else {}


@contextlib.contextmanager
def _errors_of_faiss() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise StoreFailed(f"FAISS could not make them: {error}") from error


def _measure(index_dir: Path, view: CatalogView, file: IvfFile, chosen: RetrievalConfig) -> None:
    """Note the recall of lists, unless it is noted for these settings already."""
    from ragstream_core.proposers.list_file import recall
    from ragstream_core.proposers.list_index import entries_of

    stamp = _measured_for(view.digest, file.training.digest, chosen)
    if noted_recall(index_dir / FOLDER, stamp) is None:
        share = recall(file, entries_of(view), depth=chosen.depth, nprobe=chosen.nprobe)
        note_recall(index_dir / FOLDER, stamp, share)


def _measured_for(digest: str, training: str, chosen: RetrievalConfig) -> dict[str, object]:
    asked = {"depth": chosen.depth, "nprobe": chosen.nprobe}
    return {"digest": digest, "training": training, **asked}


def _training_of(index_dir: Path, view: CatalogView) -> tuple[str, str]:
    """Return the digest of the training of a generation's lists, or why they cannot be asked."""
    from ragstream_core.proposers.list_index import IvfIndex

    try:
        return IvfIndex(index_dir).checked(view).training.digest, ""
    except IntegrityError as error:
        if not lists_path(index_dir, view.digest).exists():
            return "", f"it has no inverted lists of generation {view.generation}"
        if error.message.endswith(MOVED):
            return "", f"its inverted lists cannot be asked: {MOVED}"
        return "", f"its inverted lists are damaged: {error.message}"
    except OperationFailed as error:  # the same words everywhere: a prompt's key holds them
        cause = error.__cause__
        why = cause.strerror if isinstance(cause, OSError) else "FAISS cannot map them"
        return "", f"its inverted lists cannot be read: {why}"
