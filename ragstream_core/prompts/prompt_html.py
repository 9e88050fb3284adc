"""A Super-Prompt as HTML: a bar of its budget, sections that fold, each passage with its source.

For notebooks and the page, light and dark. Nothing is fetched and nothing runs: no script, no link,
no picture, and every word of the prompt is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from ragstream_core.prompts.citations import shown_name
from ragstream_core.prompts.reparse import BEFORE, sections_of
from ragstream_core.records import SuperPrompt
from ragstream_core.text.markup import fold_html, pre_html, table_html, visible

_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#9c755f", "#76b7b2", "#bab0ac")
_SWATCH = "display:inline-block;width:.7em;height:.7em;margin-right:.4em"
_BAR = "display:flex;height:.6em;margin:.4em 0;background:rgba(128,128,128,.25)"
_KEY_DIGITS = 12
_UNFOLDED = ("❖ FILES", "S_CTX", "ATTACHMENTS", "TASK")


def prompt_html(prompt: SuperPrompt, *, key: str = "", warnings: Sequence[str] = ()) -> str:
    """Return a prompt as HTML; of one without its finished text, the candidates.

    Args:
        prompt: After any stage.
        key: Of its record; empty: none is shown.
        warnings: What the person should look at.
    """
    extras = prompt.extras
    named = f" <code>{visible(key[:_KEY_DIGITS])}</code>" if key else ""
    told = "".join(f"<div>⚠ {visible(line)}</div>" for line in warnings)
    if not extras.super_prompt:
        after = f" after {visible(prompt.stage)}" if prompt.stage else ""
        return f"<div><b>Prompt</b>{named}{after}{told}{_candidates(prompt)}</div>"
    tree, most = extras.token_tree, extras.enforced.budget_tokens
    size = f"{tree.total:,} of {most:,} tokens" if most else f"{tree.total:,} tokens"
    bar = budget_bar([(block.name, block.tokens) for block in tree.blocks], most)
    head = f"<div><b>Super-Prompt</b>{named} · {size}</div>{bar}{told}"
    return f"<div>{head}{''.join(_sections(prompt))}</div>"


def budget_bar(blocks: Sequence[tuple[str, int]], budget: int) -> str:
    """Return the budget as a bar: one part a section, and what is left.

    Args:
        blocks: Name and tokens of each section, in the order of the prompt.
        budget: Most tokens that the prompt may have; 0: there is no such number.
    """
    whole = max(sum(tokens for _, tokens in blocks), budget, 1)
    parts = "".join(
        f'<span title="{visible(name)}: {tokens:,} tokens" '
        f'style="width:{100 * tokens / whole:.2f}%;background:{block_colour(number)}"></span>'
        for number, (name, tokens) in enumerate(blocks)
    )
    return f'<div style="{_BAR}">{parts}</div>'


def block_colour(number: int) -> str:
    """Return the colour of a section by its place, from 0; it holds on light and dark."""
    return _COLOURS[number % len(_COLOURS)]


def _sections(prompt: SuperPrompt) -> Iterator[str]:
    extras = prompt.extras
    blocks = {block.name: (n, block.tokens) for n, block in enumerate(extras.token_tree.blocks)}
    frames = _frame(extras.fence.nonce)
    told = _passages(prompt)
    for section in sections_of(extras.super_prompt, extras.fence.nonce):
        number, tokens = blocks.get(section.name, (len(_COLOURS) - 1, 0))
        count = f" · {tokens:,} tokens" if tokens else ""
        swatch = f'<span style="{_SWATCH};background:{block_colour(number)}"></span>'
        summary = f"{swatch}<b>{visible(section.name or BEFORE)}</b>{count}"
        text = section.text.partition("\n")[2] if section.name else section.text
        body = "".join(_parts(text, frames, told))
        yield fold_html(summary, body, unfolded=section.name in _UNFOLDED)


def _frame(nonce: str) -> re.Pattern[str]:
    """Return what a framed text looks like; a line inside one begins with a bar, so it ends once.

    Groups: citation id, source, other attributes, quoted lines.
    """
    mark = re.escape(nonce)
    return re.compile(
        rf'^<<DOC (?:\d+) {mark} id="([^"\n]*)" source="([^"\n]*)"([^\n]*)>>\n'
        rf"((?:\|[^\n]*\n)*)<<END DOC \d+ {mark}>>$",
        re.MULTILINE,
    )


def _parts(text: str, frames: re.Pattern[str], told: Mapping[str, str]) -> Iterator[str]:
    """Yield the text between frames as lines, and each frame as a block with its source."""
    at = 0
    for match in frames.finditer(text):
        yield pre_html(text[at : match.start()].strip("\n"))
        cited, source, attributes, quoted = match.groups()
        mode = re.search(r'mode="(\w+)"', attributes)
        facts = [visible(f) for f in (told.get(cited, ""), mode[1] if mode else "") if f]
        line = f"{visible(unquote(source))} <code>{visible(cited)}</code>"
        lines = re.sub(r"^\| ?", "", quoted, flags=re.MULTILINE).removesuffix("\n")
        yield fold_html(" · ".join([line, *facts]), pre_html(lines))
        at = match.end()
    yield pre_html(text[at:].strip("\n"))


def _passages(prompt: SuperPrompt) -> dict[str, str]:
    """Return citation id → page and score, for those that have one."""
    extras = prompt.extras
    told = {}
    for cited, issued in extras.citations.items():
        scores = extras.scores.get(issued.chunk_id)
        page = f"page {issued.page_number}" if issued.page_number else ""
        score = f"score {scores.score:.3f}" if scores else ""
        told[cited] = " · ".join(part for part in (page, score) if part)
    return told


def _candidates(prompt: SuperPrompt) -> str:
    """Return what the stages have found so far."""
    scores = prompt.extras.scores
    rows = [
        (f"{scores[c.id].score:.3f}" if c.id in scores else "", shown_name(c.id), c.snippet)
        for c in prompt.base_context_chunks
    ]
    return table_html(("score", "passage", "text"), rows) if rows else ""
