"""Chroma collections of projects and of the conversations: who has one, how it stands and proposes.

Light to import: the path on which nothing changed asks whether one is due.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, RagstreamError
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import read
from ragstream_core.platform import extras
from ragstream_core.platform.data_root import checked
from ragstream_core.proposers.chroma import seal
from ragstream_core.proposers.chroma.names import HISTORY_MAIN
from ragstream_core.proposers.chroma.vector_store_chroma import GRAPHS
from ragstream_core.proposers.derived_store import (
    DerivedStore,
    FailedAttempt,
    How,
    Outcome,
    StoreState,
    failed_attempt,
    index_dir_of,
    replaced,
)
from ragstream_core.wiring.models import model_name

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.index.view import CatalogView
    from ragstream_core.ports import F32
    from ragstream_core.proposers.chroma.collection import Collection, CollectionReport
    from ragstream_core.records.identity import Json
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.retrieval.proposers import I64
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

STORE = "chroma"
SWITCHED_OFF = "switched off: vector_store.collection"
NOT_INSTALLED = "not kept: the extra 'chroma' is not installed"
NONE, BEHIND = "it has no Chroma collection", "its Chroma collection is of another generation"

# The same words whatever the cause: a prompt's key holds them.
UNUSABLE = "its Chroma collection cannot be opened"


class ChromaCollections(DerivedStore):
    """The collections of projects as a `ragstream_core.proposers.derived_store.DerivedStore`."""

    name = STORE
    report = check = "collection"
    what = healed = "the Chroma collection"

    def why_unwanted(self, workspace: Workspace, project: str, _: int) -> str:
        """Return why none is kept: switched off, or by default where Chroma is not installed.

        If a person switched them on, or prompts ask them, that Chroma is missing is a failure.
        """
        if project != HISTORY and self.is_asked(workspace):
            return ""
        config = workspace.config
        if not config.settings.vector_store.collection:
            return SWITCHED_OFF
        by_default = config.origin["vector_store.collection"] == "default"
        return NOT_INSTALLED if by_default and not extras.is_here("chroma") else ""

    def is_asked(self, workspace: Workspace) -> bool:
        """Return whether prompts ask it."""
        return workspace.config.chain().retrieval.store == STORE

    def folder(self, workspace: Workspace, project: str) -> Path:
        """Return the folder of the sealed ones, below that of Chroma or of the conversations."""
        if project == HISTORY:
            return workspace.layout.history / "vectors" / HISTORY_MAIN
        return workspace.layout.collections / checked(project)

    def conditions(self, workspace: Workspace) -> list[Json]:
        """Return the model, the version of chromadb, and how graphs are built."""
        from ragstream_core.proposers.chroma.collection import chromadb_version

        version = chromadb_version() if extras.is_here("chroma") else ""
        return [model_name(workspace.config), version, GRAPHS]

    def is_current(self, workspace: Workspace, project: str, newest: Generation) -> bool:
        """Return whether the receipt is of a generation."""
        receipt = seal.current_receipt(self.folder(workspace, project))
        made_of = (receipt.generation, receipt.digest) if receipt else None
        return made_of == (newest.n, newest.digest)

    def make(self, workspace: Workspace, project: str, how: How) -> Outcome:
        """Bring it up to the newest generation; how it was sealed proves it until it is asked."""
        collection = collection_of(workspace, project)
        report = collection.sync(rebuild=how.rebuild, verify_all=how.verify)
        return Outcome(
            self, report.made, report.reason, is_repaired=report.made != "unchanged",
            details=_details(report),
        )  # fmt: skip

    def failure(self, project: str) -> str:
        """Return what a failure means."""
        whose = " of the history" if project == HISTORY else ""
        return f"the Chroma collection{whose} was left as it was"

    def state(
        self,
        workspace: Workspace,
        project: str,
        newest: Generation | None,
        failed: FailedAttempt | None,
    ) -> StoreState:
        """Return how it stands; reads two small files."""
        receipt = seal.current_receipt(self.folder(workspace, project))
        rows = receipt.rows if receipt else 0
        recall = receipt.self_recall if receipt and receipt.self_recall >= 0 else None
        own: dict[str, Json] = {
            "kept": not self.why_unwanted(workspace, project, 0),
            "generation": receipt.generation if receipt else 0,
            "rows": rows,
            "self_recall": recall,
            "graph": receipt.graph if receipt else "",
        }
        if failed is not None:
            sentence = f"{self.failure(project)}: {failed.message}; next: {failed.hint}"
            return StoreState(own, sentence, failed.message, failed.hint)
        if recall is None or recall >= 1:
            return StoreState(own)
        found = f"its graph finds {recall:.1%} of a sample by their own vectors"
        return StoreState(own, f"the Chroma collection holds all {rows:,} rows; {found}")

    def pin(
        self, workspace: Workspace, _: RetrievalConfig, pins: Sequence[Pin]
    ) -> list[tuple[str, str]]:
        """Return the seal of each project's collection, or why it cannot be asked.

        It is copied and checked here, so that a prompt names nothing that it cannot ask.
        """
        return [self._pinned(workspace, pin) for pin in pins]

    def _pinned(self, workspace: Workspace, pin: Pin) -> tuple[str, str]:
        from ragstream_core.proposers.chroma.reader import SEAL_CHARS, reader_of

        folder = self.folder(workspace, pin.project)
        receipt = seal.current_receipt(folder)
        if receipt is None:
            return "", NONE
        if receipt.digest != pin.digest:
            return "", BEHIND
        try:
            return reader_of(folder, pin.project).seal()[:SEAL_CHARS], ""
        except (RagstreamError, OSError):
            return "", UNUSABLE

    def require(self, workspace: Workspace, pin: Pin, word: str) -> None:
        """Refuse a collection that was replaced."""
        from ragstream_core.proposers.chroma.reader import SEAL_CHARS

        now = seal.seal_digest(self.folder(workspace, pin.project))[:SEAL_CHARS]
        if now != word:
            raise replaced(self.what, pin.project, word, now)

    def near(
        self,
        workspace: Workspace,
        chosen: RetrievalConfig,
        view: CatalogView,
        word: str,
        queries: F32,
        n: int,
    ) -> list[I64] | None:
        """Return the rows that the graph names, six times as many as wanted."""
        from ragstream_core.proposers.chroma.reader import reader_of
        from ragstream_core.retrieval.proposers import row_numbers

        reader = reader_of(self.folder(workspace, view.project), view.project)
        ids = reader.near(view.digest, queries, n, wanted=word)
        if ids is None:
            return None
        return [row_numbers(view.chunk_ids, near) for near in ids]


COLLECTION = ChromaCollections()


def collection_of(workspace: Workspace, project: str) -> Collection:
    """Return the collection of a project or of `HISTORY`, whether it is there or not."""
    from ragstream_core.proposers.chroma.collection import Collection

    index_dir = index_dir_of(workspace, project)
    model = model_name(workspace.config)
    return Collection(COLLECTION.folder(workspace, project), index_dir, project, model)


def _details(report: CollectionReport) -> dict[str, Json]:
    receipt = report.receipt
    return {
        **asdict(receipt), "added": report.added, "deleted": report.deleted,
        "verified": report.verified, "folder": str(report.folder),
        "seconds": round(report.seconds, 3),
    }  # fmt: skip


def resting(workspace: Workspace, project: str, rest_s: float) -> Outcome | None:
    """Return that a collection is left while it is younger than some seconds: it reads all rows."""
    try:
        made = (COLLECTION.folder(workspace, project) / seal.CURRENT).stat().st_mtime
    except OSError:  # there is none
        return None
    age = max(0.0, time.time() - made)
    if age >= rest_s or COLLECTION.why_unwanted(workspace, project, 0):
        return None
    return Outcome(COLLECTION, reason=f"left for later: it was made {age:.0f} s ago")


def compare(workspace: Workspace, project: str) -> list[str]:
    """Return what tells a collection from its index, for people.

    One of which nothing is indexed yet, or that is not to be kept, has no faults.
    """
    if COLLECTION.why_unwanted(workspace, project, 0):
        return []
    try:
        faults = collection_of(workspace, project).faults()
    except GenerationGone:
        return []
    newest = read(index_dir_of(workspace, project), latest_generation)
    failed = failed_attempt(COLLECTION, workspace, project, newest) if newest else None
    return [f"{fault}: {failed.message}" if failed else fault for fault in faults]
