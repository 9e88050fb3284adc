"""Runs the chain for a request, recorded or not, and says what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragstream_core.prompting.compose import injected

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptRequest
    from ragstream_core.records import SuperPrompt


@dataclass(frozen=True, slots=True)
class Outcome:
    """A prompt that went through some or all stages, and what is known about it."""

    prompt: SuperPrompt
    prompt_key: str
    run_id: str
    timings_ms: dict[str, float]
    warnings: list[str]
    compared: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The Super-Prompt, empty before the builder has run."""
        return str(self.prompt.extras.get("super_prompt", ""))

    @property
    def tokens(self) -> int:
        """Tokens of the Super-Prompt, 0 before the builder has run."""
        return int(self.prompt.extras.get("token_tree", {}).get("total", 0))

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        files = injected(self.prompt)
        told = {"compared": self.compared} if self.compared else {}
        return {
            "prompt_key": self.prompt_key,
            "run_id": self.run_id,
            "stage": self.prompt.stage,
            "super_prompt": self.text,
            "tokens": self.tokens,
            "selection": list(self.prompt.final_selection_ids),
            "files": [{k: v for k, v in row.items() if k != "text"} for row in files],
            "warnings": self.warnings,
            "timings_ms": {op: round(ms, 3) for op, ms in self.timings_ms.items()},
            **told,
        }


def ask(workspace: Workspace, request: PromptRequest, op: str, *, record: bool) -> Outcome:
    """Run the chain for a request through an op, recorded as a Dagster run or not.

    Raises:
        RagstreamError: A stage refused or failed.
    """
    if record:
        from ragstream_assets.recorder import record_prompt

        done = record_prompt(workspace, request, through=op)
        key = done.record.prompt_key if done.record else ""
        warnings = [*_warnings(done.prompt), *done.warnings]
        return Outcome(done.prompt, key, done.run_id, dict(done.timings_ms), warnings)
    timings: dict[str, float] = {}

    def observe(name: str, _: SuperPrompt, seconds: float) -> None:
        timings[name] = timings.get(name, 0.0) + seconds * 1000

    result = workspace.run(workspace.pin(request), through=op, observe=observe)
    complete = bool(result.extras.get("super_prompt"))
    key = workspace.finish(result, timings_ms=timings).prompt_key if complete else ""
    return Outcome(result, key, "", timings, _warnings(result))


def _warnings(prompt: SuperPrompt) -> list[str]:
    return [str(row["message"]) for row in prompt.extras.get("warnings", [])]
