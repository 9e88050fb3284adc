"""What `eval faithfulness` prints: a line an answer, what is not supported, the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ragstream_app.rendering import printable

if TYPE_CHECKING:
    from ragstream_core.evaluation.faithfulness import Judged
    from ragstream_core.evaluation.report import Report

WIDTH = 72


def print_report(report: Report) -> None:
    """Print a report: answers, unsupported sentences, what was skipped, totals."""
    for judged in report.answers:
        score = "  -  " if judged.score is None else f"{judged.score:.3f}"
        of = f"{judged.supported}/{len(judged.verdicts)}"
        typer.echo(f"{score}  {of:>7}  {_short(judged.of.question or 'no question')}")
        for line in _unsupported(judged):
            typer.echo(f"         {line}")
    for where, why in report.skipped:
        typer.echo(f"skipped: {where}: {printable(why)}")
    for line in _totals(report.figures()):
        typer.echo(line)


def _unsupported(judged: Judged) -> list[str]:
    return [
        f"{verdict.rule}: {_short(sentence.text)}"
        + (f" ({printable(verdict.reason)})" if verdict.reason else "")
        for sentence, verdict in judged.rows
        if verdict is not None and not verdict.supported
    ]


def _short(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= WIDTH else f"{shown[: WIDTH - 2]} …"


def _totals(found: dict[str, Any]) -> list[str]:
    score = "no claim" if found["score"] is None else f"{found['score']:.3f}"
    lines = [
        f"faithfulness {score} · {found['scored']} of {found['answers']} answers claim something · "
        f"{found['supported']} of {found['claims']} claims supported, {found['quoted']} word for "
        f"word · {found['uncited']} without a citation · "
        f"{found['unknown_citations']} with one that was not issued · "
        f"{found['refused']} refusals · judge {found['judge']}"
    ]
    gold = found.get("gold")
    if gold:
        lines.append(
            f"right answers: contained {gold['contained']:.3f}, F1 {gold['f1']:.3f}, exact match "
            f"{gold['exact_match']:.3f}, of {gold['answers']}"
        )
    return lines
