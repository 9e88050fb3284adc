"""Runs the chain for a request, and says what came of it and of its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_app.session import note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ragstream_assets.recorder.chain_run import RecordedPrompt
    from ragstream_core.prompts.exchanges import AgentsUsage
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.prompts.recorded import Asking
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.identity import Json
    from ragstream_core.services.what_if import Compared
    from ragstream_core.wiring.token_budget import Estimate
    from ragstream_core.wiring.workspace import Workspace

QUIET_S = 3.0
PATIENCE_S = 60.0
"""How long a command waits for its run to be written: at first without a word."""


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """A prompt that went through some or all stages, and what is known about it."""

    prompt: SuperPrompt
    prompt_key: str
    run_id: str
    timings_ms: dict[str, float]
    warnings: list[str]
    compared: Compared | None = None
    recorded: RecordedPrompt | None = field(default=None, repr=False)
    expected: Estimate | None = None

    @property
    def cost_usd(self) -> float | None:
        """What sending it to the model that it is meant for costs, where both are known."""
        return self.expected.price(self.tokens, 0) if self.expected and self.text else None

    @property
    def text(self) -> str:
        """The Super-Prompt, empty before the builder has run."""
        return self.prompt.extras.super_prompt

    @property
    def tokens(self) -> int:
        """Tokens of the Super-Prompt, 0 before the builder has run."""
        return self.prompt.extras.token_tree.total

    @property
    def llm(self) -> AgentsUsage:
        """What agents took now that asked a language model."""
        from ragstream_core.services.build_prompt import agents_usage

        return agents_usage(self.prompt, from_record=bool(self.asked))

    @property
    def asked(self) -> Sequence[Asking]:
        """The earlier times that it was asked for, where its record answered; else none."""
        return self.recorded.asked if self.recorded else ()

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        from ragstream_core.services.build_prompt import prompt_json

        told: dict[str, Json] = {"compared": self.compared.to_json()} if self.compared else {}
        found = prompt_json(
            self.prompt,
            prompt_key=self.prompt_key,
            from_record=bool(self.asked),
            run_id=self.run_id,
            cost_usd=self.cost_usd,
            warnings=self.warnings,
            timings_ms=self.timings_ms,
        )
        return {**found, **told}


def announced(workspace: Workspace, request: PromptRequest) -> Estimate | None:
    """Say which model a prompt is meant for and what it may cost, before it is built.

    Args:
        workspace: The data root.
        request: What is asked.

    Returns:
        The estimate; None where the settings name no such model.

    Raises:
        RagstreamError: An unknown task or setting, or the provider's settings are wrong.
    """
    from ragstream_core.wiring.token_budget import estimate

    config = workspace.config.with_task(request.task, explicit=request.settings)
    if not config.settings.prompt.model_target:
        return None
    found = estimate(config)
    note(estimated(found))
    return found


def estimated(found: Estimate) -> str:
    """Return what a prompt may take of its model, on one line for people."""
    from ragstream_app.output.words import printable

    window = f" of a window of {found.window_tokens:,}" if found.window_tokens else ""
    name = printable(found.model) or "a model that is not chosen yet"
    most = f"Up to {found.budget_tokens:,} tokens{window} for {name}"
    sent, answered = found.most_usd, found.answer_usd
    if sent is None or answered is None:
        return f"{most}; price unknown"
    if not sent and not answered:
        return f"{most}; no cost"
    return f"{most}, ${sent:.4f}, and ${answered:.4f} for each 1,000 tokens of the answer"


def outcome_of(done: RecordedPrompt) -> PromptOutcome:
    """Return what came of a prompt."""
    timings = dict(done.timings_ms)
    warnings = [done.said] if done.said else []
    warnings += [warning.message for warning in done.prompt.extras.warnings]
    return PromptOutcome(
        done.prompt, done.prompt_key, done.run_id, timings, warnings, recorded=done
    )


def wait_for_recording(outcome: PromptOutcome, say: Callable[[str], object]) -> None:
    """Wait until the prompt's run is written; Ctrl-C leaves it, the prompt is kept anyway.

    Args:
        outcome: Has been delivered.
        say: Told what there is to say to people: that it takes long, or why there is no run.
    """
    recording = outcome.recorded.recording if outcome.recorded else None
    if recording is None:
        return
    try:
        if not recording.wait(QUIET_S):
            say("saving the run in Dagster … (Ctrl-C skips that; your prompt is saved already)")
        known = recording.wait(PATIENCE_S)
    except KeyboardInterrupt:
        known = False
    if not known:
        from ragstream_assets.recorder.writer import writer

        writer.leave()
        say("not recorded in Dagster: it took too long; the prompt is kept")
    for warning in outcome.recorded.warnings if outcome.recorded else ():
        say(f"warning: {warning}")
