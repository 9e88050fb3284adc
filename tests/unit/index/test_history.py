"""The history catalog: one transaction, idempotent commits, damage found and repaired."""

import sqlite3

import numpy as np
import pytest

from ragstream_core.conversations.journal.records import Position
from ragstream_core.errors import GenerationGone, IntegrityError
from ragstream_core.index import history, remove, vectors
from ragstream_core.index.check import WHOLE, verify_data, verify_structure
from ragstream_core.index.history import Mark, TurnRow, commit_turns, lacking, newest
from ragstream_core.index.history_check import name_chunk
from ragstream_core.index.rows import ChunkRow, TextRow
from ragstream_core.index.selection import selection_rows
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.records.identity import sha256_hex
from ragstream_core.text.terms import term_blob
from tests.history_bench import HistoryBench, turn

MODEL = "m"


def findings(bench):
    index = bench.index
    return [*verify_structure(index, name_chunk=name_chunk), *verify_data(index, WHOLE)]


@pytest.fixture
def bench(tmp_path):
    return HistoryBench(tmp_path)


def vector(seed):
    row = np.random.default_rng(seed).normal(size=(1, 8)).astype(np.float32)
    return row / np.linalg.norm(row)


def chunk_of(row, text):
    """The one chunk of a turn."""
    seq, session = row.seq, row.turn.session_id
    name = f"history::{session}::{seq}-{seq}::0"
    return ChunkRow(name, row.path, row.sha256, 0, 0, len(text), 0, "", sha256_hex(text))


def put(store, seqs, *, say="text", session="s1", upto=None, **given):
    """Record and commit a one-chunk turn for each number."""
    rows, chunks = [], []
    for seq in seqs:
        text = f"{say} {seq}"
        text_hash = sha256_hex(text)
        if text_hash not in store.known([text_hash], MODEL, checked=True):
            made = TextRow(text_hash, text, 2, term_blob(text))
            store.record_texts([made], vector(seq), embed_fp=MODEL)
        one = turn("", "", session=session, id=f"id-{seq}", timestamp="2026-10-05T14:07:00+02:00")
        rows.append(TurnRow(seq, one, sha256_hex(say), seq * 10, tags=("x",), segment="c.log"))
        chunks.append(chunk_of(rows[-1], text))
    position = Position(upto or max(seqs), "c" * 32, "c.log", 99)
    mark = Mark(position=position, embed_fp=MODEL, index_fp="i")
    return commit_turns(store, rows, chunks, mark=mark, retagged={}, provenance={}, **given)


def sql(bench, statement, *values):
    with sqlite3.connect(bench.index / "catalog.sqlite") as db:
        db.execute(statement, values)
    db.close()
    forget_views()


def test_a_commit_can_be_read_back(bench):
    with bench.store() as store:
        assert history.current_mark(store.db) == Mark()
        mark = put(store, [3, 1, 2])
        assert history.current_mark(store.db) == mark
        assert [row.seq for row in history.read_turns(store.db)] == [1, 2, 3]
        assert [row.seq for row in history.read_turns(store.db, [3, 9, 1])] == [1, 3]
        assert history.seqs_of(store.db, ["id-2", "nobody"]) == {"id-2": 2}
    assert (mark.generation, mark.position.seq, mark.position.offset) == (1, 3, 99)
    live = selection_rows(bench.index)
    assert live.mark == mark and list(live.turns) == [1, 2, 3]
    assert [(row.seq, row.text, row.tags) for row in live.rows] == [
        (seq, f"text {seq}", ("x",)) for seq in (1, 2, 3)
    ]
    assert live.vectors.tobytes() == np.vstack([vector(seq) for seq in (1, 2, 3)]).tobytes()
    assert newest(bench.index)[0] == mark
    assert findings(bench) == []


def test_it_is_read_as_any_index(bench):
    with bench.store() as store:
        put(store, [1, 2])
    view = open_view(bench.index, project="~history")
    assert list(view.paths) == ["s1/1", "s1/2"]
    (chunk,) = view.chunks(["history::s1::2-2::0"])
    assert chunk.snippet == "text 2"


def test_the_same_commit_again_is_none(bench):
    with bench.store() as store:
        first = put(store, [1, 2])
        assert put(store, [1, 2]) == first
        assert put(store, [2]) == first
    with bench.store() as store:
        assert put(store, [1]) == first


def test_where_a_line_lies_is_only_a_hint(bench):
    with bench.store() as store:
        first = put(store, [1])
        (row,) = history.read_turns(store.db)
        moved = row._replace(segment="conversation-1.log", offset=7)
        chunk = chunk_of(row, "text 1")
        again = commit_turns(store, [moved], [chunk], mark=first, retagged={}, provenance={})
        assert again == first


def test_a_turn_is_replaced_with_its_chunks(bench):
    with bench.store() as store:
        put(store, [1, 2])
        made = put(store, [2], say="other")
    live = selection_rows(bench.index)
    assert made.generation == 2
    assert [row.text for row in live.rows] == ["text 1", "other 2"]
    assert findings(bench) == []


def test_a_number_is_one_turn_also_where_another_journal_was_put_back(bench):
    with bench.store() as store:
        put(store, [1, 2])
        put(store, [2], session="s2")
    assert [row.chunk_id for row in selection_rows(bench.index).rows] == [
        "history::s1::1-1::0", "history::s2::2-2::0",
    ]  # fmt: skip
    assert findings(bench) == []


def test_the_mark_never_goes_down(bench):
    with bench.store() as store:
        put(store, [1, 2, 3, 4])
        mark = put(store, [2], say="other")
        assert mark.position.seq == 4
        assert put(store, [3], upto=9).position.seq == 9


def test_a_chunk_without_a_vector_is_refused(bench):
    with bench.store() as store:
        first = put(store, [1])
        row = TurnRow(2, turn("", "", id="id-2"), "s", 0, tags=())
        chunk = chunk_of(row, "lost")
        mark = Mark(position=Position(2), embed_fp=MODEL, index_fp="i")
        with pytest.raises(IntegrityError, match="no vector"):
            commit_turns(store, [row], [chunk], mark=mark, retagged={}, provenance={})
        assert history.current_mark(store.db) == first
    assert [r.seq for r in selection_rows(bench.index).rows] == [1]


def test_no_two_models_in_one_generation(bench):
    """A turn for another model is refused while another turn has no vector there."""
    with bench.store() as store:
        put(store, [1, 2])
        text_hash = sha256_hex("text 2")
        made = TextRow(text_hash, "text 2", 2, term_blob("text 2"))
        store.record_texts([made], vector(7), embed_fp="other")
        assert lacking(store.db, "other", besides=()) == [(sha256_hex("text 1"), "text 1")]
        assert lacking(store.db, "other", besides={1}) == []
        rows = list(history.read_turns(store.db, [2]))
        chunk = chunk_of(rows[0], "text 2")
        mark = Mark(position=Position(2), embed_fp="other", index_fp="i")
        with pytest.raises(IntegrityError, match="1-1::0 has no vector"):
            commit_turns(store, rows, [chunk], mark=mark, retagged={}, provenance={})
        assert history.current_mark(store.db).embed_fp == MODEL


def test_tags_change_in_the_same_transaction_and_not_the_digest(bench):
    with bench.store() as store:
        first = put(store, [1, 2])
        retagged = {2: ("GOLD",), 8: ("x",)}
        mark = commit_turns(store, [], [], mark=first, retagged=retagged, provenance={})
        assert (mark.generation, mark.digest) == (2, first.digest)
        assert [row.tags for row in history.read_turns(store.db)] == [("x",), ("GOLD",)]


def test_a_commit_that_dies_leaves_nothing_of_it(bench, monkeypatch):
    with bench.store() as store:
        first = put(store, [1])
        with monkeypatch.context() as patch:
            patch.setattr(history, "write_turns", lambda db, rows, retagged: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                put(store, [2])
        assert history.current_mark(store.db) == first
        assert [row.seq for row in history.read_turns(store.db)] == [1]
        put(store, [2])
    assert [row.seq for row in selection_rows(bench.index).rows] == [1, 2]


def test_the_empty_journal_of_a_killed_writer_goes_also_where_there_is_nothing_to_do(bench):
    bench.say(turn("first"))
    bench.run()
    left = bench.index / "catalog.sqlite-journal"
    left.write_bytes(bytes(512))  # killed before its header was synced: nothing to roll back
    before = bench.rows()
    assert not bench.run().committed
    assert not left.exists() and bench.rows().rows == before.rows


def test_known_texts_are_sound_ones(bench):
    with bench.store() as store:
        put(store, [1, 2, 3, 4])
    (path,) = bench.index.glob("vectors-*.f32")
    data = bytearray(path.read_bytes())
    data[0] ^= 1  # text 1
    path.write_bytes(data)
    sql(bench, "UPDATE texts SET text = 'text 9' WHERE text = 'text 2'")
    sql(bench, "UPDATE texts SET terms = x'00' WHERE text = 'text 3'")
    hashes = [sha256_hex(f"text {n}") for n in (1, 2, 3, 4, 5)]
    with bench.store() as store:
        assert store.known(hashes, MODEL, checked=True) == {hashes[3]}
        assert store.known(hashes, "other", checked=True) == set()
    path.unlink()
    with bench.store() as store, pytest.raises(IntegrityError, match="missing") as caught:
        store.known(hashes, MODEL, checked=True)
    assert caught.value.hint == "ragstream history backfill --rebuild"


def test_the_last_texts_become_durable_with_the_commit_or_with_the_next_texts(bench):
    made = [TextRow(sha256_hex(t), t, 2, term_blob(t)) for t in ("one", "two", "three")]
    hashes = [row.text_hash for row in made]
    with bench.store() as store:
        store.record_texts(made[:1], vector(1), embed_fp=MODEL, last=True)
        assert store.known(hashes, MODEL, checked=True) == set()
        store.record_texts(made[1:2], vector(2), embed_fp=MODEL)
        assert store.known(hashes, MODEL, checked=True) == {*hashes[:2]}
        store.record_texts(made[2:], vector(3), embed_fp=MODEL, last=True)
        put(store, [1])
        assert store.known(hashes, MODEL, checked=True) == {*hashes}


def test_nothing_was_embedded_yet(bench):
    with pytest.raises(GenerationGone) as caught:
        selection_rows(bench.index)
    assert caught.value.hint == "ragstream history embed"
    with bench.store():
        pass
    with pytest.raises(GenerationGone):
        selection_rows(bench.index)
    assert newest(bench.index) is None


FLIPS = [
    "UPDATE turns SET tags = '[\"GOLD\"]' WHERE seq = 1",
    "UPDATE turns SET meta = replace(meta, 's1', 's2') WHERE seq = 1",
    "UPDATE turns SET id = 'id-7' WHERE seq = 1",
    "UPDATE turns SET seq = 7 WHERE seq = 1",
    "DELETE FROM turns WHERE seq = 1",
    "UPDATE generations SET provenance = replace(provenance, '\"seq\": 2', '\"seq\": 9')",
    "UPDATE generations SET provenance = '{}'",
    "UPDATE generations SET embed_fp = 'n'",
    "UPDATE chunks SET start = 1 WHERE chunk_id LIKE '%::1-1::0'",
    "UPDATE texts SET text = 'text 9' WHERE text = 'text 1'",
    "UPDATE files SET mtime_ns = 7 WHERE path = 's1/1'",
]


@pytest.mark.parametrize("flip", FLIPS)
def test_every_change_of_a_value_is_found_and_a_rebuild_repairs_it(bench, flip):
    bench.say(turn("first", "one"), turn("second", "two"))
    bench.run()
    before = bench.rows()
    sql(bench, flip.replace("text 1", before.rows[0].text))
    found = findings(bench)
    try:
        changed = selection_rows(bench.index).turns.keys() != {1, 2}
    except IntegrityError as error:
        changed = True
        assert error.hint == "ragstream history backfill --rebuild"
    assert changed or found
    bench.texts_seen()
    bench.worker().rebuild()
    damaged_text = flip.startswith("UPDATE texts")
    assert len(bench.texts_seen()) == (1 if damaged_text else 0)
    after = bench.require_complete()
    assert (after.rows, after.mark.digest) == (before.rows, before.mark.digest)


@pytest.mark.parametrize("table", ["generations", "chunks", "files"])
def test_a_broken_catalog_is_put_aside_and_nothing_is_embedded_again(bench, table):
    bench.say(*(turn(f"turn {n}") for n in range(40)))
    bench.run()
    path = bench.index / "catalog.sqlite"
    with sqlite3.connect(path) as db:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = db.execute(query, (table,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    db.close()
    data = bytearray(path.read_bytes())
    data[size * (root - 1) : size * root] = b"\xff" * size
    path.write_bytes(data)
    bench.texts_seen()
    bench.say(turn("turn 40"))
    forget_views()
    with pytest.raises(IntegrityError, match="damaged") as caught:
        bench.run()
    assert caught.value.hint == "ragstream history backfill --rebuild"
    stats = bench.worker().rebuild()
    assert (bench.index / "catalog.sqlite.damaged-1").exists()
    assert stats.turns == 41 and all("turn 40" in text for text in bench.texts_seen())
    bench.require_complete()


def test_a_lost_vector_file_is_made_again_by_a_rebuild_alone(bench):
    bench.say(turn("first"), turn("second"))
    bench.run()
    (path,) = bench.index.glob("vectors-*.f32")
    path.unlink()
    bench.say(turn("third"))
    with pytest.raises(IntegrityError):
        bench.run()
    assert bench.worker().rebuild().embedded == 3
    bench.require_complete()


def test_old_generations_go_and_what_only_they_hold(bench, monkeypatch):
    monkeypatch.setattr(history, "KEPT_GENERATIONS", 2)
    monkeypatch.setattr(history, "_RETAIN_EVERY", 3)
    monkeypatch.setattr(vectors, "COMPACT_MIN_ROWS", 2)
    with bench.store() as store:
        for n in range(9):
            put(store, [1, 2], say=f"version {n}")
        kept = store.db.execute("SELECT n FROM generations ORDER BY n").fetchall()
        texts = store.db.execute("SELECT count(*) FROM texts").fetchone()[0]
    assert kept == [(8,), (9,)] and texts == 4
    assert [row.text for row in selection_rows(bench.index).rows] == ["version 8 1", "version 8 2"]
    assert findings(bench) == []


def test_a_failing_clean_up_is_a_note(bench, monkeypatch):
    monkeypatch.setattr(history, "_RETAIN_EVERY", 1)

    def fail(db, index_dir):
        raise OSError("no")

    with bench.store() as store:
        monkeypatch.setattr(remove, "sweep", fail)
        mark = put(store, [1])
        assert mark.generation == 1 and store.notes == ["old generations were not dropped: no"]
