"""Asks a project's gold questions, whenever somebody wants to know; no prompt is kept.

Of retrieval: the rank of what they expect. Of prompts: what stands in them, under the settings as
they are or under every combination of some. Of the gate: what it keeps under pairs of thresholds,
and whether the entailment model is the better one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from ragstream_core.config import overlay
from ragstream_core.errors import RunCommand, UsageError
from ragstream_core.evaluation.prompt_quality import PromptReport, measured
from ragstream_core.evaluation.retrieval import ticker
from ragstream_core.evaluation.sweep import (
    GateMeasurement,
    Point,
    Variant,
    figures,
    point_of,
    write_measurement,
)
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.prompts.chain import run_chain
from ragstream_core.prompts.inputs import PromptRequest, change_settings
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.identity import digest_of
from ragstream_core.records.json_form import Json, json_of
from ragstream_core.wiring import models
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs
from ragstream_core.wiring.quality_gate import (
    GoldRow,
    gate_of,
    gold_path,
    gold_questions,
    gold_rows,
    no_gold_questions,
)
from ragstream_core.wiring.stages import run_prompt, stages_of
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.ingestion.quality_gate import Figures
    from ragstream_core.ports import Progress
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.workspace import Workspace

GATE = "a3_nli_gate"
SWEPT = ("theta", "relative", "nli_theta")
NOTHING_SET: Mapping[str, Json] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GoldReport:
    """How well a generation answers the gold questions of its project."""

    project: str
    generation: int  # number of the generation that was asked
    figures: Figures  # recall@k and MRR@k
    questions: Sequence[GoldQuestion]
    # for each, the 1-based rank of each item that it expects; 0 where it is not among the first k
    ranks: Sequence[Sequence[int]]

    @property
    def missed(self) -> int:
        """How many expected items are not among the first k."""
        return sum(not rank for ranks in self.ranks for rank in ranks)

    @property
    def rows(self) -> list[GoldRow]:
        """A row a question."""
        return gold_rows(self.questions, self.ranks)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form; passages are named by their place."""
        head = {"project": self.project, "generation": self.generation}
        counts = {**self.figures.to_json(), "missed": self.missed}
        return {**head, **counts, "results": json_of(self.rows)}


def ask_gold(workspace: Workspace, project: str, *, progress: Progress | None = None) -> GoldReport:
    """Ask every gold question as the quality gate does, and say where each expected item stands.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: The project has no gold questions, or a line is not one.
    """
    workspace.require_project(project)
    gate = gate_of(workspace, project)
    if gate is None:
        raise no_gold_questions(workspace, project)
    view = open_view(workspace.index_dir(project))
    recall, ranks = gate.measured(view, progress=progress)
    return GoldReport(project, view.generation, recall, gate.questions, ranks)


def fingerprint(inputs: PromptInputs, **asked: object) -> str:
    """Return the digest of what figures depend on; only figures with an equal one compare."""
    return digest_of(
        {
            "generation": inputs.pins[0].digest,
            "settings": inputs.settings,
            "texts": dict(inputs.texts),
            "models": dict(inputs.models),
            "code": dict(STAGE_VERSIONS),
            **asked,
        }
    )


def measure_prompts(
    workspace: Workspace,
    project: str,
    *,
    gold: Path | None = None,
    limit: int = 0,
    progress: Progress | None = None,
) -> PromptReport:
    """Build and measure the prompts of a project's gold questions, without any conversation.

    Args:
        workspace: The data root; its settings hold.
        project: Its name.
        gold: A file of gold questions; default: the project's own.
        limit: Only so many questions, the first; 0: all.
        progress: Called with (done, total) after each prompt.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: There are no gold questions, or a line is not one.
    """
    workspace.require_project(project)
    questions = gold_questions(workspace, project, gold, unanswerable=True)
    questions = questions[: limit or None]
    return _measured(workspace, project, questions, ticker(len(questions), progress))


def vary_settings(
    workspace: Workspace,
    project: str,
    choices: Mapping[str, Sequence[str]],
    *,
    progress: Progress | None = None,
) -> Iterator[Variant]:
    """Build the prompts of the gold questions under every combination of some settings.

    Args:
        workspace: The data root; its settings hold for what is not varied.
        project: Its name.
        choices: Dotted key → the values that it takes in turn; at least one each.
        progress: Called with (done, total) prompts.

    Yields:
        One variant a combination; the last key changes first.

    Raises:
        UnknownSetting: A key that no stage reads, or a value out of its range.
        UsageError: A key without a value, or the project has no gold questions.
    """
    for key, values in choices.items():
        if not values:
            raise UsageError(f"{key} has no value to try", hint=f"{key}=VALUE,VALUE")
    combinations = itertools.product(*choices.values())
    variants = [dict(zip(choices, values, strict=True)) for values in combinations]
    for settings in variants:
        overlay(workspace.config.chain(), settings)  # refuses before anything is asked
    workspace.require_project(project)
    questions = gold_questions(workspace, project, unanswerable=True)
    tick = ticker(len(questions) * len(variants), progress)
    for settings in variants:
        yield Variant(settings, _measured(workspace, project, questions, tick, settings))


def _measured(
    workspace: Workspace,
    project: str,
    questions: Sequence[GoldQuestion],
    tick: Callable[[], None],
    settings: Mapping[str, Json] = NOTHING_SET,
) -> PromptReport:
    rows, pinned = [], []
    for question in questions:
        inputs = _pinned(workspace, project, question.question, settings)
        counter = counter_of(workspace, inputs)
        rows.append(measured(question, run_prompt(workspace, inputs), counter))
        pinned.append(inputs)
        tick()
    asked = [
        [q.question, q.files, q.passages, q.answers, q.patterns, q.unanswerable] for q in questions
    ]
    series, first = digest_of(asked), pinned[0]
    return PromptReport(
        project, first.pins[0].generation, series, fingerprint(first, series=series), rows
    )


class EarlierReport(BaseModel):
    """The part of a report that a later one is compared with."""

    model_config = ConfigDict(frozen=True, strict=True)

    series: str
    figures: dict[str, float | None]


def read_report(path: Path) -> EarlierReport:
    """Return what a report that `PromptReport.to_json` wrote is compared by.

    Raises:
        UsageError: The file cannot be read, or is no such report.
    """
    hint = RunCommand("eval prompts", "PROJECT --out FILE")
    try:
        return EarlierReport.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", hint=hint) from None
    except ValidationError:
        why = f"{path} is no report of `ragstream eval prompts`"
        raise UsageError(why, hint=hint) from None


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
        progress: Called with (done, total) runs of a question through the chain.

    Yields:
        One point a pair, in the order given.

    Raises:
        UsageError: The project has no gold questions, or a threshold is out of range.
    """
    for value in itertools.chain.from_iterable(pairs):
        if not 0 <= value <= 1:
            raise UsageError(f"threshold {value:g} is not between 0 and 1")
    questions = gold_questions(workspace, project)
    present = sweep_fingerprint(workspace, project)
    tick = ticker(len(questions) * (len(pairs) + 1), progress)
    ranked = []
    for question in questions:
        ranked.append((question, _ranked(workspace, project, question)))
        tick()
    for theta, relative in pairs:
        thresholds = {"gate.theta": theta, "gate.nli_theta": theta, "gate.relative": relative}
        asked = []
        for question, prompt in ranked:
            asked.append((question, _finished(workspace, prompt, thresholds)))
            tick()
        counter = counter_of(workspace, asked[0][1].extras.inputs)
        yield point_of(asked, theta, relative, counter, fingerprint=present)


def measure_gate(
    workspace: Workspace, project: str, *, progress: Progress | None = None
) -> GateMeasurement:
    """Gate every gold question by the entailment model and by similarity, and keep what came of it.

    Args:
        workspace: The data root; its settings hold but for `gate.backend`.
        project: Its name.
        progress: Called with (done, total) runs of a question through the chain.

    Raises:
        UsageError: The project has no gold questions.
        WeightsMissing: The model of `gate.model` is not on this machine.
    """
    gate = workspace.config.chain().gate
    models.nli(workspace.config, gate.model)  # refuses before anything is asked
    weights = models.reranker_weights(workspace.config, gate.model)
    questions = gold_questions(workspace, project)
    tick = ticker(3 * len(questions), progress)
    asked: dict[str, list[tuple[GoldQuestion, SuperPrompt]]] = {"nli": [], "similarity": []}
    for question in questions:
        ranked = _ranked(workspace, project, question)
        tick()
        for backend, rows in asked.items():
            rows.append((question, _finished(workspace, ranked, {"gate.backend": backend})))
            tick()
    counter = counter_of(workspace, asked["nli"][0][1].extras.inputs)
    nli, similarity = (
        figures(point_of(rows, gate.theta, gate.relative, counter)) for rows in asked.values()
    )
    found = GateMeasurement(gate.model, weights, gate.nli_theta, project, nli, similarity)
    write_measurement(workspace.layout.models, found)
    return found


def _pinned(
    workspace: Workspace, project: str, text: str, settings: Mapping[str, Json] = NOTHING_SET
) -> PromptInputs:
    return pin_inputs(workspace, PromptRequest(text, (project,), settings={**settings, **ALONE}))


def _ranked(workspace: Workspace, project: str, question: GoldQuestion) -> SuperPrompt:
    inputs = _pinned(workspace, project, question.question)
    return run_prompt(workspace, inputs, through="reranker")


def _finished(
    workspace: Workspace, prompt: SuperPrompt, settings: Mapping[str, Json]
) -> SuperPrompt:
    changed = change_settings(prompt, GATE, dict(settings))
    return run_chain(stages_of(workspace), changed, first=GATE, through="a5_format_enforcer")


def sweep_fingerprint(workspace: Workspace, project: str) -> str:
    """Return the digest of everything but the thresholds that a sweep's figures depend on.

    Raises:
        UsageError: The project has no gold questions.
    """
    questions = gold_questions(workspace, project)
    inputs = _pinned(workspace, project, "sweep")
    gate = {key: value for key, value in inputs.settings["gate"].items() if key not in SWEPT}
    asked = [(q.question, q.files, q.passages) for q in questions]
    return fingerprint(inputs, questions=asked, settings={**inputs.settings, "gate": gate})


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
