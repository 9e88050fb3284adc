"""A Super-Prompt for a client: made and kept as `ragstream prompt` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_app.mcp.results import PromptResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragstream_app.mcp.calls import Call
    from ragstream_app.mcp.desk import Desk
    from ragstream_core.prompts.made_prompt import MadePrompt


def build(
    desk: Desk,
    call: Call,
    question: str,
    project: str,
    *,
    task: str = "",
    settings: Mapping[str, str] | None = None,
) -> PromptResult:
    """Return the Super-Prompt of a question.

    Args:
        desk: The workspace.
        call: Told about every op; a cancelled call ends after the op at work, and keeps nothing.
        question: What is asked.
        project: Its name.
        task: Name of a task profile.
        settings: Dotted setting → value, for this prompt.

    Raises:
        RagstreamError: A wrong request, or a stage that refused or failed; nothing is kept.
        Stopped: The call was cancelled.
    """
    from ragstream_core.prompts.chain import OPS
    from ragstream_core.prompts.fences import one_line, safe_name
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.services.own_projects import SETTINGS
    from ragstream_core.wiring.ingestion import changed_files
    from ragstream_core.wiring.make_prompt import make_prompt

    call.steps = len(OPS)

    def on_step(op: str, _: MadePrompt) -> None:
        if op != OPS[-1]:  # after the last one it is kept: there is nothing left to end
            call.progress(op, 0, 0)

    given = {**(SETTINGS if desk.only else {}), **(settings or {})}
    request = PromptRequest(text=question, projects=(project,), settings=given, task=task)
    changed = changed_files(desk.workspace, request.projects, shown=safe_name)
    call.progress("reading", 0, 0)
    desk.load_models()
    prompt = make_prompt(desk.workspace, request, on_step=on_step)
    return PromptResult(
        prompt_key=prompt.key,
        project=project,
        super_prompt=prompt.text,
        tokens=prompt.tokens,
        from_record=prompt.from_record,
        warnings=[*changed, *map(one_line, prompt.warnings)],
    )
