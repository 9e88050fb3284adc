"""The parts of a finished prompt, for people: its sections, own words, statements and quotations.

All is read from the text as it stands, so that an edited prompt shows what will be sent. What the
text does not say of a quotation (heading, page, score) comes from the prompt's candidates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from ragstream_core.prompts.citations import parse_markers
from ragstream_core.prompts.edited_prompt import BEFORE, sections_of
from ragstream_core.prompts.fences import PREFIX, one_line
from ragstream_core.prompts.frames import Frame, frames
from ragstream_core.prompts.line_owners import owners
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.stage_results import Span

_TITLE = "### "
_NUMBER = re.compile(r"([FCO]\d+)\. ?")


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact, constraint or open issue."""

    number: str  # ``F1``, ``C1``, ``O1`` …; empty if its line has none
    heading: str  # what it stands under in its document; may be empty
    text: str  # the sentence
    cited: tuple[tuple[str, str], ...]  # citation id and file name of each passage


@dataclass(frozen=True, slots=True)
class Quotation:
    """A framed text: a passage, an injected file, or turns of the conversation."""

    id: str  # its citation id
    source: str  # path of its document, or a name of ours
    text: str  # what is quoted, without the bars
    span: Span  # characters of the document
    mode: str = ""  # ``FULL``, ``PACK``, ``CUT``, ``DIFF`` or empty
    tokens: int = 0  # with its frame
    chunk: Chunk | None = None  # the candidate that it shows; None for files and recent turns
    score: float = 0.0  # what the last stage ranked it by; 0: none did

    @property
    def heading(self) -> str:
        """The heading that it stands under; may be empty."""
        return str(self.chunk.meta.get("heading") or "") if self.chunk else ""

    @property
    def page(self) -> int:
        """The page it begins on, from 1; 0 if it has none."""
        return int(self.chunk.meta.get("page_number") or 0) if self.chunk else 0


# Own words of a section are a plain text.
Part = str | Statement | Quotation


@dataclass(frozen=True, slots=True)
class OutlineBlock:
    """One section of a prompt."""

    name: str  # its heading
    tokens: int  # of the whole section
    parts: tuple[Part, ...]  # what it holds, in order

    @property
    def quotations(self) -> list[Quotation]:
        """The quotations among its parts."""
        return [part for part in self.parts if isinstance(part, Quotation)]

    @property
    def statements(self) -> list[Statement]:
        """The facts, constraints and open issues among its parts."""
        return [part for part in self.parts if isinstance(part, Statement)]


def outline(prompt: SuperPrompt) -> tuple[OutlineBlock, ...]:
    """Return the sections of a finished prompt in their order; none before it is built."""
    text, nonce = prompt.extras.super_prompt, prompt.extras.fence.nonce
    tree = prompt.extras.token_tree.blocks
    reader, whose, found = _Reader(prompt), owners(text, nonce), []
    at = 0
    for number, section in enumerate(sections_of(text, nonce)):
        lines = section.text.removesuffix("\n").split("\n")
        mine = list(zip(whose[at : at + len(lines)], lines, strict=False))
        at += len(lines)
        counted = tree[number] if number < len(tree) else None
        tokens = [part.tokens for part in (counted.parts or ())] if counted else []
        parts = reader.parts(mine[1:] if section.name else mine, tokens)
        name = section.name or BEFORE
        found.append(OutlineBlock(name, counted.tokens if counted else 0, tuple(parts)))
    return tuple(found)


def titled(words: str) -> list[tuple[str, str]]:
    """Return words of our own as (title, words below it); the title may be empty, so may these."""
    found = [("", list[str]())]
    for line in words.split("\n"):
        if line.startswith(_TITLE):
            found.append((line.removeprefix(_TITLE), []))
        else:
            found[-1][1].append(line)
    rows = [(title, "\n".join(lines).strip("\n")) for title, lines in found]
    return [row for row in rows if any(row)]


class _Reader:
    """Puts the lines of a section together; knows what the prompt's citation ids stand for."""

    def __init__(self, prompt: SuperPrompt) -> None:
        extras = prompt.extras
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        self.chunks = {s: chunks[i] for i, s in extras.short_ids.items() if i in chunks}
        self.scores = {row.chunk_id: row.score for row in extras.decisions if row.score}
        self.headings = {
            f"{letter}{n}": one_line(item.heading)
            for letter, items in zip("FCO", extras.s_ctx.parts, strict=True)
            for n, item in enumerate(items, start=1)
            if item.heading
        }

    def parts(self, lines: Sequence[tuple[str, str]], tokens: Sequence[int]) -> Iterator[Part]:
        """Yield the parts of a section."""
        own: list[str] = []
        quoted: list[str] | None = None
        opening: Frame | None = None
        left = list(tokens)
        for owner, line in lines:
            begins = frames(line) if owner.startswith("frame ") else []
            if begins or owner.endswith("|"):
                yield from _words(own)
                own = []
            if quoted is not None and opening and (owner.startswith("frame ") or begins):
                yield self._quotation(opening, quoted, left.pop(0) if left else 0)
                quoted = None
            if begins:
                opening, quoted = begins[0], []
            elif quoted is not None:
                quoted.append(line.removeprefix(PREFIX))
            elif owner.endswith("|"):
                yield self._statement(line.removeprefix(PREFIX))
            elif not owner.startswith("frame "):
                own.append(line)
        if quoted is not None and opening:
            yield self._quotation(opening, quoted, left.pop(0) if left else 0)
        yield from _words(own)

    def _quotation(self, head: Frame, lines: list[str], tokens: int) -> Quotation:
        chunk = self.chunks.get(head.id)
        return Quotation(
            head.id,
            chunk.source if chunk else head.source,
            "\n".join(lines),
            head.span,
            head.mode,
            tokens,
            chunk,
            self.scores.get(chunk.id, 0.0) if chunk else 0.0,
        )

    def _statement(self, line: str) -> Statement:
        markers = parse_markers(line)
        text = line[: markers[0].span[0]] if markers else line
        number = _NUMBER.match(text)
        name = number[1] if number else ""
        text = text[number.end() :].strip() if number else text.strip()
        heading = self.headings.get(name)
        shown = heading is not None and text.startswith(f"({heading})")
        if shown:
            text = text.removeprefix(f"({heading})").strip()
        return Statement(
            name,
            heading or "" if shown else "",
            text,
            tuple((m.id, unquote(m.source)) for m in markers),
        )


def _words(own: list[str]) -> Iterator[str]:
    text = "\n".join(own).strip("\n")
    if text.strip():
        yield text
