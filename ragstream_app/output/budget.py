"""What a prompt may take of the model that it is meant for, and what that costs, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_app.output.words import printable
from ragstream_app.session import note
from ragstream_core.wiring.token_budget import estimate

if TYPE_CHECKING:
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring.token_budget import Estimate
    from ragstream_core.wiring.workspace import Workspace


def announce(workspace: Workspace, request: PromptRequest) -> None:
    """Say which model a prompt is meant for and what it may cost; nothing if none is named.

    Raises:
        RagstreamError: An unknown task or setting, or the provider's settings are wrong.
    """
    config = workspace.config.with_task(request.task, explicit=request.settings)
    if config.settings.prompt.model_target:
        note(budget_line(estimate(config)))


def budget_line(found: Estimate) -> str:
    """Return what a prompt may take of its model, on one line for people."""
    window = f" of a window of {found.window_tokens:,}" if found.window_tokens else ""
    name = printable(found.model) or "a model that is not chosen yet"
    most = f"Up to {found.budget_tokens:,} tokens{window} for {name}"
    sent, answered = found.most_usd, found.answer_usd
    if sent is None or answered is None:
        return f"{most}; price unknown"
    if not sent and not answered:
        return f"{most}; no cost"
    return f"{most}, ${sent:.4f}, and ${answered:.4f} for each 1,000 tokens of the answer"
