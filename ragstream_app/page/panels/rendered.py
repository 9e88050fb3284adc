"""The finished Super-Prompt for reading: its blocks, its evidence with sources, and its budget.

What is sent and copied is the raw text; nothing here changes it. A click on a source opens its
passage in the place of the Prompt, which is hidden until the passage is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import passage
from ragstream_app.page.panels.shared import desk, super_prompt_key, workspace
from ragstream_core.answers.citations import Citation, issued_by
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.doubt import doubt_of
from ragstream_core.prompts.inputs import inputs_of, settings_at
from ragstream_core.prompts.outline import OutlineBlock, Quotation, Statement, outline, titled
from ragstream_core.prompts.prompt_html import budget_html
from ragstream_core.text.markup import visible

if TYPE_CHECKING:
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.records import Chunk

# Key of the Super-Prompt, citation id, and number of the statement or "", of the open passage.
OPEN_KEY = "rendered_open"
# Without the style sheet, which makes it as high as the window leaves room for.
HEIGHT = 560
FIRST_CHARS = 110
_LINES_KEY = "rendered_lines"
_TITLES = {
    "HARD RULES": "Hard rules",
    "PROJECT MEMORY": "Project memory",
    "SYSTEM": "System",
    "S_CTX": "Facts, constraints, open issues",
    "ATTACHMENTS": "Evidence",
    "❖ FILES": "❖ Files",
    "RECENT HISTORY (non-authoritative)": "Recent history",
    "TASK": "Task",
}
_MODES = {"FULL": "whole file", "PACK": "shortened", "CUT": "cut", "DIFF": "changes"}


def show(step: MadePrompt) -> None:
    """Draw the prompt block by block, under the bar of its budget.

    Args:
        step: Whose Super-Prompt is finished.
    """
    blocks = outline(step.super_prompt)
    budget = settings_at(inputs_of(step.super_prompt), OPS[-1]).prompt.budget_tokens
    with st.container(height=HEIGHT, border=True, key="rendered_prompt"):
        named = [(_title(block), block.tokens) for block in blocks]
        st.html(budget_html(named, budget))
        if doubt := doubt_of(step.super_prompt):
            st.warning(literal(doubt))
        st.text("Click a source to read it here; click again to close.")
        for number, block in enumerate(blocks):
            with st.expander(_label(block), expanded=block.name in ("S_CTX", "TASK")):
                _block(block, number)


def show_passage() -> None:
    """Draw the passage that is open; nothing if there is none."""
    step, (shown, cited, number) = desk().last, st.session_state.get(OPEN_KEY) or ("", "", "")
    issued = (
        issued_by(step.super_prompt).get(cited) if step and shown == super_prompt_key() else None
    )
    if step is None or issued is None:  # none, or of another prompt
        return
    with st.container(key="passage_side"):
        head, button = st.columns([5, 1], gap="small", vertical_alignment="center")
        head.text(issued.source)
        button.button("Close", key="close passage", on_click=close, width="stretch")
        statements = [s for block in outline(step.super_prompt) for s in block.statements]
        words = [s.text for s in statements if s.number == number] if number else []
        citation = Citation(
            cited,
            issued.source,
            issued.locator,
            page_number=issued.page_number,
            known=True,
            read_by=issued.read_by,
        )
        passage.show(citation, issued, step.key, words=words, keys="rendered citation")


def close() -> None:
    """Close the passage; the Prompt is seen again."""
    st.session_state.pop(OPEN_KEY, None)


def _title(block: OutlineBlock) -> str:
    return _TITLES.get(block.name, block.name)


def _label(block: OutlineBlock) -> str:
    """Return what stands on a folded block: its name, what it holds, its tokens."""
    counts = [(len(block.statements), "statement"), (len(block.quotations), "passage")]
    held = [f"{n} {what}{'s' * (n != 1)}" for n, what in counts if n]
    return " · ".join([f"**{_title(block)}**", *held, f"{block.tokens:,} tokens"])


def _block(block: OutlineBlock, place: int) -> None:
    for number, part in enumerate(block.parts):
        key = f"rendered {place} {number}"
        if isinstance(part, Statement):
            _statement(part, key)
        elif isinstance(part, Quotation):
            _quotation(part, key)
        else:
            st.html("".join(map(_words, titled(part))))


def _words(paragraph: tuple[str, str]) -> str:
    title, words = paragraph
    if not title:
        return f"<blockquote>{visible(words)}</blockquote>"
    return f"<h6>{visible(title)}</h6>" + (f"<p>{visible(words)}</p>" if words else "")


def _statement(item: Statement, key: str) -> None:
    """Draw one fact, constraint or open issue with what it cites."""
    heading = f" <em>{visible(item.heading)}:</em>" if item.heading else ""
    st.html(f"<p><strong>{visible(item.number)}</strong>{heading} {visible(item.text)}</p>")
    with st.container(horizontal=True, gap="small"):
        for at, (identifier, name) in enumerate(item.cited):
            _source(name, identifier, item.number, key=f"{key} {at}")


def _quotation(quoted: Quotation, key: str) -> None:
    """Draw one piece of evidence: where it is from, and its words, folded."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        _source(quoted.source, quoted.id, "", key=key)
        st.text(" · ".join(_facts(quoted)), width="content")
    first = " ".join(quoted.text.split())
    more = " …" if len(first) > FIRST_CHARS else ""
    st.html(
        f"<details><summary>{visible(first[:FIRST_CHARS])}{more}</summary>"
        f"<blockquote>{visible(quoted.text)}</blockquote></details>"
    )


def _source(name: str, identifier: str, number: str, *, key: str) -> None:
    """Draw the button that opens a passage, or closes it if it is open."""
    chosen = (super_prompt_key(), identifier, number)
    is_open = st.session_state.get(OPEN_KEY) == chosen
    st.button(
        f"**◂ {literal(name)}**" if is_open else literal(name),  # another type would lose the focus
        key=key,
        type="tertiary",
        on_click=_toggle,
        args=chosen,
    )


def _toggle(*chosen: str) -> None:
    state = st.session_state
    state[OPEN_KEY] = None if state.get(OPEN_KEY) == chosen else chosen


def _facts(quoted: Quotation) -> list[str]:
    """Return what is known of a quotation beside its file."""
    facts = [quoted.heading] if quoted.heading else []
    if quoted.chunk is not None and quoted.chunk.meta.get("project") == HISTORY:
        facts.append("said in a conversation")
    if quoted.page:
        facts.append(f"page {quoted.page}")
    elif quoted.chunk is not None and (lines := _lines(quoted.chunk)) != (0, 0):
        facts.append(f"lines {lines[0]}–{lines[1]}")
    facts += [_MODES[quoted.mode]] if quoted.mode in _MODES else []
    facts += [f"score {quoted.score:.2f}"] if quoted.score else []
    return [*facts, f"{quoted.tokens:,} tokens"]


def _lines(chunk: Chunk) -> tuple[int, int]:
    """Return the lines of a chunk in its file, looked up once; (0, 0) if they are not known."""
    from ragstream_core.services.passages import lines_of

    known: dict[str, tuple[int, int]] = st.session_state.setdefault(_LINES_KEY, {})
    meta = chunk.meta
    if chunk.id not in known and "path" in meta and meta["project"] != HISTORY:
        known[chunk.id] = lines_of(
            workspace(), meta["project"], meta["path"], sha256=meta["sha256"], span=chunk.span
        )
    return known.get(chunk.id, (0, 0))
