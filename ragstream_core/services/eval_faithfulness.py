"""Measures how faithful answers are to what they cite; keeps the figures of gold questions."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.answers.answer import REFUSAL
from ragstream_core.answers.citations import Issued, issued_by
from ragstream_core.answers.extract import EXTRACT, extract_of
from ragstream_core.errors import (
    AddOption,
    ChatFailed,
    RagstreamError,
    Refused,
    RunCommand,
    UsageError,
)
from ragstream_core.evaluation.faithfulness import Answered, Judged, Report, judged, keep
from ragstream_core.evaluation.gold_answers import Line, read_answers
from ragstream_core.evaluation.judges import LlmJudge, NliJudge, QuoteJudge
from ragstream_core.evaluation.retrieval import ticker
from ragstream_core.index.view import open_view
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.exchanges import Exchanges
from ragstream_core.prompts.inputs import PromptRequest, inputs_of, settings_at
from ragstream_core.records.identity import digest_of
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.services.eval_gold import fingerprint
from ragstream_core.wiring import answering, models
from ragstream_core.wiring.file_sources import RecordedAnswers
from ragstream_core.wiring.journal import show
from ragstream_core.wiring.llm_stages import Guarded
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs, rerun
from ragstream_core.wiring.quality_gate import gold_questions
from ragstream_core.wiring.stages import run_prompt

if TYPE_CHECKING:
    from ragstream_core.agents.llm_call import Ask, Schema
    from ragstream_core.conversations.sessions import HistoryTurn
    from ragstream_core.evaluation.faithfulness import Judge
    from ragstream_core.ingestion.quality_gate import GoldQuestion
    from ragstream_core.ports import Progress
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.chat import ChatMessage
    from ragstream_core.wiring.workspace import Workspace

JUDGES = ("auto", "nli", "quote", "llm")

# Settings of the prompts of an evaluation: no conversation takes part, nothing is kept.
UNKEPT = {**ALONE, "history.persist": False}


class Skipped(NamedTuple):
    """An answer that cannot be judged: where it is and why."""

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class SelectedJudge:
    """A judge, the digest of its model, and what a language model was asked as one, if it was."""

    judge: Judge
    weights: str
    exchanges: Exchanges | None = None


def evaluate_gold(
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
    """
    workspace.require_project(project)
    selected = _judge_of(workspace, judge)
    questions = gold_questions(workspace, project, gold)[: limit or None]
    view = open_view(workspace.index_dir(project))
    series = digest_of(
        {
            "questions": [(q.question, q.answers) for q in questions],
            "judge": selected.judge.name,
            "answers": "model" if ask else EXTRACT,
        }
    )
    answers = _of_gold(workspace, project, questions, ask=ask)
    rows, skipped = _judged(answers, selected.judge, progress, len(questions))
    request = PromptRequest(questions[0].question, (project,), settings=UNKEPT)
    inputs = pin_inputs(workspace, request)
    report = _report(
        project, selected, rows, skipped, generation=view.generation, series=series,
        fingerprint=fingerprint(inputs, series=series, judge=selected.weights),
    )  # fmt: skip
    keep(figures_dir(workspace, project), report)
    return report


def evaluate_recorded(
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
    """
    if sum(map(bool, (session, prompts, file))) != 1:
        raise UsageError("one of --session, --prompts and --answers")
    selected = _judge_of(workspace, judge)
    if session:
        answers = _of_session(workspace, session)
    elif file is not None:
        lines = read_answers(file)
        answers = (_of_line(workspace, line, number, project) for number, line in lines)
    else:
        answers = _of_prompts(workspace, prompts)
    some = itertools.islice(answers, limit or None)
    return _report(project, selected, *_judged(some, selected.judge, progress, limit))


def figures_dir(workspace: Workspace, project: str) -> Path:
    """Return where a project's figures are kept, whether there are any or not."""
    return workspace.layout.evaluation / "faithfulness" / workspace.index_dir(project).name


def _judged(
    answers: Iterable[Answered | Skipped], judge: Judge, progress: Progress | None, total: int
) -> tuple[list[Judged], list[tuple[str, str]]]:
    rows, skipped, tick = list[Judged](), list[tuple[str, str]](), ticker(total, progress)
    for answer in answers:
        if isinstance(answer, Skipped):
            skipped.append(answer)
        else:
            rows.append(judged(answer, judge))
        tick()
    return rows, skipped


def _report(
    project: str,
    selected: SelectedJudge,
    rows: Sequence[Judged],
    skipped: Sequence[tuple[str, str]],
    *,
    generation: int = 0,
    series: str = "",
    fingerprint: str = "",
) -> Report:
    now = dt.datetime.now().astimezone().isoformat(timespec="seconds")
    asked = selected.exchanges.made if selected.exchanges else ()
    exchanges = [asdict(exchange) for exchange in asked]
    return Report(
        project, selected.judge.name, rows, skipped, generation, now, series, fingerprint, exchanges
    )


def _judge_of(workspace: Workspace, name: str) -> SelectedJudge:
    """Return a judge; ``auto``: the gate's entailment model if it is here, else by quote."""
    name = name or workspace.config.settings.evaluation.judge
    if name not in JUDGES:
        raise UsageError(f"no judge {name!r}", hint=f"one of {', '.join(JUDGES)}")
    config, gate = workspace.config, workspace.config.chain().gate.model
    if name == "nli" or (name == "auto" and models.is_usable(config, gate)):
        model = models.nli(config, gate)
        judge = NliJudge(model.entailment, name=f"nli:{gate}")
        return SelectedJudge(judge, models.reranker_weights(config, gate))
    quote = QuoteJudge(models.embedder(config).embed_documents)
    weights = models.fingerprint(config)
    if name != "llm":
        return SelectedJudge(quote, weights)
    chat = models.chat_model(config)
    exchanges = Exchanges(Guarded(chat))
    by_model = LlmJudge(_asking(exchanges, quote.name), quote, name=f"llm:{chat.name}")
    return SelectedJudge(by_model, weights, exchanges)


def _asking(exchanges: Exchanges, fallback: str) -> Ask:
    def ask(
        messages: Sequence[ChatMessage], schema: type[Schema], check: Callable[[Schema], str]
    ) -> tuple[Schema | None, str]:
        said = exchanges.ask("faithfulness", messages, schema, fallback=fallback, check=check)
        return said.value, said.reason

    return ask


def _of_gold(
    workspace: Workspace, project: str, questions: Sequence[GoldQuestion], *, ask: bool
) -> Iterator[Answered | Skipped]:
    """Yield the answer to each question; a model that is silent at the first one is an error."""
    for question in questions:
        prompt = _prompt(workspace, project, question.question)
        issued = _issued(prompt)
        try:
            if ask:
                answer = answering.answer(workspace, answering.prepare(workspace, prompt)).raw
            else:
                answer = _extract(prompt, issued)
        except (ChatFailed, Refused) as error:
            if question is questions[0]:
                raise
            yield Skipped(f"gold question {question.line}", error.message)
            continue
        origin = "model" if ask else EXTRACT
        yield Answered(question.question, answer, issued, question.answers, origin, question.line)


def _of_session(workspace: Workspace, session: str) -> Iterator[Answered | Skipped]:
    rows = [row for row in show(workspace, session) if row.assistant.strip()]
    if not rows:
        raise UsageError(f"no answer in session {session!r}", hint=RunCommand("history sessions"))
    for row in rows:
        yield _of_turn(workspace, row)


def _of_prompts(workspace: Workspace, keys: Sequence[str]) -> Iterator[Answered | Skipped]:
    """Yield the recorded answers to prompts; where there is none, the prompt's cited extract."""
    turns = [row for row in show(workspace) if row.assistant.strip()]
    for key in dict.fromkeys(workspace.store.find(key) for key in keys):
        rows = [row for row in turns if row.turn.prompt_key == key]
        for row in rows:
            yield _of_turn(workspace, row)
        if not rows:
            yield _recorded(workspace, key, None, origin=EXTRACT, where=f"prompt {key[:12]}")


def _of_line(workspace: Workspace, line: Line, number: int, project: str) -> Answered | Skipped:
    issued: Mapping[str, Issued] = line.issued
    if line.prompt_key:
        where = f"line {number}"
        recorded = _recorded(workspace, line.prompt_key, line.answer, origin="file", where=where)
        if isinstance(recorded, Skipped):
            return recorded
        issued = recorded.issued
    elif not issued and not project:
        raise UsageError(
            f"line {number} names neither prompt_key nor passages",
            hint=("add ", AddOption("-p PROJECT"), ": it is asked the question"),
        )
    elif not issued:
        issued = _issued(_prompt(workspace, project, line.question))
    return Answered(line.question, line.answer, issued, line.right, "file", number)


def _of_turn(workspace: Workspace, row: HistoryTurn) -> Answered | Skipped:
    where, key = f"turn {row.id}", row.turn.prompt_key
    if not key:
        return Skipped(where, "it names no prompt, so nothing says what it may cite")
    if row.turn.origin == EXTRACT:
        facts = _facts_alone(row.assistant)
        return _recorded(workspace, key, facts, origin=EXTRACT, where=where)
    return _recorded(workspace, key, row.assistant, origin="turn", where=where)


def _recorded(
    workspace: Workspace, key: str, answer: str | None, *, origin: str, where: str
) -> Answered | Skipped:
    """Return an answer to a recorded prompt, which is made again; None: its extract."""
    try:
        record = workspace.store.record(key)
        inputs = PromptInputs.from_json(record.inputs)
        prompt = rerun(workspace, inputs, RecordedAnswers.of(record))
    except RagstreamError as error:
        return Skipped(where, error.message)
    issued = _issued(prompt)
    text = _extract(prompt, issued) if answer is None else answer
    return Answered(inputs.text, text, issued, (), origin, 0)


def _prompt(workspace: Workspace, project: str, question: str) -> SuperPrompt:
    return run_prompt(
        workspace, pin_inputs(workspace, PromptRequest(question, (project,), settings=UNKEPT))
    )


def _issued(prompt: SuperPrompt) -> dict[str, Issued]:
    shown = settings_at(inputs_of(prompt), OPS[-1]).prompt.recent_history
    return issued_by(prompt, history=shown)


def _extract(prompt: SuperPrompt, issued: Mapping[str, Issued]) -> str:
    return _facts_alone(extract_of(prompt, issued, "no model is asked. ")) or REFUSAL


def _facts_alone(extract: str) -> str:
    """Return an extract without the sentence that says why it is one."""
    return extract.partition("\n\n")[2] or extract
