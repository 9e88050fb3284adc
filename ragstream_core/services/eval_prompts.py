"""Builds the prompt of every gold question and measures what is in it; no prompt is kept.

Under the settings as they are, or under every combination of some that are varied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from ragstream_core.config import overlay
from ragstream_core.errors import RunCommand, UsageError
from ragstream_core.evaluation.prompt_quality import PromptReport, measured
from ragstream_core.evaluation.sweep import Variant
from ragstream_core.ingestion.quality_gate import read_gold
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs
from ragstream_core.wiring.quality_gate import gold_path, no_gold_questions
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.ingestion.quality_gate import GoldQuestion
    from ragstream_core.ports import Progress
    from ragstream_core.records.json_form import Json
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.workspace import Workspace


def measure_prompts(
    workspace: Workspace,
    project: str,
    *,
    gold: Path | None = None,
    limit: int = 0,
    settings: Mapping[str, Json] = MappingProxyType({}),
    progress: Progress | None = None,
) -> PromptReport:
    """Build and measure the prompts of a project's gold questions, without any conversation.

    Args:
        workspace: The data root; its settings hold.
        project: Its name.
        gold: A file of gold questions; default: the project's own.
        limit: Only so many questions, the first; 0: all.
        settings: What differs from the workspace's, dotted key → value.
        progress: Called with (done, total) after each prompt.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: There are no gold questions, or a line is not one.
        RagstreamError: Nothing is ingested, or a model is not available.
    """
    workspace.require_project(project)
    path = gold or gold_path(workspace, project)
    if gold is None and not path.is_file():
        raise no_gold_questions(workspace, project)
    questions = read_gold(path)
    questions = questions[:limit] if limit else questions
    rows, pinned = [], None
    for done, question in enumerate(questions, 1):
        request = PromptRequest(question.question, (project,), settings={**settings, **ALONE})
        inputs = pin_inputs(workspace, request)
        pinned = pinned or inputs
        counter = counter_of(workspace, inputs)
        rows.append(measured(question, run_prompt(workspace, inputs), counter))
        if progress is not None:
            progress(done, len(questions))
    assert pinned is not None  # a file of gold questions holds at least one
    series = digest_of([_asked(question) for question in questions])
    return PromptReport(
        project, pinned.pins[0].generation, series, _fingerprint(series, pinned), rows
    )


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
        RagstreamError: Nothing is ingested, or a model is not available.
    """
    for key, values in choices.items():
        if not values:
            raise UsageError(f"{key} has no value to try", hint=f"{key}=VALUE,VALUE")
    variants = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    for given in variants:
        overlay(workspace.config.chain(), given)  # refuses before anything is asked
    workspace.require_project(project)
    for number, given in enumerate(variants):

        def told(done: int, prompts: int, before: int = number) -> None:
            if progress is not None:
                progress(before * prompts + done, prompts * len(variants))

        report = measure_prompts(workspace, project, settings=given, progress=told)
        yield Variant(given, report)


def _asked(question: GoldQuestion) -> list[object]:
    return [
        question.question, question.files, question.passages, question.answers,
        question.patterns, question.unanswerable,
    ]  # fmt: skip


def _fingerprint(series: str, inputs: PromptInputs) -> str:
    return digest_of(
        {
            "series": series,
            "generation": inputs.pins[0].digest,
            "settings": inputs.settings,
            "texts": dict(inputs.texts),
            "models": dict(inputs.models),
            "code": dict(STAGE_VERSIONS),
        }
    )


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


class EarlierReport(BaseModel):
    """The part of a report that a later one is compared with."""

    model_config = ConfigDict(frozen=True, strict=True)

    series: str
    figures: dict[str, float | None]
