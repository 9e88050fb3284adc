"""One data root with its settings: what the command line, the page and Dagster all call.

Methods import what they need when they are called, so that asking for the status loads no model
and a no-op ingest not even NumPy.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.config import AppConfig, overlay
from ragstream_core.wiring import projects as wiring_projects

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.ports import FileSource, IndexView
    from ragstream_core.prompts.chain import Observer, Stage
    from ragstream_core.prompts.edits import Edit
    from ragstream_core.prompts.inputs import PromptInputs, PromptRequest
    from ragstream_core.prompts.replay import ReplayVerdict
    from ragstream_core.prompts.store import PromptRecord, PromptStore
    from ragstream_core.records import SuperPrompt

IngestProgress = Callable[[str, int, int], None]
"""Called with (phase, done, total)."""


@dataclass(frozen=True)
class Workspace:
    """A data root and its settings."""

    config: AppConfig
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def data_dir(self) -> Path:
        """The data root."""
        return self.config.data_dir

    @property
    def store(self) -> PromptStore:
        """The prompt store."""
        from ragstream_core.prompts.store import PromptStore

        return PromptStore(self.data_dir / "prompts")

    def projects(self) -> list[str]:
        """Return the names of all projects, sorted; ``default`` holds the flat files."""
        return wiring_projects.names(self.data_dir)

    def unfit_folders(self) -> list[tuple[str, str]]:
        """Return (name, reason) of the folders of ``doc_raw`` that cannot be projects, sorted."""
        return wiring_projects.unfit(self.data_dir)

    def doc_dir(self, project: str) -> Path:
        """Return a project's document folder.

        Raises:
            InvalidName: The name could lead outside the data root.
            UnknownProject: There is no such folder.
        """
        return wiring_projects.doc_dir(self.data_dir, project)

    def index_dir(self, project: str) -> Path:
        """Return a project's index folder, whether it exists or not.

        Raises:
            InvalidName: The name could lead outside the data root.
        """
        return self.config.index_dir / wiring_projects.checked(project)

    def ingest(
        self,
        project: str,
        *,
        verify: bool = False,
        rebuild: bool = False,
        progress: IngestProgress | None = None,
        provenance: dict[str, str] | None = None,
        collection: bool = True,
    ) -> IngestionStats:
        """Bring a project's index up to date.

        Args:
            project: Its name.
            verify: Hash every file and check every vector, whatever the signatures say.
            rebuild: Start a new store; needed after a change of the model or damage.
            progress: Called with (phase, done, total).
            provenance: Kept in the generation row, e.g. the Dagster run.
            collection: Bring its Chroma collection up to date as well, where one is kept; what
                goes wrong there is a warning.

        Raises:
            UnknownProject: There is no such folder.
            InvalidName: The name could lead outside the data root.
            ProjectLocked: Another process is writing it.
            ModelMismatch: The store was built by another model.
            IntegrityError: The store is damaged.
        """
        from ragstream_core.wiring import chroma_collections, ingestion

        stats = ingestion.ingest(
            self, project, verify=verify, rebuild=rebuild, progress=progress, provenance=provenance
        )
        ended = time.perf_counter()
        warnings: tuple[str, ...] = ()
        if collection:
            if progress is not None:
                progress("collection", 0, 0)
            warnings = chroma_collections.sync_after_commit(
                self, project, rebuild=rebuild, verify_all=verify
            )
        return replace(
            stats,
            warnings=(*stats.warnings, *warnings),
            after_commit_s=time.perf_counter() - ended,
        )

    def view(self, project: str, generation: int = 0, *, keep: bool = False) -> IndexView:
        """Open a generation of a project (0: the newest), cached while it is the same.

        Args:
            project: Its name.
            generation: Its number.
            keep: Leave its checked rows in the index, so that the next process opens it sooner.

        Raises:
            UnknownProject: Nothing was ever ingested under that name.
            GenerationGone: That generation is not kept.
            IntegrityError: The store is damaged.
        """
        from ragstream_core.wiring import prompt_inputs

        return prompt_inputs.view(self, project, generation, keep=keep)

    def pin(self, request: PromptRequest, now: dt.datetime | None = None) -> PromptInputs:
        """Pin everything a prompt's bytes depend on.

        Args:
            request: What is asked.
            now: Time of the request, with a zone; default: the present moment.

        Raises:
            RagstreamError: Unknown project, setting or generation; see the subclasses.
        """
        from ragstream_core.wiring import prompt_inputs

        return prompt_inputs.pin(self, request, now or dt.datetime.now().astimezone())

    def stage(self, op: str, prompt: SuperPrompt, *, files: FileSource | None = None) -> Stage:
        """Make the stage of an op for a prompt: a `StageFactory`.

        Args:
            op: Name of the op.
            prompt: The prompt it will read; its inputs say which settings hold.
            files: Where A1 reads from; default: the document folders, keeping what was read.

        Raises:
            RagstreamError: A model or generation is not available.
        """
        from ragstream_core.wiring import stages

        stage = stages.make(self, op, prompt, files=files)
        if not self.config.settings.debug.enabled:
            return stage
        from ragstream_core.wiring.debug_log import logged_stage

        return logged_stage(self, op, prompt, stage)

    def run(
        self,
        inputs: PromptInputs,
        *,
        through: str = "prompt_builder",
        observe: Observer | None = None,
        files: FileSource | None = None,
        edits: Sequence[Edit] = (),
    ) -> SuperPrompt:
        """Run the chain in this process, unrecorded, with the edits that a person made.

        Raises:
            RagstreamError: A stage refused or failed.
        """
        from ragstream_core.prompts.edits import run_edited
        from ragstream_core.prompts.inputs import begin
        from ragstream_core.wiring.token_budget import counter_of

        return run_edited(
            lambda op, prompt: self.stage(op, prompt, files=files),
            begin(inputs),
            edits,
            through=through,
            observe=observe,
            counter=counter_of(self, inputs),
        )

    def finish(
        self,
        prompt: SuperPrompt,
        *,
        run_id: str = "",
        resumed: str = "",
        timings_ms: dict[str, float] | None = None,
        passed: Mapping[str, SuperPrompt] | None = None,
    ) -> PromptRecord:
        """Keep a prompt that went through the whole chain; return its record.

        Where nothing may be kept the record comes back without a key, and nothing is written.

        Args:
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
        from ragstream_core.wiring import saved_prompts

        return saved_prompts.finish(
            self,
            prompt,
            run_id=run_id,
            resumed=resumed,
            timings_ms=timings_ms or {},
            passed=passed or {},
        )

    def replay(self, key: str, *, live: bool = False) -> ReplayVerdict:
        """Recompute a kept prompt and compare.

        Args:
            key: Its key or the first digits.
            live: Ask the language model again and compare what it says as well.

        Raises:
            UnknownPrompt: No prompt under that key.
            IntegrityError: Its record is damaged.
        """
        from ragstream_core.wiring import saved_prompts

        return saved_prompts.replayed(self, key, live=live)

    def search(self, text: str, projects: list[str], *, k: int = 10) -> list[dict[str, Any]]:
        """Rank chunks for a text, without a prompt around it.

        Returns:
            ``chunk_id, source, score, dense, lexical, snippet`` of the best ``k``.

        Raises:
            RagstreamError: Unknown project, damaged store, missing model.
        """
        from ragstream_core.wiring import prompt_inputs

        return prompt_inputs.search(self, text, projects, k)

    def settings_for(self, inputs: PromptInputs, op: str) -> Any:
        """Return the chain settings that hold at an op."""
        from ragstream_core.settings import ChainSettings

        return overlay(ChainSettings.model_validate(inputs.settings), inputs.changes_at(op))


def open_workspace(
    data_dir: str | Path | None = None,
    *,
    config_path: Path | None = None,
    task: str = "",
    explicit: dict[str, Any] | None = None,
) -> Workspace:
    """Load the settings and return the workspace.

    Args:
        data_dir: The data root; default as configured, else ``./data``.
        config_path: A configuration file.
        task: Name of a task profile.
        explicit: Dotted setting → value.

    Raises:
        UnknownSetting: A setting that does not exist or has a bad value.
        UsageError: `retrieval.store` names something that is no vector store.
    """
    given = dict(explicit or {})
    if data_dir is not None:
        given["paths.data_dir"] = str(data_dir)
    workspace = Workspace(AppConfig.load(config_path, task=task, explicit=given))
    settings = workspace.config.chain()
    if settings.retrieval.store != "catalog":  # which needs no look at what stores there are
        from ragstream_core.wiring import candidate_stores

        candidate_stores.require_store(settings)
    return workspace
