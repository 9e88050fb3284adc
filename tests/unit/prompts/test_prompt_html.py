"""Rich forms of results: they show all of it, and nothing in a document becomes more than text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core import RAGstream
from ragstream_core.errors import OperationFailed
from ragstream_core.platform.data_frame import data_frame
from ragstream_core.prompts.prompt_html import prompt_html
from ragstream_core.text.markup import TAGS, fold_html, pre_html, table_html, visible
from tests.app.hostile_answers import EVIL, PAYLOADS, Strict
from tests.workspaces import DOCS, QUESTION, write_docs

RICH = TAGS | {"div", "span", "b", "details", "summary"}
STYLE = re.compile(r"[a-z0-9%#.,:;()\- ]*")
EVIL_NAME = '<img src=x onerror="a">.md'


class Rich(Strict):
    """Allows what folds and what is coloured, and a style without an address."""

    def handle_starttag(self, tag, attrs):
        assert tag in RICH, tag
        for name, value in attrs:
            assert name in ("style", "title", "open") or (tag, name) == ("ol", "start"), (tag, name)
            assert name != "style" or (STYLE.fullmatch(value) and "url" not in value), value
        if tag not in ("br", "hr"):
            self.open.append(tag)


def shown(html):
    """Return the text of HTML that fetches nothing and runs nothing."""
    reader = Rich()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return "".join(reader.text)


@pytest.fixture(scope="module")
def rag(tmp_path_factory):
    root = tmp_path_factory.mktemp("rich")
    hostile = "# The catalog\n\n" + "\n\n".join(PAYLOADS).replace("\0", "")
    write_docs(root, docs={**DOCS, EVIL_NAME: hostile, "![x](http~y).md": "# Catalog\n\nWrite."})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")
        gate = {"gate.theta": 0.1, "gate.relative": 0.3}  # more than one passage stays
        made = RAGstream(root, {"embeddings.backend": "hashed", "rerank.backend": "none", **gate})
    made.ingest("demo")
    return made


@pytest.fixture(scope="module")
def prompt(rag):
    return rag.prompt(f"{QUESTION} <b>catalog</b>", "demo", files=[EVIL_NAME])


def test_a_prompt_shows_every_line_and_each_source(prompt):
    text = shown(prompt._repr_html_())
    frame = re.compile(r"<<(?:END )?DOC |## \[")
    for line in prompt.text.split("\n"):
        if not frame.match(line):
            assert visible(re.sub(r"^(\| ?|### )", "", line)) in visible(text), line
    assert EVIL_NAME in text and "catalog.md" in text and prompt.key[:12] in text
    assert f"{prompt.tokens:,} of 6,000 tokens" in text
    assert text.count("score ") == len(prompt.selection)


def test_every_section_and_every_passage_folds(prompt):
    html = prompt._repr_html_()
    frames = prompt.text.count("\n<<DOC ")
    sections = prompt.text.count("\n## [") + 1
    assert frames >= 3 and html.count("<details") == frames + sections


def test_a_warning_and_a_prompt_that_is_not_finished_are_shown(rag):
    part = rag.prompt(QUESTION, "demo", through="retrieval")
    text = shown(part._repr_html_())
    assert "after retrieval" in text and "catalog.md" in text
    assert "⚠ Look <out>" in shown(prompt_html(part.super_prompt, warnings=["Look <out>"]))


def test_search_explanation_and_answer_are_shown(rag, prompt):
    assert "catalog.md" in shown(rag.search(QUESTION, "demo")._repr_html_())
    told = shown(rag.explain(prompt.key)._repr_html_())
    assert "✓ catalog.md" in told and "similarity_gate" in told
    answer = rag.ask(QUESTION, "demo")
    assert answer.citations and answer.citations[0].source in shown(answer._repr_html_())
    assert "\n" not in repr(answer) and len(repr(answer)) < 200


def test_a_search_and_an_explanation_are_data_frames(rag, prompt):
    found = rag.search(QUESTION, "demo", k=2)
    frame = found.to_frame()
    assert list(frame.source) == [hit.source for hit in found] and len(frame) == 2
    assert frame.score.iloc[0] >= frame.score.iloc[1]
    ledger = rag.explain(prompt.key).to_frame()
    assert set(ledger[ledger.stage == "a5"].chunk_id) >= set(prompt.selection)


def test_no_result_is_a_data_frame_with_its_columns():
    assert list(data_frame([], ["a", "b"]).columns) == ["a", "b"]


def test_without_pandas_the_next_step_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(OperationFailed) as raised:
        data_frame([], ["a"])
    assert "pip install pandas" in raised.value.hint


@given(st.text() | st.sampled_from(PAYLOADS), st.text())
def test_any_text_stays_text(text, other):
    for html in (visible(text), pre_html(text), table_html((text,), [(other,)])):
        shown(html)
    assert EVIL not in re.sub(r">[^<]*<", "><", fold_html(visible(text), pre_html(other)))
    assert shown(pre_html("a\u202eb")) == "a\N{REPLACEMENT CHARACTER}b"
