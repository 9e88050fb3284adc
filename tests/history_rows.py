"""Rows of a history, as the catalog gives them to the publisher of the snapshot."""

import numpy as np

from ragstream_core.conversations.columns import Coded, HistoryColumns, SelectedRow
from ragstream_core.conversations.journal.records import Position
from ragstream_core.index.history import Mark
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.records.identity import sha256_hex
from ragstream_core.text.terms import term_blob

DAY_NS = 86_400_000_000_000
START_NS = 1_790_000_000_000_000_000
EMBEDDER = HashedEmbedder()


def row(seq, text="", *, session="s", idx=0, **given):
    """Return the chunk ``idx`` of turn ``seq``; a day lies between two turns."""
    text = text or f"[2026-10-05 14:07] user: turn {seq} speaks of topic {seq % 7}"
    return SelectedRow(
        f"history::{session}::{seq}-{seq}::{idx}", seq, idx, text, sha256_hex(text),
        term_blob(text), session, f"id-{seq}",
        **{"timestamp_ns": START_NS + seq * DAY_NS, "end": len(text), "sha256": sha256_hex(text)}
        | given,
    )  # fmt: skip


def vectors_of(rows):
    return EMBEDDER.embed_documents([r.text for r in rows])


def mark(seq=1, generation=1):
    position = Position(seq, f"{seq:032x}", "conversation.log", 10 * seq)
    return Mark(generation, position, EMBEDDER.fingerprint, "index-fp", "d" * 64)


def columns(rows):
    """Return what selection looks at, without a snapshot."""
    return HistoryColumns(
        np.array([r.seq for r in rows], dtype=np.int64),
        np.array([r.seq_last or r.seq for r in rows], dtype=np.int64),
        np.array([r.timestamp_ns for r in rows], dtype=np.int64),
        np.array([r.importance for r in rows], dtype=np.float64),
        Coded.of(r.session for r in rows),
        Coded.of(tuple(sorted(r.tags)) for r in rows),
        Coded.of(tuple(sorted(r.projects)) for r in rows),
        Coded.of(r.source for r in rows),
        [r.turn_id for r in rows],
        np.array([r.start for r in rows], dtype=np.int32),
        np.array([r.end for r in rows], dtype=np.int32),
    )
