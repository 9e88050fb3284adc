"""What a prompt would be with, or without, one of its files: the same inputs but for that file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ragstream_core.errors import RagstreamError
from ragstream_core.index.view import open_view
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.prompts.chain import OPS, StageFactory, run_chain
from ragstream_core.prompts.compare import Output, OutputChanges, compare_outputs
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT
from ragstream_core.prompts.edits import run_edited
from ragstream_core.prompts.inputs import begin, inputs_of, settings_at
from ragstream_core.prompts.trail import latest_view
from ragstream_core.records import SuperPrompt, evolve
from ragstream_core.records.json_form import report_of
from ragstream_core.wiring import prompt_inputs, search
from ragstream_core.wiring.conversation_memory import ConversationMemory
from ragstream_core.wiring.file_sources import LiveFiles, RecordedAnswers, RecordedFiles
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.llm_stages import FORMS
from ragstream_core.wiring.query_vectors import recorded_queries
from ragstream_core.wiring.stages import make_stage

if TYPE_CHECKING:
    from ragstream_core.ports import FileSource
    from ragstream_core.prompts.chain import Stage
    from ragstream_core.records.identity import Json
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.workspace import Workspace


# The first op that knows which files are off; what is upstream of it is shared.
FIRST = "a1_file_injector"


@dataclass(frozen=True, slots=True)
class Effect:
    """What leaving files out of a prompt does to it."""

    tokens: int = 0  # difference
    # what is added and removed by it; None if there is no prompt to compare with
    output: OutputChanges | None = None
    error: str = ""  # why there is none, or ""


@dataclass(frozen=True, slots=True)
class FileLeftOut:
    """A prompt without one of its files."""

    project: str  # the project of the file
    path: str  # relative to the project
    chunks: int  # how many of it were selected
    effect: Effect  # what leaving it out does

    def to_json(self) -> dict[str, Json]:
        """Return a row of `ragstream leave-one-out --json`."""
        home: dict[str, Json] = {"project": self.project, "path": self.path}
        return {**home, "chunks": self.chunks, **report_of(self.effect)}


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """A prompt without each of its files in turn."""

    prompt_key: str  # of the prompt
    tokens: int  # of the prompt that is compared with
    note: str  # in what that differs from the kept one, or ""
    files: Sequence[FileLeftOut]  # its selected files, best first


@dataclass(frozen=True, slots=True)
class Compared:
    """A prompt without some files beside the one that has them."""

    without: Sequence[str]  # ``project/path`` of each
    effect: Effect  # what leaving them out does

    def to_json(self) -> dict[str, Json]:
        """Return ``compared`` of `ragstream prompt --without --json`."""
        return {"without": list(self.without), **report_of(self.effect)}


def leave_one_out(workspace: Workspace, key: str) -> LeaveOneOut:
    """Switch each selected file off in turn and say what changes; nothing is kept of it.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
        RagstreamError: It cannot be made again.
    """
    kept = KeptPrompt.of(workspace, key)
    record = kept.record
    inputs, note = _asking_nobody(kept.inputs)
    prompt_inputs.require_inputs(workspace, inputs)
    answers = RecordedAnswers.of(record)
    edits = [edit for edit in record.edits if edit.target != SUPER_PROMPT]  # of the built text none
    make = _factory(workspace, inputs, RecordedFiles(workspace.store, inputs, answers))
    before = OPS[OPS.index(FIRST) - 1]
    upstream = run_chain(make, begin(inputs), through=before)
    run = partial(run_edited, make, edits=edits, first=FIRST)
    base = run(upstream)
    rows = [
        FileLeftOut(home, path, n, _without(run, upstream, base, (home, path)))
        for (home, path), n in _selected_files(base).items()
    ]
    if record.parent:
        note = "; ".join(filter(None, [note, "the edit of the finished text is left out"]))
    return LeaveOneOut(record.prompt_key, base.extras.token_tree.total, note, rows)


def _asking_nobody(inputs: PromptInputs) -> tuple[PromptInputs, str]:
    """Return inputs with the deterministic form of every agent, and what that changes, for people.

    Without one of its passages the question to a language model would be another one, and the
    record has no answer to that.
    """
    forms = [form for form, _ in FORMS.values()]
    agents = {**inputs.settings["agents"], **dict.fromkeys(forms, "deterministic")}
    changes = tuple(c for c in inputs.changes if c[1] not in {f"agents.{form}" for form in forms})
    alone = replace(inputs, settings={**inputs.settings, "agents": agents}, changes=changes)
    if alone == inputs:
        return inputs, ""
    note = "compared in the deterministic form of every agent: no language model is asked"
    return alone, note


def compared_with(workspace: Workspace, prompt: SuperPrompt, files: tuple[str, ...]) -> Compared:
    """Compare a prompt without some files with the one that has them, otherwise the same.

    Args:
        workspace: The data root.
        prompt: Without them, at any stage.
        files: Those of its files that are off, as they were named.

    Raises:
        UsageError: The prompt carries no inputs.
    """
    inputs = inputs_of(prompt)
    left = [name for name in inputs.off if any(_names(name, file) for file in files)]
    whole = replace(inputs, off=tuple(name for name in inputs.off if name not in left), receipts={})
    through = prompt.extras.trail[-1][0]
    try:
        make = _factory(workspace, inputs, LiveFiles(workspace, whole))
        base = run_chain(make, begin(whole), through=through)
    except RagstreamError as error:
        return Compared(left, Effect(error=error.message))
    tokens = prompt.extras.token_tree.total - base.extras.token_tree.total
    return Compared(left, Effect(tokens, compare_outputs(_output(base), _output(prompt))))


def _names(qualified: str, file: str) -> bool:
    return file in (qualified, qualified.partition("/")[2])


def _output(prompt: SuperPrompt) -> Output:
    """Return the output; before the condenser the newest view stands for the selection."""
    found = Output.of(prompt)
    if "a4" in prompt.views_by_stage:
        return found
    return replace(found, selection=tuple(latest_view(prompt, "a3", "reranked", "retrieval")))


def _factory(workspace: Workspace, inputs: PromptInputs, files: FileSource) -> StageFactory:
    """Return the chain's stages for a finished prompt; questions are embedded once."""
    embedder = recorded_queries(workspace, inputs)

    def make(op: str, prompt: SuperPrompt) -> Stage:
        if op != "retrieval":
            return make_stage(workspace, op, prompt, files=files)
        now = prompt.extras.inputs
        return search.retrieval_stage(
            workspace,
            settings_at(now, op),
            lambda: [
                open_view(workspace.index_dir(pin.project), generation=pin.generation)
                for pin in now.pins
            ],
            memory=ConversationMemory(workspace, now, op),
            embedder=embedder,
            inputs=now,
        )

    return make


def _selected_files(prompt: SuperPrompt) -> dict[tuple[str, str], int]:
    """Return how many chunks of each document were selected, best first."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    found: dict[tuple[str, str], int] = {}
    for identifier in prompt.final_selection_ids:
        if not identifier.startswith(HISTORY_PREFIX):
            chunk = chunks[identifier]
            home = (str(chunk.meta["project"]), chunk.source)
            found[home] = found.get(home, 0) + 1
    return found


def _without(
    run: Callable[[SuperPrompt], SuperPrompt],
    upstream: SuperPrompt,
    base: SuperPrompt,
    home: tuple[str, str],
) -> Effect:
    inputs = upstream.extras.inputs
    off = tuple(sorted({*inputs.off, "/".join(home)}))
    changed = evolve(upstream)
    changed.extras.inputs = replace(inputs, off=off)
    try:
        result = run(changed)
    except RagstreamError as error:
        return Effect(error=error.message)
    tokens = result.extras.token_tree.total - base.extras.token_tree.total
    return Effect(tokens, compare_outputs(Output.of(base), Output.of(result)))
