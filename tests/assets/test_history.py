"""The history as assets: one delta run, a month again, checks, and what Dagster may lose."""

import shutil

import pytest

from ragstream_assets import history, instance
from ragstream_core.conversations.journal.records import TagEdit, Turn
from ragstream_core.models.embedders.registry import EMBEDDERS
from ragstream_core.services import history_update
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import append_records
from tests.assets.executing import execute

TIMES = ("2026-08-30T23:50:00+02:00", "2026-10-05T14:07:00+02:00", "2026-10-06T09:00:00+02:00")


@pytest.fixture
def told(space, say):
    """Three turns in two months and two conversations."""
    say(space, 1, when=TIMES[0], session="old")
    say(space, 2)
    say(space, 3, when=TIMES[2], tags=("GOLD",))
    return space


def events(result, spec):
    found = [e for e in result.get_asset_materialization_events() if e.asset_key == spec.key]
    return {e.partition: {k: v.value for k, v in e.materialization.metadata.items()} for e in found}


def shown(result, spec=history.SNAPSHOT):
    return events(result, spec)[None]


def checks(result):
    return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}


def test_one_delta_run_reports_every_month_it_touched(told, home, embed):
    result = embed(told, home)
    assert result.success
    assert set(events(result, history.HISTORY_EMBEDDINGS)) == {"2026-08", "2026-10"}
    assert events(result, history.HISTORY_EMBEDDINGS)["2026-10"] == {
        "turns_in_month": 2,
        "chunks_in_month": 2,
    }
    made = shown(result)
    assert (made["turns"], made["embedded"], made["generation"], made["up_to_record"]) == (
        3,
        3,
        1,
        3,
    )
    assert (made["live_turns"], made["published_chunks"], made["evicted"]) == (3, 3, 0)
    months = [(r.data["month"], r.data["turns"]) for r in made["by_month"].records]
    assert months == [("2026-10", 2), ("2026-08", 1)]
    sessions = [(r.data["session"], r.data["turns"]) for r in made["by_session"].records]
    assert sessions == [("talks", 2), ("old", 1)]
    assert shown(result, history.SESSION_LOGS)["sessions"] == 2
    (seen,) = result.get_asset_observation_events()
    assert seen.asset_observation_data.asset_observation.metadata["records"].value == 3
    assert History(told).status().pending == 0


def test_only_the_tail_is_embedded_and_nothing_new_is_nothing(told, home, say, embed):
    embed(told, home)
    say(told, 4, when="2026-11-01T08:00:00+01:00")
    second = embed(told, home)
    assert set(events(second, history.HISTORY_EMBEDDINGS)) == {"2026-11"}
    assert (shown(second)["embedded"], shown(second)["live_turns"]) == (1, 4)
    third = embed(told, home)
    assert (shown(third)["embedded"], shown(third)["committed"]) == (0, False)
    assert not events(third, history.HISTORY_EMBEDDINGS)
    assert shown(third)["digest"] == shown(second)["digest"]


def test_the_collection_is_sealed_and_then_left_for_a_while(told, home, embed, open_root):
    space = open_root(told.data_dir, **{"vector_store.collection": "true"})
    made = shown(embed(space, home), history.COLLECTION)
    assert (made["made"], made["rows"], made["collection"]) == ("rebuilt", 3, "history_main")
    rest = {"seal_history_main": {"rest_s": 600}}
    again = embed(space, home, ops=rest)
    assert "left for later" in shown(again, history.COLLECTION)["made"]


def test_the_digest_is_off_by_default_and_shows_what_is_rolled_up(space, home, embed, open_root):
    for n in range(13):
        turn = Turn(
            "", "old", "2025-01-05T10:00:00+00:00", f"What of pumps, part {n}?", "They run."
        )
        append_records(space, [turn])
    append_records(space, [Turn("", "new", TIMES[1], "And now?", "Now.")])
    off = shown(embed(space, home), history.DIGEST)
    assert (off["summaries"], off["reason"]) == (0, "off: history.summaries")
    on = open_root(space.data_dir, **{"history.summaries": "true"})
    made = shown(embed(on, home), history.DIGEST)
    assert made["summaries"] == 1
    (row,) = made["spans"].records
    assert row.data["span"] == "history::old::1-12::0"


def test_what_was_embedded_without_dagster_is_reported_by_the_next_run(told, home, embed, say):
    embed(told, home)
    say(told, 4)
    history_update.catch_up(told)
    missed = embed(told, home)
    assert shown(missed)["embedded"] == 0
    assert events(missed, history.HISTORY_EMBEDDINGS)["2026-10"]["turns_in_month"] == 3
    assert not events(embed(told, home), history.HISTORY_EMBEDDINGS)


def test_a_run_stops_where_it_was_told_to(told, home, embed):
    assert shown(embed(told, home, config={"upto": 2}))["up_to_record"] == 2
    assert History(told).status().pending == 1


def test_a_new_tag_reaches_the_catalog_without_embedding(told, home, embed):
    embed(told, home)
    append_records(told, [TagEdit("", "turn-2", "", ("SILVER",), ())])
    made = shown(embed(told, home))
    assert (made["retagged"], made["embedded"]) == (1, 0)


def test_months_the_ui_does_not_know_are_embedded_all_the_same(space, home, say, embed):
    for n, when in enumerate(("1999-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00")):
        say(space, n, when=when)
    result = embed(space, home)
    assert result.success and shown(result)["embedded"] == 2
    assert not events(result, history.HISTORY_EMBEDDINGS)


def test_a_deleted_run_history_loses_nothing_but_itself(told, home, embed):
    first = embed(told, home)
    instance.drop_instances()
    shutil.rmtree(told.data_dir / "dagster_home")
    home = instance.instance_of(told.data_dir)
    assert home.get_materialized_partitions(history.HISTORY_EMBEDDINGS.key) == set()
    again = embed(told, home)
    assert (shown(again)["embedded"], shown(again)["generation"]) == (0, 1)
    assert shown(again)["digest"] == shown(first)["digest"]
    assert home.get_materialized_partitions(history.HISTORY_EMBEDDINGS.key) == {
        "2026-08",
        "2026-10",
    }


def test_a_lost_snapshot_is_published_again(told, home, embed):
    embed(told, home)
    told.layout.history_snapshot.unlink()
    assert shown(embed(told, home))["embedded"] == 0
    assert told.layout.history_snapshot.exists()


@pytest.mark.parametrize(
    ("settings", "turns", "reason"),
    [
        ({"history.persist": "false"}, 1, "history.persist is off"),
        ({}, 0, "no conversation has been recorded yet"),
    ],
)
def test_nothing_to_do_is_said(root, open_root, home, settings, turns, reason, say, embed):
    for n in range(turns):
        say(open_root(root), n)
    space = open_root(root, **settings)
    result = embed(space, home)
    assert result.success
    assert reason in shown(result)["idle"]
    assert not space.layout.history_index.exists()


@pytest.fixture
def other_model(told, open_root, counting_embedder):
    """The same data root under the settings of another model."""
    embedder = counting_embedder(fingerprint="b" * 64)
    EMBEDDERS.register("other", lambda: embedder)
    yield open_root(told.data_dir, **{"embeddings.backend": "other"}), embedder
    EMBEDDERS.unregister("other")


def test_another_model_is_refused_and_followed_where_asked(told, home, other_model, embed):
    embed(told, home)
    space, embedder = other_model
    assert not embed(space, home).success
    assert not embedder.seen and History(told).status().generation == 1
    made = shown(embed(space, home, config={"follow_model": True}))
    assert (made["embedded"], made["generation"]) == (3, 2)
    assert History(space).status().other_model is False


def backfill(space, home, first, last=""):
    """Materialise some months as the UI does: one run over a range."""
    span = {
        "dagster/asset_partition_range_start": first,
        "dagster/asset_partition_range_end": last or first,
    }
    chosen = [history.HISTORY_EMBEDDINGS.key]
    return execute(space, home, asset_selection=chosen, tags=span)


def test_a_month_again_embeds_nothing_that_is_there_and_leaves_the_mark(told, home, embed):
    embed(told, home)
    before = History(told).status()
    result = backfill(told, home, "2026-10")
    assert events(result, history.HISTORY_EMBEDDINGS).keys() == {"2026-10"}
    again = events(result, history.HISTORY_EMBEDDINGS)["2026-10"]
    assert (again["turns"], again["embedded"], again["reused"]) == (2, 0, 2)
    assert again["turns_in_month"] == 2
    assert History(told).status().seq == before.seq
    assert History(told).status().digest == before.digest


def test_a_month_before_anything_else_embeds_all_and_reports_all(told, home):
    result = backfill(told, home, "2026-10")
    assert events(result, history.HISTORY_EMBEDDINGS).keys() == {"2026-08", "2026-10"}
    assert History(told).status().pending == 0


def test_another_model_takes_over_with_the_last_month(told, home, other_model, embed):
    embed(told, home)
    space, embedder = other_model
    first = backfill(space, home, "2026-10")
    assert events(first, history.HISTORY_EMBEDDINGS)["2026-10"]["missing_for_the_new_model"] == 1
    assert History(space).status().other_model is True
    assert len(embedder.seen) == 2
    last = backfill(space, home, "2026-08", "2026-09")
    assert events(last, history.HISTORY_EMBEDDINGS)["2026-08"]["missing_for_the_new_model"] == 0
    assert History(space).status().other_model is False
    assert len(embedder.seen) == 3
