"""Measures how faithful answers are to what they cite; keeps the figures of gold questions."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.answers.extract import EXTRACT
from ragstream_core.errors import UsageError
from ragstream_core.evaluation.faithfulness import Judged, Report, judged, keep
from ragstream_core.evaluation.judges import LlmJudge, NliJudge, QuoteJudge
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.quality_gate import read_gold
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring import answer_sources, models
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.quality_gate import answerable, gold_questions, no_gold_questions

if TYPE_CHECKING:
    from ragstream_core.agents.llm_call import Ask, Schema
    from ragstream_core.evaluation.faithfulness import Judge
    from ragstream_core.ingestion.quality_gate import GoldQuestion
    from ragstream_core.ports import Progress
    from ragstream_core.prompts.exchanges import Exchange, Exchanges
    from ragstream_core.records.chat import ChatMessage
    from ragstream_core.wiring.workspace import Workspace


JUDGES = ("auto", "nli", "quote", "llm")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A judge."""

    judge: Judge
    weights: str  # what its verdicts depend on besides the code: digest of its model
    exchanges: Exchanges | None = None  # what a language model was asked so far; None where none is

    @property
    def made(self) -> list[Exchange]:
        """The exchanges with a language model so far, in order."""
        return self.exchanges.made if self.exchanges is not None else []


def of_gold(
    workspace: Workspace,
    project: str,
    *,
    judge: str = "",
    gold: Path | None = None,
    limit: int = 0,
    ask: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Answer a project's gold questions, judge the answers and keep the figures.

    Args:
        workspace: The data root.
        project: Its name.
        judge: One of `JUDGES`; default: as the settings say.
        gold: A file of gold questions; default: the project's own.
        limit: Only so many questions, the first; 0: all.
        ask: Let the language model answer; else the cited extract is judged.
        progress: Called with (done, total) after each answer.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: There are no gold questions, or no such judge.
        ChatFailed: The model that should answer does not.
        RagstreamError: Nothing is ingested, or a model is not available.
        OSError: The figures cannot be written.
    """
    workspace.require_project(project)
    chosen = _judge_of(workspace, judge or workspace.config.settings.evaluation.judge)
    questions = answerable(read_gold(gold)) if gold else gold_questions(workspace, project)
    if not questions:
        raise no_gold_questions(workspace, project)
    questions = questions[:limit] if limit else questions
    view = open_view(workspace.index_dir(project))
    series = digest_of(
        {
            "questions": [(q.question, q.answers) for q in questions],
            "judge": chosen.judge.name,
            "answers": "model" if ask else EXTRACT,
        }
    )
    found = answer_sources.from_gold(workspace, project, questions, ask=ask)
    done, skipped = _judged(found, chosen, progress, len(questions))
    report = _report(
        project, chosen, done, skipped, generation=view.generation, series=series,
        fingerprint=_fingerprint(workspace, project, questions, chosen, series),
    )  # fmt: skip
    keep(figures_dir(workspace, project), report)
    return report


def of_recorded(
    workspace: Workspace,
    *,
    project: str = "",
    judge: str = "",
    session: str = "",
    prompts: Sequence[str] = (),
    file: Path | None = None,
    limit: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Judge answers that are there already; nothing is kept.

    Args:
        workspace: The data root.
        project: Asked for what a line of a file does not say.
        judge: One of `JUDGES`; default: as the settings say.
        session: A recorded conversation.
        prompts: Keys of recorded prompts.
        file: A file of answers.
        limit: Only the first N answers; 0: all.
        progress: Called with (done, total) after each answer; total 0: not known.

    Raises:
        UsageError: None or several of session, prompts and file, or there is no answer in it.
        UnknownPrompt: No prompt under a key.
        RagstreamError: A model is not available.
    """
    if sum(map(bool, (session, prompts, file))) != 1:
        raise UsageError("one of --session, --prompts and --answers")
    chosen = _judge_of(workspace, judge or workspace.config.settings.evaluation.judge)
    if session:
        found = answer_sources.from_session(workspace, session)
    elif file is not None:
        found = answer_sources.from_file(workspace, file, project)
    else:
        found = answer_sources.from_prompts(workspace, prompts)
    done, skipped = _judged(itertools.islice(found, limit or None), chosen, progress, limit)
    return _report(project, chosen, done, skipped)


def figures_dir(workspace: Workspace, project: str) -> Path:
    """Return where a project's figures are kept, whether there are any or not."""
    return workspace.layout.evaluation / "faithfulness" / workspace.index_dir(project).name


def _judged(
    found: Iterable[answer_sources.AnsweredOrSkipped],
    chosen: Chosen,
    progress: Progress | None,
    total: int,
) -> tuple[list[Judged], list[tuple[str, str]]]:
    done: list[Judged] = []
    skipped: list[tuple[str, str]] = []
    for number, one in enumerate(found, start=1):
        if isinstance(one, answer_sources.Skipped):
            skipped.append((one.where, one.why))
        else:
            done.append(judged(one, chosen.judge))
        if progress is not None:
            progress(number, total)
    return done, skipped


def _report(
    project: str,
    chosen: Chosen,
    done: Sequence[Judged],
    skipped: Sequence[tuple[str, str]],
    *,
    generation: int = 0,
    series: str = "",
    fingerprint: str = "",
) -> Report:
    now = dt.datetime.now().astimezone().isoformat(timespec="seconds")
    exchanges = [asdict(exchange) for exchange in chosen.made]
    return Report(
        project, chosen.judge.name, done, skipped, generation, now, series, fingerprint, exchanges
    )


def _fingerprint(
    workspace: Workspace,
    project: str,
    questions: Sequence[GoldQuestion],
    chosen: Chosen,
    series: str,
) -> str:
    request = PromptRequest(questions[0].question, (project,), settings=answer_sources.UNKEPT)
    inputs = pin_inputs(workspace, request)
    return digest_of(
        {
            "series": series,
            "generation": inputs.pins[0].digest,
            "settings": inputs.settings,
            "texts": dict(inputs.texts),
            "models": dict(inputs.models),
            "judge": chosen.weights,
            "code": dict(STAGE_VERSIONS),
        }
    )


def _judge_of(workspace: Workspace, name: str) -> Chosen:
    """Return a judge."""
    if name not in JUDGES:
        raise UsageError(f"no judge {name!r}", hint=f"one of {', '.join(JUDGES)}")
    config, found = workspace.config, workspace.config.chain().gate.model
    if name == "nli" or (name == "auto" and models.is_usable(config, found)):
        model = models.nli(config, found)
        judge = NliJudge(model.entailment, name=f"nli:{found}")
        return Chosen(judge, models.reranker_weights(config, found))
    quote = QuoteJudge(models.embedder(config).embed_documents)
    weights = models.fingerprint(config)
    return _by_model(workspace, quote, weights) if name == "llm" else Chosen(quote, weights)


def _by_model(workspace: Workspace, other: Judge, weights: str) -> Chosen:
    from ragstream_core.prompts.exchanges import Exchanges
    from ragstream_core.wiring.llm_stages import Guarded

    model = models.chat_model(workspace.config)
    exchanges = Exchanges(Guarded(model))
    judge = LlmJudge(_asking(exchanges, other.name), other, name=f"llm:{model.name}")
    return Chosen(judge, weights, exchanges)


def _asking(exchanges: Exchanges, fallback: str) -> Ask:
    def ask(
        messages: Sequence[ChatMessage], schema: type[Schema], check: Callable[[Schema], str]
    ) -> tuple[Schema | None, str]:
        said = exchanges.ask("faithfulness", messages, schema, fallback=fallback, check=check)
        return said.value, said.reason

    return ask
