"""The questions that were answered, with their vectors, and under what their answers hold.

Whoever looks brings what it read up to date in its own memory and writes nothing; the file is
written after a turn. An answer holds under all that its prompt was made from but what was asked,
and when: two questions of one scope go to the same documents, under the same rules and settings,
to the same model. The conversation is left out: a question that leans on it is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstream_core.conversations.edits import Folded, apply_edits, visible_turns
from ragstream_core.conversations.journal.records import BLUE, HIDDEN, INACTIVE, TagEdit
from ragstream_core.conversations.question_index import (
    MOST,
    Asked,
    QuestionIndex,
    from_bytes,
    to_bytes,
)
from ragstream_core.errors import ChatFailed, IntegrityError
from ragstream_core.platform.files import replace_bytes
from ragstream_core.prompts.inputs import DIGEST
from ragstream_core.records.identity import digest_of, sha256_hex
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.memory_files import newer_than

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.conversations.journal.records import Entry, Turn
    from ragstream_core.ports import ChatModel, Embedder
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.workspace import Workspace


def index_path(workspace: Workspace, name: str) -> Path:
    """Return the file of the index of that name."""
    return workspace.layout.memory / f"{name}.vectors"


def questions(workspace: Workspace, name: str, embedder: Embedder) -> QuestionIndex:
    """Return the questions of the journal as it is now; what is new is embedded."""
    log = journal(workspace)
    kept = workspace.caches.questions.get(name)
    if kept is None or kept.model != embedder.fingerprint:
        kept = _read(index_path(workspace, name), embedder.fingerprint)
    newer = newer_than(log, kept.seq, kept.chain)
    if newer is None or any(_is_of_inactive(entry) for entry in newer):
        kept = QuestionIndex(embedder.fingerprint)
        newer = newer_than(log, 0, "") or []
    found = _further(kept, newer, embedder)
    workspace.caches.questions[name] = found
    return found


def write(workspace: Workspace, name: str, embedder: Embedder) -> None:
    """Bring the file up to the journal, under the lock of the memory; the same questions stay."""
    path = index_path(workspace, name)
    index = questions(workspace, name, embedder)
    if workspace.caches.written_questions.get(name) != index.rows or not path.exists():
        replace_bytes(path, to_bytes(index), durable=False)
        workspace.caches.written_questions[name] = index.rows


def serves_again(turn: Turn) -> bool:
    """Say whether the answer of a turn may serve a later question at all."""
    return bool(turn.scope) and turn.status == "complete" and not turn.origin


def _read(path: Path, model: str) -> QuestionIndex:
    """Return the index of a file; an empty one where it is missing, damaged, of another model."""
    try:
        found = from_bytes(path.read_bytes())
    except (OSError, IntegrityError):
        return QuestionIndex(model)
    return found if found.model == model else QuestionIndex(model)


def _further(kept: QuestionIndex, newer: Sequence[Entry], embedder: Embedder) -> QuestionIndex:
    if not newer:
        return kept
    folded = apply_edits(newer)
    rows = [
        (entry.seq, turn, not HIDDEN.isdisjoint(tags))
        for entry, turn, tags in visible_turns(newer, folded)
        if serves_again(turn)
    ][-MOST:]
    texts = [turn.user_text for _, turn, _ in rows]
    vectors = embedder.embed_queries(texts) if texts else ()
    asked = [
        Asked(turn.id, seq, sha256_hex(turn.user_text), turn.scope, blue)
        for seq, turn, blue in rows
    ]
    return kept.moved(
        seq=newer[-1].seq,
        chain=newer[-1].chain,
        added=zip(asked, vectors, strict=True),
        blue=_blue(folded),
        hidden=[row.seq for row in kept.rows if folded.is_hidden(row.seq)],
    )


def _is_of_inactive(entry: Entry) -> bool:
    """Whether a record hides a turn or shows it again beside BLUE: both have one flag here."""
    edit = entry.record
    return isinstance(edit, TagEdit) and INACTIVE in {*edit.add, *edit.remove}


def _blue(folded: Folded) -> dict[str, bool]:
    """Return the turns whose BLUE tag was edited, and whether they have it now."""
    edits = folded.edits.items()
    return {turn: BLUE in edit.add for turn, edit in edits if BLUE in {*edit.add, *edit.remove}}


_OF_ONE_QUESTION = ("text", "now", "time_zone", "history", "receipts", "query_vectors")
_OF_THE_CACHE = ("cache", "cache_match", "cache_min_score")


def scope_of(workspace: Workspace, inputs: PromptInputs, model: ChatModel) -> str:
    """Return the digest of a scope, 64 hex digits; "" where memory is off or the model unknown."""
    memory = dict(inputs.settings.get("memory", {}))
    if not memory.get("enabled"):
        return ""
    try:
        name = model.name
    except ChatFailed:
        return ""
    kept = {k: v for k, v in inputs.to_json().items() if k not in _OF_ONE_QUESTION}
    settings = {k: v for k, v in memory.items() if k not in _OF_THE_CACHE}
    provider = workspace.config.settings.provider
    asked = [provider.backend, provider.base_url, provider.temperature, provider.max_output_tokens]
    return digest_of(
        {
            **kept,
            "settings": {**inputs.settings, "memory": settings},
            "texts": {k: v for k, v in inputs.texts.items() if k != DIGEST},
            "model": [name, model.host, *asked],
        }
    )
