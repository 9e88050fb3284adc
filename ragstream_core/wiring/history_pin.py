"""Pins the conversation for a prompt when it is asked for: the journal's end, and the snapshot.

Nothing waits here: if the snapshot of older turns is behind, missing, damaged or another model's,
the prompt goes on without it and says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.follow_ups import TURNS, follow_up, may_lean
from ragstream_core.conversations.journal.records import INACTIVE, Turn
from ragstream_core.conversations.lexicon import read_lexicon_text
from ragstream_core.conversations.recent_history import Scope, answer_of, layer_g
from ragstream_core.errors import InputUnavailable, RagstreamError, RunCommand
from ragstream_core.records.prompt_inputs import HistoryPin
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.settings import ChainSettings
    from ragstream_core.wiring.workspace import Workspace

BACKFILL = "ragstream history backfill"
_LEFT_OUT = "older turns are left out: "


def pin_history(workspace: Workspace, session: str, embed_fp: str) -> HistoryPin:
    """Pin the conversation for one prompt; nothing is waited for."""
    if not journal(workspace).folder.is_dir():
        return HistoryPin()
    snapshot, high_water, note = _published(workspace, embed_fp)
    newest = journal(workspace).newest()
    if not newest.seq:
        return HistoryPin()
    if high_water > newest.seq:
        snapshot, high_water = "", 0
        note = f"{_LEFT_OUT}their index is ahead of the journal; ragstream history check"
    return HistoryPin(session, newest.seq, newest.chain, snapshot, high_water, note)


def _published(workspace: Workspace, embed_fp: str) -> tuple[str, int, str]:
    """Return the snapshot's digest and high-water mark, or why it cannot be used."""
    from ragstream_core.wiring.history_index import History  # NumPy

    try:
        view = History(workspace).selection()
    except RagstreamError as error:
        return "", 0, f"{_LEFT_OUT}{error.message}; {error.hint or BACKFILL}"
    if view is None:
        return "", 0, ""
    if view.embed_fp != embed_fp:
        models = f"embedded by model {view.embed_fp[:12]}, the documents by {embed_fp[:12]}"
        return "", 0, f"{_LEFT_OUT}{models}; {BACKFILL} --rebuild"
    return view.digest, view.mark.position.seq, ""


def follow_up_text(
    workspace: Workspace, request: PromptRequest, settings: ChainSettings, pin: HistoryPin
) -> str:
    """Return how a question is read that leans on the one before it, "" if it stands by itself."""
    if not settings.history.follow_ups or not may_lean(request.text):
        return ""
    before = request.conversation
    if not before and pin.seq:
        out = (*settings.history.exclude_tags, INACTIVE)
        scope = Scope(request.session, TURNS, exclude_tags=out)
        own = layer_g(journal(workspace), scope, upto=pin.seq).own
        turns = [entry.record for entry in own if isinstance(entry.record, Turn)]
        before = tuple((t.user_text, answer_of(t)) for t in turns)
    found = follow_up(request.text, before)
    return found.pinned() if found else ""


def lexicon_text(workspace: Workspace, settings: ChainSettings) -> str:
    """Return the person's lexicon, "" if none is set; part of a prompt's key."""
    name = settings.history.lexicon
    return read_lexicon_text(Path(name).expanduser()) if name else ""


def require_history(workspace: Workspace, pin: HistoryPin) -> None:
    """Refuse to go on if the journal is not what it was."""
    if not pin.seq:
        return
    found = next(journal(workspace).entries(pin.seq, pin.seq + 1), None)
    if found is None or found.chain != pin.chain:
        raise InputUnavailable(
            f"the conversation up to record {pin.seq} is not what it was: turns were cleared "
            "since, or the journal is damaged",
            hint=RunCommand("history check"),
        )
