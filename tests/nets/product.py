"""What the nets reach into the product for: whoever moves one of these names changes this file."""

import re

from ragstream_core.agents.a0_preprocessing import Preprocessing
from ragstream_core.agents.a2_prompt_shaper import PromptShaper
from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context.constraints import is_constraint
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.agents.headers import default_alias_text, parse_aliases
from ragstream_core.prompts.store import key_of
from ragstream_core.records import Chunk, SuperPrompt, evolve
from ragstream_core.records.extras import entry_from
from ragstream_core.text.task_words import only_tells, what_is_asked
from ragstream_core.text.token_estimates import HeuristicTokenCounter

COUNTER = HeuristicTokenCounter()
SIMILARITY = 0.55
"""The cosine of question and passage, as if an embedder had said it: between the limits."""
_ALIASES = parse_aliases(default_alias_text())


def key_and_text(prompt: SuperPrompt) -> tuple[str, str]:
    """A finished prompt's key, and its text."""
    return key_of(prompt), prompt.extras.super_prompt


def read(text: str, question: str) -> dict[str, object]:
    """What the stages read in one passage and one question to it, without an index.

    Args:
        text: The passage, Markdown.
        question: What somebody types.
    """
    chunk = Chunk("d.md::x::0", "d.md", text, (0, len(text)), {"sha256": "a" * 64})
    quotes = [quote.text for quote in quotes_of(chunk, 0, stemmed_terms)]
    shaped = PromptShaper("", "")(
        Preprocessing(_ALIASES, COUNTER.count, window_tokens=256)(
            SuperPrompt(body={"text": question})
        )
    )
    condensed = Condenser(COUNTER)(_gated(shaped, chunk))
    shape = shaped.extras.shape
    pieces = [piece.text for piece in shaped.extras.query_pieces]
    return {
        "quotes": quotes,
        "constraints": [quote for quote in quotes if is_constraint(quote)],
        "pieces": pieces,
        "asked": [re.sub(r"\s+", " ", what_is_asked(piece)).strip() for piece in pieces],
        "tells": [only_tells(piece) for piece in pieces],
        "intent": shape.intent,
        "deliverable": shape.deliverable,
        "verdict": [answer.word for answer in condensed.extras.answers],
        "facts": [fact.text for fact in condensed.extras.s_ctx.facts],
    }


def _gated(prompt: SuperPrompt, chunk: Chunk) -> SuperPrompt:
    """The prompt as the gate leaves it, with one passage kept."""
    kept = evolve(prompt, base_context_chunks=[chunk], views_by_stage={"a3": [chunk.id]})
    scores = {chunk.id: {"score": SIMILARITY, "best_cosine": SIMILARITY}}
    kept.extras.scores = entry_from("scores", scores)
    return kept
