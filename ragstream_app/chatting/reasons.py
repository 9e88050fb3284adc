"""`/why`: why passages are in the last prompt, and why a chunk or a file is not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ragstream_app.chatting.screens import Told
from ragstream_app.explain_text import print_explained
from ragstream_app.trace_text import print_why_not
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_app.chatting.talk import Talk


def why(talk: Talk, rest: str) -> Told:
    """Return the way of all candidates of the last prompt, or of what is named.

    Args:
        talk: The chat.
        rest: A chunk or a file; empty: all candidates.

    Raises:
        UsageError: Nothing was asked yet, the prompt is not kept, or nothing is called so.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    from ragstream_core.build.explaining.why_not import why_not
    from ragstream_core.orchestration.explain import ways

    key = _last_key(talk)
    if not rest:
        found = ways(talk.workspace.decisions(key))
        locked = bool(talk.workspace.store.record(key).inputs["lock"])
        show = partial(print_explained, key, found, locked=locked, detailed=False, most_out=10)
        return Told(data={"prompt_key": key, "candidates": found}, show=show)
    verdict = why_not(talk.workspace, rest, key)
    kept = {row["chunk_id"] for row in verdict["verdicts"] if row["kept"]}
    steps = [way for way in ways(talk.workspace.decisions(key)) if way["chunk_id"] in kept]

    def show_one() -> None:
        print_why_not(verdict)
        if steps:
            print_explained(key, steps, locked=False, detailed=True)

    return Told(data={**verdict, "candidates": steps}, show=show_one)


def _last_key(talk: Talk) -> str:
    """Return the key of the last prompt.

    Raises:
        UsageError: There is none.
    """
    if not talk.said:
        raise UsageError("nothing was asked yet", hint="ask something first")
    key = talk.said[-1].turn.answer.prompt_key
    if not key:
        raise UsageError(
            "the last prompt is not kept, so its ledger is not either",
            hint="chat without --no-persist to see why",
        )
    return key
