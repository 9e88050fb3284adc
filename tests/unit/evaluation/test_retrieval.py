"""`ragstream eval retrieval`: metrics, run file, files that do not fit."""

import json

import pytest

from ragstream_core.errors import UsageError
from ragstream_core.evaluation.gold_answers import read_answers
from ragstream_core.evaluation.retrieval import measure, read_jsonl, read_qrels, write_run
from ragstream_core.ingestion.quality_gate import read_gold

CORPUS = [
    {"id": "d1", "title": "Locks", "text": "One writer holds the project lock at a time."},
    {"id": "d2", "title": "", "text": "The dense signal is a cosine of two unit vectors."},
    {"id": "d3", "title": "Budget", "text": "A prompt has a token budget of six thousand tokens."},
]
QUERIES = [
    {"id": "q1", "text": "who holds the lock", "meta": {"kind": "short"}},
    {"id": "q2", "text": "what is the token budget of a prompt", "meta": {"kind": "long"}},
    {"id": "q3", "text": "not judged"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t1\n"


def test_the_right_documents_are_found_and_measured(evaluated):
    result = evaluated()
    assert result.run["q1"][0] == "d1"
    assert result.run["q2"][0] == "d3"
    assert result.metrics == {"nDCG@10": 1.0, "R@10": 1.0, "MRR@10": 1.0}
    assert set(result.by_kind) == {"short", "long"}
    assert result.queries == 2
    assert set(result.to_json()) == {"metrics", "by_kind", "queries", "fingerprint", "seconds"}


def test_a_second_call_reads_the_vectors_and_gives_the_same(tmp_path, evaluated):
    first, second = evaluated(), evaluated()
    assert (first.run, first.metrics) == (second.run, second.metrics)
    assert list((tmp_path / "data" / "evaluation").glob("*.f32"))


def test_vectors_of_chunks_with_the_same_names_but_other_texts_are_not_taken(tmp_path, evaluated):
    """A chunk's id says which document and which chunk of it, not what that says."""
    evaluated(), evaluated(**{"chunking.strip_markdown": "true"})
    assert len(list((tmp_path / "data" / "evaluation").glob("*.f32"))) == 2


def test_the_fingerprint_names_the_settings(evaluated):
    one = evaluated().fingerprint
    assert evaluated(**{"retrieval.tau": "5"}).fingerprint != one


def test_metrics_follow_our_order_where_scores_tie():
    qrels = {"q": {"b": 1}}
    assert measure({"q": ["a", "b"]}, qrels, ["q"])["MRR@10"] == 0.5
    assert measure({"q": ["b", "a"]}, qrels, ["q"])["MRR@10"] == 1.0
    assert measure({"q": ["b"]}, qrels, ["q"])["nDCG@10"] == 1.0
    assert measure({"q": ["a"] + [f"x{i}" for i in range(9)] + ["b"]}, qrels, ["q"])["R@10"] == 0.0


def test_a_run_file_has_six_columns(tmp_path):
    write_run(tmp_path / "run", {"q1": ["d1", "d2"]})
    assert (tmp_path / "run").read_text().splitlines() == [
        "q1 Q0 d1 1 1.000000 ragstream",
        "q1 Q0 d2 2 0.500000 ragstream",
    ]


def test_what_does_not_fit_is_named_with_its_line(tmp_path, files, evaluated):
    corpus, queries, qrels = files
    queries.write_text('{"id": "q1", "text": "x"}\n{"id": 3\n')
    with pytest.raises(UsageError, match=r"queries\.jsonl:2"):
        read_jsonl(queries)
    qrels.write_text("head\nq1 d1 1\n")
    with pytest.raises(UsageError, match=r"qrels\.tsv:2"):
        read_qrels(qrels)
    with pytest.raises(UsageError, match="cannot be read"):
        read_jsonl(tmp_path / "nothing")
    queries.write_text('{"id": "other", "text": "x"}')
    qrels.write_text(QRELS)
    with pytest.raises(UsageError, match="belong together"):
        evaluated()


@pytest.mark.parametrize(
    "line",
    ["[" * 50_000, '{"id": "b", "text": "half \\ud800 of it"}', '{"id": "b", "text": 5}', "5"],
    ids=["nested", "half a character", "a number", "no object"],
)
def test_a_line_that_no_text_is_in_is_named(tmp_path, line):
    (tmp_path / "corpus.jsonl").write_text(f'{{"id": "a", "text": "x"}}\n{line}\n')
    with pytest.raises(UsageError, match=r"corpus\.jsonl:2: not an object with id and text"):
        read_jsonl(tmp_path / "corpus.jsonl")


def test_a_file_without_a_line_is_refused(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("\n\n")
    with pytest.raises(UsageError, match=r"corpus\.jsonl holds no line"):
        read_jsonl(tmp_path / "corpus.jsonl")


def test_files_of_other_systems_are_read_line_by_line(tmp_path):
    text = "before\u2028behind\u0085it"
    for name in ("corpus", "gold", "answers"):
        row = {"id": "a", "text": text} if name == "corpus" else {"question": text, "file": "a.md"}
        row = {"question": text, "answer": text} if name == "answers" else row
        line = json.dumps(row, ensure_ascii=False)
        data = f"{line}\r\n\r\n{line}\r\n".encode("utf-8-sig")
        (tmp_path / f"{name}.jsonl").write_bytes(data)
    assert [row["text"] for row in read_jsonl(tmp_path / "corpus.jsonl")] == [text, text]
    assert [row.question for row in read_gold(tmp_path / "gold.jsonl")] == [text, text]
    answers = read_answers(tmp_path / "answers.jsonl")
    assert [(n, line.answer) for n, line in answers] == [(1, text), (3, text)]
