"""The Super-Prompt after the newest step, edited here once it is built, and where its tokens go."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import copying, prompt, rendered
from ragstream_app.page.panels.history.choice import home
from ragstream_app.page.panels.shared import (
    desk,
    report,
    reported_errors,
    super_prompt_key,
)
from ragstream_app.page.prompt_session import edit, label_of, revert
from ragstream_core.prompts.blocks import HISTORY_PREFIX, injected
from ragstream_core.prompts.chain import BUTTONS, OPS
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT, is_edited
from ragstream_core.prompts.inputs import inputs_of, settings_at
from ragstream_core.records import SuperPrompt

if TYPE_CHECKING:
    from ragstream_core.prompts.made_prompt import MadePrompt


def show_tokens() -> None:
    """Draw the token tree of the newest step."""
    step = desk().last
    if step is None or not step.text:
        st.text("Build the prompt first, then its tokens are counted here.")
        return
    budget = settings_at(inputs_of(step.super_prompt), OPS[-1]).prompt.budget_tokens
    tree = step.super_prompt.extras.token_tree
    total = tree.total
    st.progress(min(1.0, total / budget), text=f"{total:,} of {budget:,} tokens · {tree.counter}")
    blocks, sources = st.columns(2, gap="small")
    with blocks:
        table("block", [(block.name, block.tokens) for block in tree.blocks], total)
    with sources:
        table("file", by_file(step.super_prompt), total)


def by_file(prompt: SuperPrompt) -> list[tuple[str, int]]:
    """Return the tokens of each file that the prompt quotes, frames included, the largest first."""
    parts = [part for block in prompt.extras.token_tree.blocks for part in block.parts or ()]
    names = [part.name for part in parts]
    if not is_edited(prompt):  # else: what the text still quotes, under the names that stand there
        homes = [f"❖ {'/'.join(file.home)}" for file in injected(prompt)]
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        shown = [chunks[i] for i in prompt.final_selection_ids if not i.startswith(HISTORY_PREFIX)]
        homes += [f"{chunk.meta['project']}/{chunk.source}" for chunk in shown]
        names[: len(homes)] = homes
    counts: dict[str, int] = {}
    for name, part in zip(names, parts, strict=True):
        counts[name] = counts.get(name, 0) + part.tokens
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def table(what: str, rows: list[tuple[str, int]], total: int) -> None:
    """Draw rows of a name and its tokens, with a bar each.

    Args:
        what: Heading of the names.
        rows: Names and tokens.
        total: Tokens of a full bar.
    """
    if not rows:
        st.text(f"No {what} contributes to it.")
        return
    shown: list[dict[str, Any]] = [
        {what: name, "tokens": tokens, "share": tokens / max(total, 1)} for name, tokens in rows
    ]
    st.dataframe(
        shown,
        hide_index=True,
        column_config={
            what: st.column_config.TextColumn(width=240),  # the longest name of a block in full
            "tokens": st.column_config.NumberColumn(format="localized", width=70),
            "share": st.column_config.ProgressColumn(format="percent", width=100),
        },
    )


SUPER_PROMPT_HEIGHT = 382  # ends below the choice of the model
PLACEHOLDER = """Here stands what is made of your question: one prompt with the evidence for it.

Read it in blocks, or edit it under Raw: what stands there is what is copied and sent."""
BUILDER = BUTTONS[-1]
VIEW_KEY = "prompt_view"
RAW, RENDERED = "Raw", "Rendered"
POPOVER_HEIGHT = 250


def show() -> None:
    """Show the evolving Super-Prompt, what is known about it, and what to do with it."""
    step = desk().last
    finished = step is not None and bool(step.text)
    is_rendered = _choose_view(finished=finished)
    st.text_area(  # drawn in both views: what is not drawn loses what was typed
        "Super-Prompt",
        key=super_prompt_key(),
        height=SUPER_PROMPT_HEIGHT,
        placeholder=PLACEHOLDER,
        disabled=not finished or prompt.is_busy(),
        on_change=on_edit,
        label_visibility="collapsed",
    )
    if step is not None and is_rendered:
        rendered.show(step)
    if step is None:
        st.text("not built yet")
        return
    if finished and not prompt.is_busy() and st.session_state[super_prompt_key()] != _text(step):
        _untaken()
    spent = sum(sum(one.timings_ms.values()) for one in desk().steps.values())
    if not finished:
        st.text(f"done up to {label_of(list(desk().steps)[-1])} · {spent / 1000:,.2f} s")
        return
    offers = [*([_changes] if step.unedited else []), _copy, _save]
    line, *places = st.columns([9, *[3 for _ in offers]], gap="small", vertical_alignment="center")
    tokens, key = step.tokens, step.key[:8] or "none"
    line.text(f"{tokens:,} tokens · key {key} · {spent / 1000:,.2f} s")
    for place, offer in zip(places, offers, strict=True):
        with place:
            offer(step)
    _doubts(step)


def _choose_view(*, finished: bool) -> bool:
    """Draw the title and the choice of the view; return whether it is the rendered one."""
    with st.container(horizontal=True, horizontal_alignment="distribute", key="view_of_prompt"):
        st.text("Super-Prompt", width="content")
        view = st.segmented_control(
            "View of the Super-Prompt",
            [RENDERED, RAW],
            key=VIEW_KEY,
            default=RENDERED,
            required=True,
            disabled=not finished,
            label_visibility="collapsed",
            on_change=rendered.close,
        )
    return finished and view == RENDERED


def on_edit() -> None:
    """Take in what a person made of the Super-Prompt; what cannot be taken in stays in the box."""
    report(None)
    typed = st.session_state[super_prompt_key()]
    try:
        edit(desk(), BUILDER, {SUPER_PROMPT: typed}, home())
    except Exception as error:  # the page's error boundary
        report(error)
        if not typed.strip():
            on_discard()
    prompt.take_in_press()


def on_discard() -> None:
    """Show again what would be sent, in the place of what was typed."""
    step = desk().steps.get(BUILDER)
    if step is not None:
        st.session_state[super_prompt_key()] = _text(step)


def on_revert() -> None:
    """Bring back the Super-Prompt as the chain built it."""
    with reported_errors():
        revert(desk(), BUILDER)
    prompt.take_in_press()


def difference(before: str, after: str) -> str:
    """Return the lines that an edit changed, each with two lines around it."""
    rows = unified_diff(
        before.splitlines(), after.splitlines(), "as built", "as edited", n=2, lineterm=""
    )
    return "\n".join(rows)


def _untaken() -> None:
    """Say that the text in the box is not the one that is sent, and offer both ways out."""
    said, again, drop = st.columns([9, 3, 3], gap="small", vertical_alignment="center")
    said.text("Your text was not applied: the previous one is kept.")
    again.button(
        "Try again", on_click=on_edit, width="stretch", help="Applies the text as it stands here."
    )
    drop.button(
        "Discard it", on_click=on_discard, width="stretch", help="Shows the previous text again."
    )


def _changes(step: MadePrompt) -> None:
    """Show that the text was edited, what was changed, and the way back."""
    built = _text(step.unedited) if step.unedited else ""
    shown = st.popover("Edited", type="primary", width="stretch", on_change="rerun")
    if shown.open:
        with shown:
            st.button("Revert", on_click=on_revert, help="Brings back what the chain built.")
            st.code(
                difference(built, _text(step)),
                language="diff",
                wrap_lines=True,
                height=POPOVER_HEIGHT,
            )


def _copy(step: MadePrompt) -> None:
    """Offer the text for the clipboard."""
    copying.offer(_text(step), key="copy prompt")


def _save(step: MadePrompt) -> None:
    """Offer the text as a file; its name says the key."""
    name = f"super-prompt-{step.key[:12] or 'unkept'}.md"
    st.download_button(
        "Save", _text(step), name, mime="text/markdown", on_click="ignore", width="stretch",
        help=f"The text as it is sent, as {name}.",
    )  # fmt: skip


def _doubts(step: MadePrompt) -> None:
    """Say which secrets the text seems to hold, and what an edit did to structure and budget."""
    from ragstream_core.services.edit_prompt import doubts

    said = doubts(step.super_prompt, quoted=literal)
    if said:
        st.warning("  \n".join(said))  # our own words, and names made harmless


def _text(step: MadePrompt) -> str:
    return step.text
