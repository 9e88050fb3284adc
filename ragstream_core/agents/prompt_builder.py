"""Prompt Builder: writes the Super-Prompt and has the independent parser read it again.

Reads what A5 verified. Writes ``System_MD``, ``Prompt_MD``, ``S_CTX_MD``, ``Attachments_MD`` and,
in ``extras``: ``super_prompt``, ``fence`` (mark, characters that were dropped), ``token_tree``. The
stage stays ``a5``. A line that has another owner than it was given refuses the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ragstream_core.ports import TokenCounter
from ragstream_core.prompts import render
from ragstream_core.prompts.blocks import Layout, compose, file_texts, history_texts, selected_texts
from ragstream_core.prompts.edited_prompt import text_tokens
from ragstream_core.prompts.fences import total_dropped
from ragstream_core.prompts.line_owners import verify
from ragstream_core.prompts.trail import advance
from ragstream_core.records import SuperPrompt
from ragstream_core.records.stage_results import Fence

OP = "prompt_builder"


@dataclass(frozen=True)
class PromptBuilder:
    """The last step; the stage stays ``a5``.

    Attributes:
        counter: Counts tokens.
        layout: Rules, memory and order, as A5's.
    """

    counter: TokenCounter
    layout: Layout = field(default_factory=Layout)

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Render and verify.

        Raises:
            FenceBroken: A line of the prompt has another owner than it was given.
        """
        result = advance(prompt, prompt.stage)
        composed = compose(prompt, self.layout)
        text = composed.text
        verify(text, composed.nonce, composed.owners)
        result.System_MD = composed.part(render.HARD_RULES, render.PROJECT_MEMORY, render.SYSTEM)
        result.Prompt_MD = render.render_prompt_md(prompt.body)
        result.S_CTX_MD = composed.part(render.S_CTX)
        result.Attachments_MD = composed.part(render.ATTACHMENTS)
        foreign = [
            *file_texts(prompt),
            *selected_texts(prompt, history=False),
            *history_texts(prompt),
        ]
        result.extras.super_prompt = text
        dropped = total_dropped([body for _, body in foreign])
        result.extras.fence = Fence(composed.nonce, dropped)
        result.extras.token_tree = text_tokens(text, composed.nonce, self.counter)
        return result
