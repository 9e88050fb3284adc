"""What among the indexed passages looks like an attempt to command a language model (R-294)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ragstream_core.prompting.suspicion import Tally, tally

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace

BATCH = 512


def suspicious_passages(
    workspace: Workspace, project: str, paths: Collection[str] | None = None
) -> Tally:
    """Read a project's live passages and count what looks suspicious; nothing is changed.

    Args:
        workspace: The data root.
        project: Its name.
        paths: Only passages of these files; None: all.

    Raises:
        GenerationGone: Nothing is ingested.
        IntegrityError: The index is damaged.
    """
    view = workspace.view(project)
    rows = zip(view.chunk_ids, view.paths, strict=True)
    wanted = [i for i, path in rows if paths is None or path in paths]

    def texts() -> Iterator[tuple[str, str]]:
        for at in range(0, len(wanted), BATCH):
            for chunk in view.chunks(wanted[at : at + BATCH]):
                yield f"{chunk.source} #{chunk.meta['chunk_index']}", chunk.snippet

    return tally(texts())
