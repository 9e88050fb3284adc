"""Sweeps the gate's thresholds over a project's gold questions, through the chain of prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import UsageError
from ragstream_core.evaluation.gate_measurement import GateMeasurement, figures, write_measurement
from ragstream_core.evaluation.sweep import Point, point_of
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.prompts.chain import run_chain
from ragstream_core.prompts.inputs import PromptRequest, change_settings
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring import models
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs
from ragstream_core.wiring.quality_gate import gold_path, gold_questions
from ragstream_core.wiring.stages import run_prompt, stages_of
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.ports import Progress
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

GATE = "a3_nli_gate"
SWEPT = ("theta", "relative", "nli_theta")


def sweep(
    workspace: Workspace,
    project: str,
    pairs: Sequence[tuple[float, float]],
    *,
    progress: Progress | None = None,
) -> Iterator[Point]:
    """Ask every gold question under every pair of thresholds; retrieval happens once a question.

    Args:
        workspace: The data root; its settings hold but for the gate's thresholds.
        project: Its name.
        pairs: (θ, relative), each in [0, 1]. Where a model gates, θ is its least probability.
        progress: Called with (done, total) ways of questions through the chain.

    Yields:
        One point a pair, in the order given.

    Raises:
        UsageError: The project has no gold questions, or a threshold is out of range.
        RagstreamError: Nothing is ingested, or a model is not available.
    """
    for value in (value for pair in pairs for value in pair):
        if not 0 <= value <= 1:
            raise UsageError(f"threshold {value:g} is not between 0 and 1")
    questions = gold_questions(workspace, project)
    fingerprint = sweep_fingerprint(workspace, project)
    total = len(questions) * (len(pairs) + 1)
    told = iter(range(1, total + 1))

    def note(prompt: SuperPrompt) -> SuperPrompt:
        if progress is not None:
            progress(next(told), total)
        return prompt

    ranked = [(q, note(_ranked(workspace, project, q.question))) for q in questions]
    for theta, relative in pairs:
        given = {"gate.theta": theta, "gate.nli_theta": theta, "gate.relative": relative}
        asked = [(q, note(_finished(workspace, prompt, given))) for q, prompt in ranked]
        counter = counter_of(workspace, asked[0][1].extras.inputs)
        yield point_of(asked, theta, relative, counter, fingerprint=fingerprint)


def measure_gate(
    workspace: Workspace, project: str, *, progress: Progress | None = None
) -> GateMeasurement:
    """Gate every gold question by the entailment model and by similarity, and keep what came of it.

    Raises:
        UsageError: The project has no gold questions.
        WeightsMissing: The model of `gate.model` is not on this machine.
        RagstreamError: Nothing is ingested, or another model is not available.
        OSError: The measurement cannot be written.
    """
    gate = workspace.config.chain().gate
    models.nli(workspace.config, gate.model)  # refuses before anything is asked
    weights = models.reranker_weights(workspace.config, gate.model)
    questions = gold_questions(workspace, project)
    told = iter(range(1, 3 * len(questions) + 1))
    asked: dict[str, list[tuple[GoldQuestion, SuperPrompt]]] = {"nli": [], "similarity": []}
    for question in questions:
        ranked = _ranked(workspace, project, question.question)
        if progress is not None:
            progress(next(told), 3 * len(questions))
        for backend, rows in asked.items():
            rows.append((question, _finished(workspace, ranked, {"gate.backend": backend})))
            if progress is not None:
                progress(next(told), 3 * len(questions))
    counter = counter_of(workspace, asked["nli"][0][1].extras.inputs)
    nli, similarity = (
        figures(point_of(rows, gate.theta, gate.relative, counter)) for rows in asked.values()
    )
    found = GateMeasurement(gate.model, weights, gate.nli_theta, project, nli, similarity)
    write_measurement(workspace.layout.models, found)
    return found


def _ranked(workspace: Workspace, project: str, question: str) -> SuperPrompt:
    inputs = pin_inputs(workspace, PromptRequest(question, (project,), settings=ALONE))
    return run_prompt(workspace, inputs, through="reranker")


def _finished(workspace: Workspace, prompt: SuperPrompt, given: dict[str, Any]) -> SuperPrompt:
    changed = change_settings(prompt, GATE, given)
    return run_chain(stages_of(workspace), changed, first=GATE, through="a5_format_enforcer")


def sweep_fingerprint(workspace: Workspace, project: str) -> str:
    """Return the digest of everything but the thresholds that a sweep's figures depend on.

    Raises:
        UsageError: The project has no gold questions.
        RagstreamError: Nothing is ingested.
    """
    questions = gold_questions(workspace, project)
    inputs = pin_inputs(workspace, PromptRequest("sweep", (project,), settings=ALONE))
    gate = {key: value for key, value in inputs.settings["gate"].items() if key not in SWEPT}
    settings: dict[str, object] = {**inputs.settings, "gate": gate}
    return digest_of(
        {
            "questions": [(q.question, q.files, q.passages) for q in questions],
            "generation": inputs.pins[0].digest,
            "settings": settings,
            "texts": dict(inputs.texts),
            "models": dict(inputs.models),
            "code": dict(STAGE_VERSIONS),
        }
    )


def swept_projects(workspace: Workspace) -> list[str]:
    """Return the projects that have gold questions and are ingested, sorted."""
    return [
        name
        for name in workspace.projects()
        if gold_path(workspace, name).is_file()
        and (workspace.index_dir(name) / CATALOG_NAME).exists()
    ]


def points_dir(workspace: Workspace, project: str) -> Path:
    """Return where a project's points are kept, whether there are any or not."""
    return workspace.layout.evaluation / "sweep" / workspace.index_dir(project).name
