"""Sentences that a citation was taken out of (R-207, R-208)."""

import pytest

from ragstream_core.answers.stream_buffer import CitationBuffer, clean_citation_tags

M = "[source: guide/locks.md, chunk: 1a2b3c4d]"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("According to @, it is so.", "According to the document, it is so."),
        ("according to @ it is so.", "according to the document it is so."),
        ("Based on @, @ and @, it is so.", "Based on the document, it is so."),
        ("As described in @.", "As described in the document."),
        ("In @, the lock is on.", "In the document, the lock is on."),
        ("It is so. See @ for more.", "It is so. See the document for more."),
        ("@ says that it is so.", "The document says that it is so."),
        ("It is so. @ also states it.", "It is so. The document also states it."),
        ("As @ notes, it is so.", "As the document notes, it is so."),
        ("It is so, but @ requires more.", "It is so, but the document requires more."),
        ("It is on as @ it says.", "It is on as it says."),
        ("Laut @ ist der Port 8503.", "Laut dem Dokument ist der Port 8503."),
        ("Es steht in @.", "Es steht in dem Dokument."),
        ("Es gilt. @ beschreibt mehr.", "Es gilt. Das Dokument beschreibt mehr."),
        ("Selon @, le port est 8503.", "Selon le document, le port est 8503."),
        ("Según @, el puerto es 8503.", "Según el documento, el puerto es 8503."),
        ("It is so @.", "It is so."),
        ("It is so. @", "It is so."),
        ("It is so.@ It goes on.", "It is so. It goes on."),
        ("It is so @ and goes on.", "It is so and goes on."),
        ("It is so (@).", "It is so."),
        ("It is so (see @).", "It is so."),
        ("It is so (as in @; @).", "It is so."),
        ("It is so (sources: @, @).", "It is so."),
        ("It is so `@`, **@**.", "It is so."),
        ("It is so [@].", "It is so."),
        ("It is so, @, and more.", "It is so, and more."),
        ("It is so. @.", "It is so."),
        ("word@word", "word word"),
        ("@: It is so.", "It is so."),
        ("Sources:\n- @\n- @\n", "Sources:\n"),
        ("One.\n@\nTwo.", "One.\nTwo."),
        ("It turns on @", "It turns on"),
        ("What it stands for @ is clear.", "What it stands for is clear."),
        ("    code @\n    more", "    code\n    more"),
        ("A list[0] and a [link](x) stay.", "A list[0] and a [link](x) stay."),
        ("A shift x << 2 >> 1 stays.", "A shift x << 2 >> 1 stays."),
    ],
)
def test_fixture_table(written, read):
    text = written.replace("@", M)
    assert clean_citation_tags(text) == read
    buffer = CitationBuffer()
    assert "".join([*(buffer.feed(letter) for letter in text), buffer.close()]) == read


def test_text_comes_out_before_the_answer_is_whole():
    buffer = CitationBuffer()
    assert buffer.feed("The lock restricts a prompt to the files that you inject, " * 2)


def test_a_marker_that_never_ends_is_shown_broken_and_dropped_where_the_answer_was_cut():
    buffer = CitationBuffer()
    assert buffer.feed("On [source: a.md, chunk: 1a") + buffer.close() == (
        "On [·source: a.md, chunk: 1a"
    )
    buffer = CitationBuffer()
    assert buffer.feed("On [source: a.md, chunk: 1a") + buffer.close(cut=True) == "On "


def test_a_bare_id_is_a_marker_only_where_the_prompt_issued_it():
    text = "Commit [deadbeef] is on [1a2b3c4d]."
    assert clean_citation_tags(text, {"1a2b3c4d"}) == "Commit [deadbeef] is on."
    assert clean_citation_tags(text) == text
