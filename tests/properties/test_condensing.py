"""Laws of A4: what a fact quotes stands in its passage, and the selection is smooth at its edge."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import STAGE, Condenser
from ragstream_core.agents.context.llm_form import MAX_QUOTE_CHARS, Condensed, Passages, Point
from ragstream_core.agents.context.passage_selection import (
    MIN_CUT_TOKENS,
    Reading,
    framed_tokens,
    select,
    sentence_ends,
    stemmed_terms,
)
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.agents.context.shown import MAX_WORDS, readable
from ragstream_core.prompts.blocks import Layout, compose
from ragstream_core.prompts.render import s_ctx_block
from ragstream_core.records import Chunk, SuperPrompt, evolve
from ragstream_core.records.s_ctx import NOT_FOUND, SCtx
from ragstream_core.records.stage_results import QueryPiece
from ragstream_core.text.terms import terms
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from tests.properties.test_stages import CASES, condensed
from tests.unit.agents.test_condense import GATE, kept

COUNTER = HeuristicTokenCounter()
PARTS = st.sampled_from(
    [
        "The gate drops a candidate whose cosine is low. ",
        "Read [the page. It is long](x.md) for more words here. ",
        "![A picture. Two](a.png) stands before five more words. ",
        "[unclosed. link words and more of it ",
        "](x) five more words stand right here. ",
        "\\[escaped. text\\](x) is here for all. ",
        "See https://x.org/a.b?c=d. Then it goes on for five words. ",
        "The ﬁle ﬂow oﬀers ligatures, e.g. these, for all of us. ",
        "Ünïcode é́ combining ñ words stand here well. ",
        "日本語の文です。もう一つの[文。です](x)。 ",
        "\u00a0Hard\u00a0spaces and zero\u200bwidth signs are right here. ",
        "<b>Bold</b> words <br/> and <code>x. y</code> are here for all. ",
        "| first cell of it | second. cell of it |\n",
        "|---|---|\n",
        "- an item has at least five words\n",
        "Lead in for the list that follows:\n",
        "> A quoted line has as many words.\n",
        "```py\nraise Error('five words of code. here')\n",
        "```\n",
        "# A heading\n",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
    ]
)
TEXTS = st.lists(PARTS, min_size=1, max_size=10).map("".join)


def chunk(number, text):
    return Chunk(f"c{number}", f"d{number}.md", text, (0, len(text)), {"sha256": "a" * 64})


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_every_quote_stands_in_its_passage_however_it_is_cut(text):
    whole = readable(text)
    for quote in quotes_of(chunk(0, text), 0, terms):
        assert quote.verbatim in whole
        behind = [end for end in sentence_ends(text) if end >= quote.span[1]]
        assert all(quote.verbatim in readable(text[:end]) for end in behind)


@st.composite
def cases(draw):
    sentences = st.lists(st.integers(1, 40), min_size=1, max_size=9)
    sizes = draw(st.lists(sentences, min_size=1, max_size=5))
    chunks = [
        chunk(n, " ".join(f"Then {'word ' * size}ends." for size in found))
        for n, found in enumerate(sizes)
    ]
    return chunks, draw(st.integers(0, 900)), draw(st.integers(0, 3000)), draw(st.integers(0, 60))


def shown(chunks, picked):
    """How many characters of each chunk are shown."""
    return [picked.cuts.get(c.id, len(c.snippet)) if c.id in picked.tokens else 0 for c in chunks]


@settings(max_examples=400, deadline=None)
@given(cases())
def test_a_larger_budget_never_shows_less_and_none_is_wasted(case):
    chunks, tokens, chars, more = case
    picked = select(chunks, COUNTER, budget_tokens=tokens, budget_chars=chars)
    lengths = shown(chunks, picked)
    spent, used = sum(picked.tokens.values()), sum(lengths)
    assert spent <= tokens and used <= chars
    for wider in ((tokens + more, chars), (tokens, chars + more), (tokens + more, chars + more)):
        again = select(chunks, COUNTER, budget_tokens=wider[0], budget_chars=wider[1])
        assert all(a <= b for a, b in zip(lengths, shown(chunks, again), strict=True))
    for c in chunks:
        if c.id in picked.cuts:
            assert picked.tokens[c.id] - framed_tokens(c, COUNTER, end=0) >= MIN_CUT_TOKENS
    at = next((n for n, c in enumerate(chunks) if lengths[n] < len(c.snippet)), None)
    assert list(picked.tokens) + picked.left == [c.id for c in chunks]
    if at is None:
        return
    assert not any(lengths[at + 1 :]) and list(picked.cuts) == ([chunks[at].id] * bool(lengths[at]))
    edge = chunks[at]  # the next sentence would be too much, or too little to be worth its frame
    free = tokens - spent + picked.tokens.get(edge.id, 0)
    left = chars - used + lengths[at]
    for end in sentence_ends(edge.snippet):
        need = framed_tokens(edge, COUNTER, end=end)
        small = need - framed_tokens(edge, COUNTER, end=0) < MIN_CUT_TOKENS
        assert end <= lengths[at] or end > left or need > free or small
    assert lengths[at] in (0, *sentence_ends(edge.snippet))


@settings(max_examples=100, deadline=None)
@given(CASES, st.integers(450, 1800), st.integers(1, 40), st.integers(1, 50))
@example(case=("How does the gate rank candidates?", 709), budget=649, most=4, more=32)
def test_more_budget_takes_away_no_more_than_s_ctx_gains(case, budget, most, more):
    (before, tokens), (after, again) = (
        condensed(case, total, most, 4) for total in (budget, budget + more)
    )
    gained = COUNTER.count(s_ctx_text(after)) - COUNTER.count(s_ctx_text(before))
    edge = MIN_CUT_TOKENS + 40  # what is too little for a frame of its own, and a sentence
    assert again >= tokens - max(0, gained) - edge
    whole = set(before.views_by_stage[STAGE]) - set(before.extras.cuts)
    assert gained > 0 or whole <= set(after.views_by_stage[STAGE])


def s_ctx_text(prompt):
    return s_ctx_block(prompt.extras.s_ctx, nonce="0" * 12).text


SENTENCES = st.lists(
    st.sampled_from(
        [
            "You must never delete the folder while a writer holds its lock.",
            "Short one.",
            "Is this a question about the folder?",
            "The index " + "is read and read " * 20 + "again, but it must not be written.",
            "See [the page. It is long](x.md).",
        ]
    ),
    min_size=1,
    max_size=6,
)


def passages_of(text, cuts=None):
    """One passage, as a model is asked about it."""
    one = chunk(0, text)
    prompt = SuperPrompt(body={"task": "May I delete the folder?"})
    prompt.extras.query_pieces = (QueryPiece("q1", prompt.body["task"]),)
    reader = Reading.of(prompt, [one], stemmed_terms)
    return Passages({"p1": one}, cuts or {}, reader, stemmed_terms)


def answer_of(facts=(), constraints=()):
    points = [
        [{"passage": "p1", "quote": said, "pieces": ["q1"]} for said in part]
        for part in (facts, constraints)
    ]
    return Condensed(
        facts=[Point(**p) for p in points[0]], constraints=[Point(**p) for p in points[1]],
        open_pieces=[],
    )  # fmt: skip


def words_of(data, text):
    words = readable(text).split(" ")
    begin = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(begin + 1, len(words)))
    return " ".join(words[begin:end])[:MAX_QUOTE_CHARS].strip()


@settings(max_examples=300, deadline=None)
@given(SENTENCES, st.data())
def test_of_what_a_model_quotes_only_whole_sentences_are_shown(sentences, data):
    text = " ".join(sentences)
    passages, answer = passages_of(text), answer_of([words_of(data, text)])
    assert passages.fault(answer, 12) == ""
    rows = [readable(sentence) for sentence in sentences]
    ends = [(i, j) for i in range(len(rows)) for j in range(i + 1, len(rows) + 1)]
    wholes = {" ".join(rows[i:j]) for i, j in ends}
    assert {quote.text for quote, _, _ in passages.sentences(answer.facts)} <= wholes


@settings(max_examples=200, deadline=None)
@given(SENTENCES, st.data())
def test_a_model_may_quote_what_it_was_shown_and_no_more(sentences, data):
    text = " ".join(sentences)
    cut = data.draw(st.sampled_from(sentence_ends(text)))
    said = words_of(data, text)
    fault = passages_of(text, {"c0": cut}).fault(answer_of([said]), 12)
    assert (fault == "") == (said in readable(text[:cut]))


@given(SENTENCES, st.data())
def test_a_sentence_is_a_fact_or_a_constraint_as_the_model_says_and_both_is_a_fact(rows, data):
    rows = list(dict.fromkeys(row for row in rows if "Is this" not in row))
    facts, constraints = (
        data.draw(st.sets(st.sampled_from(rows))) if rows else set() for _ in "fc"
    )
    answer = answer_of(sorted(facts), sorted(constraints))
    found = passages_of(" ".join(rows)).found(lambda m, s, check: (answer, ""), 12)
    said = {quote.text for quote, _, _ in found.chosen}
    assert said == {readable(row) for row in facts | constraints}
    assert {q.text for q in found.constraints} == {readable(row) for row in constraints - facts}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(4, 12), min_size=1, max_size=5), st.data())
def test_a_sentence_that_the_border_of_a_chunk_cuts_is_not_quoted(sizes, data):
    rows = ["Then " + "plain words stand " * size + "here." for size in sizes]
    words = " ".join(rows).split(" ")
    begin = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(begin, len(words)))
    part = " ".join(words[begin:end])
    said = {quote.text for quote in quotes_of(chunk(0, part), 0, terms)}
    assert said <= {row for row in rows if len(row.split()) <= MAX_WORDS}


def test_the_head_of_a_table_is_no_fact_and_its_rows_are():
    row = "the gate | drops what is far from the question"
    text = f"| name of the stage | what it does with candidates |\n|---|---|\n| {row} |\n"
    shown = "name of the stage: the gate · what it does with candidates: drops what is far"
    (quote,) = quotes_of(chunk(0, text), 0, terms)
    assert quote.text == f"{shown} from the question" and quote.verbatim == row


@settings(max_examples=100, deadline=None)
@given(st.integers(300, 3000), st.integers(1, 8), st.integers(1, 1500), st.booleans())
def test_older_turns_take_their_share_and_no_more(budget, turns, most, first):
    prompt = kept(*(f"# Gate\n{GATE}" * 3 for _ in range(4)))
    past = [
        Chunk(f"history::chat::{n}-{n}::0", "log", f"{n}. {GATE}", (0, 9), {"turn_id_end": n})
        for n in range(turns)
    ]
    prompt.base_context_chunks += past
    prompt.views_by_stage["a3"] = [c.id for c in [*past, *prompt.base_context_chunks[:4]]]
    bare = evolve(prompt, final_selection_ids=[])
    bare.extras.s_ctx, bare.extras.nothing_relevant, bare.extras.short_ids = SCtx(), False, {}
    free = max(0, budget - COUNTER.count(compose(bare, Layout()).text))
    done = Condenser(
        COUNTER, budget_tokens=budget, token_overhead=0, history_tokens=most, history_first=first
    )(prompt)
    rows = [d for d in done.extras.decisions if d.chunk_id.startswith("history::")]
    taken = sum(d.tokens for d in rows)
    share = min(most, free if first else free // 4)
    assert taken <= share
    assert taken or share < framed_tokens(past[0], COUNTER)


ASKED = st.lists(
    st.sampled_from(
        [
            "How does the similarity gate use theta?",
            "Who decides about conflicts?",
            "Which wine goes with fish?",
            "gate theta conflicts",
            "Where is theta set and who may lift it?",
            "水泵的最大压力是多少？",
        ]
    ),
    min_size=1,
    max_size=4,
    unique=True,
)
HELD = st.lists(
    st.sampled_from(
        [
            GATE,
            "Conflicts are shown to the shift lead, who decides about each of them.",
            "Theta is set in the settings. Nobody but the owner may lift theta above one.",
            "Fish is delivered on Fridays. The wine is kept in the cellar of the house.",
            "水泵的最大压力为3巴。操作人员每天检查一次。",
        ]
    ),
    max_size=5,
    unique=True,
)


@given(ASKED, HELD, st.floats(-0.2, 0.9), st.integers(0, 5))
def test_no_part_that_has_a_fact_is_not_found_and_the_nearest_are_always_there(
    asked, held, cosine, most
):
    prompt = kept(*held, question="|".join(asked), cosine=cosine)
    done = Condenser(COUNTER, keep_top=most)(prompt)
    word = {answer.piece_id: answer.word for answer in done.extras.answers}
    s_ctx = done.extras.s_ctx
    spoken = {i for fact in (*s_ctx.facts, *s_ctx.constraints) for i in fact.piece_ids}
    missing = {i for i, said in word.items() if said == NOT_FOUND}
    assert not spoken & missing
    assert missing == {issue.piece_id for issue in s_ctx.open_issues if issue.kind == "unsupported"}
    best = prompt.views_by_stage["a3"][:most]
    assert done.final_selection_ids[: len(best)] == best
    if done.extras.nothing_relevant:
        assert missing == set(word) and s_ctx.facts == ()
