"""What people see on a terminal: aligned text, no table library, so that `status` stays light.

Texts of documents and file names go through `printable`: they cannot colour a line or move the
cursor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from ragstream_app.output.stages import call_text, stage_text, usage_text
from ragstream_app.output.words import KEY_DIGITS, duration, moment, one_line, printable
from ragstream_app.session import note
from ragstream_core.ingestion.file_types import file_type
from ragstream_core.ingestion.forecast import SETTINGS, UNREADABLE
from ragstream_core.ingestion.junk import PREFIX as JUNK
from ragstream_core.ingestion.stats import FILE_KEYS, remarks
from ragstream_core.platform import extras
from ragstream_core.records.chunk import unread_sentence
from ragstream_core.records.identity import shown_name
from ragstream_core.text.code import GRAMMARS
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from ragstream_app.cli.doctor_servers import Check
    from ragstream_core.answers.answer import Answer
    from ragstream_core.evaluation.retrieval import EvaluationResult
    from ragstream_core.evaluation.sweep import GateMeasurement, Point, Variant
    from ragstream_core.ingestion.forecast import Forecast
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.prompts.exchanges import AgentsUsage
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.services.eval_gold import GoldReport
    from ragstream_core.services.search import SearchHit
    from ragstream_core.wiring.ingestion import ProjectStatus

MAX_SHOWN = 12
NAMES_SHOWN = 3
SNIPPET_CHARS = 150
NAME_WIDTH = 48
NOTICED_S = 0.1
_COUNTED = {
    "embedded": "new texts",
    "reused": "texts that had a vector already, or stand twice",
    "live": "of all files, unchanged ones too",
}
_LEVEL_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def print_ingest(stats: IngestionStats, run_id: str) -> None:
    """Print the counts of an ingest, what changed, what was skipped and why."""
    rows = [("", "files", "")]
    for kind in FILE_KEYS:
        names = [printable(path) for path in stats.changed.get(kind, ())]
        count = stats.files.get(kind, 0) if kind != "skipped" else len(stats.skipped_reasons)
        rows.append((kind, f"{count:,}", _some(names)))
    rows.append(("", "chunks", ""))
    rows += [(k, f"{stats.chunks.get(k, 0):,}", _COUNTED.get(k, "")) for k in stats.chunk_keys]
    typer.echo(printable(stats.project))
    _aligned(rows, right=(1,))
    _list("skipped", [f"{path}: {reason}" for path, reason in stats.skipped_reasons])
    advise_on_skipped([reason for _, reason in stats.skipped_reasons])
    read = (path for kind in ("new", "changed") for path in stats.changed.get(kind, ()))
    if any(file_type(path) in GRAMMARS for path in read) and not extras.is_here("code"):
        note(f"source code was cut by its lines; {extras.USES['code']}: {extras.install('code')}")
    _list("warning", stats.warnings)
    embedded = stats.chunks.get("embedded", 0)
    rate = f", {embedded / stats.seconds:,.0f} chunks/s" if embedded and stats.seconds else ""
    done = "indexed:" if stats.committed else "nothing new; the newest is"
    if stats.refused:
        typer.echo(f"refused by the quality gate: {stats.refused}")
        done = "nothing was indexed; the newest stays"
    run = f" · Dagster run {run_id[:8]}" if run_id else ""
    more = after_text(stats)
    typer.echo(f"{done} generation {stats.generation} in {stats.seconds:.2f} s{rate}{more}{run}")


def after_text(stats: IngestionStats) -> str:
    """Return how long an ingest went on after its commit; empty if that is too short to notice."""
    seconds = stats.after_commit_s
    return f"; derived files took another {seconds:.2f} s" if seconds >= NOTICED_S else ""


def print_status(rows: Sequence[ProjectStatus], prompts: Sequence[Mapping[str, str]]) -> None:
    """Print a line a project, then the last prompts."""
    lines = [("project", "gen", "files", "chunks", "to ingest", "skipped", "MB", "made")]
    lines += [
        (
            printable(row.project),
            str(row.generation or "–"),
            f"{row.files:,}",
            f"{row.chunks:,}",
            f"{len(row.pending.paths):,}",
            f"{len(row.skipped):,}",
            f"{row.bytes / 1e6:,.1f}",
            moment(row.created),
        )
        for row in rows
    ]
    _aligned(lines, right=tuple(range(1, 7)))
    for row in rows:
        _standing(row)
    if prompts:
        typer.echo("last prompts:")
    for item in prompts:
        typer.echo(f"  {item['prompt_key'][:KEY_DIGITS]}  {moment(item['when'])}")
    stale = [r.project for r in rows if r.reason and UNREADABLE not in r.reason]
    if stale:
        typer.echo(f"next: ragstream ingest {' '.join(stale)}")
    elif prompts:
        typer.echo(f"next: ragstream explain {prompts[0]['prompt_key'][:KEY_DIGITS]}")


def _standing(row: ProjectStatus) -> None:
    """Print what is to know of a project, a line each."""
    if row.forecast.chunks:
        typer.echo(f"{printable(row.project)}: {forecast_text(row.forecast)}")
    if UNREADABLE in row.reason:
        typer.echo(f"{printable(row.project)}: {printable(row.reason)}")
    if row.reason == SETTINGS and not row.pending.paths:
        name = printable(row.project)
        typer.echo(f"{name}: settings or readers changed; an ingest looks at all files again")
    for folder in row.absent:
        typer.echo(printable(f"{row.project}: {folder}: what it held stays in the index"))
    for path, pages in row.without_text:
        typer.echo(printable(f"{row.project}/{path}: {unread_sentence(pages)}"))
    for sentence in remarks(row.assumed):
        typer.echo(printable(f"{row.project}/{sentence}"))
    for sentence in (state.sentence for state in row.stores.values() if state.sentence):
        typer.echo(f"{printable(row.project)}: {printable(sentence)}")


def forecast_text(forecast: Forecast) -> str:
    """Return what an ingest would embed and how long that takes, in one sentence."""
    speed = f"{forecast.chunks_per_s:,.0f} chunks/s"
    basis = f"{speed} measured here" if forecast.measured else f"an estimate: {speed} assumed"
    return (
        f"an ingest would embed about {counted(forecast.chunks, 'chunk')} of "
        f"{counted(forecast.files, 'file')} "
        f"in about {duration(forecast.seconds)} ({basis})"
    )


def print_skipped(rows: Sequence[ProjectStatus]) -> None:
    """Print every file that is left out with its reason, a line each."""
    for row in rows:
        for path, reason in row.skipped:
            typer.echo(printable(f"{row.project}/{path}: {reason}".replace("\n", "\\n")))
    advise_on_skipped([reason for row in rows for _, reason in row.skipped])


def advise_on_skipped(reasons: Sequence[str]) -> None:
    """Say what helps files that are left out as junk; nothing if none is."""
    if any(reason.startswith(JUNK) for reason in reasons):
        note(
            "a line `!NAME` in .ragignore, or `--exclude '!NAME'`, takes back what is left as junk"
        )


def print_prompt(prompt: MadePrompt, warnings: Sequence[str], places: Sequence[str] = ()) -> None:
    """Print the Super-Prompt on stdout, byte for byte unless to a terminal; a footer on stderr.

    Args:
        prompt: Some or all of its stages.
        warnings: All there are.
        places: Where the text was put instead.
    """
    if prompt.text and not places:
        shown = printable(prompt.text) if sys.stdout.isatty() else prompt.text
        typer.echo(shown, nl=False, color=True)  # else click takes out what looks like a colour
    elif not prompt.text:
        typer.echo(printable(stage_text(prompt.super_prompt)))
    for warning in warnings:
        note(f"warning: {printable(warning)}")
    print_usage(prompt.llm)
    seconds = sum(prompt.timings_ms.values()) / 1000
    run = f" · Dagster run {prompt.run_id[:8]}" if prompt.run_id else ""
    where = f" · written to {' and '.join(places)}" if places and prompt.text else ""
    if not prompt.text:
        note(f"stage {prompt.super_prompt.stage} · {seconds:.2f} s{run}")
        return
    key = prompt.key[:KEY_DIGITS]
    first = f"key {key}" if key else "nothing is kept of it"
    if prompt.super_prompt.model_target:
        first += f" · for {printable(prompt.super_prompt.model_target)}"
        first += f", ${prompt.cost_usd:.4f}" if prompt.cost_usd else ""
    chunks = len(prompt.super_prompt.final_selection_ids)
    took = "from its record" if prompt.asked else f"{seconds:.2f} s"
    note(f"{first} · {prompt.tokens:,} tokens · {counted(chunks, 'chunk')} · {took}{run}{where}")
    if prompt.asked:
        last = moment(prompt.asked[-1].at)
        note(f"nothing has changed since {last}; --fresh runs the chain again")
    if key:
        note(f"next: ragstream explain {key} · ragstream replay {key}")


def print_citations(answer: Answer) -> None:
    """Print what an answer cites under it, and what is known about it on stderr."""
    typer.echo("", nl=not answer.text.endswith("\n"))
    if answer.citations:
        typer.echo("")
    for citation in answer.citations:
        where = printable(f"{citation.where()} [{citation.id}]")
        words = one_line(citation.snippet)[:SNIPPET_CHARS]
        typer.echo(f"  {where}: {words}" if citation.verified
                   else f"  unverified: {where}: {citation.reason}")  # fmt: skip
    for warning in answer.warnings:
        note(f"warning: {printable(warning)}")
    note(" · ".join(answer_facts(answer)))


def print_usage(usage: AgentsUsage) -> None:
    """Print what the agents took that asked a language model; nothing if none did."""
    for call in usage.calls:
        note(f"{call.op} {printable(call_text(call))}")
    if len(usage.calls) > 1:
        note(f"together: {usage_text(usage.total)}")


def answer_facts(answer: Answer) -> list[str]:
    """Return what is known about an answer, as short texts."""
    key = answer.prompt_key[:KEY_DIGITS]
    unasked = "no model answered" if answer.origin == "extract" else "no model was asked"
    parts = [f"{answer.status}, {answer.model}" if answer.model else unasked]
    parts += [usage_text(answer.usage)] if answer.usage and answer.model else []
    parts += [f"agents before: {usage_text(answer.agents)}"] if answer.agents else []
    parts.append(f"prompt {key}" if key else "nothing is kept of it")
    return [*parts, f"go on with --session {answer.session}"] if answer.session else parts


def print_search(hits: Sequence[SearchHit], least: float) -> None:
    """Print the hits, best first: where each is, its scores, and its first words.

    Args:
        hits: What was found.
        least: The least cosine of a hit.
    """
    for rank, hit in enumerate(hits, start=1):
        where = printable(shown_name(hit.chunk_id))
        more = len(hit.also)
        where += f" and {more:,} more file{'s' if more > 1 else ''}" if more else ""
        scores = f"dense {hit.dense:.3f} · lexical {hit.lexical:.2f}"
        typer.echo(f"{rank:>3}  {hit.score:.3f}  {where}  ({scores})")
        typer.echo(f"     {one_line(hit.snippet)[:SNIPPET_CHARS]}")
        if hit.location:
            typer.echo(f"     in place: {printable(hit.location)}")
    if not hits:
        below = f" with a cosine of {least:g} or more (retrieval.min_score)" if least > -1 else ""
        note(f"nothing found{below}; `ragstream status` shows what is indexed")


def print_places(places: Iterable[str]) -> None:
    """Print where files lie that are read in place, a line each."""
    for place in dict.fromkeys(places):
        typer.echo(f"in place  {printable(place)}")


def print_checks(checks: Sequence[Check]) -> None:
    """Print the doctor's findings, each with its next step where it has one."""
    for check in checks:
        level = typer.style(f"{check.level:<5}", fg=_LEVEL_COLOURS[check.level])
        typer.echo(f"{level}{check.name}: {printable(check.detail)}")
        if check.next_step:
            typer.echo(f"       next: {check.next_step}")


def print_settings(rows: Iterable[tuple[str, Any, str]], *, origin: bool) -> None:
    """Print a line a setting, with where it came from where that was asked for."""
    for key, value, where in rows:
        shown = f"{key} = {value!r}"
        typer.echo(f"{shown:<60}  {where}" if origin else shown)


def print_metrics(result: EvaluationResult) -> None:
    """Print the metrics of a retrieval evaluation."""
    _aligned([(name, f"{value:.4f}") for name, value in result.metrics.items()])
    typer.echo(
        f"{result.queries:,} queries · settings {result.fingerprint[:KEY_DIGITS]} "
        f"· {result.seconds:.1f} s"
    )


def print_gold(report: GoldReport) -> None:
    """Print a line an expected item with its rank, the worst first, and the figures."""
    found = report.to_json()
    rows = [
        (rank, row.line, item, row.question)
        for row in report.rows
        for item, rank in zip(row.expected, row.ranks, strict=True)
    ]
    rows.sort(key=lambda row: (row[0] != 0, -row[0], row[1]))
    head = ("rank", "line", "expected", "question")
    shown = [
        (str(rank or "-"), str(line), printable(item), one_line(question))
        for rank, line, item, question in rows
    ]
    _aligned([head, *shown], right=(0, 1))
    k = found["k"]
    typer.echo(
        f"generation {found['generation']} · {found['questions']:,} questions · recall@{k} "
        f"{found['recall']:.3f} · MRR@{k} {found['mrr']:.3f} · {found['missed']:,} not found"
    )


def print_sweep(points: Sequence[Point]) -> None:
    """Print a line a point of a threshold sweep."""
    head = (
        "theta", "relative", "kept", "shown", "candidates", "tokens", "saved", "answered",
        "perhaps", "not found",
    )  # fmt: skip
    rows = [
        (
            f"{p.theta:g}",
            f"{p.relative:g}",
            f"{p.kept_relevant:.3f}",
            f"{p.shown:.3f}",
            f"{p.candidates:.1f}",
            f"{p.tokens:,.0f}",
            f"{p.saved:,.0f}",
            *(f"{share:.3f}" for share in (p.answered, p.perhaps, p.not_found)),
        )
        for p in points
    ]
    _aligned([head, *rows], right=tuple(range(len(head))))
    typer.echo(f"{points[0].questions:,} questions · {points[0].found:,} expected items found")


def print_variants(variants: Sequence[Variant]) -> None:
    """Print a line a variant: its settings, and what stands in the prompts under them."""
    keys = list(variants[0].settings)
    forms = {
        "answer_shown": ".3f", "answer_in_facts": ".3f", "expected_shown": ".3f",
        "tokens": ",.0f", "tokens_saved": ",.0f", "facts": ".1f",
    }  # fmt: skip
    head = [*keys, *(name.replace("_", " ") for name in forms), *variants[0].words]
    rows = []
    for each in variants:
        found = each.report.figures.to_json()
        figures = [
            "-" if (value := found[name]) is None else format(value, form)
            for name, form in forms.items()
        ]
        words = [f"{share:.3f}" for share in each.words.values()]
        rows.append([*map(printable, each.settings.values()), *figures, *words])
    _aligned([head, *rows], right=tuple(range(len(keys), len(head))))
    typer.echo(f"{counted(len(variants[0].report.rows), 'question')}; shares, and means a prompt")


def print_gate(found: GateMeasurement) -> None:
    """Print what both gates came to, and which one `gate.backend: auto` takes."""
    rows = [
        (name, f"{row.kept_relevant:.3f}", f"{row.candidates:.1f}")
        for name, row in ((found.model, found.nli), ("similarity", found.similarity))
    ]
    _aligned([("gate", "kept", "candidates"), *rows], right=(1, 2))
    chosen = found.model if found.is_better else "similarity"
    asked, items = found.nli.questions, found.nli.found
    typer.echo(f"{asked:,.0f} questions · {items:,.0f} expected items found")
    typer.echo(f"gate.backend=auto takes {chosen} at gate.nli_theta={found.nli_theta:g}")


def _aligned(rows: Sequence[Sequence[str]], *, right: tuple[int, ...] = ()) -> None:
    """Print rows of cells in columns, two blanks apart; those in ``right`` end in line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _list(title: str, lines: Sequence[str]) -> None:
    for line in lines[:MAX_SHOWN]:
        typer.echo(f"  {title}: {printable(line)}")
    if len(lines) > MAX_SHOWN:
        typer.echo(f"  {title}: {len(lines) - MAX_SHOWN:,} more (--json lists all)")
