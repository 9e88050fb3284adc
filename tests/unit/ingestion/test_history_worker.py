"""The worker: what a run reads, embeds and commits, and what it leaves alone."""

import dataclasses

import pytest

from ragstream_core.conversations.journal.records import Asked, Cleared, TagEdit
from ragstream_core.conversations.units import TurnChunker
from ragstream_core.errors import EmbeddingFailed, ModelMismatch, ProjectLocked
from ragstream_core.index import history
from ragstream_core.index.history import newest
from ragstream_core.ingestion import staging
from ragstream_core.text.chunk_profiles import ChunkProfile
from tests.conftest import CountingEmbedder
from tests.history_bench import HistoryBench, turn

STAMP = "2026-10-05T12:00:00+00:00"


@pytest.fixture
def bench(tmp_path):
    return HistoryBench(tmp_path)


def test_an_empty_journal_makes_nothing(bench):
    stats = bench.run()
    assert (stats.committed, stats.generation, stats.seq) == (False, 0, 0)
    assert newest(bench.index) is None


def test_a_run_embeds_every_turn_once(bench):
    bench.say(turn("first"), turn("second", session="s2"), turn("third", day=40))
    stats = bench.run()
    assert (stats.committed, stats.generation, stats.seq, stats.turns) == (True, 1, 3, 3)
    assert stats.embedded == 3 and stats.reused == 0
    assert stats.months == {"2026-08": 2, "2026-10": 1}
    assert stats.sessions == {"s1": 3, "s2": 2}
    assert [row.chunk_id for row in bench.rows().rows] == [
        "history::s1::1-1::0", "history::s1::3-3::0", "history::s2::2-2::0",
    ]  # fmt: skip
    bench.require_complete()


def test_nothing_new_is_no_generation(bench):
    bench.say(turn())
    first = bench.run()
    again = bench.run()
    assert not again.committed and again.embedded == 0
    assert (again.generation, again.digest) == (first.generation, first.digest)


def test_a_delta_embeds_new_texts_only(bench):
    bench.say(turn("first"), turn("second"))
    bench.run()
    bench.texts_seen()
    bench.say(turn("third"))
    stats = bench.run()
    (seen,) = bench.texts_seen()
    assert "third" in seen and (stats.embedded, stats.turns, stats.seq) == (1, 1, 3)
    bench.require_complete()


def test_an_equal_text_is_embedded_once(bench):
    one = turn("same words")
    bench.say(one, dataclasses.replace(one, id="other", session_id="s2"))
    stats = bench.run()
    assert (stats.embedded, stats.reused) == (1, 1)
    bench.require_complete()


def test_what_is_no_whole_turn_is_not_embedded(bench):
    bench.say(
        Asked("a1", "s1", STAMP, "only asked"),
        turn("broken off", status="partial"),
        turn("cleared"),
        turn("kept"),
        Cleared("c1", STAMP, ((3, 3),), "range", turns=1),
    )
    stats = bench.run()
    assert [text for text in bench.texts_seen() if "kept" not in text] == []
    assert (stats.turns, stats.passed_over, stats.seq) == (1, 2, 5)
    bench.require_complete()


def test_what_is_cleared_behind_upto_is_hidden_all_the_same(bench):
    bench.say(turn("secret"), turn("kept"), Cleared("c1", STAMP, ((1, 1),), "range", turns=1))
    bench.run(upto=2)
    assert all("secret" not in text for text in bench.texts_seen())


def test_the_mark_stays_before_a_clearing_that_is_not_finished(bench):
    """What hides turns from prompts is read behind the mark, as long as the catalog has them."""
    bench.say(turn("first"), turn("second"))
    bench.run()
    bench.say(
        turn("third"),
        Cleared("c1", STAMP, ((1, 1), (3, 3)), "session", turns=2),
        turn("fourth"),
    )
    stats = bench.run()
    assert (stats.seq, stats.embedded, stats.committed) == (2, 0, False)
    with bench.store() as store:
        assert history.holds(store.db, 1, 1) and not history.holds(store.db, 3, 9)
        for table in ("chunks", "files", "turns"):
            store.db.execute(f"DELETE FROM {table} WHERE path = 's1/1'")
    stats = bench.run()
    assert (stats.seq, stats.embedded, stats.passed_over) == (5, 1, 1)
    assert all("third" not in text for text in bench.texts_seen())


def test_only_questions_leave_the_mark(bench):
    bench.say(turn())
    bench.run()
    bench.say(Asked("a1", "s1", STAMP, "only asked"))
    stats = bench.run()
    assert not stats.committed and stats.seq == 1


def test_tags_of_a_new_turn_are_those_of_the_mark(bench):
    one = turn("x", tags=("draft",))
    bench.say(one, TagEdit("e1", one.id, STAMP, add=("GOLD",), remove=("draft",)))
    bench.run()
    assert bench.rows().turns[1].tags == ("GOLD",)


def test_tags_of_an_earlier_turn_change_without_the_model(bench):
    one = turn("x", tags=("draft",))
    bench.say(one)
    first = bench.run()
    bench.texts_seen()
    bench.say(
        TagEdit("e1", one.id, STAMP, add=("GOLD", "SILVER")),
        TagEdit("e2", one.id, STAMP, remove=("SILVER", "draft")),
        TagEdit("e3", "nobody", STAMP, add=("GOLD",)),
    )
    stats = bench.run()
    assert bench.rows().turns[1].tags == ("GOLD",)
    assert bench.texts_seen() == [] and (stats.retagged, stats.committed) == (1, True)
    assert (stats.digest, stats.seq) == (first.digest, 4)  # chunks and texts are the same


def test_an_edit_that_changes_nothing_is_no_generation(bench):
    one = turn("x", tags=("GOLD",))
    bench.say(one)
    bench.run()
    bench.say(TagEdit("e1", one.id, STAMP, add=("GOLD",)))
    assert not bench.run().committed


def test_a_run_up_to_a_record_stops_there(bench):
    bench.say(*(turn(f"turn {n}") for n in range(5)))
    assert bench.run(upto=2).seq == 2
    bench.require_complete(upto=2)
    assert bench.run(upto=1).seq == 2
    assert bench.run().seq == 5
    bench.require_complete()


def test_rows_up_to_a_turn_are_those_of_an_earlier_run(bench):
    bench.say(*(turn(f"turn {n}") for n in range(4)))
    bench.run(upto=2)
    before = bench.rows()
    bench.run()
    after = bench.rows(upto=2)
    assert after.rows == before.rows and after.vectors.tobytes() == before.vectors.tobytes()
    assert after.turns == before.turns


def test_another_model_is_refused_before_anything_is_written(bench):
    bench.say(turn("x"))
    bench.run()
    bench.say(turn("y"))
    before = bench.rows()
    bench.embedder = CountingEmbedder(fingerprint="other")
    with pytest.raises(ModelMismatch, match="other") as caught:
        bench.run()
    assert caught.value.hint == "ragstream history backfill --rebuild"
    assert bench.embedder.seen == [] and bench.rows().rows == before.rows


def test_a_rebuild_takes_the_model_of_the_settings(bench):
    bench.say(turn("x"), turn("y"))
    bench.run()
    bench.say(turn("z"))
    bench.embedder = CountingEmbedder(fingerprint="other")
    stats = bench.worker().rebuild()
    assert (stats.embedded, stats.seq) == (3, 3)
    assert bench.require_complete().mark.embed_fp == "other"


def test_months_move_to_another_model_one_by_one_and_never_mix(bench):
    bench.say(turn("aug"), turn("sep", day=20), turn("oct", day=40), turn("oct two", day=41))
    bench.run()
    bench.say(turn("later", day=60))
    old = bench.rows()
    bench.embedder = CountingEmbedder(fingerprint="other")
    for month, missing in (("2026-08", 3), ("2026-10", 1)):
        stats = bench.worker().backfill([month])
        assert (stats.committed, stats.missing) == (False, missing)
        assert bench.rows().mark == old.mark and bench.rows().rows == old.rows
    seen = bench.texts_seen()
    assert len(seen) == 3
    stats = bench.worker().backfill(["2026-09"])
    assert (stats.committed, stats.missing, stats.seq) == (True, 0, 5)
    assert [text[-30:] for text in bench.texts_seen() if "sep" in text or "later" in text]
    assert bench.require_complete().mark.embed_fp == "other"


def test_other_rules_for_units_cut_all_turns_again(bench):
    bench.say(*(turn(f"turn {n} " + "many words " * 40) for n in range(3)))
    bench.run()
    bench.chunker = TurnChunker(
        window=60, profile=ChunkProfile("history_small", 40, 5, overlap="sentence")
    )
    bench.say(turn("new"))
    stats = bench.run()
    assert stats.turns == 4
    bench.require_complete()


def test_a_backfill_where_all_is_well_changes_nothing(bench):
    bench.say(turn("aug"), turn("oct", day=40))
    first = bench.run()
    bench.texts_seen()
    stats = bench.worker().backfill(["2026-10"])
    assert (stats.committed, stats.embedded, stats.digest) == (False, 0, first.digest)
    assert (stats.turns, stats.months, stats.seq) == (1, {"2026-10": 1}, 2)
    assert bench.texts_seen() == []


def test_a_backfill_makes_damaged_vectors_of_its_months_anew(bench):
    bench.say(turn("aug"), turn("oct", day=40), turn("oct two", day=41))
    bench.run()
    (path,) = bench.index.glob("vectors-*.f32")
    data = bytearray(path.read_bytes())
    stride = bench.embedder.dimension * 4
    data[stride] ^= 1
    path.write_bytes(data)
    bench.texts_seen()
    stats = bench.worker().backfill(["2026-10"])
    assert [("oct" in text) for text in bench.texts_seen()] == [True] and stats.embedded == 1
    bench.require_complete()


def test_a_model_that_fails_leaves_the_old_state(bench):
    bench.say(turn("x"))
    bench.run()
    before = bench.rows()
    bench.say(turn("y"), turn("z"))

    class Broken(CountingEmbedder):
        def embed_documents(self, texts, *, progress=None):
            return super().embed_documents(texts)[:-1]

    bench.embedder = Broken()
    with pytest.raises(EmbeddingFailed):
        bench.run()
    assert bench.rows().rows == before.rows
    bench.embedder = CountingEmbedder()
    assert bench.run().embedded == 2
    bench.require_complete()


def test_batches_are_durable_one_by_one(bench, monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 4)
    bench.say(*(turn(f"turn {n}") for n in range(10)))

    class Dies(CountingEmbedder):
        def embed_documents(self, texts, *, progress=None):
            if len(self.seen) >= 8:
                raise KeyboardInterrupt
            return super().embed_documents(texts)

    bench.embedder = Dies()
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    bench.embedder = CountingEmbedder()
    stats = bench.run()
    assert (stats.embedded, stats.reused, stats.turns) == (2, 8, 10)
    bench.require_complete()


def test_an_older_journal_is_named(bench, tmp_path):
    bench.say(turn("x"), turn("y"))
    bench.run()
    other = HistoryBench(tmp_path / "other")
    other.say(turn("x"))
    bench.journal = other.journal
    (warning,) = bench.run().warnings
    assert "ends at record 1" in warning and "up to 2" in warning


def test_of_two_workers_the_second_is_told_who_is_at_it(bench):
    bench.say(turn("x"))
    with bench.store(), pytest.raises(ProjectLocked, match="the history"):
        bench.run()


def test_progress_and_clock(bench):
    bench.say(turn("x"), turn("y"))
    told, ticks = [], iter(range(100))
    worker = bench.worker(
        progress=lambda *said: told.append(said), clock=lambda: float(next(ticks))
    )
    stats = worker.run(provenance={"run": "r1"})
    assert told == [("embed", 2, 0), ("commit", 0, 2)]
    assert (stats.model_seconds, stats.seconds) == (1.0, 3.0)
    found = newest(bench.index)
    assert found[1].provenance["run"] == "r1" and found[1].provenance["embedded"] == "2"
    assert stats.to_json()["months"] == {"2026-08": 2}


def test_a_backfill_by_other_rules_cuts_the_turns_of_all_months_again(bench):
    bench.say(*(turn(f"turn {day} " + "many words " * 40, day=day) for day in (0, 40)))
    bench.run()
    bench.chunker = TurnChunker(
        window=60, profile=ChunkProfile("history_small", 40, 5, overlap="sentence")
    )
    assert bench.worker().backfill(["2026-10"]).turns == 2
    bench.require_complete()
