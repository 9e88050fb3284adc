"""Citations of an answer: only what the prompt issued, showed and really says."""

import pytest

from ragstream_core.answers.citations import (
    NO_ID,
    NOT_ISSUED,
    NOT_QUOTED,
    OTHER_SOURCE,
    Issued,
    citations_of,
    journal_rows,
)
from ragstream_core.prompts.citations import answer_marker, context_header
from ragstream_core.prompts.fences import Source, frame

TEXT = "The **Exact File Lock** restricts a prompt\nto the files you inject. " * 5
LOCKS = Issued("1a2b3c4d", "guide/file locks.md", "guide/file locks.md::ab::0", TEXT, 7)
ISSUED = {LOCKS.id: LOCKS, "0badcafe": Issued("0badcafe", "b.md", "b.md::cd::3", "Short.")}
MARKER = answer_marker(LOCKS.source, LOCKS.id)


def only(answer):
    (found,) = citations_of(answer, ISSUED)
    return found


def test_a_citation_says_source_locator_snippet_and_page():
    found = only(f"The lock restricts a prompt {MARKER}.")
    assert (found.source, found.locator, found.page_number) == (LOCKS.source, LOCKS.locator, 7)
    assert found.snippet == TEXT[:200] and len(found.snippet) == 200
    assert found.verified and found.known and not found.reason


@pytest.mark.parametrize(
    "written",
    [
        MARKER,
        "[source: file locks.md, chunk: 1a2b3c4d]",
        "[source: guide/file locks.md, chunk: 1A2B3C4D]",
        "[Source : File Locks.md , Chunk: 1a2b3c4d]",
        "[source: `file locks.md`, chunk: 1a2b3c4d]",
        context_header(LOCKS.source, LOCKS.id, 0.8),
        frame(1, "0" * 12, source=Source(LOCKS.id, LOCKS.source, (0, 1), "ab"), text="x")[0],
        "[1a2b3c4d]",
        "[chunk: 1a2b3c4d]",
    ],
)
def test_every_way_of_writing_it_is_understood(written):
    found = only(f"It is so {written}.")
    assert (found.id, found.source, found.verified) == ("1a2b3c4d", LOCKS.source, True)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("[source: file locks.md, chunk: deadbeef]", NOT_ISSUED),
        ("[source: file locks.md, chunk: 1a2b3c4]", NOT_ISSUED),
        ("[source: somewhere]", NO_ID),
        ("[source: other.md, chunk: 1a2b3c4d]", OTHER_SOURCE),
        ("[source: locks.md, chunk: 1a2b3c4d]", OTHER_SOURCE),
    ],
)
def test_what_does_not_hold_is_listed_as_unverified(written, reason):
    found = only(f"It is so {written}.")
    assert not found.verified and found.reason == reason
    if reason != OTHER_SOURCE:
        assert not found.known and not found.locator and not found.snippet


@pytest.mark.parametrize(
    ("said", "verified"),
    [
        ('It "restricts a prompt to the files you inject"', True),
        ("It “restricts a prompt … the files you inject”", True),
        ("The «exact file lock» restricts", True),
        ('The "lock" is said to be "on"', True),
        ('It "restricts a prompt to all files at once"', False),
        ('It "deletes every prompt at night"', False),
    ],
)
def test_quoted_words_must_stand_in_what_is_cited(said, verified):
    found = only(f"Before that something else. {said} {MARKER}.")
    assert found.verified is verified
    assert found.reason == ("" if verified else NOT_QUOTED)


def test_quotes_belong_to_the_next_row_of_markers_only():
    made_up = 'It "never was written like this" '
    first, second = citations_of(f"{made_up}{MARKER}. So it is [0badcafe].", ISSUED)
    assert (first.verified, second.verified) == (False, True)
    row = citations_of(f"{made_up}{MARKER}, [0badcafe].", ISSUED)
    assert [c.verified for c in row] == [False, False]


def test_several_ids_in_one_marker_and_the_same_one_twice():
    both = "[source: file locks.md, chunk: 1a2b3c4d; source: b.md, chunk: 0badcafe]"
    found = citations_of(f"So {both}. And again {MARKER}.", ISSUED)
    assert [(c.id, c.verified) for c in found] == [("1a2b3c4d", True), ("0badcafe", True)]
    assert journal_rows(found)[0] == {"id": "1a2b3c4d", "source": LOCKS.source, "known": True}


def test_nothing_is_cited_where_nothing_was_issued():
    assert citations_of("Commit [1a2b3c4d] of list[0].", {}) == []
    (found,) = citations_of(f"It is so {MARKER}.", {})
    assert not found.known and not found.verified
