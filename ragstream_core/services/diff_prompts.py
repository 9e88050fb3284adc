"""`ragstream diff`: what differs between two recorded prompts, and which pinned input did it.

A cause is found by trial: the first prompt is run again with one group of inputs taken from the
second. What cannot be tried is named as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import RagstreamError
from ragstream_core.prompts.compare import (
    Output,
    OutputChanges,
    compare_outputs,
    differing,
    swapped,
)
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT
from ragstream_core.prompts.edits import PLACES, edits_key
from ragstream_core.prompts.exchanges import exchange_from
from ragstream_core.records.identity import sha256_hex
from ragstream_core.records.json_form import fields_of
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import prompt_inputs, saved_prompts
from ragstream_core.wiring.file_sources import RecordedAnswers

if TYPE_CHECKING:
    from ragstream_core.index.look import GenerationDiff
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records.identity import Json
    from ragstream_core.records.stage_results import Edit
    from ragstream_core.wiring.workspace import Workspace

ALL, PART, NONE = "all of it", "part of it", "nothing"
UNKNOWN = "unknown: "
UNTRIED = ("code",)


class Cause(NamedTuple):
    """An input that two prompts do not share.

    Attributes:
        input: Its name.
        details: What differs, a line each.
        effect: What it did to the output: `ALL`, `PART`, `NONE`, or ``unknown: …``.
    """

    input: str
    details: Sequence[str]
    effect: str


class DocumentChanges(NamedTuple):
    """Paths of the files of a project that differ between two generations."""

    added: Sequence[str]
    changed: Sequence[str]
    removed: Sequence[str]


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """What differs between two recorded prompts.

    Attributes:
        before: Key of the prompt compared with.
        after: Key of the prompt described.
        output: What one output has that the other one has not.
        causes: The inputs that differ.
        environment: What differs around both, a line each.
        documents: Project → what its generations say of its files.
    """

    before: str
    after: str
    output: OutputChanges
    causes: Sequence[Cause]
    environment: Sequence[str]
    documents: Mapping[str, DocumentChanges]

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream diff --json` prints."""
        return fields_of(self)


def diff(workspace: Workspace, before: str, after: str) -> PromptDiff:
    """Compare two recorded prompts.

    Args:
        workspace: The data root.
        before: Key of the prompt compared with, or its first digits.
        after: Key of the prompt described.

    Raises:
        UnknownPrompt: No prompt under a key.
        IntegrityError: A record is damaged.
        RagstreamError: A rendering is lost and cannot be made again.
    """
    old, new = (workspace.store.record(key) for key in (before, after))
    was, now = PromptInputs.from_json(old.inputs), PromptInputs.from_json(new.inputs)
    output = compare_outputs(output_of(workspace, old), output_of(workspace, new))
    found = differing(was, now)
    effects = _effects(workspace, old, new, list(found))
    causes = [Cause(group, details, effects[group]) for group, details in found.items()]
    causes += _answers(workspace, old, new, alone=not found and old.edits == new.edits)
    causes += _edits(workspace, old, new, alone=not found and old.exchanges == new.exchanges)
    environment = [
        f"{name}: {old.environment.get(name, '-')} → {new.environment.get(name, '-')}"
        for name in sorted({*old.environment, *new.environment})
        if old.environment.get(name) != new.environment.get(name)
    ]
    documents = _documents(workspace, was, now)
    return PromptDiff(old.prompt_key, new.prompt_key, output, causes, environment, documents)


def output_of(workspace: Workspace, record: PromptRecord) -> Output:
    """Return what came out of a recorded prompt; a lost rendering is made again.

    Raises:
        RagstreamError: It cannot be made again.
    """
    path = workspace.store.root / record.prompt_key / "super_prompt.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    inputs = PromptInputs.from_json(record.inputs)
    if sha256_hex(text) != record.output_sha256:
        return Output.of(prompt_inputs.rerun(workspace, inputs, RecordedAnswers.of(record)))
    return Output(text, saved_prompts.selected_ids(workspace, record.prompt_key), inputs.receipts)


def _effects(
    workspace: Workspace, old: PromptRecord, new: PromptRecord, groups: list[str]
) -> dict[str, str]:
    """Return what each group of inputs did to the output, by trial where that is needed."""
    if old.output_sha256 == new.output_sha256:
        return dict.fromkeys(groups, NONE)
    same = all(getattr(old, n) == getattr(new, n) for n in ("environment", "exchanges", "edits"))
    if len(groups) == 1 and same:
        return dict.fromkeys(groups, ALL)  # nothing else is left
    was, now = PromptInputs.from_json(old.inputs), PromptInputs.from_json(new.inputs)
    base = _tried(workspace, was, old)
    if base != old.output_sha256 and "unknown" not in base:
        base = "unknown: the first prompt comes out differently now; ragstream replay says why"
    if "unknown" in base:
        return dict.fromkeys(groups, base)
    effects = {}
    for group in groups:
        made = f"{UNKNOWN}other code cannot be tried"
        if group not in UNTRIED:
            made = _tried(workspace, swapped(was, now, group), old)
        known = {old.output_sha256: NONE, new.output_sha256: ALL}
        effects[group] = made if made.startswith(UNKNOWN) else known.get(made, PART)
    return effects


def _answers(
    workspace: Workspace, old: PromptRecord, new: PromptRecord, *, alone: bool
) -> list[Cause]:
    """Return what a language model answered otherwise, as a cause; none where nothing differs."""
    said = [dict(_said(workspace, record.exchanges)) for record in (old, new)]
    details = [
        f"{op}: another answer" if op in said[0] and op in said[1] else f"{op}: asked once only"
        for op in sorted({*said[0], *said[1]})
        if said[0].get(op) != said[1].get(op)
    ]
    effect = f"{UNKNOWN}its answers cannot be tried beside other inputs"
    if alone:
        effect = NONE if old.output_sha256 == new.output_sha256 else ALL
    return [Cause("language model", details, effect)] if details else []


def _edits(
    workspace: Workspace, old: PromptRecord, new: PromptRecord, *, alone: bool
) -> list[Cause]:
    """Return what a person edited otherwise, as a cause; none where nothing differs."""
    was, now = ({edit.target: edit for edit in record.edits} for record in (old, new))
    details = [
        f"{name}: {_edited_to(was.get(name))} → {_edited_to(now.get(name))}"
        for name in PLACES
        if [edits_key([e]) for e in (was.get(name),) if e]
        != [edits_key([e]) for e in (now.get(name),) if e]
    ]
    if not details:
        return []
    if old.output_sha256 == new.output_sha256:
        effect = NONE
    elif alone:
        effect = ALL
    else:
        made = _tried(workspace, PromptInputs.from_json(old.inputs), replace(old, edits=new.edits))
        known = {old.output_sha256: NONE, new.output_sha256: ALL}
        effect = made if made.startswith(UNKNOWN) else known.get(made, PART)
    return [Cause("edits", details, effect)]


def _edited_to(edit: Edit | None) -> str:
    if edit is None:
        return "as the chain made it"
    if edit.target == SUPER_PROMPT:
        return f"a text of {len(edit.value):,} characters"
    return " ".join(edit.value.split())[:60] or "nothing"


def _said(workspace: Workspace, digests: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield stage and exchange; one that is not kept goes by its digest."""
    for digest in digests:
        try:
            yield exchange_from(workspace.store.blob(digest)).op, digest
        except RagstreamError:
            yield digest[:12], digest


def _tried(workspace: Workspace, inputs: PromptInputs, old: PromptRecord) -> str:
    """Return the digest of what inputs give, or why nothing comes out."""
    answers = RecordedAnswers.of(old)
    try:
        return sha256_hex(prompt_inputs.rerun(workspace, inputs, answers).extras.super_prompt)
    except RagstreamError as error:
        return f"{UNKNOWN}{error.message}"


def _documents(
    workspace: Workspace, was: PromptInputs, now: PromptInputs
) -> dict[str, DocumentChanges]:
    """Return added, changed and removed files of each project whose generation differs."""
    old = {pin.project: pin.generation for pin in was.pins}
    found = {}
    for pin in now.pins:
        before = old.get(pin.project, pin.generation)
        made = _generations(workspace, pin.project, before, pin.generation)
        if made is not None:
            found[pin.project] = DocumentChanges(made.added, made.changed, made.removed)
    return found


def _generations(
    workspace: Workspace, project: str, before: int, after: int
) -> GenerationDiff | None:
    from ragstream_core.index.look import compare

    if before == after:
        return None
    try:
        return compare(workspace.index_dir(project), before, after)
    except RagstreamError:
        return None  # one of them is gone; the causes say so
