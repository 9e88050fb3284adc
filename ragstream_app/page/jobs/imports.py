"""Imports of conversations in the background: a look first, then the import, then the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_app.output.words import size
from ragstream_app.page.jobs.background import BackgroundJob, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ragstream_core.conversations.importers.reader import Source
    from ragstream_core.services.history_transfer import ImportReport
    from ragstream_core.services.history_update import Upkeep
    from ragstream_core.services.import_conversations import ConversationImport
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import did, or would do.

    Attributes:
        found: Of another program's export or logs; None if the file holds rows of our own.
        rows: Of rows that were imported; None before.
        count: How many rows a file of our own holds.
    """

    found: ConversationImport | None = None
    rows: ImportReport | None = None
    count: int = 0


def start(
    workspace: Workspace, source: Source, *, use_in: Sequence[str] = (), dry_run: bool
) -> BackgroundJob[ImportOutcome]:
    """Begin to look at an export, or to import it; a closed tab does not break it off.

    Args:
        workspace: The data root.
        source: A path on this machine, or what was uploaded.
        use_in: Projects whose prompts may use the turns, ``nowhere`` or ``everywhere``; none: the
            project that is named like a coding agent's folder, else nowhere.
        dry_run: Only look.
    """

    def work(report: Report) -> ImportOutcome:
        from ragstream_core.services.import_conversations import import_conversations, is_of_rows

        if is_of_rows(source):
            return _rows(workspace, source, use_in=use_in, dry_run=dry_run)
        found = import_conversations(
            workspace, source, use_in=use_in, dry_run=dry_run, progress=report
        )
        return ImportOutcome(found)

    return BackgroundJob("the import", work, line="reading", line_of=_read_line(dry_run)).start()


def embed(workspace: Workspace) -> BackgroundJob[Upkeep]:
    """Begin to embed the turns that are not searched by meaning yet."""

    def work(report: Report) -> Upkeep:
        from ragstream_core.services.history_update import catch_up

        return catch_up(workspace, progress=report)

    return BackgroundJob("the embedding", work, line="loading the model").start()


def _read_line(dry_run: bool) -> Callable[[str, int, int], str]:
    what = "looked at" if dry_run else "imported"

    def line(_: str, done: int, total: int) -> str:
        return f"{what} {size(done)} of {size(total)}"

    return line


def _rows(
    workspace: Workspace, source: Source, *, use_in: Sequence[str], dry_run: bool
) -> ImportOutcome:
    from ragstream_core.conversations.importers.reader import Upload
    from ragstream_core.errors import UsageError
    from ragstream_core.services.history_transfer import import_jsonl, read_lines

    if isinstance(source, Upload):
        try:
            lines = source.data.decode("utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise UsageError(f"{source} cannot be read: {error}") from None
    else:
        lines = list(read_lines(source))
    count = sum(bool(line.strip()) for line in lines)
    rows = None if dry_run else import_jsonl(workspace, lines, use_in=use_in)
    return ImportOutcome(rows=rows, count=count)
