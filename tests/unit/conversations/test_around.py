"""Turns are ranked by what stands around them; what is no turn keeps its place."""

import datetime as dt
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.around import (
    BESIDE,
    DAY,
    ENOUGH,
    PAUSE_NS,
    SHARED,
    SITTING,
    SPEAKER,
    Asked,
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
    apart = ranked(found, order([1, 2, 9], [1, 1, 2]), Asked("what?"))
    assert [h.chunk_id for h in apart] == [hits[0].chunk_id, hits[1].chunk_id, hits[2].chunk_id]
    assert [h.score for h in apart] == [0.9, 0.31, 0.3]
    assert apart[1].scores == {
        "a": 0.3, "own": 0.3, "beside": round(BESIDE * 0.9, 6),
        "sitting": round(SITTING * 0.9, 6),
    }  # fmt: skip


@pytest.mark.parametrize("question", ["What did Jon lose?", "Jon's job?", "Was it Jon’s job?"])
def test_a_question_that_names_a_speaker_finds_what_that_one_said(question):
    texts = ["[8 May 2023, 13:56] Gina: I lost my job.", "[8 May 2023, 13:57] Jon: So did I."]
    hits = [hit(1, 0.5), hit(2, 0.45)]
    best, other = ranked(Found(hits, [0, 1], texts), order([1, 9]), Asked(question))
    assert best.chunk_id == hits[1].chunk_id
    assert best.scores["speaker"] == SPEAKER
    assert "speaker" not in other.scores


TURNS = [
    "[8 May 2023, 13:56] Gina: Last Friday I lost my job.",
    "[8 May 2023, 14:10] Jon: So did I, three weeks ago.",
    "[5 May 2023, 10:00] Gina: hello",
    "Gina: I lost it yesterday, on 5 May 2023",
    "Gina: yesterday",
    "[1 June 2023, 10:00] Gina: It has been my plan since 2021.",
]


def with_days(question, today=None):
    hits = [hit(n, 0.5) for n in range(len(TURNS))]
    where = order([10 * n for n in range(len(TURNS))], list(range(len(TURNS))))
    asked = Asked(question, lambda: today) if today else Asked(question)
    found = ranked(Found(hits, range(len(TURNS)), TURNS), where, asked)
    assert {h.scores["day"] for h in found if "day" in h.scores} <= {DAY}
    return {int(h.chunk_id[-4]) for h in found if "day" in h.scores}


def test_a_day_that_the_question_names_finds_the_turns_of_it_and_those_that_name_it():
    assert with_days("What happened on 5 May, 2023?") == {0, 2, 3}
    assert with_days("What happened in April 2023?") == {1}
    assert with_days("What happened?") == set()


def test_a_turn_that_names_a_day_without_its_year_means_the_nearest_one():
    texts = [
        "[1 April 2026, 10:00] Gina: The party is on 5 May.",
        "[2 April 2026] Jon: Hier ist es",
    ]
    found = Found([hit(1, 0.5), hit(2, 0.5)], [0, 1], texts)

    def lifted(question):
        hits = ranked(found, order([1, 9], [1, 2]), Asked(question, lambda: dt.date(2026, 4, 9)))
        return [int(h.chunk_id[-4]) for h in hits if "day" in h.scores]

    assert lifted("What happens on 5 May 2026?") == lifted("What was said on 1 April?")
    assert lifted("What happens on 5 May 2025?") == lifted("What was on 5 May?") == []
    assert len(lifted("What happens on 5 May 2026?")) == 1


def test_a_day_can_be_counted_from_that_of_the_question():
    assert with_days("What happened last Friday?", dt.date(2023, 5, 9)) == {0, 2, 3}
    assert with_days("What happened last Friday?") == set()


def test_what_lasts_longer_than_a_month_counts_only_for_a_question_about_as_long_a_time():
    assert 5 not in with_days("What was the plan in March 2021?")
    assert 5 in with_days("What was the plan in 2021?")


def test_the_day_of_the_question_is_asked_for_only_if_it_counts():
    def never():
        raise AssertionError

    where = order([1])
    for question in ("What happened on 5 May, 2023?", "What happened?"):
        assert ranked(Found([hit(1, 0.5)], [0], TURNS[:1]), where, Asked(question, never))


def test_rare_words_in_common_with_a_best_turn_lift_one_that_shares_no_word_with_the_question():
    texts = [
        "[8 May 2023, 13:56] Gina: My job was at Contoso, the bakery.",
        "[8 July 2023, 13:56] Gina: Contoso closed its doors.",
        "[9 July 2023, 13:56] Gina: The doors are green, a good job.",
    ]
    hits = [hit(1, 0.9), hit(2, 0.1), hit(3, 0.11)]
    rarity = {"contoso": 6.0, "door": 2.9, "job": 9.0}
    found = Found(hits, [0, 1, 2], texts)
    where = order([1, 20, 30], [1, 2, 3])
    best, second, third = ranked(
        found, where, Asked("Where is the job?", rarity=lambda term: rarity.get(term, 0.0))
    )
    assert [h.chunk_id for h in (best, second, third)] == [h.chunk_id for h in hits]
    assert second.scores["shared"] == best.scores["shared"] == round(SHARED * 6.0 / ENOUGH, 6)
    assert "shared" not in third.scores  # "job" is the question's, "doors" is not rare


def test_pieces_of_one_turn_have_nothing_in_common():
    texts = ["Gina: Contoso here", "Gina: Contoso there"]
    asked = Asked("What?", rarity=lambda term: 9.0)
    for places, shared in (([4, 4], 0), ([4, 6], 2)):
        found = ranked(Found([hit(1, 0.5), hit(2, 0.4)], [0, 1], texts), order(places), asked)
        assert sum("shared" in h.scores for h in found) == shared


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
    rows = list(range(len(hits)))
    texts = [f"{'Jon' if n % 3 else 'Gina'}: word{n % 4} word{n % 5}" for n in range(12)]
    where = order([n // 2 for n in rows], [n // 5 for n in rows])
    asked = Asked("Jon?", rarity=lambda term: 5.0)
    found = ranked(Found(hits, rows, texts[: len(hits)]), where, asked)
    assert [h.score for h in found] == sorted(scores, reverse=True)
    assert {h.chunk_id: h.scores["own"] for h in found} == {h.chunk_id: h.score for h in hits}
    random.shuffle(rows)
    mixed = Found([hits[n] for n in rows], rows, [texts[n] for n in rows])
    assert ranked(mixed, where, asked) == found
