"""The tools that change something: off unless the settings allow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ragstream_app.mcp.results import IngestResult, RememberResult
from ragstream_app.mcp.tools import ADDS, ProjectName, ToolCall
from ragstream_core.prompts.fences import one_line, safe_name

if TYPE_CHECKING:
    from ragstream_app.mcp.calls import Call
    from ragstream_app.mcp.desk import Desk

Said = Annotated[str, Field(max_length=500_000)]


class Remember(ToolCall):
    """Keep one turn of a conversation, so that later Super-Prompts can draw on it.

    Keep what was decided or found out, in the user's words and yours; never a secret.
    """

    name = "remember"
    title = "Remember a turn"
    annotations = ADDS.model_copy(update={"idempotent_hint": False})
    result = RememberResult
    user: Annotated[Said, Field(min_length=1, description="What the user said or asked.")]
    assistant: Annotated[Said, Field(description="What was answered.")] = ""
    session: Annotated[
        str, Field(max_length=200, description="Of an earlier result, to continue it; else new.")
    ] = ""
    project: ProjectName = ""
    prompt_key: Annotated[
        str, Field(max_length=64, description="The Super-Prompt that the answer is based on.")
    ] = ""

    def run(self, desk: Desk, call: Call) -> RememberResult:
        """Append it to the journal; it is on the disk when this returns."""
        from ragstream_core.ingestion.secrets import find_secrets
        from ragstream_core.library import History

        projects = [desk.project(self.project)] if self.project or desk.only else []
        kept = History(desk.workspace).append(
            self.user,
            self.assistant,
            session=self.session,
            projects=projects,
            answers=desk.kept(self.prompt_key).prompt_key if self.prompt_key else "",
        )
        secrets = {f.kind for text in (self.user, self.assistant) for f in find_secrets(text)}
        return RememberResult(turn_id=kept.id, session=kept.session, secrets=sorted(secrets))


class Ingest(ToolCall):
    """Bring a project's index up to date with its files; only what changed is read.

    It may take minutes. A cancelled ingest changes nothing, and the next one goes on from there.
    """

    name = "ingest"
    title = "Ingest a project"
    annotations = ADDS
    result = IngestResult
    project: ProjectName = ""

    def run(self, desk: Desk, call: Call) -> IngestResult:
        """Ingest it as `ragstream ingest` does."""
        from ragstream_core.services.ingest import ingest

        project = desk.project(self.project)
        call.progress("looking at the files", 0, 0)
        stats = ingest(desk.workspace, project, progress=call.progress)
        return IngestResult(
            project=project,
            generation=stats.generation,
            committed=stats.committed,
            files=dict(stats.files),
            passages=stats.chunks.get("live", 0),
            refused=stats.refused,
            warnings=[*map(one_line, stats.warnings), *map(_left_out, stats.skipped_reasons[:20])],
        )


def _left_out(row: tuple[str, str]) -> str:
    path, why = row
    return f"{safe_name(path)}: {one_line(why)}"
