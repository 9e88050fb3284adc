"""The form with a language model: it writes the case, the sources have the last word.

A model answers with one JSON object of a strict schema. Its quote must stand in a passage that it
was shown, word for word; requirement ids that the sources do not have are dropped and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ragstream_core.agents.llm_call import Answer, own, question
from ragstream_core.prompts.fences import Source as Framed
from ragstream_core.records.chat import ChatMessage
from ragstream_core.records.identity import sha256_hex
from ragstream_core.testspecs.specification import NONE_STATED, Source, TestCase

MIN_QUOTE = 10
_TASK = (
    "Write one test case for the requirements named in the part `requirements`, from the passages "
    "p1, p2 … alone. Fields: `title`, one line; `precondition`, or an empty text where none is "
    "stated; `actions`, what the tester does, in order; `expected`, what must be seen after each "
    "action, as many as actions; `postcondition`, or an empty text; `requirements`, ids of the "
    "requirements that the case covers; `quote`, the sentence of a passage that states it, copied "
    "letter for letter. Make nothing up: what no passage states does not belong in the case."
)
Text = Annotated[str, Field(max_length=600)]
Line = Annotated[str, Field(min_length=1, max_length=600)]

# Where a passage comes from (its ``quote`` does not count), and its words.
Passage = tuple[Source, str]


class Written(Answer):
    """What a language model may answer."""

    title: Annotated[str, Field(min_length=1, max_length=120)]
    precondition: Text
    actions: Annotated[list[Line], Field(min_length=1, max_length=12)]
    expected: Annotated[list[Line], Field(min_length=1, max_length=12)]
    postcondition: Text
    requirements: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=20)]
    quote: Annotated[str, Field(min_length=MIN_QUOTE, max_length=1_000)]


def messages(ids: Sequence[str], passages: Sequence[Passage]) -> list[ChatMessage]:
    """Return what is asked; words of documents stand in the user message only, framed."""
    parts = [own("requirements", ", ".join(ids))]
    for number, (source, text) in enumerate(passages, start=1):
        framed = Framed(f"p{number}", source.path, (0, len(text)), sha256_hex(text))
        parts.append((framed, text))
    return question(_TASK, parts)


def checker(passages: Sequence[Passage]) -> Callable[[Written], str]:
    """Return what says why an answer cannot be taken; an empty text if it can."""

    def check(written: Written) -> str:
        if len(written.actions) != len(written.expected):
            return f"{len(written.actions)} actions, {len(written.expected)} expected results"
        if not any(written.quote in text for _, text in passages):
            return "its quote stands in no passage"
        return ""

    return check


def case_of(
    answer: Written,
    ids: tuple[str, ...],
    passages: Sequence[Passage],
    *,
    known: Collection[str],
    model: str,
) -> TestCase:
    """Return an answer as a test case without an id."""
    named = dict.fromkeys([*ids, *(name for name in answer.requirements if name in known)])
    invented = [name for name in dict.fromkeys(answer.requirements) if name not in known]
    note = f"the model named requirements that do not exist: {', '.join(invented)}"
    source = next(source for source, text in passages if answer.quote in text)
    return TestCase(
        id="",
        title=" ".join(answer.title.split()),
        precondition=answer.precondition.strip() or NONE_STATED,
        actions=tuple(answer.actions),
        expected=tuple(answer.expected),
        postcondition=answer.postcondition.strip() or NONE_STATED,
        requirements=tuple(named),
        sources=(replace(source, quote=answer.quote),),
        quote=answer.quote,
        form="llm",
        model=model,
        notes=(note,) if invented else (),
    )
