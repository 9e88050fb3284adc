"""What a prompt showed under which citation id: all that an answer may cite (R-206, R-211)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragstream_core.prompting.compose import file_texts, history_texts, selected_texts
from ragstream_core.prompting.fences import Source
from ragstream_core.prompting.reparse import still_shown
from ragstream_core.records import SuperPrompt
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex


@dataclass(frozen=True, slots=True)
class Issued:
    """One citable text.

    Attributes:
        id: Its citation id.
        source: Path or name of the source, as in the project.
        locator: Chunk id; id of an injected file; ``recent`` for the recent conversation.
        text: What the prompt shows of it, before it was quoted.
        page_number: Page it begins on, None where it has none.
    """

    id: str
    source: str
    locator: str
    text: str
    page_number: int | None = None


def issued_by(prompt: SuperPrompt, *, history: bool = True) -> dict[str, Issued]:
    """Return citation id → what it stands for, of a prompt after A5.

    Args:
        prompt: The prompt.
        history: Whether RECENT HISTORY is shown.

    Of a text that a person edited, only what it still shows is issued.
    """
    short = prompt.extras.get("short_ids", {})
    files = [str(row["id"]) for row in prompt.extras.get("files", [])]
    full = [*files, *(chunk.id for chunk in prompt.base_context_chunks)]
    locators = {short.get(i, sha256_hex(i)[:SHORT_ID_DIGITS]): i for i in full}
    pages = {chunk.id: _page(chunk.meta.get("page_number")) for chunk in prompt.base_context_chunks}
    shown = [*file_texts(prompt), *selected_texts(prompt, history=False)]
    shown += history_texts(prompt) if history else []
    issued = {source.id: _issued(source, text, locators, pages) for source, text in shown}
    left = still_shown(prompt, issued)
    return {name: found for name, found in issued.items() if name in left}


def _issued(
    source: Source, text: str, locators: dict[str, str], pages: dict[str, int | None]
) -> Issued:
    locator = locators.get(source.id, source.id)
    return Issued(source.id, source.name, locator, text, pages.get(locator))


def _page(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
