"""What a store made from an index is to those who keep it and to those who ask it.

Light to import: the path on which nothing changed asks every store and must load no engine.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import InputUnavailable, RagstreamError, StoreFailed
from ragstream_core.platform import sidecar
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.index.view import CatalogView
    from ragstream_core.ports import F32, PhaseProgress
    from ragstream_core.records.identity import Json
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.retrieval.proposers import I64
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

FAILED, MEASURED = "failed.json", "recall.json"


class StoreState(NamedTuple):
    """How a store of a project stands, as small files say."""

    own: Mapping[str, Json]  # what it alone has in `ragstream status --json`
    sentence: str = ""  # what to know of it, for people; empty if there is nothing to know
    problem: str = ""  # why it cannot be asked; empty if it can
    next: str = ""  # what makes it good
    figures: Mapping[str, Json] = {}  # what Dagster shows of it beside a generation

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream status --json` shows of it."""
        return {**self.own, "problem": self.problem, "next": self.next}


class How(NamedTuple):
    """How to make a store, as `kept.bring_up_to_date` was asked."""

    rebuild: bool = False
    verify: bool = False
    again: bool = False
    progress: PhaseProgress | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a store."""

    store: DerivedStore
    # ``unchanged``, ``updated``, ``rebuilt``, ``built``, ``found``; empty if it was left
    made: str = ""
    reason: str = ""  # why it was made from nothing, or why it was left
    problem: str = ""  # what went wrong; empty if nothing did
    next: str = ""  # what makes that good
    is_off: bool = False  # whether none is to be there
    is_repaired: bool = False  # whether something that was wrong is right now
    # what else is to know of what was made
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def warning(self) -> str:
        """What to say of a problem; empty if there was none."""
        return f"{self.problem}\n  next: {self.next}" if self.problem else ""


class DerivedStore(Protocol):
    """A store that is made from an index beside it, and only names rows worth scoring."""

    name: str  # value of ``retrieval.store`` and first word of what a prompt pins of it
    report: str  # its key in reports
    check: str  # its name among checks and phases
    what: str  # what it is called
    healed: str  # what it is called among things that were made again

    def why_unwanted(self, workspace: Workspace, project: str, chunks: int) -> str:
        """Return why a project of so many chunks has none; empty if it is to have one."""
        ...

    def is_asked(self, workspace: Workspace) -> bool:
        """Return whether prompts ask it under the settings of now."""
        ...

    def folder(self, workspace: Workspace, project: str) -> Path:
        """Return the folder of its notes."""
        ...

    def conditions(self, workspace: Workspace) -> list[Json]:
        """Return what an attempt to make it depends on besides the generation."""
        return []

    def is_current(self, workspace: Workspace, project: str, newest: Generation) -> bool:
        """Return whether it is that of a generation, as small files say."""
        ...

    def make(self, workspace: Workspace, project: str, how: How) -> Outcome:
        """Make it that of the newest generation, or raise an error: what was there stays then.

        `GenerationGone`: what it was made of was erased or overtaken meanwhile.
        """
        ...

    def failure(self, project: str) -> str:
        """Return what it means that it could not be made."""
        ...

    def state(
        self,
        workspace: Workspace,
        project: str,
        newest: Generation | None,
        failed: FailedAttempt | None,
    ) -> StoreState:
        """Return how it stands, as small files say."""
        ...

    def pin(
        self, workspace: Workspace, chosen: RetrievalConfig, pins: Sequence[Pin]
    ) -> list[tuple[str, str]]:
        """Return a word a project that names what can be asked, or why nothing can.

        The reasons are the same words on every machine: a prompt's key holds them.
        """
        ...

    def require(self, workspace: Workspace, pin: Pin, word: str) -> None:
        """Refuse with `InputUnavailable` what `pin` named and is gone, or another one."""
        ...

    def near(
        self,
        workspace: Workspace,
        chosen: RetrievalConfig,
        view: CatalogView,
        word: str,
        queries: F32,
        n: int,
    ) -> list[I64] | None:
        """Return about ``n`` rows near each query, a unit vector; None if all are to be scored.

        `word` is what a prompt pinned of it; empty: whatever there is. `InputUnavailable`: what it
        names is gone; another error: it cannot be asked now.
        """
        ...

    def drop(self, workspace: Workspace, project: str) -> None:
        """Remove what lies outside the data root, or raise an error: then it is still there."""
        return


def index_dir_of(workspace: Workspace, project: str) -> Path:
    """Return the folder of a project's index, or of the conversations'."""
    if project == HISTORY:
        return workspace.layout.history_index
    return workspace.index_dir(project)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The note of an attempt that failed: its generation and conditions, what was said, when."""

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


def failed_attempt(
    store: DerivedStore, workspace: Workspace, project: str, newest: Generation
) -> FailedAttempt | None:
    """Return the attempt that failed for a generation under the conditions of now, if any."""
    note = sidecar.read(store.folder(workspace, project) / FAILED, FailedAttempt)
    return note if note and note.key == _key(store, workspace, newest) else None


def note_failure(
    store: DerivedStore,
    workspace: Workspace,
    project: str,
    newest: Generation,
    *,
    error: RagstreamError,
) -> None:
    """Note an attempt that just failed; if the disk cannot take it, the next ingest tries again."""
    at = dt.datetime.now(dt.UTC).isoformat("T", "seconds")
    key = _key(store, workspace, newest)
    note = FailedAttempt(key, newest.n, error.message, error.hint, at)
    with contextlib.suppress(OSError):
        folder = make_private_dir(store.folder(workspace, project))
        replace_text(folder / FAILED, json.dumps(asdict(note), indent=1))


def clear_failure(store: DerivedStore, workspace: Workspace, project: str) -> None:
    """Remove the note of a failed attempt, if any."""
    with contextlib.suppress(OSError):
        (store.folder(workspace, project) / FAILED).unlink(missing_ok=True)


def _key(store: DerivedStore, workspace: Workspace, newest: Generation) -> str:
    return digest_of([newest.n, newest.digest, *store.conditions(workspace)])


def note_recall(folder: Path, stamp: Mapping[str, object], share: float) -> None:
    """Note a measured recall, 0…1, and what it was measured for; a full disk is no error."""
    with contextlib.suppress(OSError):  # a figure for people; measured again next time
        row = json.dumps({**stamp, "recall": round(share, 4)})
        replace_text(folder / MEASURED, row, durable=False)


def noted_recall(folder: Path, stamp: Mapping[str, object]) -> float | None:
    """Return the recall that was measured for this; None if it was not."""
    row = sidecar.read(folder / MEASURED, dict[str, Any]) or {}
    share = row.get("recall")
    return share if isinstance(share, float | int) and row.items() >= stamp.items() else None


def replaced(what: str, project: str, word: str, now: str) -> InputUnavailable:
    """Return the error of a prompt whose store is another one now, or gone."""
    return InputUnavailable(
        f"{what} of {project} that proposed the candidates was replaced "
        f"(seal {word}, now {now or 'none'})",
        hint="prompts of retrieval.store=catalog do not depend on it",
    )


def recall_words(share: float | None) -> str:
    """Return a recall for people."""
    return "not measured yet" if share is None else f"{share:.1%}"


def proposer_state(
    own: Mapping[str, Json], figures: Mapping[str, str], sentence: str, problem: str, remedy: str
) -> StoreState:
    """Return the state of a store in whose place every row is scored; figures name their fields."""
    if not own["wanted"]:
        return StoreState(own)
    if problem:
        sentence = f"questions score every chunk: {problem}; next: {remedy}"
    shown = {figure: own.get(key, sentence) for figure, key in figures.items()}
    known = {figure: "-" if value is None else value for figure, value in shown.items()}
    return StoreState(own, sentence, problem, remedy, known)
