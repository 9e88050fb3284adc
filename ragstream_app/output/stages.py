"""How an unfinished prompt and a model's usage are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragstream_app.output.words import shortened
from ragstream_core.prompts.blocks import injected
from ragstream_core.records import SuperPrompt
from ragstream_core.records.chat import ChatUsage
from ragstream_core.records.stage_results import ModelCall
from ragstream_core.records.super_prompt import BODY_KEYS

if TYPE_CHECKING:
    from ragstream_core.records import Decision


def usage_text(usage: ChatUsage) -> str:
    """Return tokens and cost; a cost of 0 is said to be free, an unknown one unknown."""
    if not usage.reported and not usage.input_tokens:
        return "tokens and cost unknown"
    about = "" if usage.reported else "about "
    cost = f"${usage.cost_usd:.4f}" if usage.cost_usd else "free"
    cost = "cost unknown" if usage.cost_usd is None else cost
    return f"{about}{usage.input_tokens:,} + {usage.output_tokens:,} tokens · {cost}"


def call_text(call: ModelCall) -> str:
    """Return whom an agent asked, what that took, and what served instead if the answer did not."""
    why = f" ({call.reason}): {call.instead}" if call.reason else ""
    taken = "" if call.taken else f", its answer was not taken{why}"
    return f"asked {call.model}: {usage_text(call.usage)}{taken}"


LINE_CHARS = 140
MAX_CANDIDATES = 20
_VIEWS = (
    ("a4", "Selected"),
    ("a3", "Kept by the gate"),
    ("reranked", "Reranked"),
    ("retrieval", "Retrieved"),
)


def stage_text(prompt: SuperPrompt) -> str:
    """Return the Super-Prompt once it is built, before that what the stages have made so far."""
    finished = prompt.extras.super_prompt
    if finished:
        return finished
    blocks = [_s_ctx(prompt), _candidates(prompt), _files(prompt)]  # the newest comes first
    blocks += [_shape(prompt), _pieces(prompt), _prompt(prompt)]
    head = f"── stage: {prompt.stage} ──"
    return "\n\n".join([head, *("\n".join(lines) for lines in map(list, blocks) if lines)])


def last_score(steps: Sequence[Decision]) -> float:
    """Return the score of the last step that ranked by one; later steps only check."""
    return next((step.score for step in reversed(steps) if step.score), 0.0)


def _prompt(prompt: SuperPrompt) -> Iterator[str]:
    yield "PROMPT"
    for key in BODY_KEYS:
        value = prompt.body.get(key, "").strip()
        if value and not (key == "text" and value in prompt.body.get("task", "")):
            yield f"{key}: {value}"


def _pieces(prompt: SuperPrompt) -> Iterator[str]:
    pieces = prompt.extras.query_pieces
    if pieces:
        yield f"QUERY PIECES ({len(pieces)})"
    for number, piece in enumerate(pieces, start=1):
        yield f"{number}. {shortened(piece.text, LINE_CHARS)}"


def _shape(prompt: SuperPrompt) -> Iterator[str]:
    shape = prompt.extras.shape
    if shape.intent:
        yield "SHAPE"
        for key in ("intent", "domain", "deliverable"):
            yield f"{key}: {shortened(getattr(shape, key), LINE_CHARS)}"


def _files(prompt: SuperPrompt) -> Iterator[str]:
    files = injected(prompt)
    if files:
        yield f"❖ FILES ({len(files)})"
    for file in files:
        yield f"{'/'.join(file.home)}  {file.mode}  sha256 {file.sha256[:12]}"


def _candidates(prompt: SuperPrompt) -> Iterator[str]:
    """List the newest order of the candidates; the chunks' first words stand with them."""
    found = next((view for view in _VIEWS if view[0] in prompt.views_by_stage), None)
    if found is None:
        return
    ids = prompt.views_by_stage[found[0]]
    snippets = {chunk.id: chunk.snippet for chunk in prompt.base_context_chunks}
    yield f"{found[1].upper()} ({len(ids)})"
    for rank, chunk_id in enumerate(ids[:MAX_CANDIDATES], start=1):
        path, _, rest = chunk_id.partition("::")
        yield f"{rank:>2}. {path}#{rest.rpartition('::')[2]}"
        yield f"    {shortened(snippets.get(chunk_id, ''), LINE_CHARS)}"
    if len(ids) > MAX_CANDIDATES:
        yield f"    … and {len(ids) - MAX_CANDIDATES} more"


def _s_ctx(prompt: SuperPrompt) -> Iterator[str]:
    s_ctx = prompt.extras.s_ctx
    for title, items in zip(("FACTS", "CONSTRAINTS", "OPEN ISSUES"), s_ctx.parts, strict=True):
        if items:
            yield f"{title} ({len(items)})"
        for number, item in enumerate(items, start=1):
            yield f"{number}. {shortened(item.text, LINE_CHARS)}"
