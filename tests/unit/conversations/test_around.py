"""Turns are ranked by what stands around them; what is no turn keeps its place."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.around import (
    BESIDE,
    PAUSE_NS,
    SITTING,
    SPEAKER,
    Found,
    Order,
    order_of,
    ranked,
    speakers_in,
)
from ragstream_core.records import Hit

HOUR = 3_600_000_000_000


def hit(number, score):
    return Hit(f"history::s::{number}-{number}::0", score, 0.0, 0.0, 0.0, {"a": score}, ())


def columns(*turns):
    """(session, seq, time in hours) of each row."""
    sessions, seqs, hours = zip(*turns, strict=True)
    codes = np.array([sorted(set(sessions)).index(session) for session in sessions], np.int32)
    return SimpleNamespace(
        sessions=SimpleNamespace(codes=codes),
        seq=np.array(seqs),
        seq_last=np.array(seqs),
        timestamp_ns=np.array([int(hour * HOUR) for hour in hours]),
    )


def order(places, sittings=None):
    return Order(np.array(places), np.array(sittings or [0] * len(places)))


def test_sittings_end_with_a_pause_and_with_the_conversation():
    rows = columns(("b", 9, 1), ("a", 2, 9), ("a", 1, 0), ("a", 12, 10), ("a", 12, 10), ("b", 3, 1))
    found = order_of(rows)
    first, second, third = found.sittings[2], found.sittings[1], found.sittings[0]
    assert len({first, second, third}) == 3
    assert found.sittings.tolist() == [third, second, first, second, second, third]
    assert found.places[1] == found.places[2] + 1 == found.places[3] - 1
    assert found.places[3] == found.places[4]  # two pieces of one turn
    assert found.places[5] + 1 == found.places[0]
    assert PAUSE_NS == 4 * HOUR


def test_turns_without_a_time_are_one_sitting():
    assert len(set(order_of(columns(("a", 1, 0), ("a", 2, 0), ("a", 5, 0))).sittings)) == 1


def test_the_turn_beside_a_good_one_comes_before_one_that_stands_alone():
    hits = [hit(1, 0.9), hit(2, 0.3), hit(3, 0.31)]
    found = Found(hits, [0, 1, 2], ["a", "b", "c"])
    apart = ranked(found, order([1, 2, 9], [1, 1, 2]), "what?")
    assert [h.chunk_id for h in apart] == [hits[0].chunk_id, hits[1].chunk_id, hits[2].chunk_id]
    assert [h.score for h in apart] == [0.9, 0.31, 0.3]
    assert apart[1].scores == {
        "a": 0.3, "own": 0.3, "beside": round(BESIDE * 0.9, 6),
        "sitting": round(SITTING * 0.9, 6),
    }  # fmt: skip


def test_a_question_that_names_a_speaker_finds_what_that_one_said():
    texts = ["[8 May 2023, 13:56] Gina: I lost my job.", "[8 May 2023, 13:57] Jon: So did I."]
    hits = [hit(1, 0.5), hit(2, 0.45)]
    best, other = ranked(Found(hits, [0, 1], texts), order([1, 9]), "What did Jon lose?")
    assert best.chunk_id == hits[1].chunk_id
    assert best.scores["speaker"] == SPEAKER
    assert "speaker" not in other.scores


def test_names_are_those_before_the_lines_and_roles_are_none():
    assert speakers_in("[5 October 2026, 14:07] Maria Lopez: hi\nassistant: note: x") == {
        "maria",
        "lopez",
    }
    assert speakers_in("user: Jon: said\n[1 May 2026, 10:00] assistant: yes") == set()
    assert speakers_in("no speaker here") == set()


SCORES = st.lists(st.integers(-3, 40).map(lambda n: n / 40), min_size=1, max_size=12)


@given(SCORES, st.randoms(use_true_random=False))
def test_places_keep_their_scores_and_the_order_given_does_not_count(scores, random):
    hits = [hit(n, score) for n, score in enumerate(scores)]
    rows, texts = list(range(len(hits))), [f"{'Jon' if n % 3 else 'Gina'}: x" for n in range(12)]
    where = order([n // 2 for n in rows], [n // 5 for n in rows])
    found = ranked(Found(hits, rows, texts[: len(hits)]), where, "Jon?")
    assert [h.score for h in found] == sorted(scores, reverse=True)
    assert {h.chunk_id: h.scores["own"] for h in found} == {h.chunk_id: h.score for h in hits}
    random.shuffle(rows)
    mixed = Found([hits[n] for n in rows], rows, [texts[n] for n in rows])
    assert ranked(mixed, where, "Jon?") == found
