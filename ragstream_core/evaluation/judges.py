"""Judges of faithfulness: by quote and agreement, by an entailment model, by a language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.llm_call import Answer, Ask, own, question
from ragstream_core.answers.citations import Issued
from ragstream_core.evaluation.agreement import Embed, Support, stands, support
from ragstream_core.prompts.fences import Source
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.evaluation.faithfulness import Judge

# (statements, passages) → the best probability of entailment of each passage.
Entailment = Callable[[Sequence[str], Sequence[str]], list[float]]
Claims = Sequence[tuple[str, Sequence[Issued]]]
ENTAILED = 0.5
MAX_CLAIMS = 40
_TASK = (
    "c1, c2, … are sentences of an answer, p1, p2, … passages. For every sentence say whether one"
    " of the passages that are listed for it says the same, with nothing added. Where it does, give"
    " as quote the words of the passage that say it, verbatim; else leave quote empty. verdicts:"
    " each sentence exactly once. The passages of each sentence: "
)


@dataclass(frozen=True)
class QuoteJudge:
    """Word for word, or by numbers, names, terms and meaning; see `agreement`."""

    embed: Embed
    name: str = "quote"

    def judge(self, claims: Claims) -> list[Support]:
        """Judge each claim by the passage that supports it best."""
        return [
            max(support(text, p.text, embed=self.embed, title=p.source) for p in passages)
            for text, passages in claims
        ]


@dataclass(frozen=True)
class NliJudge:
    """An entailment model; a sentence that is quoted word for word needs none."""

    entailment: Entailment  # (statements, passages) → probabilities
    name: str = "nli"

    def judge(self, claims: Claims) -> list[Support]:
        """Judge each claim by the passage that entails it most."""
        return [self._one(text, [p.text for p in passages]) for text, passages in claims]

    def _one(self, text: str, passages: Sequence[str]) -> Support:
        if any(stands(text, passage) for passage in passages):
            return Support(1.0, True, "quote")
        found = max(self.entailment([text], passages))
        held = found >= ENTAILED
        sign = "≥" if held else "<"
        return Support(found, held, "entailment", f"entailment {found:.2f} {sign} {ENTAILED:g}")


class Verdict(Answer):
    """The verdict on one sentence."""

    claim: str = Field(max_length=16)
    supported: bool
    quote: str = Field(max_length=2000)


class Verdicts(Answer):
    """The verdicts on all sentences."""

    verdicts: list[Verdict] = Field(max_length=1000)


@dataclass(frozen=True)
class LlmJudge:
    """A language model, which must quote what supports a sentence; else another judge decides."""

    ask: Ask
    other: Judge  # judges if the model's answer is no good
    name: str = "llm"

    def judge(self, claims: Claims) -> list[Support]:
        """Judge the claims of one answer, a question of `MAX_CLAIMS` at a time."""
        parts = [claims[at : at + MAX_CLAIMS] for at in range(0, len(claims), MAX_CLAIMS)]
        return [verdict for part in parts for verdict in self._part(part)]

    def _part(self, claims: Claims) -> list[Support]:
        names = {f"c{n}": claim for n, claim in enumerate(claims, start=1)}
        passages = {p.id: p for _, cited in claims for p in cited}
        numbers = {identifier: f"p{n}" for n, identifier in enumerate(passages, start=1)}
        listed = "; ".join(
            f"{name}: {', '.join(numbers[p.id] for p in cited)}"
            for name, (_, cited) in names.items()
        )
        shown = [own(name, text) for name, (text, _) in names.items()]
        shown += [_passage(numbers[p.id], p) for p in passages.values()]
        messages = question(f"{_TASK}{listed}.", shown)
        said, missed = self.ask(messages, Verdicts, lambda answer: _fault(answer, names))
        if said is None:
            found = self.other.judge(claims)
            return [v._replace(reason=f"{v.reason} ({missed})".strip()) for v in found]
        held = {row.claim: row.supported for row in said.verdicts}
        return [Support(float(held[name]), held[name], "model") for name in names]


def _passage(name: str, passage: Issued) -> tuple[Source, str]:
    text = passage.text
    return Source(name, passage.source, (0, len(text)), sha256_hex(text)), text


def _fault(said: Verdicts, names: Mapping[str, tuple[str, Sequence[Issued]]]) -> str:
    """Return what is wrong with verdicts; empty for nothing."""
    given = [row.claim for row in said.verdicts]
    if sorted(given) != sorted(names):
        return "not each sentence exactly once"
    for row in said.verdicts:
        cited = names[row.claim][1]
        proof = stemmed_terms(row.quote) and any(stands(row.quote, p.text) for p in cited)
        if row.supported and not proof:  # a quote of "the" proves nothing
            return f"its quote for {row.claim} does not stand in what is cited"
    return ""
