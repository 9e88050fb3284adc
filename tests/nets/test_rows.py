"""How a passage and a question are read: quotes, constraints, what is asked, intent, verdict."""

from collections import Counter

import pytest

from tests.nets import rows


@pytest.fixture(scope="module")
def recorded():
    return rows.recorded()


def test_every_row_is_read_as_recorded(recorded):
    different = [
        f"{was['language']} {was['question']!r}: {part} was {was['read'][part]}, is {is_}"
        for was, now in zip(recorded, rows.made_now(), strict=True)
        for part, is_ in now["read"].items()
        if was["read"].get(part) != is_
    ]
    assert not different, "\n".join(different[:20])


def test_the_rows_reach_every_answer_in_five_languages(recorded):
    assert len(recorded) == 300
    assert Counter(row["language"] for row in recorded).keys() == {"en", "de", "fr", "es", "zh"}
    said = Counter(word for row in recorded for word in row["read"]["verdict"])
    assert min(said[word] for word in ("answered", "perhaps", "not found")) > 20, said
    for part in ("quotes", "constraints", "facts"):
        full = sum(bool(row["read"][part]) for row in recorded)
        assert 30 < full < 300, part
    assert len({row["read"]["intent"] for row in recorded}) > 5
