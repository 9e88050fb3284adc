"""What `ragstream index check` says of the conversations, and what it finishes by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragstream_core.build.collections import Left
from ragstream_core.build.history.turns import holds_journal, journal
from ragstream_core.errors import RagstreamError
from ragstream_core.history.records import HISTORY
from ragstream_core.stores.health import Finding

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.stores.deep_check import Part

CLEARING = "an interrupted clearing"
SELECTION = "the published selection"
COLLECTION = "the Chroma collection"
_CURES = {
    "clearing": "ragstream history check",
    "journal": "ragstream backup DIR; what verifies is read as before, the rest is damaged",
    "snapshot": "ragstream history embed",
    "collection": "ragstream index check",
}
_REBUILD = "ragstream history backfill --rebuild"


def check(workspace: Workspace, *, part: Part | None = None) -> dict[str, Any]:
    """Check the conversations as `care.check` checks a project; finish what was being cleared.

    A selection that is missing or behind is published again, and so is the Chroma collection.

    Args:
        workspace: The data root.
        part: Also read this part of all texts and vectors, and compare every turn.

    Returns:
        ``project`` (``~history``), ``findings`` (check, message, run), ``healed``, ``finished``
        (a clearing was), ``generation``.
    """
    from ragstream_core.build.history.check import check_history

    healed, findings = heal(workspace)
    findings += check_history(workspace, part)
    if not findings:
        more, findings = _collection(workspace)
        healed += more
    return {
        "project": HISTORY,
        "findings": [
            {"check": f.check, "message": f.message, "run": _CURES.get(f.check, _REBUILD)}
            for f in dict.fromkeys(findings)
        ],
        "healed": [what for what in healed if what != CLEARING],
        "finished": CLEARING in healed,
        "generation": _generation(workspace),
    }


def is_there(workspace: Workspace) -> bool:
    """Say whether anything was ever recorded."""
    return holds_journal(journal(workspace).folder)


def heal(workspace: Workspace) -> tuple[list[str], list[Finding]]:
    """Finish what was being cleared and publish a selection that is missing or behind.

    Returns:
        What was made good, and what could not be.
    """
    from ragstream_core.build.history.clearing import finish, is_due
    from ragstream_core.build.history.embedding import history_status
    from ragstream_core.build.history.publishing import publish

    healed = []
    try:
        if is_due(workspace):
            finish(workspace)
            healed.append(CLEARING)
        now = history_status(workspace)
        published = now["snapshot"]["generation"] if now["snapshot"] else 0
        if now["generation"] != published and publish(workspace) is not None:
            healed.append(SELECTION)
    except (RagstreamError, OSError) as error:
        return healed, [Finding("clearing" if not healed else "snapshot", str(error))]
    return healed, []


def _collection(workspace: Workspace) -> tuple[list[str], list[Finding]]:
    from ragstream_core.build.history.collection import kept

    done = kept(workspace, again=True)
    if isinstance(done, Left):
        return [], [Finding("collection", done.why)] if done.failed else []
    return ([COLLECTION] if done.made != "unchanged" else []), []


def _generation(workspace: Workspace) -> int:
    from ragstream_core.build.history.embedding import index_dir
    from ragstream_core.stores.history_rows import newest

    try:
        found = newest(index_dir(workspace))
    except RagstreamError:
        return 0
    return found[0].generation if found is not None else 0
