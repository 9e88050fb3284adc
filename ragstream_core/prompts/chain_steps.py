"""The steps of the query job, one for each op of the chain, and the settings that each op reads.

The audit's re-run is unrolled once. Dagster's job and the plain chain name them alike.
"""

from collections.abc import Container

from ragstream_core.prompts.chain import AGAIN, AUDIT, OPS, RERUN
from ragstream_core.settings import CHAIN_SECTIONS

JOB = "build_prompt"
AFTER_AUDIT = OPS[OPS.index(AUDIT) + 1]

# Op → how the names of the settings that it reads begin.
OWN = {
    "a0_preprocessing": tuple(f"{section}." for section in CHAIN_SECTIONS),
    "a2_prompt_shaper": ("agents.a2",),
    "a1_file_injector": ("files.", "agents.a1"),
    "retrieval": ("retrieval.", "history."),
    "reranker": ("rerank.",),
    "a3_nli_gate": ("gate.", "agents.a3"),
    "a4_condenser": (
        "prompt.",
        "retrieval.",
        "history.",
        "memory.enabled",
        "memory.max_tokens",
        "memory.max_chars",
        "memory.top_k",
        "agents.a4",
    ),
    "a2_audit": ("agents.a2", "agents.audit"),
    "a5_format_enforcer": ("prompt.",),
    "prompt_builder": ("prompt.",),
}


def upstream_of(op: str, passed: Container[str]) -> str:
    """Return the step that an op reads from, given those that have passed; none for the first."""
    position = OPS.index(op)
    last_again = f"{AGAIN}.{RERUN[-1]}"
    if op == AFTER_AUDIT and last_again in passed:
        return last_again
    return OPS[position - 1] if position else ""


def outputs_before(step: str) -> tuple[str, ...]:
    """Return the names ``step.output`` of what a step of the job reads, of which a run has one."""
    op = step.rpartition(".")[2]
    before = OPS[OPS.index(op) - 1] if op in OPS else OPS[-1]
    if step != op:
        return (f"{AUDIT}.rescoped",) if op == RERUN[0] else (f"{AGAIN}.{before}.result",)
    if op == AFTER_AUDIT:
        return f"{AGAIN}.{RERUN[-1]}.result", f"{AUDIT}.settled"
    return (f"{before}.result",)


def is_before(step: str, op: str) -> bool:
    """Whether a step comes before an op in the chain."""
    at = AUDIT if step.startswith(f"{AGAIN}.") else step
    return OPS.index(at) < OPS.index(op)


def readers(name: str) -> list[str]:
    """Return the ops that read a setting of the chain, in order."""
    later = [op for op in OPS[1:] if name.startswith(OWN[op])]
    return later or [OPS[0]]
