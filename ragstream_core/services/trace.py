"""`ragstream trace`: from a citation to the chunk, the file, the generation and the ingest run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, RagstreamError, RunCommand, UsageError
from ragstream_core.prompts.blocks import HISTORY_PREFIX, MEMORY_DIGEST, RECENT
from ragstream_core.prompts.citations import parse_markers
from ragstream_core.prompts.explain import candidates_of, named
from ragstream_core.prompts.traced import (
    Cited,
    Trace,
    TracedChunk,
    TracedConversation,
    TracedFile,
    TracedGeneration,
    TracedTurn,
)
from ragstream_core.records.identity import SHORT_ID_DIGITS, parse_chunk_id, sha256_hex
from ragstream_core.wiring.file_states import (
    CHANGED,
    CURRENT,
    DELETED,
    diff_now,
    file_location,
    homes_of,
    state_now,
)
from ragstream_core.wiring.kept_prompt import DIFF, InjectedFile, KeptPrompt
from ragstream_core.wiring.prompt_inputs import require_history

if TYPE_CHECKING:
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.wiring.workspace import Workspace

CHUNK, TURN, TALK = "chunk", "turn", "conversation"


def trace(workspace: Workspace, citation: str, key: str) -> Trace:
    """Follow a citation of a prompt back to where its words come from.

    Args:
        workspace: The data root.
        citation: A marker ``[source: …, chunk: …]``, a short id, ``path#index``, or a chunk id.
        key: The prompt's key or its first digits.

    Raises:
        UnknownPrompt: No prompt under that key.
        UsageError: The prompt knows no such citation, or several.
        IntegrityError: Its record, or the index, is damaged.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    kept = KeptPrompt.of(workspace, key)
    whole = next((m.id for m in parse_markers(citation)), citation)
    if whole in kept.issued & {RECENT, MEMORY_DIGEST}:
        return _talk(kept, Cited(kept.key, whole, whole, issued=True))
    identifier = _resolved(kept, citation)
    digits = sha256_hex(identifier)
    issued = [i for i in kept.issued if digits.startswith(i)]
    short_id = issued[0] if issued else digits[:SHORT_ID_DIGITS]
    cited = Cited(kept.key, short_id, identifier, bool(issued))
    if identifier.startswith(HISTORY_PREFIX):
        return _turn(kept, cited)
    for file in kept.injected:
        if file.id == identifier:
            return _file(workspace, file, cited)
    return _chunk(kept, cited)


def citable(kept: KeptPrompt) -> list[str]:
    """Return the ids that a prompt could cite: its candidates, then its injected files.

    Raises:
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    chunks = dict.fromkeys(row.chunk_id for row in candidates_of(kept.ledger))
    return [*chunks, *(file.id for file in kept.injected)]


def _resolved(kept: KeptPrompt, citation: str) -> str:
    """Return the id of what a citation means.

    Raises:
        UsageError: Nothing of the prompt, or several things.
    """
    fits = named(citable(kept), citation)
    if len(fits) == 1:
        return fits[0]
    key = kept.key[:12]
    what = f"{len(fits)} things" if fits else "nothing"
    raise UsageError(
        f"{citation!r} means {what} in prompt {key}",
        hint=(RunCommand("explain", key), " lists its candidates"),
    )


def _file(workspace: Workspace, file: InjectedFile, cited: Cited) -> TracedFile:
    project, path, sha256 = file.project, file.path, file.sha256
    if file.kind == DIFF:
        now, moved = diff_now(workspace, project, path, sha256), None
    else:
        now, moved = _now(workspace, project, path, sha256)
    return TracedFile(
        *cited, file.kind, file.source, now, project, path, sha256, moved,
        file_location(workspace, project, path),
    )  # fmt: skip


def _chunk(kept: KeptPrompt, cited: Cited) -> TracedChunk:
    workspace, pins = kept.workspace, kept.pins
    path, sha256, idx = parse_chunk_id(cited.id)
    home = homes_of(workspace, pins, path, sha256)[0]
    now, moved = _now(workspace, home, path, sha256)
    found = TracedChunk(
        *cited, CHUNK, path, now, home, path, sha256, moved, file_location(workspace, home, path),
        chunk_idx=idx, indexed=_indexed(workspace, home, path, sha256),
        generation=TracedGeneration(0, ""),
    )  # fmt: skip
    return _with_origin(workspace, next(pin for pin in pins if pin.project == home), found)


def _with_origin(workspace: Workspace, pin: Pin, chunk: TracedChunk) -> TracedChunk:
    """Add the chunk's row in the pinned generation, and the ingest that brought it in."""
    from ragstream_core.index.look import kept_generations, origin

    index_dir = workspace.index_dir(pin.project)
    generation = TracedGeneration(pin.generation, pin.digest)
    try:
        kept = {g.n: g.digest for g in kept_generations(index_dir)}
    except GenerationGone:
        kept = {}
    if kept.get(pin.generation) != pin.digest:
        return replace(chunk, generation=generation)
    found = origin(index_dir, chunk.id, pin.generation)
    if found is None:
        return replace(chunk, generation=replace(generation, kept=True))
    generation = replace(
        generation,
        kept=True,
        since=found.since,
        created=found.created,
        provenance=found.provenance,
    )
    return replace(
        chunk,
        span=found.span,
        page=found.page,
        heading=found.heading,
        remark=found.remark,
        generation=generation,
        read_by=found.read_by,
    )


def _indexed(workspace: Workspace, project: str, path: str, sha256: str) -> str:
    """Return what the newest generation holds of a file: the same bytes, others or none."""
    from ragstream_core.index.look import manifest_of

    try:
        entry = manifest_of(workspace.index_dir(project)).get(path)
    except GenerationGone:
        return "no longer"
    if entry is None or entry.decision != "ingested":
        return "no longer"
    return CURRENT if entry.sha256 == sha256 else CHANGED


def _now(workspace: Workspace, project: str, path: str, sha256: str) -> tuple[str, str]:
    """Return what has become of a file, and where its bytes went if it is deleted."""
    now = state_now(workspace, project, path, sha256)
    return now, _moved_to(workspace, project, sha256) if now == DELETED else ""


def _moved_to(workspace: Workspace, project: str, sha256: str) -> str:
    """Return where the newest generation has a file with the same bytes that is still there."""
    from ragstream_core.index.look import manifest_of

    try:
        entries = manifest_of(workspace.index_dir(project)).values()
    except GenerationGone:
        return ""
    same = (entry.path for entry in entries if entry.sha256 == sha256)
    there = (path for path in same if state_now(workspace, project, path, sha256) == CURRENT)
    return next(there, "")


def _talk(kept: KeptPrompt, cited: Cited) -> TracedConversation:
    """Return which turns the prompt shows as its newest ones, or tells in their digest."""
    memory = kept.memory()
    session, seqs, now = memory.pin.session, (1, memory.pin.seq), CURRENT
    try:
        require_history(kept.workspace, memory.pin)
        if cited.id == RECENT:
            first, last = memory.rendered()[0]["range"]
            seqs = (first, last)
    except RagstreamError:
        now = "no longer there"
    return TracedConversation(*cited, TALK, cited.id, now, session, seqs)


def _turn(kept: KeptPrompt, cited: Cited) -> TracedTurn:
    """Return the turn of the conversation that a piece was cut from."""
    memory = kept.memory("retrieval")
    source = cited.id.removeprefix(HISTORY_PREFIX)
    gone = TracedTurn(*cited, TURN, source, "no longer there")
    try:
        require_history(kept.workspace, memory.pin)
        view = memory.view
        if view is None:
            return gone
        (chunk,) = view.chunks([cited.id])
    except (RagstreamError, KeyError):
        return gone
    meta = chunk.meta
    return TracedTurn(
        *cited, TURN, chunk.source, CURRENT,
        meta["session_id"], meta["turn_id"], meta["turn_id_start"],
    )  # fmt: skip
