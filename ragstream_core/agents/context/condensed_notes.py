"""What A4 tells people: what was left out, named or shown in part, and the tokens that it saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ragstream_core.agents.context.llm_form import SAF_A1
from ragstream_core.agents.context.passage_selection import Selection, framed_tokens
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.render import NOTHING_RELEVANT
from ragstream_core.records import Chunk


def savings(
    kept: Sequence[Chunk], ended: Collection[str], picked: Selection,
    same: Mapping[str, Sequence[Chunk]], counter: TokenCounter,
) -> list[str]:  # fmt: skip
    """Return what was saved, one sentence a rule.

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
    told = (
        (left, f"the evidence ends: {len(left)} passages with {tokens(left):,} tokens left out"),
        (named, f"shown once: {len(named)} repeated passages with {tokens(named):,} tokens are"
         " only named"),
        (cut, f"windows: {len(cut)} passages are shown in part, {less:,} tokens left out"),
    )  # fmt: skip
    return [said for chunks, said in told if chunks]


def warnings_of(bare: bool, usable: Sequence[Chunk], picked: Selection, missed: str) -> list[str]:
    """Return what the person should look at.

    Args:
        bare: No document is relevant, and no file is injected.
        usable: The passages that might be shown.
        picked: What is shown of them.
        missed: Why the answer of a language model was not taken.
    """
    found = [NOTHING_RELEVANT] if bare else []
    if usable and not picked.tokens:
        why = "no passage fits into the budgets, so that none is attached"
        found.append(f"{why}: raise prompt.budget_tokens or retrieval.max_context_tokens")
    if missed:
        why = f"the language model did not condense ({missed})"
        found.append(f"{why}: fallback={SAF_A1}, sentences extracted")
    return found
