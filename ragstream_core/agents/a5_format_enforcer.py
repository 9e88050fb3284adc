"""A5 · Format Enforcer: schema, citations, quotes, requested format and budget, checked and mended.

Reads everything A4 and A1 wrote. What can be mended without judgement is mended (an item without a
valid citation goes; what is over the budget goes from the lowest rank up); what cannot is refused.
Writes the view ``a5``, one decision a selected chunk, ``final_selection_ids``, ``extras.s_ctx``,
``extras.citations`` and ``extras.enforced``. The wording of what stays is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ragstream_core.agents.context.shown import SEPARATED, readable
from ragstream_core.errors import BudgetExceeded, SetSetting
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.blocks import (
    Composed,
    Layout,
    citations_of,
    compose,
    shown_text,
)
from ragstream_core.prompts.citations import answer_marker, parse_markers
from ragstream_core.prompts.render import format_instruction
from ragstream_core.prompts.trail import advance, pass_number, put_decisions, put_notes
from ragstream_core.records import Decision, SuperPrompt
from ragstream_core.records.identity import digest_of
from ragstream_core.records.json_form import json_of
from ragstream_core.records.s_ctx import Fact, IssuedCitation, OpenIssue
from ragstream_core.records.stage_results import Enforced

STAGE = "a5"
OP = "a5_format_enforcer"
PARTS = ("facts", "constraints", "open_issues")


def shown_texts(prompt: SuperPrompt) -> dict[str, str]:
    """Return chunk id → the part of its text that the prompt shows, in comparable form."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    shown = ((i, chunks[i]) for i in prompt.final_selection_ids)
    return {i: readable(shown_text(prompt, c)) for i, c in shown}


def fault(
    item: Fact | OpenIssue, *, issued: Mapping[str, IssuedCitation], shown: Mapping[str, str]
) -> str:
    """Return what is wrong with one item of S_ctx; empty if nothing.

    Args:
        item: A fact or constraint has at least one citation, and its words stand in each.
        issued: What the prompt issues, as of `citations_of`.
        shown: Chunk id → the text that is shown.
    """
    if not item.text:
        return "says nothing"
    if isinstance(item, Fact) and not item.citations:
        return "has no citation"
    for cited in item.citations:
        if cited.chunk_id not in shown:
            return "cites what is not in the prompt"
        markers = parse_markers(answer_marker(cited.source, cited.short_id))
        if [marker.id for marker in markers] != [cited.short_id]:
            return "has a malformed citation"
        named = issued.get(cited.short_id)
        if named is None or (named.chunk_id, named.source) != (cited.chunk_id, cited.source):
            return "cites a passage by the id or the name of another"
        if isinstance(item, Fact) and not _says(item, shown[cited.chunk_id]):
            return "quotes words that its source does not hold"
    return ""


def _says(fact: Fact, shown: str) -> bool:
    """Return whether a text has the words of a fact; of a row, each cell stands in it."""
    if fact.quoted is None:
        return fact.text in shown
    cells = fact.text.split(SEPARATED)
    held = (any(end in fact.quoted for end in _ends(cell)) for cell in cells)
    return fact.quoted in shown and all(held)


def _ends(cell: str) -> list[str]:
    """Return what a cell with the name of its column in front may be without it."""
    parts = cell.split(": ")
    return [": ".join(parts[at:]) for at in range(len(parts))]


@dataclass(frozen=True)
class FormatEnforcer:
    """Stage ``a5``.

    Attributes:
        counter: Counts tokens.
        layout: As the prompt builder's.
        budget_tokens: Most tokens of the whole prompt.
        note: What the person should know about the counter; may be empty.
    """

    counter: TokenCounter
    layout: Layout = field(default_factory=Layout)
    budget_tokens: int = 6000
    note: str = ""

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Verify, mend or refuse.

        Raises:
            BudgetExceeded: Hard Rules, Project Memory, ❖ FILES and the task alone are over it.
        """
        before = prompt.extras.enforced.digest
        if before and before == self._digest(prompt):
            return advance(prompt, STAGE)
        result = advance(prompt, STAGE)
        candidates = list(prompt.final_selection_ids)
        repairs = _check_s_ctx(result)
        total, dropped = self._fit(result)
        result.views_by_stage[STAGE] = list(result.final_selection_ids)
        result.extras.citations = citations_of(result)
        put_decisions(result, STAGE, _decisions(result, candidates))
        wanted = prompt.body.get("format", "")
        result.extras.enforced = Enforced(
            total,
            self.budget_tokens,
            self.counter.name,
            {"requested": wanted, "instruction": format_instruction(wanted)},
            (*repairs, *dropped),
            self._digest(result),
        )
        said = [self.note] if self.note else []
        events = [f"{total} of {self.budget_tokens} tokens", *_unknown(wanted)]
        put_notes(result, OP, events=events, warnings=[*said, *repairs, *dropped])
        return result

    def _digest(self, prompt: SuperPrompt) -> str:
        held = vars(prompt.extras)
        looked_at = ("s_ctx", "cuts", "windows", "repeats", "files", "diffs", "pool", "short_ids")
        return digest_of(
            [
                [prompt.final_selection_ids, prompt.body, pass_number(prompt)],
                [json_of(held.get(name)) for name in looked_at],
                [self.budget_tokens, self.counter.name, self.layout.hard_rules],
                [self.layout.project_memory, self.layout.block_order, self.layout.recent_history],
                [self.layout.user_template],
            ]
        )

    def _count(self, prompt: SuperPrompt) -> tuple[int, Composed]:
        composed = compose(prompt, self.layout)
        return self.counter.count(composed.text), composed

    def _fit(self, prompt: SuperPrompt) -> tuple[int, list[str]]:
        """Drop from the lowest rank up until the prompt fits; the last attachment goes last."""
        dropped: list[str] = []
        total, composed = self._count(prompt)
        while total > self.budget_tokens:
            name = _drop_one(prompt)
            if not name:
                raise self._refusal(total, composed)
            dropped.append(f"over the budget: left out {name}")
            total, composed = self._count(prompt)
        return total, dropped

    def _refusal(self, total: int, composed: Composed) -> BudgetExceeded:
        sizes = ", ".join(f"{b.name} {self.counter.count(b.text)}" for b in composed.blocks)
        return BudgetExceeded(
            f"the fixed parts of the prompt need {total} tokens, the budget is "
            f"{self.budget_tokens} ({sizes})",
            hint=(
                "name fewer files, or raise it: ",
                SetSetting("prompt.budget_tokens", str(total + 1000)),
            ),
        )


def _check_s_ctx(prompt: SuperPrompt) -> list[str]:
    """Give S_ctx its three parts and remove items with a fault; return what went and why."""
    s_ctx, shown, issued = prompt.extras.s_ctx, shown_texts(prompt), citations_of(prompt)
    wrong = {
        id(item): fault(item, issued=issued, shown=shown) for part in s_ctx.parts for item in part
    }
    prompt.extras.s_ctx = s_ctx.kept(lambda item: not wrong[id(item)])
    return [
        f"left out of {name}: {item.text[:60]!r} {wrong[id(item)]}"
        for name, part in zip(PARTS, s_ctx.parts, strict=True)
        for item in part
        if wrong[id(item)]
    ]


def _unknown(wanted: str) -> list[str]:
    if not wanted.strip() or format_instruction(wanted):
        return []
    said = " ".join(wanted.split())[:60]
    return [f"no sentence of ours asks for the format {said!r}: the task holds it as written"]


def _drop_one(prompt: SuperPrompt) -> str:
    """Drop the least valuable thing that may go; return its name, empty if nothing is left."""
    ids = prompt.final_selection_ids
    s_ctx = prompt.extras.s_ctx
    if len(ids) > 1:
        return _drop_chunk(prompt)
    facts = [
        (fact.score, name, at, fact)
        for name, part in zip(PARTS, (s_ctx.facts, s_ctx.constraints), strict=False)
        for at, fact in enumerate(part)
    ]
    if facts:
        _, name, _, least = min(facts, key=lambda row: row[:3])
        prompt.extras.s_ctx = s_ctx.kept(lambda item: item is not least)
        return f"one of the {name}: {least.text[:60]!r}"
    if s_ctx.open_issues:
        *left, last = s_ctx.open_issues
        prompt.extras.s_ctx = replace(s_ctx, open_issues=tuple(left))
        return f"an open issue: {last.text[:60]!r}"
    return _drop_chunk(prompt) if ids else ""


def _drop_chunk(prompt: SuperPrompt) -> str:
    gone = prompt.final_selection_ids.pop()
    extras = prompt.extras
    extras.cuts = {i: end for i, end in extras.cuts.items() if i != gone}
    extras.windows = {i: parts for i, parts in extras.windows.items() if i != gone}
    extras.s_ctx = extras.s_ctx.kept(
        lambda item: all(cited.chunk_id != gone for cited in item.citations)
    )
    chunk = next(c for c in prompt.base_context_chunks if c.id == gone)
    return f"the attachment {chunk.source} ({chunk.span[0]}-{chunk.span[1]})"


def _decisions(prompt: SuperPrompt, candidates: list[str]) -> list[Decision]:
    kept = set(prompt.final_selection_ids)
    return [
        Decision(
            STAGE, i, rank, 0.0, i in kept, "verified" if i in kept else "over_budget",
            "within the budget, citations verified" if i in kept
            else "the whole prompt was over the token budget",
            pass_no=pass_number(prompt),
        )
        for rank, i in enumerate(candidates, start=1)
    ]  # fmt: skip
