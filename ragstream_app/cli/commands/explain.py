"""Commands that look: explain, replay, doctor, config, eval."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig

REFUSED = 3
EVAL_EPILOG = """**Files**

corpus.jsonl: one object a line with id, text and, where there is one, title

queries.jsonl: one object a line with id and text

qrels.tsv: a header line, then query-id, corpus-id and score, separated by tabs"""

REPLAY_EPILOG = """**Examples**

ragstream replay 0a1b2c

ragstream replay --bundle prompt.bundle"""


def explain(
    ctx: typer.Context,
    key: options.PromptKey,
    chunk: Annotated[
        str,
        typer.Option(metavar="ID", help="Only this chunk: its id, citation or part of its path."),
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Show why each candidate is in a prompt or is not: its way through the stages.

    Raises:
        UsageError: No such prompt, or no such candidate in it.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    from ragstream_core.services.explain import explanation

    found = explanation(session_of(ctx).workspace(), key, chunk=chunk)
    if as_json:
        emit_json(found.to_json())
        return
    from ragstream_app.output.explain import print_explanation

    print_explanation(found, detailed=bool(chunk))


def replay(
    ctx: typer.Context,
    key: options.PromptKey = "",
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file that `ragstream bundle` wrote, from anywhere."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Ask the language model again and compare its answers."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Make a kept prompt again from its inputs and compare the bytes; exit code 0 if identical.

    Raises:
        UsageError: Neither a key nor a bundle.
        UnknownPrompt: No such prompt.
        IntegrityError: The bundle is not what was written, or of another prompt.
        Exit: With 3, where the bytes are not the same.
    """
    from ragstream_core.services.replay import replay_bundle, replay_prompt

    workspace = session_of(ctx).workspace()
    if bundle is not None:
        full_key, verdict = replay_bundle(workspace, bundle, key=key, live=live)
    elif key:
        full_key = workspace.store.find(key)
        verdict = replay_prompt(workspace, full_key, live=live)
    else:
        raise UsageError("no prompt given", hint="ragstream replay KEY, or --bundle FILE")
    identical = verdict.verdict == "identical"
    if as_json:
        emit_json({"prompt_key": full_key, **verdict.to_json()})
    else:
        first = f", first at {verdict.first_difference}" if verdict.first_difference else ""
        reason = f": {verdict.reason}{first}" if verdict.reason else ""
        typer.echo(f"{full_key[:12]} {verdict.verdict}{reason}", err=not identical)
        if verdict.hint:
            note(f"  next: {verdict.hint}")
    if not identical:
        raise typer.Exit(REFUSED)


def doctor(ctx: typer.Context, as_json: options.Json = False) -> None:
    """Check Python, packages, models, folders and ports, each with what to do about it.

    Raises:
        Exit: With 1, where something will not work.
    """
    from ragstream_app.cli.doctor import examine

    checks = examine(session_of(ctx).workspace().config)
    if as_json:
        emit_json([asdict(check) for check in checks])
    else:
        from ragstream_app.output.tables import print_checks

        print_checks(checks)
    if any(check.level == "fail" for check in checks):
        raise typer.Exit(1)


def config_show(
    ctx: typer.Context,
    origin: Annotated[
        bool, typer.Option("--origin", metavar="", help="Say where each value came from.")
    ] = False,
    task: Annotated[str, typer.Option(metavar="NAME", help="With this task profile.")] = "",
    as_json: options.Json = False,
) -> None:
    """Show every setting's value; secrets as asterisks."""
    rows = _values(session_of(ctx).workspace(task=task).config)
    if as_json:
        plain: dict[str, Any] = {key: value for key, value, _ in rows}
        sourced = {key: {"value": value, "origin": where} for key, value, where in rows}
        emit_json(sourced if origin else plain)
        return
    from ragstream_app.output.tables import print_settings

    print_settings(rows, origin=origin)


def config_reference() -> None:
    """Print the settings reference as Markdown, generated from the code."""
    from ragstream_app.output.settings_reference import settings_reference

    typer.echo(settings_reference(), nl=False)


def eval_retrieval(
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
        emit_json(result.to_json())
        return
    from ragstream_app.output.tables import print_metrics

    print_metrics(result)


def _values(config: AppConfig) -> list[tuple[str, Any, str]]:
    from ragstream_core.settings import known_keys

    tree = config.settings.model_dump(mode="json")
    return [
        (key, tree[key.split(".")[0]][key.split(".")[1]], config.origin[key])
        for key in known_keys()
    ]
