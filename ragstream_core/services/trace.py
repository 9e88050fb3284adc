"""`ragstream trace`: from a citation to the chunk, the file, the generation and the ingest run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragstream_core.errors import GenerationGone, RagstreamError, RunCommand, UsageError
from ragstream_core.prompts.blocks import HISTORY_PREFIX, MEMORY_DIGEST, RECENT
from ragstream_core.prompts.citations import parse_markers
from ragstream_core.prompts.explain import candidates_of, named
from ragstream_core.records.identity import SHORT_ID_DIGITS, parse_chunk_id, sha256_hex
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import saved_prompts
from ragstream_core.wiring.file_states import (
    CHANGED,
    CURRENT,
    DELETED,
    diff_now,
    homes_of,
    state_now,
)
from ragstream_core.wiring.saved_prompts import (
    DIFF,
    DIFF_PREFIX,
    FILE_PREFIX,
    home_of,
    injected_ids,
    issued_ids,
)

if TYPE_CHECKING:
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.wiring.workspace import Workspace

CHUNK, TURN, TALK = "chunk", "turn", "conversation"


def trace(workspace: Workspace, citation: str, key: str) -> dict[str, Any]:
    """Follow a citation of a prompt back to where its words come from.

    Args:
        workspace: The data root.
        citation: A marker ``[source: …, chunk: …]``, a short id, ``path#index``, or a chunk id.
        key: The prompt's key or its first digits.

    Returns:
        ``prompt_key``, ``short_id``, ``id``, ``kind`` (``chunk``, ``file``, ``diff``, ``turn``,
        ``conversation``: the newest turns as a whole, or their digest), ``issued`` (whether the
        prompt shows it under that id), ``source``, ``now``. Of documents also ``project, path,
        sha256`` and, but for a diff, ``moved_to`` (where its bytes lie in the newest generation
        if the file is deleted, or ""); of a chunk ``chunk_idx, span, page, heading, indexed``
        (what the newest generation holds of the file), ``generation`` (``n, digest, kept, since,
        created, provenance``); of a turn ``session_id, turn_id, seq``; of a conversation
        ``session_id, seqs`` (its first and last record).

    Raises:
        UnknownPrompt: No prompt under that key.
        UsageError: The prompt knows no such citation, or several.
        IntegrityError: Its record, or the index, is damaged.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    record = workspace.store.record(key)
    given_out = issued_ids(workspace, record.prompt_key)
    whole = next((m.id for m in parse_markers(citation)), citation)
    if whole in given_out & {RECENT, MEMORY_DIGEST}:
        told = {"short_id": whole, "id": whole, "issued": True}
        return {"prompt_key": record.prompt_key, **told, **_talk(workspace, record, whole)}
    identifier = _resolved(workspace, record, citation)
    digits = sha256_hex(identifier)
    issued = [i for i in given_out if digits.startswith(i)]
    found = {
        "prompt_key": record.prompt_key,
        "short_id": issued[0] if issued else digits[:SHORT_ID_DIGITS],
        "id": identifier,
        "issued": bool(issued),
    }
    if identifier.startswith(HISTORY_PREFIX):
        return {**found, **_turn(workspace, record, identifier)}
    if identifier.startswith((FILE_PREFIX, DIFF_PREFIX)):
        return {**found, **_file(workspace, record, identifier)}
    return {**found, **_chunk(workspace, record, identifier)}


def citable(workspace: Workspace, record: PromptRecord) -> list[str]:
    """Return the ids that a prompt could cite: its candidates, then its injected files.

    Raises:
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    ledger = candidates_of(saved_prompts.decisions(workspace, record.prompt_key))
    chunks = dict.fromkeys(row.chunk_id for row in ledger)
    return [*chunks, *injected_ids(record)]


def _resolved(workspace: Workspace, record: PromptRecord, citation: str) -> str:
    """Return the id of what a citation means.

    Raises:
        UsageError: Nothing of the prompt, or several things.
    """
    fits = named(citable(workspace, record), citation)
    if len(fits) == 1:
        return fits[0]
    key = record.prompt_key[:12]
    what = f"{len(fits)} things" if fits else "nothing"
    raise UsageError(
        f"{citation!r} means {what} in prompt {key}",
        hint=(RunCommand("explain", key), " lists its candidates"),
    )


def _file(workspace: Workspace, record: PromptRecord, identifier: str) -> dict[str, Any]:
    home = home_of(record, identifier)
    where = home["project"], home["path"], home["sha256"]
    if home["kind"] == DIFF:
        return {**home, "now": diff_now(workspace, *where)}
    return {**home, **_now(workspace, *where)}


def _chunk(workspace: Workspace, record: PromptRecord, identifier: str) -> dict[str, Any]:
    path, sha256, idx = parse_chunk_id(identifier)
    pins = record.inputs["pins"]
    home = homes_of(workspace, pins, path, sha256)[0]
    pin = next(pin for pin in pins if pin["project"] == home)
    return {
        "kind": CHUNK,
        "source": path,
        "project": home,
        "path": path,
        "sha256": sha256,
        "chunk_idx": idx,
        **_now(workspace, home, path, sha256),
        "indexed": _indexed(workspace, home, path, sha256),
        **_origin(workspace, pin, identifier),
    }


def _origin(workspace: Workspace, pin: dict[str, Any], identifier: str) -> dict[str, Any]:
    """Return the chunk's row in the pinned generation, and the ingest that brought it in."""
    from ragstream_core.index.generations import kept_generations, origin

    index_dir = workspace.index_dir(pin["project"])
    generation = {"n": pin["generation"], "digest": pin["digest"], "kept": False}
    try:
        kept = {g.n: g.digest for g in kept_generations(index_dir)}
    except GenerationGone:
        kept = {}
    if kept.get(pin["generation"]) != pin["digest"]:
        return {"generation": generation}
    found = origin(index_dir, identifier, pin["generation"])
    if found is None:
        return {"generation": {**generation, "kept": True}}
    told = {"since": found.since, "created": found.created, "provenance": found.provenance}
    return {
        "span": list(found.span),
        "page": found.page,
        "heading": found.heading,
        "generation": {**generation, "kept": True, **told},
    }


def _indexed(workspace: Workspace, project: str, path: str, sha256: str) -> str:
    """Return what the newest generation holds of a file: the same bytes, others or none."""
    from ragstream_core.index.generations import manifest_of

    try:
        entry = manifest_of(workspace.index_dir(project)).get(path)
    except GenerationGone:
        return "no longer"
    if entry is None or entry.decision != "ingested":
        return "no longer"
    return CURRENT if entry.sha256 == sha256 else CHANGED


def _now(workspace: Workspace, project: str, path: str, sha256: str) -> dict[str, str]:
    """Return what has become of a file, and where its bytes went if it is deleted."""
    now = state_now(workspace, project, path, sha256)
    return {"now": now, "moved_to": _moved_to(workspace, project, sha256) if now == DELETED else ""}


def _moved_to(workspace: Workspace, project: str, sha256: str) -> str:
    """Return where the newest generation has a file with the same bytes that is still there."""
    from ragstream_core.index.generations import manifest_of

    try:
        entries = manifest_of(workspace.index_dir(project)).values()
    except GenerationGone:
        return ""
    same = (entry.path for entry in entries if entry.sha256 == sha256)
    there = (path for path in same if state_now(workspace, project, path, sha256) == CURRENT)
    return next(there, "")


def _talk(workspace: Workspace, record: PromptRecord, name: str) -> dict[str, Any]:
    """Return which turns the prompt shows as its newest ones, or tells in their digest."""
    from ragstream_core.wiring.conversation_memory import ConversationMemory

    memory = ConversationMemory(workspace, PromptInputs.from_json(record.inputs))
    session, last = memory.pin.session, memory.pin.seq
    told = {"kind": TALK, "source": name, "session_id": session, "seqs": [1, last]}
    try:
        memory.require()
    except RagstreamError:
        return {**told, "now": "no longer there"}
    if name == RECENT:
        told["seqs"] = list(memory.rendered()[0]["range"])
    return {**told, "now": CURRENT}


def _turn(workspace: Workspace, record: PromptRecord, identifier: str) -> dict[str, Any]:
    """Return the turn of the conversation that a piece was cut from."""
    from ragstream_core.wiring.conversation_memory import ConversationMemory

    memory = ConversationMemory(workspace, PromptInputs.from_json(record.inputs), "retrieval")
    source = identifier.removeprefix(HISTORY_PREFIX)
    gone = {"kind": TURN, "source": source, "now": "no longer there"}
    try:
        memory.require()
        view = memory.view
        if view is None:
            return gone
        (chunk,) = view.chunks([identifier])
    except (RagstreamError, KeyError):
        return gone
    names = ("session_id", "turn_id")
    return {
        "kind": TURN,
        "source": chunk.source,
        **{name: chunk.meta[name] for name in names},
        "seq": chunk.meta["turn_id_start"],
        "now": CURRENT,
    }
