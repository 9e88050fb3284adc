"""A Super-Prompt as HTML: a bar of its budget, sections that fold, each passage with its source.

For notebooks and the page, light and dark. Nothing is fetched and nothing runs: no script, no link,
no picture, and every word of the prompt is text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstream_core.prompts.citations import shown_name
from ragstream_core.prompts.outline import Part, Quotation, Statement, outline, titled
from ragstream_core.records import SuperPrompt
from ragstream_core.text.markup import fold_html, pre_html, table_html, visible

_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#9c755f", "#76b7b2", "#bab0ac")
_SWATCH = "display:inline-block;width:.7em;height:.7em;margin-right:.4em"
_BAR = "display:flex;height:.6em;margin:.4em 0;background:rgba(128,128,128,.25)"
_KEY_DIGITS = 12
_UNFOLDED = ("❖ FILES", "S_CTX", "ATTACHMENTS", "TASK")


def prompt_html(prompt: SuperPrompt, *, key: str = "", warnings: Sequence[str] = ()) -> str:
    """Return a prompt as HTML; of one without its finished text, the candidates."""
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
    """Return the budget as a bar: one part a section, and what is left."""
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
    for number, block in enumerate(outline(prompt)):
        count = f" · {block.tokens:,} tokens" if block.tokens else ""
        swatch = f'<span style="{_SWATCH};background:{block_colour(number)}"></span>'
        summary = f"{swatch}<b>{visible(block.name)}</b>{count}"
        body = "".join(map(_part, block.parts))
        yield fold_html(summary, body, unfolded=block.name in _UNFOLDED)


def _part(part: Part) -> str:
    if isinstance(part, Quotation):
        return fold_html(_source(part), pre_html(part.text))
    if isinstance(part, Statement):
        cited = " ".join(f"<code>{visible(f'{name} {cid}')}</code>" for cid, name in part.cited)
        heading = f"<em>{visible(part.heading)}:</em> " if part.heading else ""
        return f"<p><b>{visible(part.number)}</b> {heading}{visible(part.text)} {cited}</p>"
    return "".join(map(_words, titled(part)))


def _words(paragraph: tuple[str, str]) -> str:
    title, words = paragraph
    return (f"<p><b>{visible(title)}</b></p>" * bool(title)) + (pre_html(words) * bool(words))


def _source(quoted: Quotation) -> str:
    """Return the line of a quotation: where it is from, and by what it was ranked."""
    page = f"page {quoted.page}" if quoted.page else ""
    score = f"score {quoted.score:.3f}" if quoted.score else ""
    facts = (quoted.heading, page, score, quoted.mode)
    named = f"{visible(quoted.source)} <code>{visible(quoted.id)}</code>"
    return " · ".join([named, *(visible(fact) for fact in facts if fact)])


def _candidates(prompt: SuperPrompt) -> str:
    """Return what the stages have found so far."""
    scores = prompt.extras.scores
    rows = [
        (f"{scores[c.id].score:.3f}" if c.id in scores else "", shown_name(c.id), c.snippet)
        for c in prompt.base_context_chunks
    ]
    return table_html(("score", "passage", "text"), rows) if rows else ""


def budget_html(blocks: Sequence[tuple[str, int]], budget: int) -> str:
    """Return a bar with a part for each block, and its legend."""
    total = sum(tokens for _, tokens in blocks)
    left = f"{budget - total:,} left" if total <= budget else f"{total - budget:,} too many"
    legend = "".join(
        f'<span><i style="background:{block_colour(n)}"></i>{visible(name)} {tokens:,}</span>'
        for n, (name, tokens) in enumerate(blocks)
    )
    return (
        f'<div class="budget"><p>{total:,} of {budget:,} tokens · {left}</p>'
        f'{budget_bar(blocks, budget)}<div class="legend">{legend}</div></div>'
    )
