"""`ragstream diff`: what differs between two recorded prompts, and which pinned input did it.

A cause is found by trial: the first prompt is run again with one group of inputs taken from the
second. What cannot be tried is named as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from ragstream_core.wiring.file_sources import RecordedAnswers
from ragstream_core.wiring.kept_prompt import KeptPrompt

if TYPE_CHECKING:
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.records.stage_results import Edit
    from ragstream_core.wiring.workspace import Workspace

ALL, PART, NONE = "all of it", "part of it", "nothing"
UNTRIED = ("code",)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why nothing came out of a trial."""

    reason: str


# The digest of what came out of a trial, or why nothing did.
Trial = str | Unknown


def effect(before: str, after: str, trial: Trial) -> str:
    """Return what an input did to the output, by what came out when it alone was changed."""
    if isinstance(trial, Unknown):
        return f"unknown: {trial.reason}"
    return {after: ALL, before: NONE}.get(trial, PART)


class Cause(NamedTuple):
    """An input that two prompts do not share."""

    input: str
    details: Sequence[str]  # what differs, a line each
    effect: str  # what it did to the output: `ALL`, `PART`, `NONE`, or ``unknown: …``


class DocumentChanges(NamedTuple):
    """Paths of the files of a project that differ between two generations."""

    added: Sequence[str]
    changed: Sequence[str]
    removed: Sequence[str]


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """What differs between two recorded prompts."""

    before: str  # key of the prompt compared with
    after: str  # key of the prompt described
    output: OutputChanges  # what one output has that the other one has not
    causes: Sequence[Cause]  # the inputs that differ
    environment: Sequence[str]  # what differs around both, a line each
    documents: Mapping[str, DocumentChanges]  # project → what its generations say of its files


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
    old, new = (KeptPrompt.of(workspace, key) for key in (before, after))
    found = differing(old.inputs, new.inputs)
    causes = [
        *_inputs(old, new, found),
        *_answers(old, new, alone=not found and old.record.edits == new.record.edits),
        *_edits(old, new, alone=not found and old.record.exchanges == new.record.exchanges),
    ]
    was, now = old.record.environment, new.record.environment
    environment = [
        f"{name}: {was.get(name, '-')} → {now.get(name, '-')}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    output = compare_outputs(_output(old), _output(new))
    return PromptDiff(old.key, new.key, output, causes, environment, _documents(old, new))


def _output(kept: KeptPrompt) -> Output:
    if not kept.stored_text:
        return Output.of(kept.again)
    return Output(kept.stored_text, kept.selection, kept.inputs.receipts)


def _inputs(
    old: KeptPrompt, new: KeptPrompt, groups: Mapping[str, Sequence[str]]
) -> Iterator[Cause]:
    """Yield the groups of inputs that differ with what each did, by trial where that is needed."""
    before, after = old.record.output_sha256, new.record.output_sha256
    beside = ("environment", "exchanges", "edits")
    alone = len(groups) == 1 and all(
        getattr(old.record, name) == getattr(new.record, name) for name in beside
    )
    is_known = alone or before == after
    base = after if is_known else _tried(old, old.inputs, old.record)
    if not is_known and base != before and not isinstance(base, Unknown):
        base = Unknown("the first prompt comes out differently now; ragstream replay says why")
    for group, details in groups.items():
        trial = base
        if not is_known and base == before:
            inputs = swapped(old.inputs, new.inputs, group)
            untried = Unknown("other code cannot be tried")
            trial = untried if group in UNTRIED else _tried(old, inputs, old.record)
        yield Cause(group, details, effect(before, after, trial))


def _answers(old: KeptPrompt, new: KeptPrompt, *, alone: bool) -> Iterator[Cause]:
    """Yield what a language model answered otherwise."""
    before, after = (dict(_exchanges(kept)) for kept in (old, new))
    details = [
        f"{op}: another answer" if op in before and op in after else f"{op}: asked once only"
        for op in sorted({*before, *after})
        if before.get(op) != after.get(op)
    ]
    if details:
        then, now = old.record.output_sha256, new.record.output_sha256
        trial = now if alone else Unknown("its answers cannot be tried beside other inputs")
        yield Cause("language model", details, effect(then, now, trial))


def _edits(old: KeptPrompt, new: KeptPrompt, *, alone: bool) -> Iterator[Cause]:
    """Yield what a person edited otherwise."""
    was, now = ({edit.target: edit for edit in kept.record.edits} for kept in (old, new))
    details = [
        f"{name}: {_edited_to(was.get(name))} → {_edited_to(now.get(name))}"
        for name in PLACES
        if edits_key(filter(None, [was.get(name)])) != edits_key(filter(None, [now.get(name)]))
    ]
    if details:
        before, after = old.record.output_sha256, new.record.output_sha256
        with_edits = replace(old.record, edits=new.record.edits)
        is_known = alone or before == after
        trial = after if is_known else _tried(old, old.inputs, with_edits)
        yield Cause("edits", details, effect(before, after, trial))


def _edited_to(edit: Edit | None) -> str:
    if edit is None:
        return "as the chain made it"
    if edit.target == SUPER_PROMPT:
        return f"a text of {len(edit.value):,} characters"
    return " ".join(edit.value.split())[:60] or "nothing"


def _exchanges(kept: KeptPrompt) -> Iterator[tuple[str, str]]:
    """Yield stage and exchange; one that is not kept goes by its digest."""
    for digest in kept.record.exchanges:
        try:
            yield exchange_from(kept.workspace.store.blob(digest)).op, digest
        except RagstreamError:
            yield digest[:12], digest


def _tried(old: KeptPrompt, inputs: PromptInputs, record: PromptRecord) -> Trial:
    """Make the first prompt again of these inputs, with the answers and edits of a record."""
    try:
        prompt = old.rerun(inputs, RecordedAnswers.of(record))
    except RagstreamError as error:
        return Unknown(error.message)
    return sha256_hex(prompt.extras.super_prompt)


def _documents(old: KeptPrompt, new: KeptPrompt) -> dict[str, DocumentChanges]:
    """Return the files of each project that differ between two generations which are kept."""
    from ragstream_core.index.look import compare

    before = {pin.project: pin.generation for pin in old.pins}
    changes = {}
    for pin in new.pins:
        generation = before.get(pin.project, pin.generation)
        if generation != pin.generation:
            with suppress(RagstreamError):  # one of them is gone; the causes say so
                found = compare(new.workspace.index_dir(pin.project), generation, pin.generation)
                changes[pin.project] = DocumentChanges(found.added, found.changed, found.removed)
    return changes
