"""Small charts as Markdown tables: bars of block characters, readable in both themes."""

from collections.abc import Mapping, Sequence

from ragstream_core.records import SuperPrompt

WIDTH = 24
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
    blocks = prompt.extras.get("token_tree", {}).get("blocks", [])
    rows = [(str(block["name"]), float(block["tokens"])) for block in blocks]
    return bars(rows, name="block", unit="tokens")
