"""What of conversations a program may see that is to see certain projects alone.

Older turns and kept prompts are of a whole data root: without this, a prompt of one project quotes
what was said about another.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from ragstream_core.config import overlay, typed
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.conversations.recent_history import Scope, layer_g
from ragstream_core.errors import Refused
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import settings_at
from ragstream_core.prompts.render import RECENT_HISTORY
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.kept_prompt import KeptPrompt

if TYPE_CHECKING:
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.wiring.workspace import Workspace

# Dotted setting → value with which a prompt finds turns of its own projects alone.
SETTINGS = {
    "history.projects": "current",
    "history.always_tags": "",
    "history.recent_fill": "none",
    "memory.enabled": "false",
}
# As many as a prompt may show of its session.
_MOST_PAIRS = 50
_CONVERSATION = re.compile(rf"^## \[[0-9a-f]+\] {re.escape(RECENT_HISTORY)}$", re.MULTILINE)


def require_session(workspace: Workspace, session: str, only: Collection[str]) -> None:
    """Refuse to go on with a conversation that tells of other projects, or of none.

    Args:
        workspace: The data root.
        session: Its name; empty: none.
        only: The projects.

    Raises:
        Refused: It does.
    """
    if not session:
        return
    recent = layer_g(journal(workspace), Scope(session, _MOST_PAIRS)).own
    turns = [entry.record for entry in recent if isinstance(entry.record, Turn)]
    if not all(turn.projects and set(turn.projects) <= set(only) for turn in turns):
        raise Refused(
            f"the conversation {session} has turns of projects that are not served",
            hint="name another session, or none",
        )


def is_of_own(workspace: Workspace, record: PromptRecord, only: Collection[str]) -> bool:
    """Whether a kept prompt quotes certain projects alone, and no turn about another one.

    Args:
        workspace: The data root.
        record: Of the prompt.
        only: The projects.
    """
    kept = KeptPrompt(workspace, record)
    inputs = kept.inputs
    if not {pin.project for pin in inputs.pins} <= set(only):
        return False
    settings = settings_at(inputs, OPS[-1])
    asked = overlay(settings, typed(SETTINGS))
    if not inputs.history.seq or (settings == asked and not inputs.history.session):
        return True
    text = kept.stored_text
    return bool(text) and _CONVERSATION.search(text) is None
