"""Citations of an answer: only what the prompt issued, showed and really says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.answers.citations import (
    NO_ID,
    NOT_ISSUED,
    NOT_QUOTED,
    OTHER_SOURCE,
    Citation,
    Issued,
    citations_of,
    journal_rows,
    numbered,
    spans_of,
    words_of,
)
from ragstream_core.answers.stream_buffer import clean_citation_tags
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.fences import Source, frame, safe_name

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
        f"[source: {safe_name(LOCKS.source)}#{LOCKS.id} | score: 0.800]",
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


def test_the_words_of_a_citation_are_its_quotes_else_the_sentences_before_it():
    answer = f"It is so. They say “restricts a prompt” {MARKER} [0badcafe]. One.\nTwo {MARKER}."
    found = words_of(answer, ISSUED)
    assert found["0badcafe"] == ("restricts a prompt",)
    assert {"One.", "Two "} <= set(found["1a2b3c4d"])


@pytest.mark.parametrize(
    ("wanted", "marked"),
    [
        ("exact file lock", ["Exact File Lock"]),
        ("restricts a prompt to THE files", ["restricts a prompt\nto the files"]),
        ("one lock restricts a prompt to those", ["Lock** restricts a prompt\nto"]),
        ("two words", []),
        ("to the", []),
        ("", []),
    ],
)
def test_words_are_found_but_for_markup_case_and_gaps(wanted, marked):
    text = TEXT[:66]
    assert [text[a:b] for a, b in spans_of(text, [wanted])] == marked


def test_overlapping_words_are_one_span():
    text = "One two three four five six seven."
    assert spans_of(text, ["two three four five", "four five six seven"]) == [(4, 33)]


@given(st.text(max_size=80), st.lists(st.text(max_size=40), max_size=3))
def test_spans_lie_in_the_text_in_order_and_apart(text, wanted):
    found = spans_of(text, wanted)
    ends = [0, *(place for span in found for place in span)]
    assert ends == sorted(ends) and ends[-1] <= len(text)
    assert all(a < b for a, b in found)


@given(st.lists(st.from_regex(r"\w{1,8}", fullmatch=True), min_size=3, max_size=30), st.data())
def test_words_of_a_text_are_always_found_in_it(words, data):
    start = data.draw(st.integers(0, len(words) - 3))
    end = data.draw(st.integers(start + 3, len(words)))
    text = " ".join(words)
    (span,) = spans_of(text, [" ".join(words[start:end])])
    assert text[slice(*span)].split() == words[start:end]


def test_a_quote_may_not_run_over_what_a_window_leaves_out():
    text = "[…]\nThe pump moves water.\n[…]\nThe roof leaks in May.\n[…]"
    issued = {"1a2b3c4d": Issued("1a2b3c4d", "a.md", "a.md::ab::0", text)}
    for said, verified in {
        "the pump moves water": True,
        "the roof leaks in May": True,
        "the pump moves water. The roof leaks in May": False,
        "the pump moves water … The roof leaks in May": True,
    }.items():
        (found,) = citations_of(f"“{said}” {answer_marker('a.md', '1a2b3c4d')}", issued)
        assert (found.verified, found.reason) == (verified, "" if verified else NOT_QUOTED)


def test_the_numbers_of_citations_stand_where_their_markers_stood():
    answer = (
        f"The lock restricts a prompt {MARKER}. Short it is {MARKER}[0badcafe] twice. "
        "Made up [source: x.md, chunk: deadbeef].\n\nAccording to [0badcafe], it is so.\n"
    )
    cited = citations_of(answer, ISSUED)
    assert numbered(answer, ISSUED, cited) == (
        "The lock restricts a prompt¹. Short it is¹\N{THIN SPACE}² twice. "
        "Made up⚠³.\n\nAccording to the document², it is so.\n"
    )
    kept = [Citation(one.id, one.source, known=one.known, verified=one.known) for one in cited]
    assert numbered(answer, ISSUED, kept) == numbered(answer, ISSUED, cited)


PIECES = st.sampled_from(
    [MARKER, "[0badcafe]", "[source: x.md, chunk: deadbeef]", "[source: broken", "According to ",
     "It says ", ". ", ", ", "\n", "\n\n- ", "words", " and ", "(", ")", "`", "**", "<<DOC 1 ", " "]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14))
def test_but_for_its_numbers_a_numbered_answer_is_the_clean_one(pieces):
    answer = "".join(pieces)
    cited = citations_of(answer, ISSUED)
    found = numbered(answer, ISSUED, cited)
    bare = "".join(c for c in found if c not in "⚠⁰¹²³⁴⁵⁶⁷⁸⁹\N{THIN SPACE}")
    assert bare == clean_citation_tags(answer, ISSUED)
    assert all("⁰¹²³⁴⁵⁶⁷⁸⁹"[place] in found for place in range(1, len(cited) + 1))
