"""Markdown for Dagster's pages: bars and lines of block characters, and names shown as code.

Dagster's pages fetch the images that Markdown names; in code nothing is an image or a link.
"""

import re
from collections.abc import Mapping, Sequence

from ragstream_core.records import SuperPrompt

_TICKS = re.compile(r"`+")


def inline(text: str) -> str:
    """Return inline code that shows a text on one line, whatever stands in it."""
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    fence = "`" * (max(map(len, _TICKS.findall(flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat.strip() else ""
    return f"{fence}{pad}{flat or ' '}{pad}{fence}"


def bullets(lines: list[str] | tuple[str, ...]) -> str:
    """Return a list of texts, "none" where there are none."""
    return "\n".join(f"- {inline(line)}" for line in lines) or "none"


WIDTH = 24
_COLUMN = 5
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(value: float, largest: float) -> str:
    """Return a bar of at most 24 characters, in eighths of one; empty for nothing."""
    eighths = round(8 * WIDTH * value / largest) if largest > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def bars(rows: Sequence[tuple[str, float]], *, name: str, unit: str) -> str:
    """Return rows of (label, value) as a Markdown table with a bar each.

    Args:
        rows: In order; labels are our own words, never foreign text.
        name: Heading of the labels.
        unit: Heading of the values.
    """
    largest = max((value for _, value in rows), default=0)
    lines = [f"| {label} | {value:,.4g} | {bar(value, largest)} |" for label, value in rows]
    return "\n".join([f"| {name} | {unit} | |", "|---|--:|---|", *lines])


def line(rows: Sequence[tuple[str, float]], *, steps: int = 10) -> str:
    """Return values in [0, 1] over their labels as a line in a code block, 0 at the bottom.

    Args:
        rows: In order; labels are our own words of at most five letters.
        steps: Rows above 0.
    """
    heights = [round(max(0.0, min(1.0, value)) * steps) for _, value in rows]
    drawn = []
    for height in range(steps, -1, -1):
        cells = ""
        for at, here in enumerate(heights):
            runs_on = at + 1 < len(heights) and here == heights[at + 1] == height
            cells += ("●" if here == height else " ") + ("─" if runs_on else " ") * _COLUMN
        drawn.append(f"{height / steps:4.1f} │ {cells.rstrip()}".rstrip())
    labels = "".join(label[:_COLUMN].ljust(_COLUMN + 1) for label, _ in rows)
    return "\n".join(["```text", *drawn, f"     └─{'─' * len(labels)}", f"       {labels}", "```"])


def stage_times(timings_ms: Mapping[str, float]) -> str:
    """Return what each op took, in milliseconds."""
    return bars(list(timings_ms.items()), name="stage", unit="ms")


def candidate_flow(prompt: SuperPrompt) -> str:
    """Return how many candidates were left after each stage, and what was selected."""
    rows = [(stage, float(len(view))) for stage, view in prompt.views_by_stage.items() if view]
    return bars(
        [*rows, ("selected", float(len(prompt.final_selection_ids)))],
        name="after",
        unit="candidates",
    )


def token_shares(prompt: SuperPrompt) -> str:
    """Return how many tokens each block of the Super-Prompt takes."""
    blocks = prompt.extras.token_tree.blocks
    rows = [(block.name, float(block.tokens)) for block in blocks]
    return bars(rows, name="block", unit="tokens")
