"""Finished prompts: keep one, and read or make again what its record can say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.prompts.citations import parse_markers
from ragstream_core.prompts.explain import load_decisions
from ragstream_core.prompts.inputs import inputs_of, persists
from ragstream_core.prompts.replay import environment
from ragstream_core.prompts.store import make_record
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex
from ragstream_core.records.prompt_inputs import Pin, PromptInputs
from ragstream_core.wiring import prompt_inputs, prompt_reuse
from ragstream_core.wiring.file_sources import RecordedAnswers, diffs_in
from ragstream_core.wiring.journal import require_uncleared

if TYPE_CHECKING:
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import Decision, SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

_FRAME = "<<DOC "
FILE, DIFF = "file", "diff"
FILE_PREFIX, DIFF_PREFIX = "files/", "diff/"
"""How the ids of files that a prompt injects begin, and of their changes."""


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

    If nothing may be kept the record comes back without a key, and nothing is written.

    Args:
        workspace: The data root.
        prompt: Finished.
        run_id: Its Dagster run, if any.
        resumed: Key of the prompt that it goes on from, if any.
        timings_ms: Op → milliseconds.
        passed: Step → the prompt after it, of all steps in order: kept, so that the same
            request can be answered without running them.

    Raises:
        UsageError: The prompt carries no inputs.
        InputUnavailable: Turns that it could read were cleared meanwhile.
        OSError: Disk full, permission denied.
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
        return prompt_reuse.kept(workspace, prompt, record, passed or {})
    except FileNotFoundError:
        require_uncleared(workspace, inputs)  # a clearing took the folder while it was written
        raise


def decisions(workspace: Workspace, key: str) -> list[Decision]:
    """Return the ledger of a kept prompt; a lost one is made again from the inputs.

    Raises:
        UnknownPrompt: No prompt under that key.
        RagstreamError: The ledger is gone, and so is an input.
    """
    found = load_decisions(workspace.store.root / workspace.store.find(key))
    if found is not None:
        return found
    record = workspace.store.record(key)
    answers = RecordedAnswers.of(record)
    prompt = prompt_inputs.rerun(workspace, PromptInputs.from_json(record.inputs), answers)
    return list(prompt.extras.decisions)


def issued_ids(workspace: Workspace, key: str) -> set[str]:
    """Return the citation ids that a recorded prompt gave out: those of its frames.

    No quoted line can begin like a frame; a rendering that is lost or altered is made again.

    Raises:
        UnknownPrompt: No prompt under that key.
        RagstreamError: Its rendering is lost and cannot be made again.
    """
    text = prompt_text(workspace, workspace.store.record(key))
    frames = "\n".join(line for line in text.split("\n") if line.startswith(_FRAME))
    return {marker.id for marker in parse_markers(frames) if marker.form == "fence"}


def prompt_text(workspace: Workspace, record: PromptRecord) -> str:
    """Return the Super-Prompt of a record; one that is lost or altered is made again.

    Raises:
        RagstreamError: Its rendering is lost and cannot be made again.
    """
    path = workspace.store.root / record.prompt_key / "super_prompt.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if sha256_hex(text) == record.output_sha256:
        return text
    answers = RecordedAnswers.of(record)
    prompt = prompt_inputs.rerun(workspace, PromptInputs.from_json(record.inputs), answers)
    return prompt.extras.super_prompt


def selected_ids(workspace: Workspace, key: str) -> tuple[str, ...]:
    """Return the ids of the chunks that a recorded prompt selected, best first.

    Raises:
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    rows = [row for row in decisions(workspace, key) if row.stage == "a4"]
    last = max((row.pass_no for row in rows), default=1)
    return tuple(row.chunk_id for row in rows if row.kept and row.pass_no == last)


class InjectedFile(NamedTuple):
    """A file, or the changes of a file, that a prompt injected.

    Attributes:
        short_id: What a citation names it by.
        id: Of it in the prompt.
        kind: ``file`` or ``diff``.
        source: Its name in the prompt.
        project: Its project.
        path: Relative to the project.
        sha256: Of its bytes then.
    """

    short_id: str
    id: str
    kind: str
    source: str
    project: str
    path: str
    sha256: str


def injected_files(record: PromptRecord) -> list[InjectedFile]:
    """Return the files and changes of files that a prompt injected."""
    return [injected_file(record, identifier) for identifier in injected_ids(record)]


def pins_of(record: PromptRecord) -> tuple[Pin, ...]:
    """Return the projects of a prompt with their generations, of older formats too."""
    return tuple(Pin(**pin) for pin in record.inputs["pins"])


def injected_ids(record: PromptRecord) -> list[str]:
    """Return the ids of the files and changes of files that a prompt injected."""
    several = len(record.inputs["pins"]) > 1
    files = [
        f"{FILE_PREFIX}{name if several else name.partition('/')[2]}@{sha256}"
        for name, sha256 in record.inputs["receipts"].items()
    ]
    diffs = [
        f"{DIFF_PREFIX}{'/'.join(home) if several else home[1]}@{sha256_hex(text)}"
        for home, text in diffs_in(record.inputs["texts"]).items()
    ]
    return [*files, *diffs]


def injected_file(record: PromptRecord, identifier: str) -> InjectedFile:
    """Return an injected file, or change of a file, by its id."""
    several = len(record.inputs["pins"]) > 1
    kind = DIFF if identifier.startswith(DIFF_PREFIX) else FILE
    shown, _, sha256 = identifier.partition("/")[2].rpartition("@")
    alone = str(record.inputs["pins"][0]["project"])
    project, path = shown.partition("/")[::2] if several else (alone, shown)
    short = sha256_hex(identifier)[:SHORT_ID_DIGITS]
    return InjectedFile(short, identifier, kind, shown, project, path, sha256)
