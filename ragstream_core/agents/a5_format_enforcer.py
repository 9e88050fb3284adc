"""A5 · Format Enforcer: schema, citations, quotes, requested format and budget, checked and mended.

Reads everything A4 and A1 wrote. What can be mended without judgement is mended (an item without a
valid citation goes; what is over the budget goes from the lowest rank up); what cannot is refused.
Writes the view ``a5``, one decision a selected chunk, ``final_selection_ids``, ``extras["s_ctx"]``,
``extras["citations"]`` and ``extras["enforced"]``. The wording of what stays is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragstream_core.agents.a4_condenser import citations_of, empty_s_ctx
from ragstream_core.agents.context.quotable import readable
from ragstream_core.errors import BudgetExceeded, SetSetting
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.blocks import Composed, Layout, compose
from ragstream_core.prompts.citations import answer_marker, parse_markers
from ragstream_core.prompts.render import format_instruction
from ragstream_core.prompts.trail import advance, pass_number, put_decisions, put_notes
from ragstream_core.records import Decision, SuperPrompt
from ragstream_core.records.identity import digest_of

STAGE = "a5"
OP = "a5_format_enforcer"
PARTS = ("facts", "constraints", "open_issues")


def shown_texts(prompt: SuperPrompt) -> dict[str, str]:
    """Return chunk id → the part of its text that the prompt shows, in comparable form."""
    cuts = prompt.extras.get("cuts", {})
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    return {i: readable(chunks[i].snippet[: cuts.get(i)]) for i in prompt.final_selection_ids}


def fault(item: Any, *, issued: Mapping[str, Any], shown: dict[str, str], must_cite: bool) -> str:
    """Return what is wrong with one item of S_ctx; empty if nothing.

    Args:
        item: {text, citations: [{chunk_id, short_id, source}]}.
        issued: What the prompt issues, as of `citations_of`.
        shown: Chunk id → the text that is shown.
        must_cite: Facts and constraints: at least one citation, and the words stand in each.
    """
    if not _has_form(item, must_cite=must_cite):
        return "has another form"
    if must_cite and not item["citations"]:
        return "has no citation"
    for citation in item["citations"]:
        if citation["chunk_id"] not in shown:
            return "cites what is not in the prompt"
        markers = parse_markers(answer_marker(citation["source"], citation["short_id"]))
        if [m.id for m in markers] != [citation["short_id"]]:
            return "has a malformed citation"
        named = issued.get(citation["short_id"], {})
        if [named.get(key) for key in ("chunk_id", "source")] != [
            citation[key] for key in ("chunk_id", "source")
        ]:
            return "cites a passage by the id or the name of another"
        if must_cite and item["text"] not in shown[citation["chunk_id"]]:
            return "quotes words that its source does not hold"
    return ""


def _has_form(item: Any, *, must_cite: bool) -> bool:
    """Return whether an item of S_ctx holds what will be rendered; facts are ranked by a score."""
    if not (isinstance(item, dict) and isinstance(item.get("citations"), list)):
        return False
    texts = [item.get("text"), item.get("heading", "")]
    for cited in item["citations"]:
        known = cited if isinstance(cited, dict) else {}
        texts += [known.get(key) for key in ("chunk_id", "short_id", "source")]
    is_ranked = isinstance(item.get("score"), (int, float)) or not must_cite
    return is_ranked and bool(item.get("text")) and all(isinstance(x, str) for x in texts)


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
        done = prompt.extras.get("enforced", {})
        if done and done["digest"] == self._digest(prompt):
            return advance(prompt, STAGE)
        result = advance(prompt, STAGE)
        candidates = list(prompt.final_selection_ids)
        repairs = _check_s_ctx(result)
        total, dropped = self._fit(result)
        result.views_by_stage[STAGE] = list(result.final_selection_ids)
        result.extras["citations"] = citations_of(result)
        put_decisions(result, STAGE, _decisions(result, candidates))
        wanted = prompt.body.get("format", "")
        result.extras["enforced"] = {
            "total_tokens": total,
            "budget_tokens": self.budget_tokens,
            "counter": self.counter.name,
            "format": {"requested": wanted, "instruction": format_instruction(wanted)},
            "repairs": [*repairs, *dropped],
        }
        result.extras["enforced"]["digest"] = self._digest(result)
        said = [self.note] if self.note else []
        events = [f"{total} of {self.budget_tokens} tokens", *_unknown(wanted)]
        put_notes(result, OP, events=events, warnings=[*said, *repairs, *dropped])
        return result

    def _digest(self, prompt: SuperPrompt) -> str:
        extras = prompt.extras
        return digest_of(
            [
                [prompt.final_selection_ids, prompt.body, pass_number(prompt)],
                [extras.get(k) for k in ("s_ctx", "cuts", "files", "diffs", "pool", "short_ids")],
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
    shown, issued, given = shown_texts(prompt), citations_of(prompt), prompt.extras.get("s_ctx", {})
    found = prompt.extras["s_ctx"] = empty_s_ctx()
    repairs = [f"left out {part[:60]!r}: no part of S_ctx" for part in given if part not in found]
    for part in PARTS:
        must_cite = part != "open_issues"
        items = given.get(part) or []
        for item in items if isinstance(items, list) else [items]:
            wrong = fault(item, issued=issued, shown=shown, must_cite=must_cite)
            if wrong:
                said = str(item.get("text", item) if isinstance(item, dict) else item)
                repairs.append(f"left out of {part}: {said[:60]!r} {wrong}")
            else:
                found[part].append(item)
    return repairs


def _unknown(wanted: str) -> list[str]:
    if not wanted.strip() or format_instruction(wanted):
        return []
    said = " ".join(wanted.split())[:60]
    return [f"no sentence of ours asks for the format {said!r}: the task holds it as written"]


def _drop_one(prompt: SuperPrompt) -> str:
    """Drop the least valuable thing that may go; return its name, empty if nothing is left."""
    ids = prompt.final_selection_ids
    s_ctx = prompt.extras["s_ctx"]
    if len(ids) > 1:
        return _drop_chunk(prompt)
    facts = [(item["score"], part, i) for part in PARTS[:2] for i, item in enumerate(s_ctx[part])]
    if facts:
        _, part, at = min(facts)
        return f"one of the {part}: {s_ctx[part].pop(at)['text'][:60]!r}"
    if s_ctx["open_issues"]:
        return f"an open issue: {s_ctx['open_issues'].pop()['text'][:60]!r}"
    return _drop_chunk(prompt) if ids else ""


def _drop_chunk(prompt: SuperPrompt) -> str:
    gone = prompt.final_selection_ids.pop()
    cuts = prompt.extras.get("cuts", {})  # shared with the prompt before: replaced, not changed
    prompt.extras["cuts"] = {i: end for i, end in cuts.items() if i != gone}
    for part in PARTS:
        prompt.extras["s_ctx"][part] = [
            item
            for item in prompt.extras["s_ctx"][part]
            if all(c["chunk_id"] != gone for c in item.get("citations", []))
        ]
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
