"""What of a prompt may be written, its record, and what is made again from it.

Prompts that the user keeps, and the generations that stay because of them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.config import overlay
from ragstream_core.errors import GenerationGone, IntegrityError, RagstreamError
from ragstream_core.platform.files import replace_text
from ragstream_core.settings import ChainSettings

if TYPE_CHECKING:
    from ragstream_core.prompts.inputs import PromptInputs
    from ragstream_core.prompts.replay import ReplayVerdict
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import Decision, SuperPrompt
    from ragstream_core.wiring.workspace import Workspace


KEPT_NAME = "kept"
"""Marker beside a prompt's record: it and its generations are not dropped by age."""


def keep(workspace: Workspace, key: str) -> dict[str, Any]:
    """Mark a prompt as kept; from now on its generations stay.

    Args:
        workspace: The data root.
        key: Its key or the first digits.

    Returns:
        ``prompt_key``, ``kept``, ``pins`` (project, generation).

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
        GenerationGone: A generation that it was made from is no longer there; not marked.
    """
    full_key = workspace.store.find(key)
    record = workspace.store.record(full_key)
    pins = [(pin["project"], pin["generation"]) for pin in record.inputs["pins"]]
    marker = workspace.store.root / full_key / KEPT_NAME
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    replace_text(marker, f"{now}\n")  # first: from here on no ingest drops what is still there
    try:
        workspace.store.record(full_key)  # it may have expired at this very moment
        for pin in record.inputs["pins"]:
            _require(workspace, pin)
    except RagstreamError:
        marker.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            marker.parent.rmdir()  # where nothing but the marker was left
        raise
    return {"prompt_key": full_key, "kept": True, "pins": [list(pin) for pin in pins]}


def unkeep(workspace: Workspace, key: str) -> dict[str, Any]:
    """Take the mark away; the next retention may drop its generations.

    Raises:
        UnknownPrompt: No prompt under that key.
        OSError: The marker cannot be removed.
    """
    full_key = workspace.store.find(key)
    (workspace.store.root / full_key / KEPT_NAME).unlink(missing_ok=True)
    return {"prompt_key": full_key, "kept": False, "pins": []}


def pinned(prompts: Path, project: str) -> dict[int, list[str]]:
    """Return the generations of a project that kept prompts need, with those prompts' keys.

    Args:
        prompts: Folder of the prompt store.
        project: Project name.

    Raises:
        IntegrityError: The record of a kept prompt cannot be read, so nobody can say what it needs.
    """
    found: dict[int, list[str]] = {}
    for marker in sorted(prompts.glob(f"*/{KEPT_NAME}")):
        path = marker.with_name("record.json")
        try:
            pins = json.loads(path.read_bytes())["inputs"]["pins"]
            mine = [int(pin["generation"]) for pin in pins if pin["project"] == project]
        except (OSError, ValueError, KeyError, TypeError):
            raise IntegrityError(
                f"{path} is damaged, so the generations that it needs are not known",
                hint=f"remove {marker} if the prompt is not needed any more",
            ) from None
        for n in mine:
            found.setdefault(n, []).append(marker.parent.name)
    return found


def _require(workspace: Workspace, pin: dict[str, Any]) -> None:
    from ragstream_core.index.generations import kept_generations

    project, n = pin["project"], pin["generation"]
    try:
        digests = {g.n: g.digest for g in kept_generations(workspace.index_dir(project))}
    except GenerationGone:
        digests = {}
    except RagstreamError as error:
        raise IntegrityError(error.message, hint=error.hint) from error
    if digests.get(n) != pin["digest"]:
        raise GenerationGone(
            f"generation {n} of {project}, which the prompt was made from, is no longer there",
            hint="keep a prompt soon after it is made; `ragstream index generations` lists them",
        )


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
    from ragstream_core.conversations.clearing import cleared_since
    from ragstream_core.errors import InputUnavailable
    from ragstream_core.wiring.journal import journal

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
    from ragstream_core.prompts.inputs import inputs_of
    from ragstream_core.prompts.replay import environment
    from ragstream_core.prompts.store import make_record
    from ragstream_core.wiring import recall

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
        return recall.kept(workspace, prompt, record, passed)
    except FileNotFoundError:
        require_uncleared(workspace, inputs)  # a clearing took the folder while it was written
        raise


def replayed(workspace: Workspace, key: str, *, live: bool) -> ReplayVerdict:
    """Recompute a kept prompt and compare; see `Workspace.replay`."""
    from ragstream_core.prompts.replay import replay
    from ragstream_core.wiring import prompt_inputs
    from ragstream_core.wiring.file_sources import RecordedAnswers

    record = workspace.store.record(key)
    answers = RecordedAnswers.of(record, live=live)
    run = functools.partial(prompt_inputs.rerun, workspace, answers=answers)
    return replay(record, run, answers.differences)


def decisions(workspace: Workspace, key: str) -> list[Decision]:
    """Return the ledger of a kept prompt; see `Workspace.decisions`."""
    from ragstream_core.prompts.explain import load_decisions
    from ragstream_core.prompts.inputs import inputs_from
    from ragstream_core.records import decision_from
    from ragstream_core.wiring import prompt_inputs
    from ragstream_core.wiring.file_sources import RecordedAnswers

    found = load_decisions(workspace.store.root / workspace.store.find(key))
    if found is not None:
        return found
    record = workspace.store.record(key)
    answers = RecordedAnswers.of(record)
    prompt = prompt_inputs.rerun(workspace, inputs_from(record.inputs), answers)
    return [decision_from(row) for row in prompt.extras["decisions"]]
