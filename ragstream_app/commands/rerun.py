"""`ragstream rerun`: a stage of a kept prompt again, and all that come after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from ragstream_app.asking import outcome_of, settle
from ragstream_app.commands import prompt_options as options
from ragstream_app.commands.explain import Key
from ragstream_app.delivery import Target, deliver
from ragstream_app.prompt_words import setting_values
from ragstream_app.rendering import KEY_DIGITS
from ragstream_app.session import is_recorded, note, session_of

RERUN_EPILOG = """**Examples**

ragstream rerun 0a1b2c a3 --set gate.theta=0.3

ragstream rerun 0a1b2c reranked --set rerank.backend=none --json

What comes before the stage is as it was then; the documents are those the prompt was made from."""


def rerun(
    ctx: typer.Context,
    key: Key,
    stage: Annotated[
        str,
        typer.Argument(
            metavar="STAGE",
            help="Where to begin: preprocessed, a2, retrieval, reranked, a3, a4, a5, or an op.",
        ),
    ],
    assignments: options.Assignments = None,
    out: options.Out = None,
    copy: options.Copy = False,
    force: options.Force = False,
    no_record: options.NoRecord = False,
    as_json: options.Json = False,
) -> None:
    """Run a kept prompt again from a stage on, with other settings; the first one stays.

    Raises:
        UnknownPrompt: No such prompt.
        RagstreamError: An input is no longer there, or a stage refused or failed.
    """
    target = Target(out, copy, force, as_json)
    target.check()
    from ragstream_assets.recording.resuming import first_op, resume

    workspace, settings = session_of(ctx).workspace(), setting_values(assignments)
    recorded = is_recorded(workspace, wanted=not no_record)
    then = workspace.store.record(key)
    done = resume(workspace, key, stage, settings=settings, record=recorded)
    outcome = outcome_of(done)
    if settings and done.record and done.record.output_sha256 == then.output_sha256:
        outcome.warnings.append(_same(then.prompt_key, first_op(stage), settings))
    deliver(outcome, target)
    settle(outcome, note)


def _same(key: str, op: str, settings: Mapping[str, str]) -> str:
    """Say that settings made no difference, and where they are read if that is before the op."""
    from ragstream_assets.recording.steps import readers
    from ragstream_core.orchestration.chain import OPS

    late = {name: readers(name) for name in sorted(settings)}
    told = [
        f"{name} is read at {ops[0]}: ragstream rerun {key[:KEY_DIGITS]} {ops[0]}"
        for name, ops in late.items()
        if OPS.index(ops[-1]) < OPS.index(op)
    ]
    same = f"word for word the Super-Prompt of {key[:KEY_DIGITS]}"
    return "; ".join([same, *told])
