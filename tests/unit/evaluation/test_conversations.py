"""Conversation sets: asked through the history's own path, each against its own conversation."""

import pytest

from ragstream_core.errors import UsageError
from ragstream_core.evaluation.conversations import (
    METRICS,
    NO_TIME,
    is_conversations,
    questions_of,
    timestamp_of,
    turns_of,
)


def turn(conv, number, text, speaker="Ann"):
    meta = {"conv": conv, "turn": number, "speaker": speaker,
            "date": f"4:0{number} pm on 20 January, 2023"}  # fmt: skip
    return {"id": f"{conv}:{number}", "text": text, "meta": meta}


CORPUS = [
    turn("b", 1, "My new bicycle is green.", "Bob"),
    turn("a", 2, "It was the old harbour in Lisbon."),
    turn("a", 0, "The weather is fine."),
    turn("a", 1, "Where did we eat the sardines?", "Cleo"),
    turn("b", 0, "Which harbour has sardines? None here.", "Dan"),
    turn("b", 2, "", "Bob"),
]
QUERIES = [
    {"id": "q1", "text": "which harbour had the sardines", "meta": {"conv": "a", "category": 4}},
    {"id": "q2", "text": "what colour is the bicycle", "meta": {"conv": "b", "category": 1}},
    {"id": "q3", "text": "who is a liar", "meta": {"conv": "b", "category": 5}},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\ta:2\t1\nq2\tb:1\t1\nq3\tb:0\t1\n"


def test_each_question_finds_its_evidence_in_its_own_conversation(tmp_path, evaluated):
    result = evaluated()
    assert result.queries == 2 and set(result.by_kind) == {"category 1", "category 4"}
    assert set(result.run) == {"q1", "q2"}
    assert set(result.run["q1"]) == {"a:0", "a:1", "a:2"}
    assert set(result.run["q2"]) == {"b:0", "b:1"}
    assert result.run["q2"][0] == "b:1"
    assert tuple(result.metrics) == METRICS and result.metrics["R@10"] == 1.0
    assert not (tmp_path / "data" / "history").exists()  # nobody's own conversations are touched
    (models,) = (tmp_path / "data" / "evaluation").glob("*/models")
    assert models.is_symlink() and models.is_dir()  # a first call can put models there


def test_a_second_call_embeds_nothing_and_gives_the_same(tmp_path, evaluated):
    first = evaluated()
    (root,) = (tmp_path / "data" / "evaluation").glob("conversations-*")
    kept = {p: p.stat().st_mtime_ns for p in root.rglob("*.f32")}
    kept |= {p: p.stat().st_mtime_ns for p in root.rglob("conversation.log")}
    assert len(kept) == 2
    second = evaluated()
    assert (first.run, first.metrics, first.fingerprint) == (
        second.run, second.metrics, second.fingerprint,
    )  # fmt: skip
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())


def test_settings_count_and_are_named(evaluated):
    plain = evaluated()
    lexical = evaluated(**{"retrieval.dense_weight": "0"})
    assert lexical.fingerprint != plain.fingerprint
    off = evaluated(**{"history.persist": "false", "history.enabled": "false"})
    assert off.run == plain.run


def test_a_call_that_was_killed_goes_on_where_it_was(tmp_path, evaluated):
    whole = evaluated()
    (root,) = (tmp_path / "data" / "evaluation").glob("conversations-*")
    log = root / "history" / "logs" / "conversation.log"
    lines = log.read_bytes().splitlines(keepends=True)
    for path in sorted(root.glob("history/*/*"), reverse=True):
        if path.is_file():
            path.unlink()
    log.write_bytes(b"".join(lines[:2]))
    again = evaluated()
    assert again.run == whole.run
    assert len(log.read_bytes().splitlines()) == len(lines) == 5


def test_turns_come_in_order_with_speaker_and_time():
    made = turns_of(CORPUS)
    assert [t.id for t in made] == ["a:0", "a:1", "a:2", "b:0", "b:1"]
    assert made[1].speakers[0] == "Cleo" and made[1].timestamp == "2023-01-20T16:01:00+00:00"
    assert len({t.session_id for t in made}) == 2


@pytest.mark.parametrize(
    ("date", "stamp"),
    [
        ("2023-05-08T13:56:00+02:00", "2023-05-08T13:56:00+02:00"),
        ("2023-05-08", "2023-05-08T00:00:00+00:00"),
        ("12:05 am on 3 July, 2023", "2023-07-03T00:05:00+00:00"),
        ("2023/05/20 (Sat) 02:21", "2023-05-20T02:21:00+00:00"),
        ("last week", NO_TIME),
        ("", NO_TIME),
    ],
)
def test_dates_of_several_forms_are_read(date, stamp):
    assert timestamp_of(date) == stamp


def test_only_rows_with_conversation_and_turn_are_conversations():
    assert is_conversations(CORPUS)
    assert not is_conversations([])
    assert not is_conversations([*CORPUS, {"id": "d", "text": "a document"}])
    assert not is_conversations([{"id": "d", "text": "x", "meta": {"conv": "a"}}])


def test_a_question_is_asked_at_the_time_of_its_conversations_last_turn():
    undated = {"id": "c:0", "text": "x", "meta": {"conv": "c", "turn": 0}}
    asked = {"id": "q", "text": "x", "meta": {"conv": "c"}}
    found = questions_of([*QUERIES, asked], [*CORPUS, undated])
    assert [q["meta"]["now"] for q in found] == [
        "2023-01-20T16:02:00+00:00",
        "2023-01-20T16:02:00+00:00",
        NO_TIME,
    ]


def test_the_last_turn_is_that_of_the_greatest_number_whatever_its_zone_or_century():
    dates = ["2023-05-08T01:00:00+09:00", "2023-05-07T23:00:00+00:00", "someday"]
    rows = [turn("a", number, "x") for number in range(3)]
    for row, date in zip(rows, dates, strict=True):
        row["meta"]["date"] = date
    old = turn("b", 0, "x")
    old["meta"]["date"] = "1969-07-20"
    found = questions_of(QUERIES[:2], [*reversed(rows), old])
    assert [q["meta"]["now"] for q in found] == [dates[1], "1969-07-20T00:00:00+00:00"]


def test_what_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="names no conversation"):
        questions_of([{"id": "q", "text": "x", "meta": {"conv": "z"}}], CORPUS)
    with pytest.raises(UsageError, match=r"meta\.turn"):
        turns_of([turn("a", 0, "x"), {"id": "y", "text": "y", "meta": {"conv": "a", "turn": "?"}}])
