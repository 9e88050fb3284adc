"""What a finished prompt is made of, read back from its text: nothing is lost, nothing invented."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.prompts.blocks import Layout, compose
from ragstream_core.prompts.edited_prompt import BEFORE, sections_of, text_tokens
from ragstream_core.prompts.edits import COUNTER
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.outline import Quotation, Statement, outline
from ragstream_core.records import Chunk, Decision, Extras, SuperPrompt, evolve
from ragstream_core.records.s_ctx import Cited, Fact, OpenIssue, SCtx
from ragstream_core.records.stage_results import Fence
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt

TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


def changed(prompt, text):
    """Return a prompt whose finished text is another one."""
    extras = Extras.from_json(prompt.extras.to_json())
    extras.super_prompt = text
    extras.token_tree = text_tokens(text, extras.fence.nonce, COUNTER)
    return evolve(prompt, extras=extras)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    from tests.workspaces import ingested_workspace

    space = ingested_workspace(tmp_path_factory.mktemp("outline"))
    project = space.projects()[0]
    request = PromptRequest("How does the lock restrict a prompt?", (project,))
    return run_prompt(space, pin_inputs(space, request))


def test_the_blocks_are_the_sections_with_their_tokens(built):
    blocks = outline(built)
    sections = sections_of(built.extras.super_prompt, built.extras.fence.nonce)
    assert [block.name for block in blocks] == [section.name for section in sections]
    assert sum(block.tokens for block in blocks) == built.extras.token_tree.total
    assert sum(q.tokens for b in blocks for q in b.quotations) < built.extras.token_tree.total


def test_evidence_has_its_words_and_its_place(built):
    quoted = {q.chunk.id: q for block in outline(built) for q in block.quotations}
    chunks = {chunk.id: chunk for chunk in built.base_context_chunks}
    assert list(quoted) == list(built.final_selection_ids)
    for identifier, found in quoted.items():
        chunk = chunks[identifier]
        assert (found.text, found.source, found.span) == (chunk.snippet, chunk.source, chunk.span)
        assert found.heading == (chunk.meta["heading"] or "") and found.tokens > 0
        assert found.score == [0.0, *(d.score for d in built.extras.decisions
                               if d.chunk_id == identifier and d.score)][-1]  # fmt: skip


def test_statements_are_those_of_s_ctx(built):
    blocks = outline(built)
    found = [s for block in blocks for s in block.statements]
    items = [item for part in built.extras.s_ctx.parts for item in part]
    assert [s.text for s in found] == [" ".join(item.text.split()) for item in items]
    assert [s.heading for s in found] == [item.heading for item in items]
    assert [i for s in found for i, _ in s.cited] == [
        c.short_id for item in items for c in item.citations
    ]


def test_a_prompt_that_is_not_built_has_no_blocks():
    assert outline(SuperPrompt(body={"text": "How?"})) == ()


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: "Read this first.\n" + text,
        lambda text: text.replace("<<END DOC", "END DOC", 1),
        lambda text: text.replace("### Facts", "### Facts\nMine."),
        lambda text: text[: len(text) // 2],
        lambda text: "Only this.",
    ],
)
def test_an_edited_text_is_shown_as_it_stands(built, edit):
    prompt = changed(built, edit(built.extras.super_prompt))
    blocks = outline(prompt)
    assert sum(block.tokens for block in blocks) == prompt.extras.token_tree.total
    shown = "\n".join(
        part if isinstance(part, str) else part.text for block in blocks for part in block.parts
    )
    for mine in ("Read this first.", "Mine.", "Only this."):
        assert (mine in shown) is (mine in prompt.extras.super_prompt)
    if prompt.extras.super_prompt.startswith("Read"):
        assert blocks[0].name == BEFORE


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4), TEXTS, TEXTS)
def test_whatever_a_document_says_it_comes_back_as_its_quotation(pairs, heading, sentence):
    from ragstream_core.prompts.fences import one_line, quote_lines

    prompt = SuperPrompt(body={"task": "Why?"})
    chunks = [
        Chunk(f"{n}.md::{n}::0", f"{n}.md", f"{text}{more}", (0, 9), {"heading": text})
        for n, (text, more) in enumerate(pairs)
    ]
    prompt.base_context_chunks, prompt.final_selection_ids = chunks, [c.id for c in chunks]
    cited = (Cited("0.md::0::0", "a b.md", "1a2b3c4d"),)
    facts = (Fact(sentence, heading, citations=cited),)
    prompt.extras.s_ctx = SCtx(facts, (), (OpenIssue("unsupported", "Nothing on it."),))
    prompt.extras.decisions = (Decision("a3", "0.md::0::0", 1, 0.5, True, "r", "s"),)
    made = compose(prompt, Layout(hard_rules="Be true."))
    prompt.extras.super_prompt, prompt.extras.fence = made.text, Fence(made.nonce)
    blocks = {block.name: block for block in outline(prompt)}
    evidence = blocks["ATTACHMENTS"].parts if pairs else ()
    assert [part.text for part in evidence if isinstance(part, Quotation)] == [
        "\n".join(line[2:] for line in quote_lines(chunk.snippet)) for chunk in chunks
    ]
    fact, issue = (part for part in blocks["S_CTX"].parts if isinstance(part, Statement))
    assert fact.cited[-1] == ("1a2b3c4d", "a b.md") and fact.number == "F1"
    assert (fact.heading, fact.text) == (one_line(heading), one_line(sentence))
    assert (issue.number, issue.text) == ("O1", "Nothing on it.")
