"""The generations that maps and neighbours look at: projects', and the published conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, ModelMismatch, RunCommand, UsageError
from ragstream_core.index.view import open_view
from ragstream_core.wiring.history_index import History

if TYPE_CHECKING:
    from ragstream_core.index.snapshot import HistoryView
    from ragstream_core.ports import IndexView
    from ragstream_core.wiring.workspace import Workspace


def open_views(workspace: Workspace, projects: Sequence[str], *, history: bool) -> list[IndexView]:
    """Open the newest generation of some projects, and the turns that prompts search.

    Args:
        workspace: The data root.
        projects: Their names; one that comes twice counts once.
        history: Also the conversations, the last in the list.

    Raises:
        UsageError: Nothing is named.
        UnknownProject: There is no such project.
        GenerationGone: One of them has nothing embedded.
        ModelMismatch: They were embedded by different models: their vectors cannot be compared.
        IntegrityError: An index is damaged.
    """
    if not projects and not history:
        raise UsageError("no project given", hint=(RunCommand("status"), " lists them"))
    views: list[IndexView] = []
    for project in dict.fromkeys(projects):
        workspace.require_project(project)
        views.append(open_view(workspace.index_dir(project)))
    if history:
        views.append(_turns(workspace))
    for view in views[1:]:
        if view.embed_fp != views[0].embed_fp:
            raise ModelMismatch(
                f"{view.project} was embedded by model {view.embed_fp[:12]}, {views[0].project} "
                f"by {views[0].embed_fp[:12]}: their vectors cannot be compared",
                hint="look at them one by one, or embed them by one model",
            )
    return views


def hidden_ids(workspace: Workspace, views: Sequence[IndexView]) -> frozenset[str]:
    """Return the chunks of turns that were cleared after they were published: never shown."""
    from ragstream_core.conversations.edits import apply_edits
    from ragstream_core.conversations.eligible_turns import Filters, eligible
    from ragstream_core.index.snapshot import HistoryView
    from ragstream_core.wiring.journal import journal

    hidden: set[str] = set()
    for view in views:
        if isinstance(view, HistoryView):
            mark = view.mark.position
            since = apply_edits(list(journal(workspace).entries(mark.seq + 1, hint=mark)))
            found = eligible(view.columns, Filters(), hidden=since.hidden)
            hidden |= {view.chunk_ids[row] for row in (~found.mask).nonzero()[0].tolist()}
    return frozenset(hidden)


def _turns(workspace: Workspace) -> HistoryView:
    view = History(workspace).selection()
    if view is None or not len(view.chunk_ids):
        raise GenerationGone("no turn is embedded yet", hint=RunCommand("history embed"))
    view.verify()
    return view
