"""The filters of a prompt against what is there: pinned documents, and the conversation.

A generation's digest leaves mtimes out, so that machines agree. What ``since:`` closes is therefore
pinned with the prompt, as if each document had been switched off by name.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstream_core.agents.aliases import default_alias_text, parse_aliases
from ragstream_core.agents.filters import Filtered, read_filters
from ragstream_core.config import overlay
from ragstream_core.stores.origin import manifest_of

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.ingestion.manifest import FileEntry
    from ragstream_core.orchestration.inputs import Pin, PromptInputs
    from ragstream_core.ports import IndexView
    from ragstream_core.settings import ChainSettings

    Pinned = Sequence[Pin] | Sequence[IndexView]

_aliases = functools.cache(parse_aliases)


def filters_of(text: str, aliases: str = "") -> Filtered:
    """Return the filters of a raw prompt.

    Args:
        text: The prompt.
        aliases: The alias table; empty: the shipped one.
    """
    return read_filters(text, _aliases(aliases or default_alias_text()))


def documents(workspace: Workspace, pins: Pinned) -> dict[str, FileEntry]:
    """Return the ingested documents of pinned generations, ``project/path`` → manifest row.

    Raises:
        OperationFailed: A catalog cannot be read.
    """
    return {
        f"{pin.project}/{path}": entry
        for pin in pins
        for path, entry in manifest_of(workspace.index_dir(pin.project), pin.generation).items()
        if entry.decision == "ingested"
    }


def closed(workspace: Workspace, found: Filtered, pins: Pinned, now: dt.datetime) -> set[str]:
    """Return the ``project/path`` of the documents that the filters leave out.

    Raises:
        OperationFailed: A catalog cannot be read.
    """
    return found.closed(documents(workspace, pins), now) if found.filters else set()


def narrowed(settings: ChainSettings, found: Filtered, now: dt.datetime) -> ChainSettings:
    """Return the settings under which the conversation is searched no wider than before."""
    past = settings.history
    return overlay(settings, found.past(past.tags, past.since, now))


def left(workspace: Workspace, inputs: PromptInputs) -> int | None:
    """Count the documents that are searched; None where the prompt has no filter.

    Raises:
        OperationFailed: A catalog cannot be read.
    """
    if not filters_of(inputs.text, inputs.texts["aliases"]).filters:
        return None
    return len(documents(workspace, inputs.pins).keys() - set(inputs.off))
