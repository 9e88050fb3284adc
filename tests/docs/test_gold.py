"""The demo's gold questions: each can be answered by a page, and no page gives them away."""

import shutil
from pathlib import Path

import pytest

from ragstream_core.evaluation.prompt_quality import first_answer, plain
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.quality_gate import read_gold
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.quality_gate import gold_path
from ragstream_core.wiring.workspace import open_workspace

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def chunks(tmp_path_factory):
    """Return (path, text) of every chunk of the demo."""
    data = tmp_path_factory.mktemp("gold")
    shutil.copytree(DATA / "doc_raw" / "handbook", data / "doc_raw" / "handbook")
    space = open_workspace(data, explicit={"embeddings.backend": "hashed"})
    ingest_project(space, "handbook")
    view = open_view(space.index_dir("handbook"))
    return [(chunk.source, chunk.snippet) for chunk in view.chunks(view.chunk_ids)]


@pytest.fixture(scope="module")
def questions():
    """Return the gold questions that the demo ships."""
    return read_gold(gold_path(open_workspace(DATA), "handbook"))


def test_there_is_a_chunk_for_everything_that_is_expected(chunks, questions):
    assert len(questions) >= 24
    missed = [q.question for q in questions if not all(q.ranks(chunks))]
    assert missed == []


def test_no_page_asks_a_gold_question(chunks, questions):
    """The messages are asked as they are printed; these must stand in the handbook."""
    text = " ".join(" ".join(text.split()) for _, text in chunks).casefold()
    asked = [q.question for q in questions if q.question.endswith(("?", "."))]
    assert len(asked) >= 22
    assert [each for each in asked if each.casefold() in text] == []


@pytest.mark.parametrize("name", ["handbook", "source_code", "manual"])
def test_labels_by_hand_still_stand_in_what_they_are_about(name):
    """One in ten may grow old before the labels have to be looked at again."""
    from pydoc_data.topics import topics

    root = DATA.parent
    folder = {
        "handbook": DATA / "doc_raw" / "handbook",
        "source_code": root / "ragstream_core",
        "manual": None,
    }[name]
    asked = read_gold(root / "tests" / "benchmarks" / "gold" / f"{name}.jsonl")
    labelled = [q for q in asked if not q.unanswerable]
    assert len(labelled) >= 40 and len(asked) - len(labelled) >= 10
    whole = plain(" ".join(topics.values()))
    old = []
    for question in labelled:
        said = whole
        if folder is not None:
            path = folder / question.files[0]
            said = plain(path.read_text(encoding="utf-8")) if path.is_file() else ""
        if first_answer(question, said) < 0:
            old.append(question.question)
    assert len(old) <= len(labelled) // 10, old
