"""The order of the stages, stated once, and the plain runner.

The Dagster job, the page's buttons and the command line are made from `CHAIN`; a test runs the job
and this runner and demands equal results.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Container
from dataclasses import dataclass

from ragstream_core.errors import AddOption, UsageError
from ragstream_core.records import SuperPrompt
from ragstream_core.records.identity import digest_of
from ragstream_core.records.json_form import json_of
from ragstream_core.records.trail_step import TrailStep

Stage = Callable[[SuperPrompt], SuperPrompt]

# Makes the stage of an op for the prompt at hand: settings, models and pins come from it.
StageFactory = Callable[[str, SuperPrompt], Stage]
# Called after each op with its name, the prompt and the seconds it took.
Observer = Callable[[str, SuperPrompt, float], None]


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One op of the chain."""

    op: str  # name of the op, of its module and of its class in snake case
    stage: str  # ``SuperPrompt.stage`` once it has run
    button: str  # the page's button that runs it
    summary: str  # what it does, for people


CHAIN = (
    StageSpec(
        "a0_preprocessing",
        "preprocessed",
        "PreProcessing",
        "Reads the raw prompt: format, headers, segments, query pieces.",
    ),
    StageSpec(
        "a2_prompt_shaper",
        "a2",
        "A2 PromptShaper",
        "Proposes intent, domain, deliverable and headers the prompt does not state.",
    ),
    StageSpec(
        "a1_file_injector",
        "a2",
        "A2 PromptShaper",
        "Injects the files you named, with their sha256, and closes the Eligibility Pool.",
    ),
    StageSpec(
        "retrieval",
        "retrieval",
        "Retrieval",
        "Scores the pool's chunks, dense and lexical, and fuses both.",
    ),
    StageSpec("reranker", "reranked", "ReRanker", "Puts the best candidates in order, one pass."),
    StageSpec(
        "a3_nli_gate", "a3", "A3 NLI Gate", "Drops what is not relevant or is in ❖ FILES already."
    ),
    StageSpec(
        "a4_condenser",
        "a4",
        "A4 Condenser",
        "Selects within the budget; Facts, Constraints and Open Issues, each cited.",
    ),
    StageSpec(
        "a2_audit",
        "a4",
        "A4 Condenser",
        "Audits scope against the evidence; a material change re-runs retrieval once.",
    ),
    StageSpec(
        "a5_format_enforcer",
        "a5",
        "A5 Format Enforcer",
        "Verifies schema, citations, format and budget; repairs or refuses.",
    ),
    StageSpec(
        "prompt_builder",
        "a5",
        "Prompt Builder",
        "Renders the Super-Prompt in authority order and checks every line's owner.",
    ),
)

# The ops that an audit repeats, at most once.
RERUN = ("retrieval", "reranker", "a3_nli_gate", "a4_condenser")
AUDIT = "a2_audit"

# How the steps of ops that the audit repeats are told from the first ones: ``rerun.OP``.
AGAIN = "rerun"
OPS = tuple(spec.op for spec in CHAIN)
BUTTONS = tuple(dict.fromkeys(spec.button for spec in CHAIN))


def ops_of(button: str) -> tuple[str, ...]:
    """Return the ops that a button of the page runs, in order."""
    return tuple(spec.op for spec in CHAIN if spec.button == button)


def step_of(op: str, passed: Container[str]) -> str:
    """Return the step key of an op that comes after those that have passed."""
    return f"{AGAIN}.{op}" if op in RERUN and AUDIT in passed else op


def last_op(stage: str) -> str:
    """Return the last op that leaves the prompt in a stage; the name of an op is itself."""
    if stage in OPS:
        return stage
    for spec in reversed(CHAIN):
        if spec.stage == stage:
            return spec.op
    stages = ", ".join(dict.fromkeys(spec.stage for spec in CHAIN))
    raise UsageError(
        f"unknown stage {stage!r}", hint=(AddOption("--through"), f" one of: {stages}")
    )


def rescoped(prompt: SuperPrompt) -> bool:
    """Whether the audit asked for its one re-run and it has not happened yet."""
    ops = [op for op, _ in prompt.extras.trail]
    again = AUDIT in ops and not set(RERUN).isdisjoint(ops[ops.index(AUDIT) + 1 :])
    return prompt.extras.audit.outcome == "rescoped" and not again


def run_chain(
    make: StageFactory,
    prompt: SuperPrompt,
    *,
    first: str = OPS[0],
    through: str = OPS[-1],
    observe: Observer | None = None,
) -> SuperPrompt:
    """Run the ops from ``first`` to ``through``, with the audit's re-run if it asks for one."""
    if first not in OPS or through not in OPS or OPS.index(first) > OPS.index(through):
        raise UsageError(f"no such way through the chain: {first} → {through}")
    ops = list(OPS[OPS.index(first) : OPS.index(through) + 1])
    while ops:
        op, started = ops.pop(0), time.perf_counter()
        prompt = step(make, op, prompt)
        if observe is not None:
            observe(op, prompt, time.perf_counter() - started)
        if op == AUDIT and rescoped(prompt):
            ops[:0] = RERUN
    return prompt


def step(make: StageFactory, op: str, prompt: SuperPrompt) -> SuperPrompt:
    """Run one op and note the digest of its result in the prompt's trail.

    The Dagster ops and `run_chain` both go through here, which is why their results are equal.
    """
    trail = prompt.extras.trail
    result = make(op, prompt)(prompt)
    result.extras.trail = (*trail, TrailStep(op, change_digest(prompt, result)))
    return result


def change_digest(before: SuperPrompt, after: SuperPrompt) -> Callable[[], str]:
    """Return what works out the digest of what an op made: every field and extra it changed.

    It holds what changed, not the prompts. What the op left alone is in the digests of the ops
    before it; the first op's covers everything. Left out are the pinned inputs and whether the time
    was read, the trail itself, ledger rows of other stages, and the texts of candidates, which
    their ids stand for.
    """
    was, now = _state(before) if before.extras.trail else {}, _state(after)
    gone = sorted(was.keys() - now.keys())
    changed = {k: v for k, v in now.items() if k not in was or (was[k] is not v and was[k] != v)}
    changed = {k: copy.copy(v) if isinstance(v, (dict, list)) else v for k, v in changed.items()}
    ledger, stage = after.extras.decisions, after.stage
    same = ledger is before.extras.decisions or ledger == before.extras.decisions
    fresh = () if same else ledger
    return lambda: digest_of(json_of([changed, gone, [row for row in fresh if row.stage == stage]]))


def _state(prompt: SuperPrompt) -> dict[str, object]:
    """Return the fields of a prompt; its views and its extras one by one."""
    left_out = ("inputs", "time_read", "day_read", "trail", "decisions")
    apart = ("extras", "views_by_stage")
    fields = {n: getattr(prompt, n) for n in SuperPrompt.__slots__ if n not in apart}
    fields["base_context_chunks"] = [chunk.id for chunk in prompt.base_context_chunks]
    views = {f"view.{k}": v for k, v in prompt.views_by_stage.items()}
    extras = {f"extras.{k}": v for k, v in vars(prompt.extras).items() if k not in left_out}
    return {**fields, **views, **extras}
