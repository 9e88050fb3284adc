"""Gold questions: a page answers each of the demo's, and labels by hand are as their documents."""

import functools
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ragstream_core.evaluation.prompt_quality import first_answer, plain
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.quality_gate import read_gold
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.quality_gate import gold_path
from ragstream_core.wiring.workspace import open_workspace
from tests.benchmarks.prompt_sets import PACKAGES, TOPICS

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


LABELLED = {"handbook": 70, "source_code": 58, "manual": 63}
WIDEST = 6


def labels(name):
    """Return the questions of a set that was labelled by hand."""
    return read_gold(DATA.parent / "tests" / "benchmarks" / "gold" / f"{name}.jsonl")


@functools.cache
def documents(name):
    """Return the texts that a set is about, a line each, as answers are looked for in them."""
    if name == "manual":
        from pydoc_data.topics import topics

        return "\n".join(plain(topics[topic]) for topic in TOPICS)
    folders = [DATA / "doc_raw" / "handbook"]
    if name == "source_code":
        folders = [DATA.parent / "ragstream_core" / package for package in PACKAGES]
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    kept = [p for p in paths if p.suffix not in (".yaml", ".pyc")]
    return "\n".join(plain(path.read_text(encoding="utf-8")) for path in kept)


def forms_of(question):
    """Return the question once for each form of its answer."""
    alone = replace(question, answers=(), patterns=())
    return [replace(alone, answers=(said,)) for said in question.answers] + [
        replace(alone, patterns=(pattern,)) for pattern in question.patterns
    ]


def outdated(questions, whole):
    """Return what is labelled and stands nowhere: forms of answers, and passages."""
    old = [
        text
        for question in questions
        for form in forms_of(question)
        if first_answer(form, whole) < 0
        for text in (*form.answers, *form.patterns)
    ]
    return old + [p for q in questions for p in q.passages if plain(p) not in whole]


@pytest.mark.parametrize("name", LABELLED)
def test_labels_by_hand_still_stand_in_what_they_are_about(name):
    """No value may have changed; of other words one label in ten may grow old before a new look."""
    asked = labels(name)
    labelled = [q for q in asked if not q.unanswerable]
    assert len(asked) == LABELLED[name] and len(asked) - len(labelled) >= 10
    old = outdated(labelled, documents(name))
    if name != "manual":  # it comes with Python and differs by its version
        assert [text for text in old if re.search(r"\d", text)] == []
    assert len(old) <= len(labelled) // 10, old


@pytest.mark.parametrize("name", LABELLED)
def test_what_a_form_finds_is_a_labelled_passage_and_nothing_else(name):
    """A relevant passage is any that answers, and no form is so wide that it finds others."""
    texts = documents(name)
    for question in labels(name):
        for passage in question.passages:
            assert first_answer(question, plain(passage)) >= 0, (question.question, passage)
        named = [plain(passage) for passage in question.passages]
        patterns = [rf"(?<!\w){re.escape(plain(a))}(?!\w)" for a in question.answers]
        for pattern in (*patterns, *question.patterns):
            found = [m.group() for m in re.finditer(pattern, texts, re.IGNORECASE)]
            assert name == "manual" or len(found) <= WIDEST, (question.question, pattern, found)
            assert all(any(n in said for n in named) for said in found), (pattern, found)


def test_a_changed_value_is_noticed():
    texts = documents("source_code")
    changed = re.sub(r"(?<=\d)(?=\D|$)", "1", texts)
    asked = [q for q in labels("source_code") if not q.unanswerable]
    values = [q for q in asked if any(re.search(r" = [\d.e_x-]+$", a) for a in q.answers)]
    assert len(values) >= 15
    for question in values:
        form = next(a for a in question.answers if re.search(r" = [\d.e_x-]+$", a))
        assert form not in outdated([question], texts)
        assert form in outdated([question], changed), form
