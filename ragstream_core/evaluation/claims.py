"""The sentences of an answer: which of them claim something, and what each one cites.

A marker belongs to the sentence before it on its line; where nothing stands before it, to the one
behind it; alone on a line, to the last one above. In a list item it also covers the sentences
before it that have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstream_core.agents.reading import stemmed_terms
from ragstream_core.agents.sentences import Block, blocks, is_filler, sentence_spans
from ragstream_core.answering.citations import Citation, citations_of
from ragstream_core.answering.grounding import REFUSAL
from ragstream_core.answering.issued import Issued
from ragstream_core.answering.markup import Found, markers

Kind = Literal["claim", "heading", "question", "refusal", "connective", "code"]
_RULE_ROW = re.compile(r"[|\s:-]+")
_SPACE_BEFORE = re.compile(r"\s+([.,;:!?])")
_CHARACTERS = re.compile(r"\w")
_CONNECTIVE = re.compile(
    r"(?:let me know|feel free to|i hope (?:this|that) helps|hope this helps"
    r"|if you (?:have|need) (?:any |more |further |other )"
    r"|(?:in summary|in short|to sum up)[,:]?$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an answer.

    Attributes:
        text: It, without markers, white space collapsed.
        kind: ``claim``, or why it is none.
        cited: Ids that its markers cite, as the prompt issued them, each once.
        unknown: How many of its markers cite what the prompt did not issue.
    """

    text: str
    kind: Kind
    cited: tuple[str, ...] = ()
    unknown: int = 0


def sentences_of(answer: str, issued: Mapping[str, Issued]) -> list[Sentence]:
    """Return the sentences of an answer in order.

    Args:
        answer: With its markers.
        issued: Citation id → what the prompt showed under it.
    """
    found = list(markers(answer, issued))
    bare, places = _without(answer, found)
    spans = list(_spans(bare))
    starts = [start for start, _, _ in spans]
    cited: dict[int, tuple[Citation, ...]] = {}
    for marker, place in zip(found, places, strict=True):
        at = _owner(bare, place, starts)
        cited[at] = (*cited.get(at, ()), *citations_of(marker.text, issued))
    for at in range(len(spans) - 2, -1, -1):
        block = spans[at][2]
        if block.kind == "item" and block is spans[at + 1][2] and at not in cited:
            cited[at] = cited.get(at + 1, ())
    return [_sentence(bare[a:b], block, cited.get(i, ())) for i, (a, b, block) in enumerate(spans)]


def is_refusal(answer: str) -> bool:
    """Say whether an answer is the one sentence that says that the documents do not answer."""
    return " ".join(answer.split()) == REFUSAL


def _without(answer: str, found: Sequence[Found]) -> tuple[str, list[int]]:
    """Return an answer with a blank for each marker, and where these are."""
    parts, places, end, size = [], [], 0, 0
    for marker in found:
        parts.append(answer[end : marker.start])
        size += len(parts[-1]) + 1
        places.append(size - 1)
        end = marker.end
    return " ".join([*parts, answer[end:]]), places


def _spans(text: str) -> Iterator[tuple[int, int, Block]]:
    for block in blocks(text):
        if block.kind in ("prose", "item"):
            for start, end in sentence_spans(text, block.start, block.end):
                yield start, end, block
        elif not _RULE_ROW.fullmatch(text[block.start : block.end]):
            yield block.start, block.end, block


def _owner(text: str, at: int, starts: Sequence[int]) -> int:
    """Return which sentence a marker at a place belongs to; -1 where there is none."""
    line = text.rfind("\n", 0, at) + 1
    before = sum(start < at for start in starts) - 1
    if _CHARACTERS.search(text, line, at):
        return before
    end = text.find("\n", at)
    follows = _CHARACTERS.search(text, at, len(text) if end < 0 else end)
    return min(before + 1, len(starts) - 1) if follows or before < 0 else before


def _sentence(text: str, block: Block, cited: Sequence[Citation]) -> Sentence:
    said = _SPACE_BEFORE.sub(r"\1", " ".join(text.split()))
    said = said.strip("| ") if block.kind == "row" else said
    known = dict.fromkeys(citation.id for citation in cited if citation.verified)
    unknown = sum(not citation.verified for citation in cited)
    return Sentence(said, _kind(said, block.kind, is_cited=bool(cited)), tuple(known), unknown)


def _kind(text: str, block: str, *, is_cited: bool) -> Kind:
    if block == "heading":
        return "heading"
    if block in ("code", "markup"):
        return "code"
    if is_refusal(text):
        return "refusal"
    if text.endswith("?"):
        return "question"
    says_nothing = not stemmed_terms(text) or is_filler(text)
    leads = not is_cited and (text.endswith(":") or _CONNECTIVE.match(text) is not None)
    return "connective" if says_nothing or leads else "claim"
