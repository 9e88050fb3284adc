"""The one writer of the memory: after a turn is durable, what is derived from turns follows (C-21).

It never fails an answer: what goes wrong here is a sentence for people, and the next turn, or
whoever looks, makes it good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_core.errors import RagstreamError
from ragstream_core.wiring import models
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.memory_files import writing

if TYPE_CHECKING:
    from ragstream_core.settings.prompts import MemoryConfig
    from ragstream_core.wiring.workspace import Workspace


def after_turn(workspace: Workspace, settings: MemoryConfig) -> tuple[str, ...]:
    """Bring the memory's files up to the journal; return warnings."""
    learnt = _learnt(workspace)
    if not (settings.enabled and workspace.config.settings.history.persist):
        return learnt
    try:
        told, missed = _told(workspace, settings)
        with writing(workspace):
            _write(workspace, settings, told)
    except (RagstreamError, OSError) as error:
        return (*learnt, f"the memory could not be updated: {error}")
    return (*learnt, *missed)


def _learnt(workspace: Workspace) -> tuple[str, ...]:
    """Look for facts in the turn, where `facts.form` asks for it; return what to know of it."""
    settings = workspace.config.settings
    if settings.facts.form == "off" or not settings.history.persist:
        return ()
    from ragstream_core.wiring.fact_proposals import after_turn as learn

    return learn(workspace)


def _told(workspace: Workspace, settings: MemoryConfig) -> tuple[dict[int, str], tuple[str, ...]]:
    """Return what a language model says of turns, by number, and why it does not."""
    if settings.summary_form != "llm":
        return {}, ()
    from ragstream_core.wiring import digest
    from ragstream_core.wiring.digest import worded

    return worded(workspace, digest.newest_turns(workspace, settings))


def _write(workspace: Workspace, settings: MemoryConfig, told: dict[int, str]) -> None:
    """Write both, from the journal as it is now: a clearing that was begun is in it."""
    from ragstream_core.wiring import answer_cache, digest

    newest = journal(workspace).newest()
    if settings.summary_tokens:
        lines = [
            digest.extracted(seq, turn).worded(told.get(seq, ""))
            for seq, turn in digest.newest_turns(workspace, settings, upto=newest.seq)
        ]
        digest.write(workspace, settings, lines, newest)
    if settings.cache:
        answer_cache.write(workspace, settings.index_name, models.embedder(workspace.config))
