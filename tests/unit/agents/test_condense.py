"""A4, A5 and the builder: facts worth reading, cited, within the budget."""

import re
from dataclasses import replace

import pytest

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import FormatEnforcer
from ragstream_core.agents.context.open_issues import conflicts
from ragstream_core.agents.context.passage_selection import Reading, select, stemmed_terms
from ragstream_core.agents.context.quotable import Quote, quotes_of
from ragstream_core.agents.context.shown import is_quotable, readable
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.errors import BudgetExceeded, FenceBroken
from ragstream_core.prompts.blocks import Layout, compose
from ragstream_core.prompts.render import NEAREST_ONLY, NOTHING_ATTACHED
from ragstream_core.records import Chunk, Extras, SuperPrompt, to_json
from ragstream_core.records.s_ctx import Fact, SCtx
from ragstream_core.records.stage_results import Scores
from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.sentences import is_filler
from ragstream_core.text.terms import terms
from ragstream_core.text.token_estimates import HeuristicTokenCounter

GATE = """## The gate
The similarity gate drops a candidate whose best cosine is below theta. It runs after the reranker.
Theta must lie between minus one and one. See [the handbook](x.md) for more on the similarity gate.

```python
gate = NliGate(theta=0.3)
```

The gate keeps these in any case:

- the three candidates ranked best by the reranker
- chunks that history marks as gold
"""
INDEX = "# Index\nThe index writes vectors to a mapped file. A commit inserts a generation row."
OTHER = "# Gate\nThe default theta of the similarity gate is 0.2 in this release."
NEWER = "# Gate\nThe default theta of the similarity gate is 0.3 in this release."
COUNTER = HeuristicTokenCounter()


def kept(*texts, question="How does the similarity gate use theta?", cosine=0.7, **extras):
    prompt = SuperPrompt(body={"task": question})
    prompt.base_context_chunks = [
        Chunk(f"d{i}.md::x::0", f"d{i}.md", text, (10, 10 + len(text)), {"sha256": "a" * 64})
        for i, text in enumerate(texts)
    ]
    ids = [c.id for c in prompt.base_context_chunks]
    prompt.views_by_stage = {"a3": ids}
    pieces = [{"id": f"q{i}", "text": q} for i, q in enumerate(question.split("|"))]
    prompt.extras = Extras.from_json(
        {
        "query_pieces": pieces,
        "scores": {i: {"score": 0.5, "best_cosine": cosine} for i in ids}, **extras,
        }
    )  # fmt: skip
    return prompt


def texts_of(prompt, part):
    return [item.text for item in getattr(prompt.extras.s_ctx, part)]


def test_quotable_sentences_of_a_chunk():
    said = [q.text for q in quotes_of(Chunk("c", "a.md", GATE, (0, len(GATE)), {}), 0, terms)]
    assert said == [
        "The similarity gate drops a candidate whose best cosine is below theta.",
        "It runs after the reranker.",
        "Theta must lie between minus one and one.",
        "The gate keeps these in any case: - the three candidates ranked best by the reranker "
        "- chunks that history marks as gold",
    ]
    assert all(s in readable(GATE) for s in said)


@pytest.mark.parametrize(
    "text",
    ["Too short here.", "word " * 101, "Is this a question about gates?",
     "See also the other page.",
     "│ With the Exact File Lock on, only injected files count. │",
     "x = f(a); y = g(b); z = h(c) + {d}", 'Then echo "a=b;" into the new file.',
     "[One](a) [Two](b) [Three](c) [Four](d) [Five](e)"],
)  # fmt: skip
def test_what_is_no_fact(text):
    assert not is_quotable(text)


@pytest.mark.parametrize("name", ['"__init__()"', "`a = b;`", '"a; b"', "“x::y”"])
def test_a_name_in_quotation_marks_leaves_a_sentence_a_fact(name):
    assert is_quotable(f"The method {name} prepares what the caller hands over.")


@pytest.mark.parametrize(("words", "quoted"), [(61, True), (100, True), (101, False)])
def test_a_long_sentence_is_quoted_as_long_as_it_can_be_read(words, quoted):
    clauses = " and ".join(["the pump runs at night"] * words).split()[: words - 2]
    assert is_quotable(f"Where {' '.join(clauses)} well.") is quoted


def test_block_kinds_and_filler():
    kinds = [b.kind for b in blocks(GATE + "\n| a | b |\n<div>\nTitle\n=====\n")]
    assert kinds == [
        "heading",
        "prose",
        "code",
        "prose",
        "item",
        "item",
        "row",
        "markup",
        "heading",
    ]
    assert is_filler("Thanks a lot!")
    assert not is_filler("Thanks to caching it is fast.")


@pytest.mark.parametrize("wish", ["Keep it short.", "Be brief, please", "Fasse dich kurz.",
                                  "Bitte kurz antworten", "Merci d'avance !"])  # fmt: skip
def test_a_wish_for_a_short_answer_asks_nothing(wish):
    assert is_filler(wish)


def test_a_short_answer_that_is_asked_about_is_no_wish():
    assert not is_filler("Keep it short circuited during the test.")
    assert not is_filler("Is the answer short?")


def test_a_numbered_line_above_a_whole_one_is_a_heading_as_a_pdf_prints_it():
    text = (
        "3. Lubrication\nUse only oil of grade ISO VG 46 here.\nThe housing holds 38 litres.\n"
        "4. Bearings\nBearings are replaced after many hours of work."
    )
    found = [(block.kind, text[block.start : block.end].split()[0]) for block in blocks(text)]
    assert found == [
        ("heading", "Lubrication"), ("prose", "Use"), ("heading", "Bearings"), ("prose", "Bearings")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "1. Stop the pump.\nWait until it stands still and is cold.",
        "1. Stop the pump and\nwait until it stands still and is cold.",
        "1. Install Docker\nThen restart.",
        "1. Install Docker\n2. Restart the machine and log in with your own name",
        "- Lubrication\nUse only oil of grade ISO VG 46 here.",
    ],
)
def test_a_numbered_item_stays_an_item(text):
    assert {block.kind for block in blocks(text)} == {"item"}


def kinds_of(text):
    return [(block.kind, text[block.start : block.end]) for block in blocks(text)]


def test_an_indented_paragraph_of_an_item_or_a_definition_is_no_code():
    for begin in ("1. Open the valve.", "- Open it.", "Theta\n:   The threshold."):
        text = (
            f"{begin}\n\n    It is left of the pump and\n    opens at 3 bar.\n\nText.\n\n    a = 1"
        )
        assert [kind for kind, _ in kinds_of(text)][1:] == ["prose", "prose", "code"]
    deep = "- Open it.\n\n\tIt opens at 3 bar.\n\n        a = 1\n"
    assert [kind for kind, _ in kinds_of(deep)] == ["item", "prose", "code"]


def test_the_text_of_html_paragraphs_and_definitions_is_read_without_its_tags():
    text = (
        "<dl>\n  <dt>Theta</dt>\n  <dd>\n    <p>The threshold of the gate, between\n    zero and"
        " one.</p>\n    <p>It is <b>0.25</b>.</p>\n  </dd>\n"
        "  <dd class='x'>Open.</dd>\n</dl>\n\n    a = 1"
    )
    said = [words for kind, words in kinds_of(text) if kind != "markup"]
    assert said == [
        "Theta", "The threshold of the gate, between\n    zero and one.", "It is <b>0.25</b>.",
        "Open.", "    a = 1",
    ]  # fmt: skip
    assert [kind for kind, _ in kinds_of("<pre>\n    a = 1\n</pre>")] == [
        "markup",
        "code",
        "markup",
    ]
    assert kinds_of('<p><img src="x.png"></p>')[0][0] == "markup"


def test_facts_are_relevant_verbatim_and_cited():
    prompt = Condenser(COUNTER)(kept(INDEX, GATE))
    assert texts_of(prompt, "facts")[0].startswith("The similarity gate drops a candidate")
    assert "Theta must lie between minus one and one." in texts_of(prompt, "constraints")
    issued = prompt.extras.citations
    for item in prompt.extras.s_ctx.facts + prompt.extras.s_ctx.constraints:
        (citation,) = item.citations
        assert issued[citation.short_id].chunk_id == citation.chunk_id
        assert item.text in readable(GATE + INDEX)
    assert not any("mapped file" in fact for fact in texts_of(prompt, "facts"))


def test_each_piece_gets_its_facts():
    prompt = Condenser(COUNTER)(
        kept(GATE, INDEX, question="What does the similarity gate drop?|Where do vectors go?")
    )
    spoken = {p for item in prompt.extras.s_ctx.facts for p in item.piece_ids}
    assert spoken == {"q0", "q1"}


def test_what_nothing_answers_is_an_open_issue():
    question = "How does the similarity gate use theta?|Which Kafka topic holds the offsets?"
    prompt = Condenser(COUNTER)(kept(GATE, question=question))
    (issue,) = prompt.extras.s_ctx.open_issues
    assert (issue.kind, issue.piece_id) == ("unsupported", "q1")
    assert "Kafka" in issue.text


def test_a_name_that_nothing_mentions_is_an_open_issue():
    prompt = Condenser(COUNTER)(kept(GATE, question="How does the similarity gate use Kafka?"))
    assert "Kafka" in " ".join(texts_of(prompt, "open_issues"))


def test_files_that_disagree_on_a_number_are_an_open_issue():
    prompt = Condenser(COUNTER)(kept(OTHER, NEWER, question="default theta of the similarity gate"))
    conflict = [i for i in prompt.extras.s_ctx.open_issues if i.kind == "conflict"]
    assert len(conflict) == 1
    assert {c.source for c in conflict[0].citations} == {"d0.md", "d1.md"}


@pytest.mark.parametrize(
    ("left", "right", "disagree"),
    [
        ("A commit adds a row to the log.", "A commit adds a row to the log at once.", False),
        ("A commit adds a row to the log.", "A commit adds 2 rows to the log.", False),
        ("A commit adds 2 rows to the log.", "A commit adds 2 rows to the log in 3 s.", False),
        ("A commit adds 1 row to the log.", "A commit adds 2 rows to the log.", True),
        ("Up to 11 12 13 14 pages for a log.", "Up to 21 22 23 24 pages for a log.", True),
    ],
)
@pytest.mark.parametrize("files", [("a.md", "b.md"), ("a.md", "a.md")])
def test_sentences_disagree_by_their_numbers_alone(left, right, disagree, files):
    quotes = [
        Quote("id", name, 0, (0, 9), text, "", stems, frozenset(stems), frozenset())
        for name, text in zip(files, (left, right), strict=True)
        for stems in (tuple(terms(text)),)
    ]
    found = conflicts(quotes[:1], quotes)
    assert bool(found) is disagree


@pytest.mark.parametrize("most", [0, 1, 2, 5])
def test_the_best_passages_are_shown_even_if_they_probably_answer_nothing(most):
    asked = kept(GATE, INDEX, OTHER, question="Bake sourdough bread", cosine=0.1)
    prompt = Condenser(COUNTER, keep_top=most)(asked)
    view = asked.views_by_stage["a3"]
    assert prompt.final_selection_ids == view[:most]
    assert prompt.extras.nothing_relevant is True
    assert prompt.extras.s_ctx.facts == prompt.extras.s_ctx.constraints == ()
    rules = {d.chunk_id: d.rule for d in prompt.extras.decisions if d.stage == "a4"}
    left = dict.fromkeys(view[most:], "nothing_relevant")
    assert rules == {**dict.fromkeys(view[:most], "nearest"), **left}
    why = [d.reason for d in prompt.extras.decisions if d.stage == "a4"]
    assert all(re.search(r"about this: \d+%, limit \d+%.*gate\.keep_top", s) for s in why)
    built = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(prompt)).extras
    assert (NEAREST_ONLY if most else NOTHING_ATTACHED) in built.super_prompt
    (warning,) = built.warnings
    assert warning.message.startswith("No passage clearly answers this.")
    assert all(f"d{n}.md" in warning.message for n in range(min(most, 3)))
    assert warning.message not in built.super_prompt  # words for people are none for the model


def test_history_is_never_a_source_of_facts():
    prompt = kept(GATE)
    prompt.base_context_chunks = [
        Chunk("history::chat::1-1::0", "log", GATE, (0, len(GATE)), {"turn_id_end": 1})
    ]
    prompt.views_by_stage = {"a3": ["history::chat::1-1::0"]}
    prompt.extras.scores = {"history::chat::1-1::0": Scores(best_cosine=0.9)}
    done = Condenser(COUNTER)(prompt)
    assert done.extras.s_ctx.facts == ()


def test_the_last_chunk_is_cut_at_a_sentence_end():
    text = " ".join(f"Sentence number {i} is about the gate." for i in range(40))
    chunks = [Chunk(f"{i}", "a.md", text, (0, len(text)), {}) for i in range(3)]
    whole = select(chunks[:1], COUNTER, budget_tokens=10**6, budget_chars=10**6).tokens["0"]
    picked = select(chunks, COUNTER, budget_tokens=whole * 3 // 2, budget_chars=10**6)
    assert list(picked.tokens) == ["0", "1"]
    assert picked.left == ["2"]
    assert text[: picked.cuts["1"]].endswith("gate.")
    assert sum(picked.tokens.values()) <= whole * 3 // 2
    by_chars = select(chunks, COUNTER, budget_tokens=10**6, budget_chars=len(text) + 700)
    assert 0 < by_chars.cuts["1"] <= 700


@pytest.mark.parametrize("budget", [0, 250, 6000])
def test_a_budget_that_holds_no_passage_is_said(budget):
    long = kept(f"## The gate\n{'word ' * 2000}", GATE)  # one sentence: it cannot be cut
    for prompt in (kept(GATE), long, kept(), kept(GATE, pool={"lock": True})):
        done = Condenser(COUNTER, budget_tokens=budget, max_context_tokens=1000)(prompt)
        said = any("no passage fits" in w.message for w in done.extras.warnings)
        locked = prompt.extras.pool.lock
        assert said == (prompt.views_by_stage["a3"] != [] and not locked
                        and not done.final_selection_ids)  # fmt: skip


def test_locked_and_switched_off():
    locked = Condenser(COUNTER)(kept(GATE, pool={"lock": True}))
    assert (locked.final_selection_ids, locked.extras.nothing_relevant) == ([], False)
    off = Condenser(COUNTER, enabled=False)(kept(GATE))
    assert off.final_selection_ids
    assert off.extras.s_ctx == SCtx()


def test_a5_removes_what_is_not_cited_not_issued_or_not_said():
    prompt = Condenser(COUNTER)(kept(GATE))
    good = len(prompt.extras.s_ctx.facts)
    s_ctx = prompt.extras.s_ctx
    (cited,) = s_ctx.facts[0].citations
    bad = (
        Fact("No source.", score=0.1),
        Fact("The moon is made of cheese.", score=0.1, citations=(cited,)),
        Fact(GATE[12:30], score=0.1, citations=(replace(cited, chunk_id="elsewhere"),)),
        Fact(GATE[12:30], score=0.1, citations=(replace(cited, short_id="x y"),)),
    )
    prompt.extras.s_ctx = replace(s_ctx, facts=(*s_ctx.facts, *bad))
    done = FormatEnforcer(COUNTER)(prompt)
    assert len(done.extras.s_ctx.facts) == good
    assert len(done.extras.enforced.repairs) == 4


def test_a5_drops_the_lowest_rank_until_the_budget_holds():
    prompt = Condenser(COUNTER)(kept(GATE, INDEX, OTHER))
    full = FormatEnforcer(COUNTER)(prompt).extras.enforced.total_tokens
    done = FormatEnforcer(COUNTER, budget_tokens=full - 1)(prompt)
    assert done.extras.enforced.total_tokens <= full - 1
    assert done.final_selection_ids == prompt.final_selection_ids[:-1]
    assert set(done.extras.citations) < set(prompt.extras.citations)
    assert {d.rule for d in done.extras.decisions if d.stage == "a5"} == {
        "verified", "over_budget"
    }  # fmt: skip


def test_a5_refuses_when_the_fixed_parts_are_over_the_budget():
    prompt = Condenser(COUNTER)(kept(GATE))
    with pytest.raises(BudgetExceeded, match="HARD RULES"):
        FormatEnforcer(COUNTER, Layout("rule " * 500), 400)(prompt)


@pytest.mark.parametrize(
    "other", [Layout("Rule."), Layout("", "Memory."), Layout(block_order="classic")]
)
def test_a_verdict_holds_for_the_layout_it_was_given_for(other):
    done = FormatEnforcer(COUNTER, Layout(), 4000)(Condenser(COUNTER)(kept(GATE)))
    before, after = (FormatEnforcer(COUNTER, to, 4000)(done) for to in (Layout(), other))
    assert before.extras.enforced == done.extras.enforced
    assert after.extras.enforced.digest != done.extras.enforced.digest
    counted = COUNTER.count(compose(after, other).text)
    assert after.extras.enforced.total_tokens == counted


def test_a_requested_format_becomes_an_instruction():
    prompt = Condenser(COUNTER)(kept(GATE))
    prompt.body["format"] = "a JSON object"
    done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(prompt))
    assert "one JSON value" in done.extras.enforced.format["instruction"]
    assert "one JSON value" in done.System_MD


def test_the_builder_writes_the_blocks_and_the_token_tree():
    done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(Condenser(COUNTER)(kept(GATE))))
    text = done.extras.super_prompt
    for block in (done.System_MD, done.Prompt_MD, done.S_CTX_MD, done.Attachments_MD):
        assert block
        assert block in text
    tree = done.extras.token_tree
    assert tree.total == COUNTER.count(text)
    assert [b.name for b in tree.blocks] == ["SYSTEM", "S_CTX", "ATTACHMENTS", "TASK"]
    attached = tree.blocks[2]
    chunks = {chunk.id: chunk for chunk in done.base_context_chunks}
    sources = [chunks[i].source for i in done.final_selection_ids]
    assert [part.name for part in attached.parts] == sources
    assert 0 < sum(part.tokens for part in attached.parts) <= attached.tokens
    assert done.stage == "a5"


def test_the_builder_refuses_a_prompt_whose_lines_change_hands(monkeypatch):
    from ragstream_core.prompts import render

    prompt = FormatEnforcer(COUNTER)(Condenser(COUNTER)(kept(GATE)))
    monkeypatch.setattr(
        render, "frame", lambda i, n, *, source, text: [f"<<DOC {i} {n}>>", text, "end"]
    )
    with pytest.raises(FenceBroken):
        PromptBuilder(COUNTER)(prompt)


def test_twice_is_once():
    prompt = kept(GATE, INDEX, OTHER)
    for stage in (
        Condenser(COUNTER),
        FormatEnforcer(COUNTER, budget_tokens=500),
        PromptBuilder(COUNTER),
    ):
        prompt = stage(prompt)
        assert to_json(stage(prompt)) == to_json(prompt)


def test_a_locked_prompt_has_an_empty_s_ctx_whatever_was_kept():
    prompt = kept(GATE, pool={"lock": True})
    done = Condenser(COUNTER)(prompt)
    assert done.extras.s_ctx == SCtx()


def test_a_passage_is_read_with_its_path_its_headings_and_the_sentence_before():
    text = "The gate drops what is far away. It runs behind the reranker, once a prompt."
    chunk = Chunk("id", "guides/tokenizer.md", text, (0, len(text)), {"heading": "Thresholds"})
    reader = Reading.of(SuperPrompt(), [chunk], stemmed_terms)
    named = {*terms("tokenizer"), *terms("thresholds")}
    assert reader.evidence[0].terms >= named | set(terms(text))
    first, second = reader.quotes
    assert named <= first.context and first.context.isdisjoint(first.held)
    assert second.context == first.context | first.held
