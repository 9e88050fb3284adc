"""`ragstream eval prompts`: what stands in the prompts of questions whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, session_of

if TYPE_CHECKING:
    from ragstream_core.evaluation.prompt_quality import PromptReport

PROMPTS_EPILOG = """**Examples**

ragstream eval prompts handbook

ragstream eval prompts handbook --out before.json

ragstream eval prompts handbook --set prompt.budget_tokens=3000 --compare before.json

ragstream eval prompts manual --gold questions.jsonl --limit 20 --json"""


def prompts(
    ctx: typer.Context,
    project: options.GoldProject,
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Gold questions; default: the project's gold.jsonl."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Only the first N questions; 0: all.")] = 0,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An earlier report of --out: show what differs."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report there, as JSON.")
    ] = None,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Show what stands in the prompts of gold questions: answers, tokens, facts, open issues.

    Every question goes through the whole chain, without any conversation and without a language
    model. A question with `unanswerable: true` should get an open issue, another one should not.
    No prompt is kept; --out writes the report.

    Raises:
        UsageError: There are no gold questions, or a file is not what it should be.
        RagstreamError: Nothing is ingested, or a model is not available.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.config import parse_assignments
    from ragstream_core.services.eval_gold import measure_prompts, read_report

    workspace = session_of(ctx).workspace(explicit=dict(parse_assignments(assignments or [])))
    old = read_report(compare) if compare else None
    with ingest_progress("prompts") as told:
        report = measure_prompts(
            workspace, project, gold=gold, limit=limit,
            progress=lambda done, total: told("prompts", done, total),
        )  # fmt: skip
    if out is not None:
        _write(out, report)
    if as_json:
        from ragstream_core.evaluation.prompt_quality import changes

        then = [] if old is None else changes(old.figures, report.figures)
        compared = [{"figure": name, "then": a, "now": b} for name, a, b in then]
        emit_json(report.to_json() | ({} if old is None else {"changes": compared}))
        return
    from ragstream_app.output.inspect import print_prompt_changes, print_prompt_quality

    print_prompt_quality(report)
    if old is not None:
        print_prompt_changes(old, report)


def _write(path: Path, report: PromptReport) -> None:
    import json

    from ragstream_core.errors import UsageError
    from ragstream_core.platform.files import replace_text

    try:
        replace_text(path, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
