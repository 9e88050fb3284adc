"""Inverted lists of large projects, connected to settings: which have them, and how they stand.

Light to import: the path on which nothing changed asks `due` and must load no engine.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import (
    GenerationGone,
    InputUnavailable,
    IntegrityError,
    OperationFailed,
    ProjectLocked,
    RagstreamError,
    StoreFailed,
    TryAgain,
    worded,
)
from ragstream_core.index.lock import check_hint
from ragstream_core.platform import array_file, extras
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.proposers.chroma import publisher
from ragstream_core.proposers.ivf_names import LISTS, MOVED, lists_path
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.index.view import CatalogView
    from ragstream_core.ports import F32, IndexView, PhaseProgress
    from ragstream_core.proposers.ivf_file import IvfFile
    from ragstream_core.proposers.ivf_index import Synced
    from ragstream_core.records.identity import Json
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

STORE = "faiss_ivf"
MEASURED = "recall.json"
NOT_INSTALLED = "the extra 'faiss' is not installed"


class ListsState(NamedTuple):
    """How the inverted lists of a project stand.

    Attributes:
        wanted: Whether the settings ask for them, the project being as large as it is.
        generation: That they are of; 0: there are none of the newest.
        lists: How many there are.
        nprobe: How many of them a question looks at.
        recall: Share of the exact nearest rows that they name, 0…1; None: not measured so.
        problem: Why questions score every row instead; empty if they do not.
        next: What makes it good.
    """

    wanted: bool = False
    generation: int = 0
    lists: int = 0
    nprobe: int = 0
    recall: float | None = None
    problem: str = ""
    next: str = ""

    @property
    def told(self) -> str:
        """What to know of them, for people; empty if a project has none and needs none."""
        if not self.wanted:
            return ""
        if self.problem:
            return f"questions score every chunk: {self.problem}; next: {self.next}"
        share = "not measured yet" if self.recall is None else f"{self.recall:.1%}"
        return (
            f"questions look at {min(self.nprobe, self.lists):,} of {self.lists:,} inverted "
            f"lists; share of the nearest chunks that they find: {share}"
        )

    def figures(self) -> dict[str, Json]:
        """Return what Dagster shows of them beside a generation; nothing if none are needed."""
        if not self.wanted:
            return {}
        return {
            "inverted_lists": self.lists,
            "nprobe": self.nprobe,
            "inverted_lists_recall": "-" if self.recall is None else self.recall,
            "inverted_lists_state": self.told,
        }


class ListsOutcome(NamedTuple):
    """What `keep_up` did.

    Attributes:
        made: ``unchanged``, ``updated``, ``rebuilt``, or empty if it left them alone.
        reason: Why they were rebuilt.
        warning: What went wrong, and what to run; empty if nothing did.
    """

    made: str = ""
    reason: str = ""
    warning: str = ""


def is_wanted(chosen: RetrievalConfig, chunks: int) -> bool:
    """Return whether a project of so many chunks is searched by inverted lists."""
    if chosen.store == STORE:
        return chunks > 0
    return chosen.store == "catalog" and 0 < chosen.approximate_at <= chunks


def _asked(workspace: Workspace) -> RetrievalConfig:
    return workspace.config.chain().retrieval


def due(workspace: Workspace, project: str, newest: Generation) -> bool:
    """Say whether lists that are wanted are to be made for a generation; reads the end of a file.

    Those that could not be made for it are not due.
    """
    if not is_wanted(_asked(workspace), newest.counts.get("chunks", 0)):
        return False
    if not extras.is_here("faiss") or _told(workspace.index_dir(project), newest):
        return False
    return _failed(workspace, project, newest) is None


def _told(index_dir: Path, newest: Generation) -> dict[str, Any]:
    """Return what the lists of a generation say of themselves; empty if there are none as yet."""
    told = array_file.told(lists_path(index_dir, newest.digest))
    if told.get("digest") != newest.digest:
        return {}
    return told if told.get("epoch") == _epoch(index_dir, newest.embed_fp) else {}


def _epoch(index_dir: Path, embed_fp: str) -> int:
    from ragstream_core.index import catalog_read, generations

    return generations.read(index_dir, lambda db: catalog_read.vector_epoch(db, embed_fp))


def _failed(
    workspace: Workspace, project: str, newest: Generation
) -> publisher.FailedAttempt | None:
    index_dir = workspace.index_dir(project)
    found = publisher.noted(index_dir / LISTS)
    if found is None or found.key != _key(newest) or _told(index_dir, newest):
        return None
    return found


def _key(newest: Generation) -> str:
    return digest_of([newest.n, newest.digest])


def failures(workspace: Workspace, project: str, newest: Generation | None) -> tuple[str, ...]:
    """Return the warning of lists that could not be made for a generation, if any."""
    if newest is None or not is_wanted(_asked(workspace), newest.counts.get("chunks", 0)):
        return ()
    failed = _failed(workspace, project, newest)
    return (_warning(failed.error),) if failed else ()


def _warning(error: RagstreamError) -> str:
    return (
        "the inverted lists were not made, so questions score every row: "
        f"{error.message}\n  next: {error.hint}"
    )


def keep_up(
    workspace: Workspace,
    project: str,
    *,
    rebuild: bool = False,
    verify: bool = False,
    again: bool = False,
    progress: PhaseProgress | None = None,
) -> ListsOutcome:
    """Bring inverted lists up to date if they are wanted; a failure harms nothing else.

    A failure is not repeated before the generation changes.

    Args:
        workspace: The data root.
        project: A project's name.
        rebuild: Train and fill them anew.
        verify: Compare every code with its vector even if nothing is to be done.
        again: Try even if it failed for this generation already.
        progress: Called with (``lists``, 0, 0) if there is something to do.
    """
    from ragstream_core.index.view import open_view

    index_dir, chosen = workspace.index_dir(project), _asked(workspace)
    if not extras.is_here("faiss"):
        return ListsOutcome()
    try:
        if chosen.store != STORE and not 0 < chosen.approximate_at <= _chunks(index_dir):
            return ListsOutcome()
        view = open_view(index_dir)
        if not is_wanted(chosen, len(view.chunk_ids)):
            return ListsOutcome()
        failed = None if again or rebuild else _failed(workspace, project, view.pinned)
        if failed is not None:
            return ListsOutcome(warning=_warning(failed.error))
        if progress is not None:
            progress("lists", 0, 0)
        with _noting(index_dir, view.pinned), _of_faiss():
            view, done = _synced(index_dir, view, rebuild=rebuild, verify=verify)
            _measure(index_dir, view, done.file, chosen)
        return ListsOutcome(done.made, done.reason)
    except GenerationGone:
        return ListsOutcome()
    except RagstreamError as error:
        return ListsOutcome(warning=_warning(error))


def _chunks(index_dir: Path) -> int:
    from ragstream_core.index.generations import kept_generations

    found = kept_generations(index_dir)
    return found[-1].counts.get("chunks", 0) if found else 0


def _synced(
    index_dir: Path, view: CatalogView, *, rebuild: bool, verify: bool
) -> tuple[CatalogView, Synced]:
    """Make the lists of a generation, and again if something of it was erased meanwhile."""
    from ragstream_core.index.generations import is_as_it_was
    from ragstream_core.index.view import open_view
    from ragstream_core.proposers.ivf_index import IvfIndex

    done = IvfIndex(index_dir).sync(view, rebuild=rebuild, verify=verify)
    if is_as_it_was(index_dir, view.pinned):
        return view, done
    done.file.path.unlink(missing_ok=True)
    return _synced(index_dir, open_view(index_dir), rebuild=rebuild, verify=verify)


@contextlib.contextmanager
def _of_faiss() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # FAISS's own
        raise StoreFailed(f"FAISS could not make them: {error}") from error


@contextlib.contextmanager
def _noting(index_dir: Path, newest: Generation) -> Iterator[None]:
    folder = index_dir / LISTS
    try:
        yield
    except ProjectLocked:  # another process makes them: the next ingest looks again
        raise
    except RagstreamError as error:
        again = check_hint(index_dir)
        error.advice = (*error.advice, "; then ", again) if error.advice else (again,)
        with contextlib.suppress(OSError):
            make_private_dir(folder)
            publisher.note(folder, _key(newest), newest.n, error=error)
        raise
    with contextlib.suppress(OSError):
        publisher.forget(folder)


def _measure(index_dir: Path, view: CatalogView, file: IvfFile, chosen: RetrievalConfig) -> None:
    """Note the recall of lists, unless it is noted for these settings already."""
    from ragstream_core.proposers.ivf_file import recall
    from ragstream_core.proposers.ivf_index import entries_of

    stamp = _measured_for(view.digest, file.training.digest, chosen)
    if _recall(index_dir, stamp) is not None:
        return
    share = recall(file, entries_of(view), depth=chosen.depth, nprobe=chosen.nprobe)
    row = {**stamp, "recall": round(share, 4)}
    with contextlib.suppress(OSError):  # a figure for people; measured again next time
        replace_text(index_dir / LISTS / MEASURED, json.dumps(row), durable=False)


def _measured_for(digest: str, training: str, chosen: RetrievalConfig) -> dict[str, object]:
    asked = {"depth": chosen.depth, "nprobe": chosen.nprobe}
    return {"digest": digest, "training": training, **asked}


def _recall(index_dir: Path, stamp: dict[str, object]) -> float | None:
    try:
        row = json.loads((index_dir / LISTS / MEASURED).read_text(encoding="utf-8"))
        return float(row["recall"]) if row.items() >= stamp.items() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def state(workspace: Workspace, project: str, newest: Generation | None) -> ListsState:
    """Return how a project's inverted lists stand; reads the ends of small files.

    Args:
        workspace: The data root.
        project: Its name.
        newest: The newest generation, None if nothing is ingested.
    """
    chosen = _asked(workspace)
    if newest is None or not is_wanted(chosen, newest.counts.get("chunks", 0)):
        return ListsState()
    if not extras.is_here("faiss"):
        return ListsState(True, problem=NOT_INSTALLED, next=extras.install("faiss").line)
    index_dir = workspace.index_dir(project)
    told = _told(index_dir, newest)
    failed = _failed(workspace, project, newest)
    missing = "" if told else "there are none of the newest generation"
    return ListsState(
        True,
        newest.n if told else 0,
        told["arrays"]["sizes"][1] // 8 if told else 0,
        chosen.nprobe,
        _recall(index_dir, _measured_for(newest.digest, told.get("training", ""), chosen)),
        failed.message if failed else missing,
        (failed.hint if failed else worded((check_hint(index_dir),))) if failed or missing else "",
    )


def training_of(index_dir: Path, view: CatalogView) -> tuple[str, str]:
    """Return what the lists of a generation were trained to, or why they cannot be asked.

    Returns:
        The digest of the training and no reason, or no digest and the reason.
    """
    if not extras.is_here("faiss"):
        return "", NOT_INSTALLED
    from ragstream_core.proposers.ivf_index import IvfIndex

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


class IvfProposer:
    """Proposes from inverted lists, for generations that have them.

    Args:
        workspace: The data root.
        chosen: The settings of retrieval.
        trainings: Project → digest of the training that a prompt pinned; None: those of now.
    """

    def __init__(
        self,
        workspace: Workspace,
        chosen: RetrievalConfig,
        trainings: dict[str, str] | None = None,
    ) -> None:
        self._workspace, self._chosen, self._trainings = workspace, chosen, trainings

    def near(self, view: IndexView, queries: F32, n: int) -> list[list[str]] | None:
        """Return the rows near some queries; see `ragstream_core.retrieval.proposers.Proposer`.

        Raises:
            InputUnavailable: The training that a prompt pinned is gone.
        """
        from ragstream_core.index.view import CatalogView

        if view.project == HISTORY or not isinstance(view, CatalogView):
            return None
        pinned = (self._trainings or {}).get(view.project, "")
        file = self._lists(view, pinned)
        if file is None and pinned:
            raise InputUnavailable(
                f"the inverted lists of {view.project} that this prompt names are gone",
                hint=TryAgain(),
            )
        if file is None:
            return None
        found = file.search(queries, n, self._chosen.nprobe)
        return [[view.chunk_ids[row] for row in view.loaded.rows_at(places)] for places in found]

    def _lists(self, view: CatalogView, pinned: str) -> IvfFile | None:
        wanted = is_wanted(self._chosen, len(view.chunk_ids)) and extras.is_here("faiss")
        if not (pinned if self._trainings is not None else wanted):
            return None
        from ragstream_core.proposers.ivf_index import IvfIndex

        lists = IvfIndex(self._workspace.index_dir(view.project))
        return lists.again(view, pinned) if pinned else lists.lists(view)
