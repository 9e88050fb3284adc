"""BM25 against bm25s, and what its term arrays hold."""

import unicodedata
from collections import Counter

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.text.bm25 import K3, Bm25, build_lexical, repeated
from ragstream_core.text.terms import located_terms, split_words, term_blob, term_id, terms, words

TEXTS = [
    "The catalog is the truth; the vector file follows the catalog.",
    "A vector file is append only. Readers map the vector file.",
    "Retrieval fuses BM25 and dense vectors.",
    "",
    "The gate drops candidates that are not relevant to the question.",
]
QUERIES = [
    "vector file",
    "what is the catalog?",
    "relevant candidates",
    "nothing of the kind",
    "the",
    "The catalog: is the catalog the truth, or is the vector file? Which file, and which vector?",
]


def arrays(texts):
    return build_lexical([[term_blob(text)] for text in texts])


def test_words_take_camel_and_snake_case_whole_and_apart():
    assert words("dense_weight IngestionManager v2.18 __init__") == [
        "dense_weight", "dense", "weight", "ingestionmanager", "ingestion", "manager", "v2", "18",
        "init",
    ]  # fmt: skip


@given(st.text("ab1'_ -\n\x1c\x00.ZÄé") | st.text("สัดี端口の0a_'") | st.text())
def test_words_of_a_text_are_those_of_its_words(text):
    assert words(text) == [form for word in split_words(text) for form in words(word)]
    assert not any(c.isspace() for word in words(text) for c in word)


@given(st.text("aüé́̈ﬁＡ²l'’ ­​_x") | st.text())
def test_the_form_that_a_text_is_written_in_makes_no_difference(text):
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert terms(unicodedata.normalize(form, text)) == terms(text)
    assert terms(text.replace("'", "’")) == terms(text)
    assert terms("\u00ad".join(text)) == terms(text)


@pytest.mark.parametrize(("written", "asked"), [
    ("V\u006f\u0308ller", "Völler"), ("ＡＢＣ１２３", "ABC123"), ("Donau\u00addampf", "Donaudampf"),
    ("zero\u200bwidth", "zerowidth"), ("eﬀicient", "efficient"), ("H₂O", "H2O"), ("m²", "m2"),
    ("l’eau", "eau"), ("d'Avignon", "Avignon"), ("dell’acqua", "acqua"), ("user’s", "user's"),
])  # fmt: skip
def test_a_word_is_found_however_it_is_written(written, asked):
    assert terms(written) == terms(asked)


def test_marks_do_not_end_a_word():
    assert len(terms("हिन्दी")) == 1
    assert len(located_terms("Donau\u00addampf V\u006f\u0308ller")) == 2


def test_terms_are_stemmed_and_without_stop_words():
    assert terms("The readers are reading") == ["reader", "read"]


@pytest.mark.parametrize("query", QUERIES)
def test_scores_equal_the_oracle(query):
    corpus = [terms(text) for text in TEXTS]
    oracle = bm25s.BM25(k1=1.5, b=0.75, method="lucene")  # the values that the pages name
    oracle.index(corpus, show_progress=False)
    expected = np.zeros(len(TEXTS))
    for term, times in Counter(terms(query)).items():
        if any(term in document for document in corpus):
            once = oracle.get_scores([term]) * 2.5
            expected += once * times * (K3 + 1) / (times + K3)
    found = Bm25([arrays(TEXTS)]).scores(terms(query))
    assert np.allclose(found, expected, atol=1e-4)


@given(st.integers(1, 10_000))
def test_saying_a_term_again_counts_more_and_never_more_than_k3_plus_one_times(times):
    assert repeated(1) == 1.0
    assert repeated(times) < repeated(times + 1) < K3 + 1


ASKED = st.lists(st.sampled_from(["vector", "file", "catalog", "gate", "unknown"]), max_size=12)


@given(ASKED, ASKED)
def test_what_a_query_says_again_never_lowers_a_score_and_order_does_not_count(query, more):
    first = Bm25([arrays(TEXTS)]).scores(query)
    again = Bm25([arrays(TEXTS)]).scores([*query, *more])
    assert (again >= first).all()
    turned = Bm25([arrays(TEXTS)]).scores(query[::-1])
    assert np.array_equal(first, turned)


@given(ASKED)
def test_with_k3_of_zero_words_count_once(query):
    once = Bm25([arrays(TEXTS)], k3=0.0)
    assert np.array_equal(once.scores(query), once.scores(sorted(set(query))))
    assert np.array_equal(once.scores(query), Bm25([arrays(TEXTS)]).scores(sorted(set(query))))


def test_what_a_long_question_repeats_decides():
    texts = ["wheel and bolt", "bolt and nut", "nut and wheel"]
    question = "A bolt came loose. Which bolt is it, and which wheel? The bolt by the wheel. A nut."
    found = Bm25([arrays(texts)]).scores(terms(question))
    assert found.argmax() == 0 and found[1] > found[2], "bolt 3, wheel 2, nut 1"


def test_two_indexes_score_as_their_union():
    whole = Bm25([arrays(TEXTS)]).scores(terms("vector catalog gate"))
    parts = Bm25([arrays(TEXTS[:2]), arrays(TEXTS[2:])]).scores(terms("vector catalog gate"))
    assert np.array_equal(parts, whole)


def test_a_heading_counts_as_part_of_the_text():
    joined = arrays(["vector catalog"])
    apart = build_lexical([[term_blob("vector"), term_blob("catalog")]])
    assert joined.packed() == apart.packed()
    twice = build_lexical([[term_blob("vector"), term_blob("vector")]])
    assert twice.counts.tolist() == [2]
    assert twice.lengths.tolist() == [2]


def test_no_row_and_no_term_are_no_error():
    assert Bm25([arrays([])]).scores(["vector"]).tolist() == []
    assert Bm25([arrays(["", ""])]).scores(["vector"]).tolist() == [0, 0]


def test_blocks_of_rows_give_the_arrays_of_one_pass(monkeypatch):
    from ragstream_core.text import bm25

    rng = np.random.default_rng(7)
    texts = [" ".join(f"w{i}" for i in rng.zipf(1.3, 30) % 200) for _ in range(50)] + ["", "w1"]
    whole = arrays(texts).packed()
    for rows, lists in ((1, 1), (7, 3), (26, 10_000), (52, 5)):
        monkeypatch.setattr(bm25, "BLOCK_ROWS", rows)
        monkeypatch.setattr(bm25, "BLOCK_LISTS", lists)
        assert arrays(texts).packed() == whole, (rows, lists)


@given(st.text(st.sampled_from("aZß İΣσ'’_9-fooBar"), max_size=60))
def test_a_blob_counts_exactly_the_terms(text):
    counts = Counter(term_id(term) for term in terms(text))
    expected = np.array(sorted(counts.items()), dtype="<i8").reshape(-1, 2)
    assert term_blob(text) == expected.tobytes()


@given(st.lists(st.sampled_from([*QUERIES, "", "file file vector file"]), max_size=4))
def test_several_queries_share_weights_without_touching_each_other(queries):
    several = [arrays(TEXTS[:2]), arrays(TEXTS[2:])]
    asked = [terms(query) for query in queries]
    found = Bm25(several).scores_of(asked)
    assert found.shape == (len(queries), len(TEXTS))
    for query, scores in zip(asked, found, strict=True):
        assert np.array_equal(scores, Bm25(several).scores(query))
