"""The ways of `ragstream history clear`: erase, keep inactive, drop vectors, anonymise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_core.conversations.clearing import Choice
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.services.clear_history import ClearReport
    from ragstream_core.wiring.workspace import Workspace

ERASE, INACTIVE, VECTORS, ANONYMISE = "erase", "inactive", "vectors", "anonymise"
_DONE = {
    ERASE: "cleared for good",
    INACTIVE: "are inactive: no prompt uses them",
    VECTORS: "are inactive, and their vectors are deleted",
    ANONYMISE: "cleared for good, anonymous copies stand in their place",
}
_WOULD = {
    ERASE: "would go",
    INACTIVE: "would be inactive",
    VECTORS: "would be inactive and lose their vectors",
    ANONYMISE: "would go, with anonymous copies in their place",
}


@dataclass(frozen=True, slots=True)
class Way:
    """What is done with chosen turns.

    Attributes:
        kind: ``erase``, ``inactive``, ``vectors`` or ``anonymise``.
        archive: With ``erase``: first put a copy aside.
        mask: With ``anonymise``: names to mask.
    """

    kind: str = ERASE
    archive: bool = False
    mask: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, *, inactive: bool, vectors: bool, anonymise: bool, archive: bool, mask: Sequence[str]
    ) -> Way:
        """Read the options of a command line.

        Raises:
            UsageError: Two that exclude each other.
        """
        given = {INACTIVE: inactive and not vectors, VECTORS: vectors, ANONYMISE: anonymise}
        kinds = [kind for kind, is_given in given.items() if is_given]
        if len(kinds) > 1 or (kinds and archive):
            raise UsageError(
                "these ways of clearing exclude each other",
                hint="one of --inactive, --vectors, --anonymise and --archive",
            )
        if mask and kinds != [ANONYMISE]:
            raise UsageError("--mask names what to mask", hint="--anonymise --mask NAME")
        return cls(kinds[0] if kinds else ERASE, archive, tuple(mask))

    def run(
        self,
        workspace: Workspace,
        choice: Choice,
        *,
        dry_run: bool,
        progress: PhaseProgress | None = None,
    ) -> ClearReport:
        """Do it, or only say what would happen.

        Raises:
            RagstreamError: As `clear_history.clear` and `put_aside`.
            OSError: As `clear_history.clear`.
        """
        from ragstream_core.services import clear_history

        if self.kind == ANONYMISE:
            return clear_history.anonymise(
                workspace, choice, mask=self.mask, dry_run=dry_run, progress=progress
            )
        if self.kind == ERASE:
            return clear_history.clear(
                workspace, choice, archive=self.archive, dry_run=dry_run, progress=progress
            )
        return clear_history.put_aside(
            workspace, choice, vectors=self.kind == VECTORS, dry_run=dry_run
        )

    def told(self, done: ClearReport) -> str:
        """Say what happened, or would."""
        said = (_WOULD if done.dry_run else _DONE)[self.kind]
        found = ", ".join(f"{n} {kind}" for kind, n in (done.masked or {}).items())
        return f"{what(done)} {said}" + (f"; masked: {found}" if found else "")

    def question(self, found: ClearReport) -> str:
        """Ask for what `run` would do."""
        return f"{what(found)} {_WOULD[self.kind]}"


def confirm(question: str) -> None:
    """Ask before anything happens.

    Raises:
        UsageError: Nobody is there to ask.
        Abort: The answer was no.
    """
    if not sys.stdin.isatty():
        raise UsageError(question, hint="add --yes to confirm")
    typer.confirm(f"{question}. Go on?", abort=True, err=True)


def what(found: ClearReport) -> str:
    """Return how many turns of which conversations a report is about."""
    from ragstream_core.text.plurals import counted

    names = ", ".join(found.sessions[:5]) + (" …" if len(found.sessions) > 5 else "")
    counts = counted(found.turns, "turn")
    counts += f" and {found.questions:,} unanswered questions" if found.questions else ""
    counts += f", with {counted(found.facts, 'fact')}" if found.facts else ""
    return f"{counts} of {names}" if names else counts
