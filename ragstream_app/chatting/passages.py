"""`/sources`: the words behind the citations of the last answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragstream_app.chatting.said import cited_line
from ragstream_app.chatting.screens import Told
from ragstream_core.errors import RagstreamError, UsageError

if TYPE_CHECKING:
    from ragstream_app.chatting.talk import Talk
    from ragstream_core.answering.citations import Citation
    from ragstream_core.build.chatting import ChatTurn
    from ragstream_core.build.workspace import Workspace


def sources(talk: Talk, rest: str) -> Told:
    """Return the passages that the last answer cites, with their text.

    Args:
        talk: The chat.
        rest: The number of one citation; empty: all of them.

    Raises:
        UsageError: Nothing was answered yet, or there is no such citation.
    """
    if not talk.said:
        raise UsageError("this conversation has no answers yet", hint="ask something first")
    turn = talk.said[-1].turn
    cited = list(enumerate(turn.answer.citations, start=1))
    if rest:
        cited = [(n, c) for n, c in cited if rest in (str(n), c.id)]
        if not cited:
            raise UsageError(f"the answer has no citation {rest}", hint="/sources shows them all")
    rows = [_row(talk.workspace, turn, number, citation) for number, citation in cited]
    lines = [line for row in rows for line in (row["line"], row["text"].rstrip(), "")]
    nothing = ["the last answer cites nothing; /why shows what its prompt held"]
    return Told(lines[:-1] or nothing, {"sources": rows})


def _row(workspace: Workspace, turn: ChatTurn, number: int, citation: Citation) -> dict[str, Any]:
    row = {"number": number, **citation.to_json(), "line": f"{number}  {cited_line(citation)}"}
    return {**row, "text": words_of(workspace, turn, citation) if citation.known else ""}


def words_of(workspace: Workspace, turn: ChatTurn, citation: Citation) -> str:
    """Return the cited lines with those around them, or the words that the prompt showed.

    Args:
        workspace: The data root.
        turn: The answer's turn.
        citation: One that its prompt issued.
    """
    from ragstream_core.answering.issued import issued_by
    from ragstream_core.build.explaining import passages, tracing

    if turn.answer.prompt_key:
        try:
            found = tracing.trace(workspace, citation.id, turn.answer.prompt_key)
            text = passages.as_text(passages.passage(workspace, found))
            if text:
                return text
        except RagstreamError:  # the prompt expired or its index is gone: its words are left
            pass
    issued = issued_by(turn.prompt) if turn.prompt is not None else {}
    return issued[citation.id].text if citation.id in issued else citation.snippet
