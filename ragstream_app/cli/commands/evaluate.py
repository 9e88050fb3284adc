"""`ragstream eval retrieval`, `gold`, `sweep`, `gate`, `faithfulness`: how good results are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, session_of
from ragstream_core.errors import AddOption, UsageError

if TYPE_CHECKING:
    from ragstream_core.evaluation.faithfulness import Report
    from ragstream_core.ports import Progress
    from ragstream_core.wiring.workspace import Workspace


RETRIEVAL_EPILOG = """**Files**

corpus.jsonl: one object a line with id, text and, if there is one, title

queries.jsonl: one object a line with id and text

qrels.tsv: a header line, then query-id, corpus-id and score, separated by tabs"""

GOLD_EPILOG = """**Examples**

ragstream eval gold handbook

ragstream eval gold handbook --set retrieval.dense_weight=0.7 --json"""

SWEEP_EPILOG = """**Examples**

ragstream eval sweep handbook

ragstream eval sweep handbook --theta 0.2 --theta 0.3 --relative 0.42

ragstream eval sweep handbook --vary retrieval.evidence=tight,full --vary prompt.max_facts=6,12"""

GATE_EPILOG = """**Examples**

ragstream eval gate handbook

ragstream eval gate handbook --set gate.nli_theta=0.3 --json"""

FAITHFULNESS_EPILOG = """**Examples**

ragstream eval faithfulness -p handbook (the cited extract; no model is needed)

ragstream eval faithfulness -p handbook --ask --limit 10

ragstream eval faithfulness --session 2026-11-03-a --judge quote

ragstream eval faithfulness --answers answers.jsonl --json --out report.json"""


def retrieval(
    ctx: typer.Context,
    corpus: Annotated[Path, typer.Option(metavar="FILE", help="The documents.")],
    queries: Annotated[Path, typer.Option(metavar="FILE", help="The questions.")],
    qrels: Annotated[Path, typer.Option(metavar="FILE", help="Which documents answer which.")],
    run: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the ranking as a TREC run file.")
    ] = None,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Measure nDCG@10, R@10 and MRR@10 of retrieval with the given settings.

    Raises:
        UsageError: A file is missing or malformed.
    """
    for path in (corpus, queries, qrels):
        if not path.is_file():
            raise UsageError(f"no such file: {path}", hint="ragstream eval retrieval --help")
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.config import parse_assignments
    from ragstream_core.evaluation.retrieval import write_run
    from ragstream_core.services.eval_retrieval import evaluate_retrieval

    workspace = session_of(ctx).workspace(explicit=dict(parse_assignments(assignments or [])))
    with ingest_progress("eval") as progress:
        result = evaluate_retrieval(
            workspace,
            corpus,
            queries=queries,
            qrels=qrels,
            progress=lambda done, total: progress("texts, then queries", done, total),
        )
    if run is not None:
        write_run(run, result.run)
    if as_json:
        emit_json(result)
        return
    from ragstream_app.output.tables import print_metrics

    print_metrics(result)


def gold(
    ctx: typer.Context,
    project: options.GoldProject,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Show the rank of each file and passage that the gold questions expect.

    The newest generation is asked, as an ingest asks it before it commits. A rank of `-` says that
    the item is not among the first `ingestion.gold_k` passages.

    Raises:
        UsageError: There are no gold questions, or a line is not one.
        RagstreamError: Nothing is ingested, or the embedding model is not available.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.config import parse_assignments
    from ragstream_core.services.eval_gold import ask_gold

    workspace = session_of(ctx).workspace(explicit=dict(parse_assignments(assignments or [])))
    with ingest_progress("gold questions") as told:
        report = ask_gold(
            workspace, project, progress=lambda done, total: told("questions", done, total)
        )
    if as_json:
        emit_json(report)
        return
    from ragstream_app.output.tables import print_gold

    print_gold(report)


def sweep(
    ctx: typer.Context,
    project: options.GoldProject,
    theta: Annotated[
        list[float] | None, typer.Option(help="A `gate.theta`; repeatable; default: seven.")
    ] = None,
    relative: Annotated[
        list[float] | None, typer.Option(help="A `gate.relative`; repeatable; default: four.")
    ] = None,
    png: Annotated[str, typer.Option(hidden=True, help="Gone with the next release.")] = "",
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,…",
            help="Vary this setting instead of the thresholds; repeatable: every combination.",
        ),
    ] = None,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Show what the gate keeps of what gold questions need, and how long prompts get.

    Every question of the project's `gold.jsonl` is asked under every pair of thresholds. `kept`
    is the share of the expected files and passages that pass the gate, of those that retrieval
    found; `shown` the share that stands in the prompt; `saved` is how many tokens were left out
    behind the end of the evidence, as repeated passages and around windows; the last columns are
    the shares of the questions that are answered, perhaps answered and not found at worst.
    Nothing of the questions is kept.

    With --vary any settings of prompts are varied, and a line a combination shows where the
    answers stand, what a prompt takes and saves, and the same three shares.

    Raises:
        UsageError: There are no gold questions, or a threshold is not between 0 and 1.
        UnknownSetting: A varied key that no stage reads, or a value out of its range.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.config import parse_assignments
    from ragstream_core.evaluation.sweep import RELATIVES, THETAS, write_point
    from ragstream_core.services import eval_gold

    workspace = session_of(ctx).workspace(explicit=dict(parse_assignments(assignments or [])))
    if png:
        raise UsageError(
            "--png is gone: the table holds the same figures",
            hint=(AddOption("--json"), " prints them for other programs"),
        )
    if vary:
        if theta or relative:
            raise UsageError(
                "--vary goes without --theta and --relative",
                hint="--vary gate.theta=0.2,0.3 varies a threshold",
            )
        _show_variants(workspace, project, vary, as_json=as_json)
        return
    pairs = [
        (t, r) for t in sorted({*(theta or THETAS)}) for r in sorted({*(relative or RELATIVES)})
    ]
    with ingest_progress("sweep") as progress:
        points = list(
            eval_gold.sweep(
                workspace,
                project,
                pairs,
                progress=lambda done, total: progress("questions", done, total),
            )
        )
    for point in points:
        write_point(eval_gold.points_dir(workspace, project), point)
    if as_json:
        emit_json({"project": project, "points": points})
        return
    from ragstream_app.output.tables import print_sweep

    print_sweep(points)


def _show_variants(workspace: Workspace, project: str, given: list[str], *, as_json: bool) -> None:
    from ragstream_app.output.progress import ingest_progress
    from ragstream_app.output.tables import print_variants
    from ragstream_core.config import parse_assignments
    from ragstream_core.services.eval_gold import vary_settings

    choices = {
        key: [value.strip() for value in values.split(",") if value.strip()]
        for key, values in parse_assignments(given).items()
    }
    with ingest_progress("sweep") as told:
        found = list(
            vary_settings(
                workspace, project, choices,
                progress=lambda done, total: told("prompts", done, total),
            )
        )  # fmt: skip
    if as_json:
        emit_json({"project": project, "variants": found})
    else:
        print_variants(found)


def gate(
    ctx: typer.Context,
    project: options.GoldProject,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Measure whether the NLI model is a better gate than similarity.

    Every gold question goes through both gates. The model is better if it keeps at least as
    much of what the questions need, lets no more candidates pass, and is ahead in one of the two.
    The result is kept with the digest of the model's weights, and `gate.backend: auto` heeds it.

    Raises:
        UsageError: There are no gold questions, or a line is not one.
        WeightsMissing: The model of `gate.model` is not on this machine.
        RagstreamError: Nothing is ingested, or the embedding model is not available.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.config import parse_assignments
    from ragstream_core.services.eval_gold import measure_gate

    workspace = session_of(ctx).workspace(explicit=dict(parse_assignments(assignments or [])))
    with ingest_progress("gate") as told:
        found = measure_gate(
            workspace, project, progress=lambda done, total: told("questions", done, total)
        )
    if as_json:
        emit_json(found)
        return
    from ragstream_app.output.tables import print_gate

    print_gate(found)


def faithfulness(
    ctx: typer.Context,
    project: Annotated[
        str, typer.Option("--project", "-p", metavar="NAME", help="A project with gold questions.")
    ] = "",
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Gold questions; default: the project's gold.jsonl."),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", metavar="", help="Let the language model answer them.")
    ] = False,
    answers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge the answers of a file (JSON lines).")
    ] = None,
    session: Annotated[
        str, typer.Option(metavar="NAME", help="Judge the answers of a conversation.")
    ] = "",
    prompts: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Judge the answers to a recorded prompt; repeatable."),
    ] = None,
    judge: Annotated[
        str,
        typer.Option(metavar="NAME", help="auto, nli, quote or llm; default: evaluation.judge."),
    ] = "",
    limit: Annotated[int, typer.Option(min=0, help="Only the first N answers; 0: all.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report with all texts there.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show which share of the claims of answers is supported by the passages they cite.

    Without --ask no language model is needed: the cited extract of each gold question's prompt is
    judged. Of gold questions the figures are kept, of everything else nothing.

    Raises:
        UsageError: There is nothing to judge, or options that do not go together.
        RagstreamError: A model or a prompt is not available.
    """
    from ragstream_app.output.progress import ingest_progress

    given = bool(answers) + bool(session) + bool(prompts)
    if given > 1 or (given and (gold or ask)) or not (given or project):
        raise UsageError(
            "one of -p PROJECT (with --gold, --ask), --answers, --session and --prompts",
            hint="ragstream eval faithfulness --help",
        )
    workspace = session_of(ctx).workspace()
    with ingest_progress("faithfulness") as told:

        def progress(done: int, total: int) -> None:
            told("answers", done, total)

        report = _judged(
            workspace, project, gold, ask=ask, answers=answers, session=session,
            prompts=prompts or [], judge=judge, limit=limit, progress=progress,
        )  # fmt: skip
    if out is not None:
        _write_report(out, report)
    if as_json:
        emit_json(report)
        return
    from ragstream_app.output.inspect import print_faithfulness

    print_faithfulness(report)


def _judged(
    workspace: Workspace,
    project: str,
    gold: Path | None,
    *,
    ask: bool,
    answers: Path | None,
    session: str,
    prompts: list[str],
    judge: str,
    limit: int,
    progress: Progress,
) -> Report:
    from ragstream_core.services import eval_faithfulness

    if answers or session or prompts:
        return eval_faithfulness.evaluate_recorded(
            workspace, project=project, judge=judge, session=session, prompts=prompts,
            file=answers, limit=limit, progress=progress,
        )  # fmt: skip
    return eval_faithfulness.evaluate_gold(
        workspace, project, judge=judge, gold=gold, limit=limit, ask=ask, progress=progress
    )


def _write_report(path: Path, report: Report) -> None:
    import json

    from ragstream_core.platform.files import replace_text

    try:
        replace_text(path, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
