"""The answers whose faithfulness is measured, each with what its prompt issued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from ragstream_core.evaluation.faithfulness import Answered
from ragstream_core.evaluation.gold_answers import Line, read_answers
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import PromptRequest, inputs_of, settings_at
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import answering
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs
from ragstream_core.wiring.stages import run_prompt

if TYPE_CHECKING:
    from ragstream_core.conversations.sessions import HistoryTurn
    from ragstream_core.ingestion.quality_gate import GoldQuestion
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace


UNKEPT = {**ALONE, "history.persist": False}
"""Settings of the prompts of an evaluation: no conversation takes part, nothing is kept."""


class Skipped(NamedTuple):
    """An answer that cannot be judged: where it is and why."""

    where: str
    why: str


AnsweredOrSkipped = Answered | Skipped


def from_gold(
    workspace: Workspace, project: str, questions: Sequence[GoldQuestion], *, ask: bool
) -> Iterator[AnsweredOrSkipped]:
    """Yield the answer to each gold question: the language model's, or the cited extract."""
    for nth, question in enumerate(questions):
        prompt = _prompt(workspace, project, question.question)
        issued = _issued(prompt)
        try:
            answer = _asked(workspace, prompt) if ask else _extract(prompt, issued)
        except (ChatFailed, Refused) as error:
            if nth == 0:
                raise
            yield Skipped(f"gold question {question.line}", error.message)
            continue
        origin = "model" if ask else EXTRACT
        yield Answered(question.question, answer, issued, question.answers, origin, question.line)


def from_session(workspace: Workspace, session: str) -> Iterator[AnsweredOrSkipped]:
    """Yield the answers of a recorded conversation, with what their prompts issued."""
    from ragstream_core.wiring.journal import show

    rows = [row for row in show(workspace, session) if row.assistant.strip()]
    if not rows:
        raise UsageError(f"no answer in session {session!r}", hint=RunCommand("history sessions"))
    for row in rows:
        yield _turn(workspace, row)


def from_prompts(workspace: Workspace, keys: Sequence[str]) -> Iterator[AnsweredOrSkipped]:
    """Yield the recorded answers to prompts; where there is none, the prompt's cited extract."""
    from ragstream_core.wiring.journal import show

    turns = [row for row in show(workspace) if row.assistant.strip()]
    for key in dict.fromkeys(workspace.store.find(key) for key in keys):
        rows = [row for row in turns if row.turn.prompt_key == key]
        for row in rows:
            yield _turn(workspace, row)
        if not rows:
            yield _recorded(workspace, key, None, origin=EXTRACT, where=f"prompt {key[:12]}")


def from_file(workspace: Workspace, path: Path, project: str) -> Iterator[AnsweredOrSkipped]:
    """Yield the answers of a file, as `evaluation.answer_file` reads it."""
    for number, line in read_answers(path):
        yield _of_line(workspace, line, number, project)


def _of_line(workspace: Workspace, line: Line, number: int, project: str) -> AnsweredOrSkipped:
    issued = line.issued
    if line.prompt_key:
        where = f"line {number}"
        found = _recorded(workspace, line.prompt_key, line.answer, origin="file", where=where)
        if isinstance(found, Skipped):
            return found
        issued = dict(found.issued)
    elif not issued and not project:
        raise UsageError(
            f"line {number} names neither prompt_key nor passages",
            hint=("add ", AddOption("-p PROJECT"), ": it is asked the question"),
        )
    elif not issued:
        issued = _issued(_prompt(workspace, project, line.question))
    return Answered(line.question, line.answer, issued, line.right, "file", number)


def _turn(workspace: Workspace, row: HistoryTurn) -> AnsweredOrSkipped:
    where = f"turn {row.id}"
    if not row.turn.prompt_key:
        return Skipped(where, "it names no prompt, so nothing says what it may cite")
    origin = "turn"
    text = row.assistant
    if row.turn.origin == EXTRACT:
        origin, text = EXTRACT, _facts_alone(text)
    return _recorded(workspace, row.turn.prompt_key, text, origin=origin, where=where)


def _recorded(
    workspace: Workspace, key: str, answer: str | None, *, origin: str, where: str
) -> AnsweredOrSkipped:
    """Return an answer to a recorded prompt, which is made again; None: its extract."""
    from ragstream_core.wiring.file_sources import RecordedAnswers
    from ragstream_core.wiring.prompt_inputs import rerun

    try:
        record = workspace.store.record(key)
        inputs = PromptInputs.from_json(record.inputs)
        prompt = rerun(workspace, inputs, RecordedAnswers.of(record))
    except RagstreamError as error:
        return Skipped(where, error.message)
    issued = _issued(prompt)
    said = _extract(prompt, issued) if answer is None else answer
    return Answered(inputs.text, said, issued, (), origin, 0)


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


def _asked(workspace: Workspace, prompt: SuperPrompt) -> str:
    prepared = answering.prepare(workspace, prompt)
    return answering.answer(workspace, prepared).raw
