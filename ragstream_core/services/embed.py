"""Texts turned into vectors by the model that a project's index is made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragstream_core.errors import ModelMismatch, RunCommand
from ragstream_core.index.schema import is_pulled

if TYPE_CHECKING:
    from ragstream_core.ports import F32, Progress
    from ragstream_core.wiring.workspace import Workspace

# What texts are; some models tell the two apart.
Kind = Literal["document", "query"]


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts."""

    vectors: F32  # one a text, in their order, shape (n, dimension), float32, each of length 1
    tokens: int  # of all texts together, special tokens not included
    model: str  # name of the model


def embed(
    workspace: Workspace,
    project: str,
    texts: Sequence[str],
    *,
    kind: Kind = "document",
    progress: Progress | None = None,
) -> Embedded:
    """Return the vectors of texts, comparable with those of a project; nothing is kept.

    Args:
        workspace: The data root.
        project: Its name; one without an index takes the model of the settings.
        texts: Each holds at least one character.
        kind: What they are.
        progress: Called with (done, total) while documents are embedded; what it raises ends that.

    Raises:
        ModelMismatch: The project was embedded by another model than the settings name.
        RagstreamError: The model cannot be used.
    """
    from ragstream_core.wiring import models

    config = workspace.config
    mine, stored = models.fingerprint(config), _stored(workspace, project)
    if stored and stored != mine:
        raise ModelMismatch(
            f"project {project!r} was embedded by model {stored[:12]}, the settings name "
            f"{mine[:12]} ({models.model_name(config)})",
            hint="set embeddings.* to what it is made with, elsewhere"
            if is_pulled(workspace.index_dir(project))
            else RunCommand("ingest", f"{project} --rebuild"),
        )
    model = models.embedder(config)
    if kind == "query":
        made = model.embed_queries(texts)
    else:
        made = model.embed_documents(texts, progress=progress)
    return Embedded(made, sum(map(model.count, texts)), model.name)


def _stored(workspace: Workspace, project: str) -> str:
    """Return the fingerprint that a project's index was made with; "" if it has no index."""
    from ragstream_core.errors import GenerationGone
    from ragstream_core.index.view import open_view

    try:
        return open_view(workspace.index_dir(project)).embed_fp
    except GenerationGone:
        return ""
