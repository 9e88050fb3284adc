"""Which prompts a prompt goes on from, stage by stage, and what was set otherwise each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragstream_core.errors import UnknownPrompt
from ragstream_core.orchestration.prompt_store import PromptRecord, PromptStore


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A prompt whose first stages were taken over.

    Attributes:
        prompt_key: Its key.
        changes: Op, dotted setting and value of what the prompt after it has set otherwise; all of
            what that one has set where this one is not kept.
        kept: Whether it is there.
    """

    prompt_key: str
    changes: tuple[tuple[str, str, Any], ...]
    kept: bool


def line_of(store: PromptStore, record: PromptRecord) -> list[Ancestor]:
    """Return the prompts that a prompt goes on from, the nearest first; each comes once.

    Args:
        store: Where they are kept.
        record: Of the prompt.

    Raises:
        IntegrityError: A record is damaged.
    """
    line: list[Ancestor] = []
    seen = {record.prompt_key}
    while record.resumed and record.resumed not in seen:
        seen.add(record.resumed)
        now = record.inputs["changes"]
        try:
            before = store.record(record.resumed)
        except UnknownPrompt:
            return [*line, Ancestor(record.resumed, tuple(map(_triple, now)), kept=False)]
        then = before.inputs["changes"]
        changed = tuple(_triple(change) for change in now if change not in then)
        line.append(Ancestor(record.resumed, changed, kept=True))
        record = before
    return line


def _triple(change: list[Any]) -> tuple[str, str, Any]:
    op, key, value = change
    return op, key, value
