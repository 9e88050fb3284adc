"""What evaluations, `index inspect`, `index neighbors` and `search --context` print.

All of it is safe for a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from ragstream_app.output.tables import print_places
from ragstream_app.output.words import printable, shortened
from ragstream_app.session import console as _console
from ragstream_app.session import emit_json, note
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from rich.table import Table

    from ragstream_core.evaluation.faithfulness import Judged, Report
    from ragstream_core.evaluation.prompt_quality import PromptMeasure, PromptReport
    from ragstream_core.services.chunk_maps import Anchor, Neighbour
    from ragstream_core.services.eval_gold import EarlierReport
    from ragstream_core.services.inspect_index import IndexReport
    from ragstream_core.wiring.workspace import Workspace


SNIPPET_CHARS = 140
BAR = 30


def print_neighbours(rows: Sequence[Anchor]) -> None:
    """Print each anchor with its neighbours as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    console = _console()
    for row in rows:
        title = Text(_where(row), style="bold")
        table = Table(title=title, title_justify="left", expand=True, box=SIMPLE_HEAD)
        table.add_column("cosine", justify="right", no_wrap=True)
        table.add_column("where", overflow="fold", max_width=max(20, 2 * console.width // 5))
        table.add_column("text", ratio=1)
        table.add_row("", Text("itself", style="dim"), Text(_words(row), style="dim"))
        for near in row.neighbours:
            table.add_row(f"{near.score:.3f}", Text(_where(near)), Text(_words(near)))
        console.print(table)
    if not any(row.neighbours for row in rows):
        console.print(Text("there is no other chunk"))


def print_report(found: IndexReport) -> None:
    """Print the one page about an index."""
    from rich.text import Text

    console, tokens, norms = _console(), found.tokens, found.norms
    repeats, vectors = found.repeated, found.vectors
    types = ", ".join(f"{count:,} {name}" for name, count in found.files.items())
    facts = (
        ("generation", f"{found.generation} of {found.created[:19]}, "
                       f"digest {found.digest[:12]}"),
        ("model", f"{found.model}, {found.dimension} dimensions, {found.embed_fp[:12]}"),
        ("files", f"{types or 'none'}; {found.skipped:,} left out"),
        ("chunks", f"{found.chunks:,} of {found.texts:,} different texts"),
        ("tokens", f"{tokens.min:,} to {tokens.max:,} a chunk, "
                   f"{tokens.mean:,} on average"),
        ("repeated", f"{repeats.texts:,} texts in {repeats.chunks:,} chunks, "
                     f"one of them {repeats.most:,} times" if repeats.texts else "none"),
        ("vectors", f"{vectors.live:,} live, {vectors.missing:,} missing, "
                    f"{vectors.older:,} kept for older generations"),
        ("lengths", f"{norms.min:.6f} to {norms.max:.6f}; "
                    f"{norms.not_unit + norms.not_finite:,} are not unit vectors"),
    )  # fmt: skip
    console.print(Text(found.project, style="bold"))
    console.print(_columns([(name, printable(value)) for name, value in facts]))
    console.print(Text("tokens a chunk", style="bold"))
    console.print(_bars([(f"{b.low:,}-{b.high:,}", b.count) for b in tokens.histogram]))
    console.print(Text("largest files", style="bold"))
    console.print(_bars([(printable(path), n) for path, n in found.largest.items()]))
    print_places((found.locations or {}).values())
    for finding in found.findings:
        said = f"{finding.check}: {printable(finding.message)}\n  next: {finding.run}"
        console.print(Text(said, style="red"))
    if not found.findings:
        console.print(Text("vectors and metadata agree", style="green"))


def print_context(
    workspace: Workspace,
    text: str,
    projects: Sequence[str],
    *,
    separator: str,
    task: str,
    as_json: bool,
) -> None:
    """Find passages for a text and print them as one; what else there is to say goes to stderr.

    Args:
        workspace: The data root.
        text: What to look for.
        projects: Where.
        separator: Between two passages, with the escapes for new line and tab.
        task: Name of a task profile; empty for none.
        as_json: Print JSON.

    Raises:
        RagstreamError: Unknown project, damaged index, missing model.
    """
    from ragstream_core.services.search import ContextBuilder
    from ragstream_core.wiring.token_budget import counter_of_settings

    between = separator.replace("\\n", "\n").replace("\\t", "\t")
    names = tuple(dict.fromkeys(projects))
    found = ContextBuilder(workspace, names, between, task=task).build_context(text)
    counter = counter_of_settings(workspace, workspace.config.with_task(task).chain())
    tokens = counter.count(found.text)
    if as_json:
        shown = [{"chunk_id": p.chunk_id, "score": p.score} for p in found.passages]
        counts = {"cut": found.cut, "left_out": found.left, "below_min_score": found.below}
        emit_json({"context": found.text, "passages": shown, "tokens": tokens, **counts})
        return
    typer.echo(printable(found.text))
    said = [
        counted(len(found.passages), "passage"),
        f"{len(found.text):,} characters",
        f"{tokens:,} tokens",
    ]
    said += ["the last one is cut"] if found.cut else []
    said += [f"{found.left} more do not fit"] if found.left else []
    said += [f"{found.below} are below retrieval.min_score"] if found.below else []
    note(" · ".join(said))


def _columns(rows: Sequence[tuple[str, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(f"  {name}", style="dim"), Text(value, overflow="fold"))
    return table


def _bars(rows: Sequence[tuple[str, int]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    most = max((count for _, count in rows), default=1)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for name, count in rows:
        bar = "█" * max(round(BAR * count / most), 1 if count else 0)
        table.add_row(Text(f"  {name}", overflow="fold"), Text(f"{count:,}"), Text(bar))
    return table


def _where(row: Anchor | Neighbour) -> str:
    return printable(f"{row.source}#{row.chunk_id.rpartition('::')[2]}")


def _words(row: Anchor | Neighbour) -> str:
    return shortened(row.text, SNIPPET_CHARS)


WIDTH = 70


def print_faithfulness(report: Report) -> None:
    """Print a report: answers, unsupported sentences, what was skipped, totals."""
    for judged in report.answers:
        score = "  -  " if judged.score is None else f"{judged.score:.3f}"
        of = f"{judged.supported}/{len(judged.verdicts)}"
        typer.echo(f"{score}  {of:>7}  {shortened(judged.of.question or 'no question', WIDTH)}")
        for line in _unsupported(judged):
            typer.echo(f"         {line}")
    for where, why in report.skipped:
        typer.echo(f"skipped: {where}: {printable(why)}")
    for line in _totals(report):
        typer.echo(line)


def _unsupported(judged: Judged) -> list[str]:
    return [
        f"{verdict.rule}: {shortened(sentence.text, WIDTH)}"
        + (f" ({printable(verdict.reason)})" if verdict.reason else "")
        for sentence, verdict in judged.rows
        if verdict is not None and not verdict.supported
    ]


def _totals(report: Report) -> list[str]:
    found = report.totals
    score = "no claim" if found.score is None else f"{found.score:.3f}"
    lines = [
        f"faithfulness {score} · {found.scored} of {found.answers} answers claim something · "
        f"{found.supported} of {found.claims} claims supported, {found.quoted} word for "
        f"word · {found.uncited} without a citation · "
        f"{found.unknown_citations} with one that was not issued · "
        f"{found.refused} refusals · judge {report.judge}"
    ]
    if found.right:
        lines.append(
            f"right answers: contained {found.right.contained:.3f}, F1 {found.right.f1:.3f}, exact "
            f"match {found.right.exact_match:.3f}, of {found.right_known}"
        )
    return lines


def print_prompt_quality(report: PromptReport) -> None:
    """Print a line a question, those without their answer first, then the figures."""
    for row in sorted(report.rows, key=lambda row: (_standing(row)[0], row.line)):
        typer.echo(
            f"{_standing(row)[1]:<10}  {row.tokens:>6,} tokens  {row.facts_relevant:>2} of "
            f"{row.facts:>2} facts  {shortened(row.question, WIDTH)}"
        )
    found = report.figures
    said = [
        f"generation {report.generation} · {found.questions:,} questions, {found.unanswerable:,} "
        "of them without an answer in the documents",
        f"answer shown {_share(found.answer_shown)}, among the facts "
        f"{_share(found.answer_in_facts)} · expected files and passages "
        f"{_share(found.expected_shown)}",
        f"tokens {_number(found.tokens)}, of evidence before the first answer "
        f"{_number(found.tokens_before)} · of the attachments {_share(found.relevant_share)} "
        f"relevant · repeated passages {_number(found.copies, 2)} a prompt",
        f"facts {_number(found.facts)} a prompt: relevant {_share(found.facts_relevant)}, whole "
        f"{_share(found.facts_complete)} · constraints {_number(found.constraints)}: binding "
        f"{_share(found.constraints_binding)}",
        f"open issues: {_share(found.issues_unanswerable)} of the questions without an answer, "
        f"{_share(found.issues_answerable)} of the others",
        f"without an answer: not found {_share(found.not_found_unanswerable)}, perhaps "
        f"{_share(found.perhaps_unanswerable)} · the others: not found "
        f"{_share(found.not_found_answerable)}, perhaps {_share(found.perhaps_answerable)}",
        f"of the estimate: AUC {_share(found.auc)}, recall at 5 % false alarms "
        f"{_share(found.recall_at_alarms)}",
    ]
    for line in said:
        typer.echo(line)


def print_prompt_changes(old: EarlierReport, report: PromptReport) -> None:
    """Print the figures that differ from an earlier report.

    Args:
        old: That report.
        report: Of now.
    """
    from ragstream_core.evaluation.prompt_quality import changes

    if old.series != report.series:
        note("the earlier report is about other questions")
    rows = changes(old.figures, report.figures)
    typer.echo("then and now:" if rows else "no figure differs from the earlier report")
    for name, then, now in rows:
        typer.echo(f"  {name:<20} {then:>10,.4g} {now:>10,.4g}  {now - then:+,.4g}")


def _standing(row: PromptMeasure) -> tuple[int, str]:
    if row.unanswerable:
        return 4, row.word
    if row.answer_shown is None:
        return (0 if row.expected_shown < row.expected else 3), f"{row.expected_shown} shown"
    if not row.answer_shown:
        return 0, "no answer"
    return (2, "in facts") if row.answer_in_facts else (1, "shown")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
