"""Laws of the history worker: whatever the runs, the catalog is what the journal says."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Asked, Cleared, TagEdit
from ragstream_core.ingestion import staging
from tests.conftest import CountingEmbedder
from tests.history_bench import HistoryBench, turn, words

STAMP = "2026-10-05T12:00:00+00:00"
LAWS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def journals(draw):
    """Records as a journal may hold them; ids of turns are those of earlier ones."""
    rng = random.Random(draw(st.integers(0, 10**6)))
    records, ids = [], []
    kinds = st.sampled_from(["turn", "turn", "turn", "long", "same", "asked", "partial", "tag"])
    for kind in draw(st.lists(kinds, min_size=1, max_size=14)):
        given = {"session": rng.choice(["s1", "s2"]), "day": rng.randrange(-40, 70)}
        if kind == "asked":
            records.append(Asked(f"a{len(records)}", given["session"], STAMP, words(rng)))
        elif kind == "tag" and ids:
            tags = rng.sample(["GOLD", "SILVER", "x"], 2)
            edit = {"add": tuple(tags[:1]), "remove": tuple(tags[1:])}
            records.append(TagEdit(f"e{len(records)}", rng.choice(ids), STAMP, **edit))
        else:
            said = "The same words." if kind == "same" else words(rng, 700 if kind == "long" else 9)
            status = "partial" if kind == "partial" else "complete"
            one = turn(said, words(rng), status=status, tags=("x",)[: rng.randrange(2)], **given)
            records.append(one)
            ids.append(one.id)
    return records


def cut(draw_from, count):
    return sorted(set(draw_from) & set(range(1, count)))


@pytest.fixture(scope="module")
def new_bench(tmp_path_factory):
    def make(records):
        bench = HistoryBench(tmp_path_factory.mktemp("history"))
        bench.say(*records)
        return bench

    return make


def beside(bench: HistoryBench, name: str) -> HistoryBench:
    """Return a bench over the same journal with a catalog of its own."""
    other = HistoryBench(bench.root / name, chunker=bench.chunker)
    other.journal = bench.journal
    return other


@LAWS
@given(records=journals(), cuts=st.lists(st.integers(1, 14), max_size=6))
def test_any_split_into_runs_ends_in_the_same_rows(new_bench, records, cuts):
    bench = new_bench(records)
    at_once = bench.run()
    other = beside(bench, "split")
    runs = [other.run(upto) for upto in cut(cuts, len(records))]
    runs.append(other.run())
    if not at_once.generation:
        assert not runs[-1].generation
        return
    one, two = bench.require_complete(), other.require_complete()
    assert one.rows == two.rows and one.turns == two.turns
    assert one.vectors.tobytes() == two.vectors.tobytes()
    assert one.mark.digest == two.mark.digest
    assert sum(run.embedded for run in runs) == at_once.embedded
    assert len(set(bench.embedder.seen)) == len(bench.embedder.seen) == at_once.embedded
    seqs = [run.seq for run in runs]
    assert seqs == sorted(seqs)


@LAWS
@given(records=journals(), cuts=st.lists(st.integers(1, 14), max_size=4), data=st.data())
def test_a_run_embeds_its_new_texts_only_and_dies_without_loss(new_bench, records, cuts, data):
    """Runs that die in the model are resumed: no text is embedded and kept twice."""
    bench = new_bench(records)
    batch = data.draw(st.integers(1, 5))

    class Dies(CountingEmbedder):
        left = 0

        def embed_documents(self, texts, *, progress=None):
            if self.left <= 0:
                raise KeyboardInterrupt
            self.left -= 1
            return super().embed_documents(texts)

    bench.embedder = Dies()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BATCH_TEXTS", batch)
        for upto in [*cut(cuts, len(records)), None]:
            for _ in range(len(records) * 8):
                bench.embedder.left = data.draw(st.integers(0, 2)) or 1
                try:
                    stats = bench.run(upto)
                    break
                except KeyboardInterrupt:
                    continue
            before = set(bench.embedder.seen)
            bench.embedder.left = 0
            assert bench.run(upto).embedded == 0 and set(bench.embedder.seen) == before
    assert len(bench.embedder.seen) == len(set(bench.embedder.seen))
    if stats.generation:
        bench.embedder = CountingEmbedder()
        bench.require_complete()


@LAWS
@given(records=journals(), data=st.data())
def test_a_backfill_changes_nothing_where_all_is_as_it_was(new_bench, records, data):
    bench = new_bench(records)
    upto = data.draw(st.integers(1, len(records)))
    bench.run(upto)
    months = data.draw(st.sets(st.sampled_from(["2026-07", "2026-08", "2026-09", "2026-10"])))
    mark = bench.run().seq
    if not mark:
        return
    before = bench.rows()
    bench.texts_seen()
    stats = bench.worker().backfill(months)
    assert (stats.committed, stats.embedded, stats.seq) == (False, 0, mark)
    assert set(stats.months) <= months
    after = bench.rows()
    assert (after.mark, after.rows, after.turns) == (before.mark, before.rows, before.turns)


@LAWS
@given(records=journals(), data=st.data())
def test_months_in_any_order_move_the_history_to_another_model(new_bench, records, data):
    bench = new_bench(records)
    first = bench.run()
    if not first.generation:
        return
    old = bench.rows()
    bench.embedder = CountingEmbedder(fingerprint="other")
    months = data.draw(
        st.permutations(sorted({row.turn.timestamp[:7] for row in old.turns.values()}))
    )
    done = 0
    for month in months:
        stats = bench.worker().backfill([month])
        done += stats.embedded
        live = bench.rows()
        assert live.mark.embed_fp == ("other" if stats.missing == 0 else old.mark.embed_fp)
        assert live.rows == old.rows and stats.seq >= first.seq
    if months:
        assert bench.require_complete().mark.embed_fp == "other"
        assert done == len({row.text_hash for row in live.rows})


@LAWS
@given(records=journals(), data=st.data())
def test_what_was_cleared_before_a_run_never_reaches_the_model(new_bench, records, data):
    bench = new_bench(records)
    first = data.draw(st.integers(1, len(records)))
    last = data.draw(st.integers(first, len(records)))
    hidden = [r for r in records[first - 1 : last] if not isinstance(r, (Asked, TagEdit))]
    bench.say(Cleared("c", STAMP, ((first, last),), "range", turns=len(hidden)))
    upto = data.draw(st.integers(1, len(records) + 1))
    for run in (upto, None):
        bench.run(run)
    kept = {piece.text for r in records if r not in hidden and not isinstance(r, (Asked, TagEdit))
            for piece in bench.chunker.pieces(r)}  # fmt: skip
    assert set(bench.embedder.seen) <= kept


def test_a_journal_in_another_folder_gives_the_same_digest(tmp_path):
    """The rows depend on the records alone: no path, no clock, no offset."""
    rng = random.Random(3)
    records = [turn(words(rng), words(rng), day=n) for n in range(30)]
    one, two = HistoryBench(tmp_path / "one"), HistoryBench(tmp_path / "two")
    two.journal = Journal(Path(tmp_path / "two" / "history" / "logs"), segment_bytes=2_000)
    one.say(*records)
    for record in records:
        two.say(record)
    assert len(list(two.journal.folder.glob("conversation-*.log"))) > 3
    one.run()
    for upto in range(1, 30, 4):
        two.run(upto)
    two.run()
    assert one.rows().rows == two.rows().rows
    assert one.rows().mark.digest == two.rows().mark.digest
    shutil.rmtree(two.root)
