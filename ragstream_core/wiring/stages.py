"""Runs the chain; each op's stage is made for the prompt at hand, from the inputs of that."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
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
from ragstream_core.wiring.conversation_memory import G_OP, ConversationMemory
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


def stages_of(workspace: Workspace, *, files: FileSource | None = None) -> StageFactory:
    """Return what makes the stages of prompts in a data root; they share a prompt's memory."""
    return functools.partial(make_stage, workspace, files=files, memories={})


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
    workspace: Workspace,
    op: str,
    prompt: SuperPrompt,
    *,
    files: FileSource | None = None,
    memories: dict[str, ConversationMemory] | None = None,
) -> Stage:
    """Make the stage of an op for a prompt; its inputs say which settings hold."""
    if op not in OPS:
        raise UsageError(f"no op {op!r}", hint=f"one of: {', '.join(OPS)}")
    inputs = prompt.extras.inputs
    settings = settings_at(inputs, op)
    memory = _memory(workspace, inputs, op, {} if memories is None else memories)
    files = files or LiveFiles(workspace, inputs)
    maker = _StageMaker(workspace, inputs, settings, files, memory)
    stage: Stage = getattr(maker, op)()
    stage = llm_stages.asking(op, stage, prompt, workspace, settings.agents, files)
    if not workspace.config.settings.debug.enabled:
        return stage
    from ragstream_core.wiring.debug_log import logged_stage

    return logged_stage(workspace, op, prompt, stage)


def _memory(
    workspace: Workspace,
    inputs: PromptInputs,
    op: str,
    memories: dict[str, ConversationMemory],
) -> ConversationMemory:
    """Return the conversation as a stage sees it: the same object, where all see the same."""
    seen_by = _SEEN_AS.get(op, op) if inputs.changes else G_OP  # else the same settings hold
    memory = memories.get(seen_by)
    if memory is None or memory.inputs is not inputs:
        memory = memories[seen_by] = ConversationMemory(workspace, inputs, seen_by)
    return memory


# A4 leaves room for what A0 showed; MaxSim asks how rare a word is where retrieval searched.
_SEEN_AS = {"a4_condenser": G_OP, "reranker": "retrieval"}


def preprocessed(workspace: Workspace, settings: ChainSettings, text: str) -> SuperPrompt:
    """Return a bare text after A0."""
    prompt = SuperPrompt(body={"text": text})
    return _a0(models.embedder(workspace.config), settings, default_alias_text())(prompt)


_aliases = functools.cache(parse_aliases)


def _a0(embedder: Embedder, settings: ChainSettings, aliases: str) -> Preprocessing:
    return Preprocessing(
        _aliases(aliases),
        embedder.count,
        window_tokens=embedder.window,
        max_pieces=settings.retrieval.max_pieces,
    )


@dataclass(frozen=True)
class _StageMaker:
    """Makes the stage of each op, by its name, from a prompt's inputs and the op's settings."""

    workspace: Workspace
    inputs: PromptInputs
    settings: ChainSettings
    files: FileSource
    memory: ConversationMemory

    @functools.cached_property
    def views(self) -> list[IndexView]:
        keep = persists(self.inputs)
        return [
            open_view(self.workspace.index_dir(p.project), generation=p.generation, keep=keep)
            for p in self.inputs.pins
        ]

    @property
    def counter(self) -> TokenCounter:
        return counter_of(self.workspace, self.inputs, self.settings)

    @property
    def layout(self) -> Layout:
        prompt = self.settings.prompt
        return Layout(
            self.inputs.texts["hard_rules"],
            project_memory(self.inputs.texts),
            prompt.block_order,
            prompt.recent_history,
            prompt.user_template,
        )

    @property
    def token_cache(self) -> tuple[Path, bool]:
        """Where token vectors are kept, and whether new ones are: never of turns alone."""
        if not self.inputs.pins:
            return self.workspace.layout.history_index, False
        return self.workspace.index_dir(self.inputs.pins[0].project), persists(self.inputs)

    def a0_preprocessing(self) -> Stage:
        inputs, prompt = self.inputs, self.settings.prompt
        recent, notes = self.memory.rendered()
        follow_up = inputs.texts.get(FOLLOW_UP, "") if self.settings.history.follow_ups else ""
        return replace(
            _a0(models.embedder(self.workspace.config), self.settings, inputs.texts["aliases"]),
            recent=recent,
            notes=notes,
            left=file_sources.count_searchable(self.workspace, inputs),
            persona={"system": prompt.system, "role": prompt.role, "tone": prompt.tone},
            follow_up=FollowUp.of_pinned(follow_up),
        )

    def a2_prompt_shaper(self) -> Stage:
        return PromptShaper(
            self.inputs.texts["project_memory"],
            self.inputs.texts["hard_rules"],
            self.memory.older,
            enabled=self.settings.agents.a2,
        )

    def a1_file_injector(self) -> Stage:
        inputs, files = self.inputs, self.settings.files
        projects = [pin.project for pin in inputs.pins]
        return FileInjector(
            self.files,
            projects,
            self.counter,
            named=inputs.named,
            off=inputs.off if len(projects) > 1 else [_bare(path) for path in inputs.off],
            lock=inputs.lock,
            full_max_tokens=files.full_max_tokens,
            line_numbers=files.line_numbers,
            manifest=self._manifest(),
            enabled=self.settings.agents.a1,
            diffs=diffs_in(inputs.texts),
        )

    def _manifest(self) -> dict[str, str]:
        """Return the ingested sha256 of the files that the prompt may mean, by shown name."""
        inputs, hashes = self.inputs, dict[str, str]()
        for pin in inputs.pins:
            wanted = [_bare(n) for n in inputs.names if n.startswith(f"{pin.project}/")]
            for path, sha256 in ingested_hashes(self.workspace, pin, wanted).items():
                hashes[f"{pin.project}/{path}" if len(inputs.pins) > 1 else path] = sha256
        return hashes

    def retrieval(self) -> Stage:
        workspace, inputs = self.workspace, self.inputs
        embedder = models.embedder(workspace.config)
        queries: KeptQueries | None = None
        if not getattr(embedder, "reproducible", True) and persists(inputs):
            recorded = inputs.query_vectors if isinstance(self.files, RecordedFiles) else None
            queries = KeptQueries(embedder, workspace.store, recorded)
        stage: Stage = search.retrieval_stage(
            workspace,
            self.settings,
            lambda: self.views,
            memory=self.memory,
            embedder=cast("Embedder | None", queries),
            inputs=inputs,
        )
        return TimedStage(NotingStage(stage, queries) if queries else stage, self.memory.clock)

    def reranker(self) -> Stage:
        pinned = pinned_settings(self.inputs).rerank == self.settings.rerank
        cache_dir, keep = self.token_cache

        def searched() -> list[IndexView]:
            return [*self.views, *([self.memory.view] if self.memory.view else [])]

        return search.reranker_stage(
            self.workspace,
            self.settings,
            cache_dir,
            functools.cache(searched),  # asked for every piece
            name=self.inputs.models["reranker"] if pinned else "",
            weights=self.inputs.models.get("reranker_weights", "") if pinned else "",
            keep=keep,
        )

    def a3_nli_gate(self) -> Stage:
        gate, resolved, config = self.settings.gate, self.inputs.models, self.workspace.config
        stage = NliGate(
            gate.theta,
            gate.keep_top,
            gate.relative,
            gate.words,
            enabled=self.settings.agents.a3,
            nli_theta=gate.nli_theta,
        )
        pinned = pinned_settings(self.inputs).gate == gate
        name = resolved["gate"] if pinned else models.gate_name(config, gate)
        if name == "similarity" or not stage.enabled:
            waiting = resolved.get("gate_unmeasured", "") if pinned and stage.enabled else ""
            return replace(stage, unmeasured=waiting)
        weights = resolved.get("gate_weights", "") if pinned else ""
        model = models.nli(self.workspace.config, name, weights=weights)
        return replace(stage, entailment=model.entailment, name=name)

    def a4_condenser(self) -> Stage:
        prompt, retrieval = self.settings.prompt, self.settings.retrieval
        return Condenser(
            self.counter,
            self.layout,
            budget_tokens=prompt.budget_tokens,
            max_context_tokens=retrieval.max_context_tokens,
            max_context_chars=retrieval.max_context_chars,
            token_overhead=retrieval.token_overhead,
            **self._older_turns(),
            past_facts=self.settings.history.allow_in_s_ctx,
            max_facts=prompt.max_facts,
            keep_top=self.settings.gate.keep_top,
            searched=sum(len(view.chunk_ids) for view in self.views),
            tight=retrieval.evidence == "tight",
            nearness=self._nearness(),
            enabled=self.settings.agents.a4,
        )

    def _nearness(self) -> Nearness | None:
        """Return what judges answers by token vectors if the weights are for those of this model.

        Otherwise they are judged by words alone: no other model's numbers fit the weights.
        """
        config = self.workspace.config
        made_by = {pin.embed_fp for pin in self.inputs.pins} or {models.fingerprint(config)}
        if not weights_table().embedders.issuperset(made_by):
            return None
        cache_dir, keep = self.token_cache
        return search.word_nearness(self.workspace, cache_dir, keep=keep)

    def _older_turns(self) -> dict[str, Any]:
        """Return what older turns may take: of the memory's budget what its digest leaves."""
        memory = self.settings.memory
        if not memory.enabled:
            return {"history_tokens": self.settings.history.max_tokens}
        digest = self.memory.digest
        chars = max(0, memory.max_chars - len(digest))
        return {
            **({"history_chars": chars} if memory.max_chars else {}),
            "history_tokens": max(0, memory.max_tokens - digest_tokens(digest, self.counter.count)),
            "history_pieces": memory.top_k,
            "history_first": True,
        }

    def a2_audit(self) -> Stage:
        files_of = [(view.project, _files_of(cast(Hashable, view))) for view in self.views]
        if len(files_of) == 1:
            ((_, eligible),) = files_of
        else:
            eligible = sorted(f"{project}/{path}" for project, paths in files_of for path in paths)
        texts = {
            "Hard Rules": self.inputs.texts["hard_rules"],
            PROJECT_MEMORY: self.inputs.texts["project_memory"],
        }
        session = self.inputs.history.session
        return Audit(eligible, texts, session, enabled=self.settings.agents.a2)

    def a5_format_enforcer(self) -> Stage:
        return FormatEnforcer(
            self.counter,
            self.layout,
            self.settings.prompt.budget_tokens,
            note=self.inputs.models.get("counter_note", ""),
        )

    def prompt_builder(self) -> Stage:
        return PromptBuilder(self.counter, self.layout)


def _bare(path: str) -> str:
    return path.partition("/")[2]


@functools.lru_cache(maxsize=2)
def _files_of(view: Hashable) -> list[str]:
    return sorted(set(cast("IndexView", view).paths))  # which has one for every chunk
