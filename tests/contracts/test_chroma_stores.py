"""The verbs of the seeds' base class (R-075), the same for documents and for the history."""

import re

import numpy as np
import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.conversations.units import history_chunk_id
from ragstream_core.errors import DuplicateId, UsageError
from ragstream_core.index.history import TurnRow
from ragstream_core.proposers.chroma.names import HISTORY_MAIN, REQUIRED, same_row, turn_metadata
from ragstream_core.proposers.chroma.vector_store_chroma import (
    ChromaVectorStoreBase,
    HistoryStoreChroma,
    VectorStoreChroma,
)
from ragstream_core.records import Chunk

SECOND = 1_000_000_000
TAGS = [("GOLD", "physics"), (), ("BLUE",), ("GOLD",)]


def row(n):
    turn = Turn(
        f"0192-{n}", f"session-{n % 2}", f"2026-10-0{n + 1}T10:00:00+02:00", "", "",
        projects=("alpha",) if n else (), importance=n / 10,
    )  # fmt: skip
    return TurnRow(n + 1, turn, "a" * 64, (1_790_000_000 + n) * SECOND, TAGS[n])


def chunk(n):
    identifier = history_chunk_id(f"session-{n % 2}", n + 1, n + 1, 0)
    meta = {"sha256": "a" * 64, "chunk_index": 0}
    return Chunk(identifier, f"session-{n % 2}/{n + 1}", f"words {n}", (0, 7), meta)


IDS = [chunk(n).id for n in range(4)]
ROWS = [turn_metadata(chunk(n), row(n)) for n in range(4)]
VECTORS = np.eye(4, 8, dtype=np.float32)


@pytest.fixture(params=[VectorStoreChroma, HistoryStoreChroma])
def store(request, tmp_path):
    if request.param is HistoryStoreChroma:
        return HistoryStoreChroma(tmp_path)
    return VectorStoreChroma(tmp_path, "documents")


def test_it_is_of_the_base_class(store):
    assert isinstance(store, ChromaVectorStoreBase)


def test_add_and_snapshot_give_back_what_was_given(store):
    store.add(IDS[::-1], VECTORS[::-1], ROWS[::-1], documents=["d", "c", "b", "a"])
    found = store.snapshot()
    assert list(found) == sorted(IDS)
    assert all(same_row(found[i], made) for i, made in zip(IDS, ROWS, strict=True))
    assert dict(store.texts()) == dict(zip(IDS, "abcd", strict=True))


def test_query_finds_the_nearest_first_and_obeys_filters(store):
    store.add(IDS, VECTORS, ROWS)
    hits = store.query(VECTORS[2], 4)
    assert hits[0].id == IDS[2] and hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert len(hits) == 4
    gold = {"tag_GOLD": True}
    assert {h.id for h in store.query(VECTORS[2], 4, filters=gold)} == {IDS[0], IDS[3]}
    both = {"$and": [gold, {"session_id": "session-1"}]}
    assert [h.id for h in store.query(VECTORS[2], 4, filters=both)] == [IDS[3]]
    since = {"timestamp_first": {"$gte": 1_790_000_002}}
    assert {h.id for h in store.query(VECTORS[0], 4, filters=since)} == set(IDS[2:])


def test_a_live_id_is_refused_and_a_deleted_one_is_free(store):
    store.add(IDS, VECTORS, ROWS)
    with pytest.raises(DuplicateId):
        store.add(IDS[:1], VECTORS[:1], ROWS[:1])
    assert store.delete_where({"session_id": "session-0"}) == 2
    assert list(store.snapshot()) == sorted([IDS[1], IDS[3]])
    store.add(IDS[:1], VECTORS[:1], ROWS[:1])
    assert store.count() == 3


def test_the_history_lies_in_history_main_and_wants_to_know_the_turn(tmp_path):
    store = HistoryStoreChroma(tmp_path, metadata={"embed_fp": "x"})
    assert HISTORY_MAIN == "history_main" and store.metadata == {"embed_fp": "x"}
    for missing in REQUIRED:
        bare = {k: v for k, v in ROWS[0].items() if k != missing}
        with pytest.raises(UsageError, match=missing):
            store.add(IDS[:2], VECTORS[:2], [ROWS[1], bare])
    assert store.count() == 0


def test_what_a_row_says_of_its_turn():
    """R-228, R-229: everything is there, nothing is empty."""
    first = ROWS[0]
    assert first.keys() >= REQUIRED
    assert re.fullmatch(r"history::session-0::1-1::0", IDS[0])
    assert (first["turn_id_start"], first["turn_id_end"]) == (1, 1)
    assert first["timestamp_first"] == first["timestamp_last"] == 1_790_000_000
    assert first["tags"] == ["GOLD", "physics"] and first["tag_GOLD"] and first["tag_physics"]
    assert "projects" not in first and ROWS[1]["projects"] == ["alpha"]
    assert not {"tags", "tag_GOLD"} & ROWS[1].keys()
    assert all(value not in (None, "", []) for made in ROWS for value in made.values())
