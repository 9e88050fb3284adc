"""Keeps finished prompts, and answers one that is asked for again from its record.

Whatever its bytes depend on is among the pinned inputs, but for the bytes of files that are
injected and the language model that stages ask; both are looked at here. Where the record, or what
the stages left, is not what was kept, the chain runs again and says so.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError, RagstreamError, UnknownPrompt
from ragstream_core.prompts import recorded
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import inputs_of, persists
from ragstream_core.prompts.made_prompt import MadePrompt
from ragstream_core.prompts.recorded import Asking
from ragstream_core.prompts.replay import environment
from ragstream_core.prompts.store import RECORD_NAME, make_record
from ragstream_core.records.identity import digest_of, sha256_hex
from ragstream_core.wiring.file_sources import read_file
from ragstream_core.wiring.journal import require_uncleared
from ragstream_core.wiring.kept_prompt import KeptPrompt

if TYPE_CHECKING:
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.workspace import Workspace

_PROVIDER = ("backend", "base_url", "model", "temperature", "max_output_tokens", "script")


def save_prompt(
    workspace: Workspace,
    prompt: SuperPrompt,
    *,
    run_id: str = "",
    resumed: str = "",
    timings_ms: Mapping[str, float] | None = None,
    passed: Mapping[str, SuperPrompt] | None = None,
) -> PromptRecord:
    """Keep a prompt that went through the whole chain; return its record.

    If nothing may be kept the record comes back without a key, and nothing is written. With
    ``passed``, the prompt after each step, the same request is answered without running them.
    """
    record = make_record(
        prompt,
        environment=environment(),
        timings_ms=dict(timings_ms or {}),
        run_id=run_id,
        resumed=resumed,
    )
    inputs = inputs_of(prompt)
    if not persists(inputs):
        return replace(record, prompt_key="")
    require_uncleared(workspace, inputs)
    try:
        return _kept(workspace, prompt, record, passed or {})
    except FileNotFoundError:
        require_uncleared(workspace, inputs)  # a clearing took the folder while it was written
        raise


def _kept(
    workspace: Workspace,
    prompt: SuperPrompt,
    record: PromptRecord,
    passed: Mapping[str, SuperPrompt],
) -> PromptRecord:
    """Keep a finished prompt, with what its stages left where it may be given again."""
    pinned = prompt.extras.inputs
    files = _files(workspace, pinned)
    states = b""
    if passed.keys() >= set(OPS) and _is_repeatable(prompt, files):
        states = recorded.pack_states(passed)
        record = replace(record, states_sha256=sha256_hex(states))
    else:  # the same prompt again, of which some stages ran: what all of them left still holds
        with contextlib.suppress(RagstreamError):
            before = workspace.store.record(record.prompt_key)
            record = replace(record, states_sha256=before.states_sha256)
    folder = workspace.store.put(record, prompt, states=states)
    recorded.note_asked(folder, Asking(pinned.now, ran=True))
    if states:
        read = pinned.read_as(time=prompt.extras.time_read, day=prompt.extras.day_read)
        question = _question(workspace, read, files)
        recorded.point(workspace.store.root, question, record.prompt_key)
    return record


def recall(workspace: Workspace, inputs: PromptInputs) -> tuple[MadePrompt | None, str]:
    """Return the kept prompt that these inputs make; that it was asked for is noted.

    None where the chain has to run; with it, for people, what is wrong with what was kept.
    """
    # the debug log tells of each stage, so with it the stages must run
    if not persists(inputs) or workspace.config.settings.debug.enabled:
        return None, ""
    root = workspace.store.root
    files = _files(workspace, inputs)
    # a prompt that read no time answers at any, one that read the day on that day alone
    for time, day in ((False, False), (False, True), (True, True)):
        asked = _question(workspace, inputs.read_as(time=time, day=day), files)
        key = recorded.pointed(root, asked)
        if not key:
            continue
        try:
            return _recalled(workspace, key, inputs), ""
        except (UnknownPrompt, FileNotFoundError):
            continue  # expired, forgotten or cleared
        except (RagstreamError, OSError) as error:
            said = error.message if isinstance(error, RagstreamError) else str(error)
            return None, f"the record {key[:12]} could not answer, the chain ran again: {said}"
    return None, ""


def _recalled(workspace: Workspace, key: str, inputs: PromptInputs) -> MadePrompt:
    """Return a prompt from its record, every digest checked."""
    stored = KeptPrompt.of(workspace, key)
    record, folder = stored.record, stored.folder
    data = (folder / recorded.STATES_NAME).read_bytes()
    if sha256_hex(data) != record.states_sha256:
        raise IntegrityError(f"{folder / recorded.STATES_NAME} is not what was kept")
    passed = recorded.unpack_states(data, inputs)
    prompt = list(passed.values())[-1]
    asked = recorded.times_asked(folder)
    if not stored.stored_text or prompt.extras.super_prompt != stored.stored_text:
        raise IntegrityError(f"{folder / 'super_prompt.md'} is not what was kept")
    recorded.note_asked(folder, Asking(inputs.now, ran=False))
    os.utime(folder / RECORD_NAME)  # its age counts from here
    return MadePrompt(prompt, inputs, passed, record=record, asked=asked)


def _is_repeatable(prompt: SuperPrompt, files: Mapping[str, str]) -> bool:
    """Whether the same request would come to the same prompt, as far as it is up to us.

    Not where settings or texts were changed on the way, where a language model gave no answer that
    could be taken, or where an injected file has other bytes already.
    """
    if prompt.extras.inputs.changes or prompt.extras.edits:
        return False
    asked = prompt.extras.llm_usage.values()
    receipts = inputs_of(prompt).receipts
    return all(call.taken for call in asked) and receipts.items() <= files.items()


def _question(workspace: Workspace, inputs: PromptInputs, files: Mapping[str, str]) -> str:
    """Return the digest of all that a prompt comes from, known before the chain runs."""
    provider: list[Any] = []
    if "llm" in inputs.settings["agents"].values():
        settings = workspace.config.settings.provider
        provider = [getattr(settings, name) for name in _PROVIDER]
    return digest_of([inputs.to_json(), dict(files), provider])


def _files(workspace: Workspace, inputs: PromptInputs) -> dict[str, str]:
    """Return the sha256 of the files that the prompt may mean, ``project/path`` → 64 hex digits."""
    found = {}
    for name in inputs.names:
        project, _, path = name.partition("/")
        with contextlib.suppress(RagstreamError):  # the chain says what is wrong with it
            found[name] = sha256_hex(read_file(workspace, project, path))
    return found
