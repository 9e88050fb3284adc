"""An earlier answer, given again: its words, and its citations as its own prompt issued them."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ragstream_core.answers.answer import Answer
from ragstream_core.answers.citations import Citation, Issued, citations_of
from ragstream_core.answers.stream_buffer import clean_citation_tags
from ragstream_core.errors import IntegrityError, RagstreamError, RunCommand
from ragstream_core.index.view import open_view
from ragstream_core.records.chat import ChatUsage
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services.trace import injected_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragstream_core.conversations.journal.records import Turn
    from ragstream_core.ports import IndexView
    from ragstream_core.records import Chunk
    from ragstream_core.wiring.workspace import Workspace

NOT_KEPT = "the prompt that issued it is not kept any more"
_FRAME = re.compile(
    r'^<<DOC \d{1,6} [0-9a-f]{8,64} id="([^"\n]{1,80})" source="([^"\n]{1,200})"[^\n]*>>\n'
    r"((?:\|[^\n]*\n)*)",
    re.MULTILINE,
)


def cached_answer(workspace: Workspace, turn: Turn, *, session: str = "") -> Answer:
    """Return the answer of a turn as the answer to another question; nothing is written.

    Args:
        workspace: The data root.
        turn: Whose answer it is.
        session: The conversation in which it is given again.
    """
    raw = turn.assistant_text
    known = [str(row["id"]) for row in turn.citations]
    try:
        issued = issued_then(workspace, turn.prompt_key)
        citations = tuple(citations_of(raw, issued))
        known = list(issued)
    except RagstreamError:
        citations = tuple(_of_row(row) for row in turn.citations)
    return Answer(
        clean_citation_tags(raw, known),
        raw,
        "complete",
        citations,
        ChatUsage(0, 0, cost_usd=0.0),
        prompt_key=turn.prompt_key,
        session=session,
        origin="cached",
        source_turn=turn.id,
    )


def issued_then(workspace: Workspace, key: str) -> dict[str, Issued]:
    """Return what a kept prompt issued: citation id → what it shows under it.

    Args:
        workspace: The data root.
        key: The prompt's full key.

    Raises:
        UnknownPrompt: No prompt under that key.
        RagstreamError: Its record, its rendering or a generation is lost.
    """
    record = workspace.store.record(key)
    path = workspace.store.root / record.prompt_key / "super_prompt.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if sha256_hex(text) != record.output_sha256:
        raise IntegrityError(f"{path} is not what it was", hint=RunCommand("replay", key[:12]))
    files = {sha256_hex(i): i for i in injected_ids(record)}
    views = [
        open_view(workspace.index_dir(pin["project"]), generation=pin["generation"])
        for pin in record.inputs["pins"]
    ]
    return {
        match[1]: _issued(match, _chunk(views, unquote(match[2]), match[1]), files)
        for match in _FRAME.finditer(text)
    }


def _chunk(views: Sequence[IndexView], source: str, short: str) -> Chunk | None:
    """Return the piece of a document that a short id stands for; None for anything else."""
    for view in views:
        ids = view.chunk_ids
        for at in range(bisect_left(ids, f"{source}::"), len(ids)):
            if not ids[at].startswith(f"{source}::"):
                break
            if sha256_hex(ids[at]).startswith(short):
                return view.chunks([ids[at]])[0]
    return None


def _issued(match: re.Match[str], chunk: Chunk | None, files: Mapping[str, str]) -> Issued:
    short, source = match[1], unquote(match[2])
    text = "\n".join(line[2:] for line in match[3].rstrip("\n").split("\n"))
    if chunk is None:
        locator = next((i for digest, i in files.items() if digest.startswith(short)), short)
        return Issued(short, source, locator, text)
    page = int(chunk.meta.get("page_number") or 0)
    return Issued(short, chunk.source, chunk.id, text, page or None)


def _of_row(row: Mapping[str, object]) -> Citation:
    known = bool(row["known"])
    return Citation(str(row["id"]), str(row["source"]), known=known, reason=NOT_KEPT)
