"""What of a prompt may be written, its record, and what is made again from it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.config import overlay
from ragstream_core.settings import ChainSettings

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptInputs
    from ragstream_core.orchestration.prompt_store import PromptRecord
    from ragstream_core.orchestration.replay import Verdict
    from ragstream_core.records import Decision, SuperPrompt


def persists(inputs: PromptInputs) -> bool:
    """Say whether anything of a prompt may be written: once off, off for the whole of it.

    Raises:
        UnknownSetting: `history.persist` was changed to what is neither on nor off.
    """
    given = ChainSettings.model_validate(inputs.settings)
    changes = [{key: value} for _, key, value in inputs.changes if key == "history.persist"]
    return all(overlay(given, change).history.persist for change in ({}, *changes))


def require_uncleared(workspace: Workspace, inputs: PromptInputs) -> None:
    """Refuse to keep what may show turns that were cleared after the prompt was pinned.

    Raises:
        InputUnavailable: Some of the turns that the prompt could read were cleared.
    """
    if not inputs.history.seq:
        return
    from ragstream_core.build.history.turns import journal
    from ragstream_core.errors import InputUnavailable
    from ragstream_core.history.clearing import cleared_since

    if cleared_since(journal(workspace), inputs.history.seq):
        raise InputUnavailable(
            "turns were cleared while the prompt was made; it is not kept",
            hint="build the prompt again",
        )


def finish(
    workspace: Workspace,
    prompt: SuperPrompt,
    *,
    run_id: str,
    resumed: str,
    timings_ms: Mapping[str, float],
    passed: Mapping[str, SuperPrompt],
) -> PromptRecord:
    """Keep a finished prompt; see `Workspace.finish`."""
    from ragstream_core.build import recalling
    from ragstream_core.orchestration.inputs import inputs_of
    from ragstream_core.orchestration.prompt_store import make_record
    from ragstream_core.orchestration.replay import environment

    record = make_record(
        prompt,
        environment=environment(),
        timings_ms=dict(timings_ms),
        run_id=run_id,
        resumed=resumed,
    )
    inputs = inputs_of(prompt)
    if not persists(inputs):
        return replace(record, prompt_key="")
    require_uncleared(workspace, inputs)
    try:
        return recalling.kept(workspace, prompt, record, passed)
    except FileNotFoundError:
        require_uncleared(workspace, inputs)  # a clearing took the folder while it was written
        raise


def replayed(workspace: Workspace, key: str, *, live: bool) -> Verdict:
    """Recompute a kept prompt and compare; see `Workspace.replay`."""
    from ragstream_core.build import querying
    from ragstream_core.build.file_sources import RecordedAnswers
    from ragstream_core.orchestration.replay import replay

    record = workspace.store.record(key)
    answers = RecordedAnswers.of(record, live=live)
    run = functools.partial(querying.rerun, workspace, answers=answers)
    return replay(record, run, answers.differences)


def decisions(workspace: Workspace, key: str) -> list[Decision]:
    """Return the ledger of a kept prompt; see `Workspace.decisions`."""
    from ragstream_core.build import querying
    from ragstream_core.build.file_sources import RecordedAnswers
    from ragstream_core.orchestration.explain import load_decisions
    from ragstream_core.orchestration.inputs import inputs_from
    from ragstream_core.records import decision_from

    found = load_decisions(workspace.store.root / workspace.store.find(key))
    if found is not None:
        return found
    record = workspace.store.record(key)
    answers = RecordedAnswers.of(record)
    prompt = querying.rerun(workspace, inputs_from(record.inputs), answers)
    return [decision_from(row) for row in prompt.extras["decisions"]]
