"""The passage behind a citation: the lines of the file, or the pieces that the index holds."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.index.view import open_view
from ragstream_core.prompts.traced import Cited, TracedChunk, TracedFile, TracedGeneration
from ragstream_core.records.identity import chunk_id, parse_chunk_id, sha256_hex
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.passages import AROUND, WIDE, Line, as_text, passage
from ragstream_core.services.trace import citable, trace
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.workspace import open_workspace

QUESTION = "How does the exact file lock restrict a prompt?"


@pytest.fixture
def asked(indexed, run):
    """A workspace, a prompt's key, and the documents' chunks that it may cite."""
    key = json.loads(run("prompt", QUESTION, "-p", "manual", "--json")[1])["prompt_key"]
    workspace = open_workspace()
    return workspace, key, citable(KeptPrompt.of(workspace, key))


def test_the_cited_lines_hold_the_chunk_and_have_the_file_s_numbers(asked, indexed):
    workspace, key, ids = asked
    assert len(ids) >= 3
    for identifier in ids:
        path = parse_chunk_id(identifier)[0]
        rows = (indexed / "doc_raw" / "manual" / path).read_text().split("\n")
        found = passage(workspace, trace(workspace, identifier, key))
        (chunk,) = open_view(workspace.index_dir("manual")).chunks([identifier])
        assert all(rows[line.number - 1] == line.text for line in found)
        assert chunk.snippet in "\n".join(line.text for line in found if line.cited)
        assert sum(not line.cited for line in found) <= 2 * AROUND


def test_a_file_that_changed_shows_what_the_index_holds(asked, indexed):
    workspace, key, ids = asked
    identifier = next(i for i in ids if i.startswith("guide/locks.md::"))
    (indexed / "doc_raw" / "manual" / "guide" / "locks.md").write_text("other")
    found = passage(workspace, trace(workspace, identifier, key))
    (chunk,) = open_view(workspace.index_dir("manual")).chunks([identifier])
    assert "\n".join(line.text for line in found if line.cited) == chunk.snippet
    assert {line.number for line in found} == {0}


def test_a_file_that_changes_after_it_was_looked_at_is_not_shown_for_the_cited_one(asked, indexed):
    workspace, key, ids = asked
    found = trace(workspace, next(i for i in ids if i.startswith("guide/locks.md::")), key)
    path = indexed / "doc_raw" / "manual" / "guide" / "locks.md"
    path.write_text(path.read_text().upper())
    assert {line.number for line in passage(workspace, found)} == {0}


def test_a_span_that_ends_with_its_line_does_not_reach_into_the_next_one(asked, indexed):
    workspace, key, ids = asked
    found = trace(workspace, next(i for i in ids if i.startswith("guide/locks.md::")), key)
    first = (indexed / "doc_raw" / "manual" / "guide" / "locks.md").read_text().index("\n") + 1
    lines = passage(workspace, replace(found, span=(0, first)))
    assert [line.number for line in lines if line.cited] == [1]


def test_the_pieces_before_and_after_stand_around_the_cited_one(indexed):
    workspace = open_workspace()
    text = "\n\n".join(f"# Part {n}\n\n" + f"Sentence {n} of it. " * 60 for n in range(8))
    (indexed / "doc_raw" / "manual" / "long.md").write_text(text)
    number = ingest_project(workspace, "manual").generation
    digest = sha256_hex(text.encode())
    ids = [chunk_id("long.md", digest, n) for n in range(3)]
    pieces = [
        chunk.snippet
        for chunk in open_view(workspace.index_dir("manual"), generation=number).chunks(ids)
    ]
    found = TracedChunk(
        "", "", ids[0], True, "chunk", "long.md", "changed", "manual", "long.md", digest,
        chunk_idx=0, indexed="current", span=(0, 1),
        generation=TracedGeneration(number, "", kept=True),
    )  # fmt: skip
    for at, around in ((0, pieces[:2]), (1, pieces)):
        lines = passage(workspace, replace(found, chunk_idx=at))
        assert "\n".join(line.text for line in lines) == "\n".join(around)
        assert "\n".join(line.text for line in lines if line.cited) == pieces[at]


def test_what_is_no_piece_of_a_document_has_no_passage(asked):
    cited = Cited("", "", "files/a.yaml@0", issued=True)
    file = TracedFile(*cited, "file", "a.yaml", "current", "manual", "a.yaml", "0")
    assert passage(asked[0], file) == []


def test_a_generation_that_is_gone_leaves_nothing(asked, indexed):
    workspace, key, ids = asked
    found = trace(workspace, ids[0], key)
    gone = replace(found, now="changed", generation=replace(found.generation, kept=False))
    assert passage(workspace, gone) == []


@given(st.lists(st.tuples(st.text(st.characters(exclude_characters="\n")), st.booleans())))
def test_each_line_stands_on_a_line_of_its_own_and_cited_ones_are_whole(rows):
    lines = [Line(n, text, cited) for n, (text, cited) in enumerate(rows, start=1)]
    shown = as_text(lines).split("\n")
    assert len(shown) == max(1, len(lines))
    for line, text in zip(lines, shown, strict=False):
        assert text.startswith(">") == line.cited
        assert str(line.number) in text.split()[:2]
        if line.cited:
            assert text.endswith(line.text.rstrip())
        else:
            assert len(text) <= WIDE + len(str(len(lines))) + 4
