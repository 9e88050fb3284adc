"""What A4 tells people: what was left out, named or shown in part, and the tokens that it saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ragstream_core.agents.context.condensed_rows import EVIDENCE_ENDS, STAGE, WINDOW
from ragstream_core.agents.context.llm_form import SAF_A1
from ragstream_core.agents.context.passage_selection import Selection, framed_tokens
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.doubt import doubt_of
from ragstream_core.prompts.trail import pass_number
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.chunk import unread_sentence

SHOWN_ONCE = "shown_once"


class Saving(NamedTuple):
    """What one rule left out of the attachments.

    Attributes:
        rule: ``evidence_ends``, ``shown_once`` or ``window``.
        passages: How many passages it left out, only named or showed in part.
        tokens: What they would have taken more, frames included.
    """

    rule: str
    passages: int
    tokens: int

    def __str__(self) -> str:
        """Return it as a sentence."""
        one, several = _SENTENCES[self.rule]
        said = one if self.passages == 1 else several
        return said.format(n=self.passages, tokens=self.tokens)


_SENTENCES = {
    EVIDENCE_ENDS: (
        "the evidence ends: 1 passage with {tokens:,} tokens is left out",
        "the evidence ends: {n} passages with {tokens:,} tokens are left out",
    ),
    SHOWN_ONCE: (
        "shown once: 1 repeated passage with {tokens:,} tokens is only named",
        "shown once: {n} repeated passages with {tokens:,} tokens are only named",
    ),
    WINDOW: (
        "1 passage is shortened: {tokens:,} tokens left out",
        "{n} passages are shortened: {tokens:,} tokens left out",
    ),
}


def savings(
    kept: Sequence[Chunk], ended: Collection[str], picked: Selection,
    same: Mapping[str, Sequence[Chunk]], counter: TokenCounter,
) -> list[Saving]:  # fmt: skip
    """Return what was saved, a row for each rule that saved something.

    Args:
        kept: The candidates.
        ended: Ids of those behind the end of the evidence.
        picked: What is shown.
        same: Shown passage → those that it is shown for as well.
        counter: Counts tokens.
    """

    def tokens(chunks: Sequence[Chunk]) -> int:
        return sum(framed_tokens(chunk, counter) for chunk in chunks)

    left = [chunk for chunk in kept if chunk.id in ended]
    whole = picked.tokens.keys() - picked.cuts.keys()
    named = [c for i, found in same.items() if i in whole for c in found]
    cut = [chunk for chunk in kept if chunk.id in picked.windows]
    less = tokens(cut) - sum(picked.tokens[chunk.id] for chunk in cut)
    rows = (
        Saving(EVIDENCE_ENDS, len(left), tokens(left)),
        Saving(SHOWN_ONCE, len(named), tokens(named)),
        Saving(WINDOW, len(cut), less),
    )
    return [row for row in rows if row.passages]


def savings_of(prompt: SuperPrompt, counter: TokenCounter) -> list[Saving]:
    """Return what was saved in a prompt that A4 has condensed, by its ledger.

    Args:
        prompt: After A4.
        counter: Counts tokens, as the prompt's own.
    """
    extras, now = prompt.extras, pass_number(prompt)
    rows = [row for row in extras.decisions if row.stage == STAGE and row.pass_no == now]
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    shown = {row.chunk_id: row.tokens for row in rows if row.kept}
    picked = Selection(shown, dict(extras.cuts), [], dict(extras.windows))
    ended = {row.chunk_id for row in rows if row.rule == EVIDENCE_ENDS}
    kept = [chunks[row.chunk_id] for row in rows]
    return savings(kept, ended, picked, repeated_chunks(prompt), counter)


def repeated_chunks(prompt: SuperPrompt) -> dict[str, list[Chunk]]:
    """Return for each passage those that it is shown for as well."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    found: dict[str, list[Chunk]] = {}
    for repeat, shown in prompt.extras.repeats.items():
        found.setdefault(shown, []).append(chunks[repeat])
    return found


def warnings_of(
    prompt: SuperPrompt, usable: Sequence[Chunk], picked: Selection, missed: str
) -> list[str]:
    """Return what the person should look at.

    Args:
        prompt: With its selection, and what is said of each piece.
        usable: The passages that might be shown.
        picked: What is shown of them.
        missed: Why the answer of a language model was not taken.
    """
    doubt = doubt_of(prompt)
    found = [doubt] if doubt else []
    if usable and not picked.tokens:
        why = "no passage fits into the budgets, so that none is attached"
        found.append(f"{why}: raise prompt.budget_tokens or retrieval.max_context_tokens")
    shown = [chunk for chunk in usable if chunk.id in picked.tokens]
    bare_pages = {c.source: c.meta["without_text"] for c in shown if "without_text" in c.meta}
    found += [f"{source}: {unread_sentence(pages)}" for source, pages in bare_pages.items()]
    by_ocr = dict.fromkeys(c.source for c in shown if "read_by" in c.meta)
    found += [f"{source} was read by OCR: compare figures with the page" for source in by_ocr]
    if missed:
        why = f"the language model did not condense ({missed})"
        found.append(f"{why}: fallback={SAF_A1}, sentences extracted")
    return found
