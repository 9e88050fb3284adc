"""Runs the chain; each op's stage is made for the prompt at hand, from the inputs of that."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.agents.a0_preprocessing import Preprocessing
from ragstream_core.agents.a1_file_injector import FileInjector
from ragstream_core.agents.a2_audit import PROJECT_MEMORY, Audit
from ragstream_core.agents.a2_prompt_shaper import PromptShaper
from ragstream_core.agents.a3_nli_gate import NliGate
from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import FormatEnforcer
from ragstream_core.agents.context.answer_estimate import weights_table
from ragstream_core.agents.headers import default_alias_text, parse_aliases
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.conversations.follow_ups import FollowUp
from ragstream_core.errors import UsageError
from ragstream_core.index.view import open_view
from ragstream_core.prompts.blocks import Layout, digest_tokens
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.edits import run_edited
from ragstream_core.prompts.inputs import FOLLOW_UP, begin, persists, pinned_settings, settings_at
from ragstream_core.prompts.render import project_memory
from ragstream_core.prompts.stage_versions import TimedStage
from ragstream_core.records import SuperPrompt
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.settings import ChainSettings
from ragstream_core.wiring import file_sources, llm_stages, models, search
from ragstream_core.wiring.conversation_memory import ConversationMemory
from ragstream_core.wiring.file_sources import LiveFiles, RecordedFiles, diffs_in, ingested_hashes
from ragstream_core.wiring.query_vectors import KeptQueries, NotingStage
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.agents.context.answer_signs import Nearness
    from ragstream_core.ports import Embedder, FileSource, IndexView, TokenCounter
    from ragstream_core.prompts.chain import Observer, Stage, StageFactory
    from ragstream_core.records.stage_results import Edit
    from ragstream_core.wiring.workspace import Workspace

Maker = Callable[["Workspace", PromptInputs, ChainSettings, "FileSource"], "Stage"]


def stages_of(workspace: Workspace, *, files: FileSource | None = None) -> StageFactory:
    """Return what makes the stages of prompts in a data root, as `make_stage`."""
    return functools.partial(make_stage, workspace, files=files)


def run_prompt(
    workspace: Workspace,
    inputs: PromptInputs,
    *,
    through: str = OPS[-1],
    observe: Observer | None = None,
    files: FileSource | None = None,
    edits: Sequence[Edit] = (),
) -> SuperPrompt:
    """Run the chain in this process, unrecorded, with the edits that a person made."""
    return run_edited(
        stages_of(workspace, files=files),
        begin(inputs),
        edits,
        through=through,
        observe=observe,
        counter=counter_of(workspace, inputs),
    )


def make_stage(
    workspace: Workspace, op: str, prompt: SuperPrompt, *, files: FileSource | None = None
) -> Stage:
    """Make the stage of an op for a prompt."""
    if op not in _MAKERS:
        raise UsageError(f"no op {op!r}", hint=f"one of: {', '.join(_MAKERS)}")
    inputs = prompt.extras.inputs
    settings = settings_at(inputs, op)
    files = files or LiveFiles(workspace, inputs)
    stage = _MAKERS[op](workspace, inputs, settings, files)
    stage = llm_stages.asking(op, stage, prompt, workspace, settings.agents, files)
    if not workspace.config.settings.debug.enabled:
        return stage
    from ragstream_core.wiring.debug_log import logged_stage

    return logged_stage(workspace, op, prompt, stage)


def preprocessed(workspace: Workspace, settings: ChainSettings, text: str) -> SuperPrompt:
    """Return a bare text after A0."""
    prompt = SuperPrompt(body={"text": text})
    return _a0(models.embedder(workspace.config), settings, default_alias_text())(prompt)


def _views(workspace: Workspace, inputs: PromptInputs) -> list[IndexView]:
    keep = persists(inputs)
    return [
        open_view(workspace.index_dir(p.project), generation=p.generation, keep=keep)
        for p in inputs.pins
    ]


_aliases = functools.cache(parse_aliases)


def _a0(embedder: Embedder, settings: ChainSettings, aliases: str) -> Preprocessing:
    return Preprocessing(
        _aliases(aliases),
        embedder.count,
        window_tokens=embedder.window,
        max_pieces=settings.retrieval.max_pieces,
    )


def _preprocessing(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    stage = _a0(models.embedder(workspace.config), settings, inputs.texts["aliases"])
    recent, notes = ConversationMemory(workspace, inputs).rendered()
    given = settings.prompt
    persona = {"system": given.system, "role": given.role, "tone": given.tone}
    left = file_sources.left(workspace, inputs)
    pinned = inputs.texts.get(FOLLOW_UP, "") if settings.history.follow_ups else ""
    return replace(
        stage,
        recent=recent,
        notes=notes,
        left=left,
        persona=persona,
        follow_up=FollowUp.of_pinned(pinned),
    )


def _shaper(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    memory = ConversationMemory(workspace, inputs, "a2_prompt_shaper")
    return PromptShaper(
        inputs.texts["project_memory"],
        inputs.texts["hard_rules"],
        memory.older,
        enabled=settings.agents.a2,
    )


def _injector(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    projects = [pin.project for pin in inputs.pins]
    return FileInjector(
        files,
        projects,
        counter_of(workspace, inputs, settings),
        named=inputs.named,
        off=inputs.off if len(projects) > 1 else [_bare(path) for path in inputs.off],
        lock=inputs.lock,
        full_max_tokens=settings.files.full_max_tokens,
        line_numbers=settings.files.line_numbers,
        manifest=_manifest(workspace, inputs),
        enabled=settings.agents.a1,
        diffs=diffs_in(inputs.texts),
    )


def _bare(path: str) -> str:
    return path.partition("/")[2]


def _manifest(workspace: Workspace, inputs: PromptInputs) -> dict[str, str]:
    several = len(inputs.pins) > 1
    hashes: dict[str, str] = {}
    for pin in inputs.pins:
        wanted = [_bare(n) for n in inputs.names if n.startswith(f"{pin.project}/")]
        for path, sha256 in ingested_hashes(workspace, pin, wanted).items():
            hashes[f"{pin.project}/{path}" if several else path] = sha256
    return hashes


def _retrieval(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    embedder = models.embedder(workspace.config)
    memory = ConversationMemory(workspace, inputs, "retrieval")
    views = functools.cache(lambda: _views(workspace, inputs))
    if getattr(embedder, "reproducible", True) or not persists(inputs):
        stage = search.retrieval_stage(workspace, settings, views, memory=memory, inputs=inputs)
        return TimedStage(stage, memory.clock)
    recorded = inputs.query_vectors if isinstance(files, RecordedFiles) else None
    queries = KeptQueries(embedder, workspace.store, recorded)
    stage = search.retrieval_stage(
        workspace,
        settings,
        views,
        memory=memory,
        embedder=cast("Embedder", queries),
        inputs=inputs,
    )
    return TimedStage(NotingStage(stage, queries), memory.clock)


def _reranker(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    pinned = pinned_settings(inputs).rerank == settings.rerank
    name = inputs.models["reranker"] if pinned else ""
    weights = inputs.models.get("reranker_weights", "") if pinned else ""
    cache_dir, keep = _token_cache(workspace, inputs)
    memory = ConversationMemory(workspace, inputs, "retrieval")

    @functools.cache  # asked for every piece
    def searched() -> list[IndexView]:
        past = [memory.view] if memory.view else []
        return [*_views(workspace, inputs), *past]

    return search.reranker_stage(
        workspace, settings, cache_dir, searched, name=name, weights=weights, keep=keep
    )


def _token_cache(workspace: Workspace, inputs: PromptInputs) -> tuple[Path, bool]:
    """Return where token vectors are kept, and whether new ones are: never of turns alone."""
    if not inputs.pins:
        return workspace.layout.history_index, False
    return workspace.index_dir(inputs.pins[0].project), persists(inputs)


def _gate(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    gate = settings.gate
    stage = NliGate(
        gate.theta,
        gate.keep_top,
        gate.relative,
        gate.words,
        enabled=settings.agents.a3,
        nli_theta=gate.nli_theta,
    )
    pinned = pinned_settings(inputs).gate == gate
    name = inputs.models["gate"] if pinned else models.gate_name(workspace.config, gate)
    if name == "similarity" or not stage.enabled:
        waiting = inputs.models.get("gate_unmeasured", "") if pinned and stage.enabled else ""
        return replace(stage, unmeasured=waiting)
    weights = inputs.models.get("gate_weights", "") if pinned else ""
    model = models.nli(name, workspace.layout.models, weights=weights)
    return replace(stage, entailment=model.entailment, name=name)


def _layout(inputs: PromptInputs, settings: ChainSettings) -> Layout:
    return Layout(
        inputs.texts["hard_rules"],
        project_memory(inputs.texts),
        settings.prompt.block_order,
        settings.prompt.recent_history,
        settings.prompt.user_template,
    )


def _condenser(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    counter = counter_of(workspace, inputs, settings)
    return Condenser(
        counter,
        _layout(inputs, settings),
        budget_tokens=settings.prompt.budget_tokens,
        max_context_tokens=settings.retrieval.max_context_tokens,
        max_context_chars=settings.retrieval.max_context_chars,
        token_overhead=settings.retrieval.token_overhead,
        **_older_turns(workspace, inputs, settings, counter),
        past_facts=settings.history.allow_in_s_ctx,
        max_facts=settings.prompt.max_facts,
        keep_top=settings.gate.keep_top,
        searched=sum(len(view.chunk_ids) for view in _views(workspace, inputs)),
        tight=settings.retrieval.evidence == "tight",
        nearness=_nearness(workspace, inputs),
        enabled=settings.agents.a4,
    )


def _nearness(workspace: Workspace, inputs: PromptInputs) -> Nearness | None:
    """Return what judges answers by token vectors if the weights are for those of this model.

    Otherwise they are judged by words alone: no other model's numbers fit the weights.
    """
    made_by = {pin.embed_fp for pin in inputs.pins} or {models.fingerprint(workspace.config)}
    if not weights_table().embedders.issuperset(made_by):
        return None
    cache_dir, keep = _token_cache(workspace, inputs)
    return search.word_nearness(workspace, cache_dir, keep=keep)


def _older_turns(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, counter: TokenCounter
) -> dict[str, Any]:
    """Return what older turns may take: of the memory's budget what its digest leaves (R-249)."""
    memory = settings.memory
    if not memory.enabled:
        return {"history_tokens": settings.history.max_tokens}
    digest = ConversationMemory(workspace, inputs).digest
    chars = {"history_chars": max(0, memory.max_chars - len(digest))} if memory.max_chars else {}
    return {
        **chars,
        "history_tokens": max(0, memory.max_tokens - digest_tokens(digest, counter.count)),
        "history_pieces": memory.top_k,
        "history_first": True,
    }


@functools.lru_cache(maxsize=2)
def _files_of(view: Hashable) -> list[str]:
    return sorted(set(cast("IndexView", view).paths))  # which has one for every chunk


def _audit(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    views = _views(workspace, inputs)
    files_of = [(view.project, _files_of(cast(Hashable, view))) for view in views]
    if len(files_of) == 1:
        ((_, eligible),) = files_of
    else:
        eligible = sorted({f"{project}/{path}" for project, paths in files_of for path in paths})
    texts = {
        "Hard Rules": inputs.texts["hard_rules"],
        PROJECT_MEMORY: inputs.texts["project_memory"],
    }
    return Audit(eligible, texts, inputs.history.session, enabled=settings.agents.a2)


def _enforcer(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    return FormatEnforcer(
        counter_of(workspace, inputs, settings),
        _layout(inputs, settings),
        settings.prompt.budget_tokens,
        note=inputs.models.get("counter_note", ""),
    )


def _builder(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings, files: FileSource
) -> Stage:
    return PromptBuilder(counter_of(workspace, inputs, settings), _layout(inputs, settings))


_MAKERS: dict[str, Maker] = {
    "a0_preprocessing": _preprocessing,
    "a2_prompt_shaper": _shaper,
    "a1_file_injector": _injector,
    "retrieval": _retrieval,
    "reranker": _reranker,
    "a3_nli_gate": _gate,
    "a4_condenser": _condenser,
    "a2_audit": _audit,
    "a5_format_enforcer": _enforcer,
    "prompt_builder": _builder,
}
