"""Judged questions of several sentences, made from the judged sets of one-sentence questions.

People who ask at length tell what they are about before they ask, and say the words that matter
more than once. Sentences taken out of a document that answers stand for what they tell: its own
background, which no search can then find as it stands (as in the inverse cloze task of Lee, Chang
and Toutanova, "Latent Retrieval for Weakly Supervised Open Domain Question Answering", 2019).

- ``cranfield-background``: three sentences of one abstract that answers, then the question. That
  abstract leaves the corpus; the others that answer are to be found.
- ``haystack-cloze``: three sentences of a guide page, taken out of it, around its description.
- ``squad2-cloze``: two sentences of a paragraph, taken out of it, then a question; what holds the
  answer stays.

The same input gives the same bytes. Nothing made ships: the sources keep their licences.

    python -m tests.benchmarks.long_questions DIR OUT
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
SENTENCE = re.compile(r"[^.!?]+(?:[.!?](?!\s|$)[^.!?]*)*[.!?]?(?=\s|$)")
LEAST_WORDS = 6
LEFT_CHARS = 200
"""What a page or paragraph must keep, so that it can be found."""


class Judged(NamedTuple):
    """A judged set.

    Attributes:
        corpus: Documents with ``id``, ``title`` and ``text``.
        queries: Questions with ``id`` and ``text``.
        qrels: Query id → ids of the documents that answer, in order of the file.
    """

    corpus: list[Row]
    queries: list[Row]
    qrels: dict[str, list[str]]


def read_rows(path: Path) -> list[Row]:
    """Read one JSON object a line, with whatever fields it has."""
    from ragstream_core.evaluation.retrieval import read_jsonl

    return [{**row} for row in read_jsonl(path)]


def read(folder: Path) -> Judged:
    """Read a set in the layout that `ragstream eval retrieval` reads."""
    from ragstream_core.evaluation.retrieval import read_qrels

    qrels = read_qrels(folder / "qrels.tsv")
    return Judged(
        read_rows(folder / "corpus.jsonl"),
        read_rows(folder / "queries.jsonl"),
        {query: [d for d, grade in found.items() if grade > 0] for query, found in qrels.items()},
    )


def write(folder: Path, made: Judged) -> None:
    """Write a set in that layout."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", made.corpus), ("queries", made.queries)):
        lines = [json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    judged = [f"{query}\t{d}\t1" for query, found in made.qrels.items() for d in found]
    lines = ["query-id\tcorpus-id\tscore", *judged]
    (folder / "qrels.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that have six words or more, as they stand in it."""
    found = (match.group().strip() for match in SENTENCE.finditer(text))
    return [sentence for sentence in found if len(sentence.split()) >= LEAST_WORDS]


def prose(page: str) -> list[str]:
    """Return the sentences of a Markdown page's paragraphs, none of code, lists or tables."""
    plain = re.sub(r"^(```|~~~).*?^\1", "", page, flags=re.DOTALL | re.MULTILINE)
    lines = [
        x for x in plain.splitlines() if x[:1].isalpha() and not x.startswith(("import ", "|"))
    ]
    return [sentence for line in lines for sentence in sentences(line)]


def evenly(found: Sequence[str], n: int) -> list[str]:
    """Return ``n`` of them, spread over the whole."""
    return [found[i * len(found) // n] for i in range(n)]


def background(judged: Judged) -> Judged:
    """Ask each question after three sentences of an abstract that answers, which is taken away."""
    texts, gone = {row["id"]: row["text"] for row in judged.corpus}, dict[str, str]()
    for query, found in judged.qrels.items():
        usable = [d for d in found if len(sentences(texts[d])) >= 3]
        if len(found) >= 3 and usable:
            gone[query] = usable[len(usable) // 2]
    taken = set(gone.values())
    left = {q: [d for d in judged.qrels[q] if d not in taken] for q in gone}
    asked = {row["id"]: row for row in judged.queries}
    queries = [
        {"id": q, "text": typed([*sentences(texts[gone[q]])[:3], asked[q]["text"]])}
        for q in gone
        if left[q] and q in asked
    ]
    corpus = [row for row in judged.corpus if row["id"] not in taken]
    return Judged(corpus, queries, {row["id"]: left[row["id"]] for row in queries})


def typed(found: Sequence[str]) -> str:
    """Return sentences of a text all in small letters, ``like this .``, as people type them."""
    plain = [re.sub(r"\s+([.,;?!])", r"\1", " ".join(sentence.split())) for sentence in found]
    return " ".join(sentence[:1].upper() + sentence[1:] for sentence in plain)


def cloze(
    judged: Judged,
    choose: Callable[[Row, Row], Sequence[str]],
    join: Callable[[str, Sequence[str]], str],
) -> Judged:
    """Ask one question of each document together with sentences that are taken out of it.

    Args:
        judged: Each question is answered by one document.
        choose: (question, document) → the sentences; none: the document is not asked for.
        join: (question, sentences) → the long question.
    """
    documents = {row["id"]: dict(row) for row in judged.corpus}
    queries, asked = [], set[str]()
    for query in judged.queries:
        name = judged.qrels[query["id"]][0]
        chosen = choose(query, documents[name]) if name not in asked else ()
        left = _without(documents[name]["text"], chosen)
        if chosen and len(left) >= LEFT_CHARS:
            asked.add(name)
            documents[name]["text"] = left
            queries.append({"id": query["id"], "text": join(query["text"], chosen)})
    qrels = {row["id"]: judged.qrels[row["id"]][:1] for row in queries}
    return Judged(list(documents.values()), queries, qrels)


def _without(text: str, gone: Iterable[str]) -> str:
    for sentence in gone:
        text = text.replace(sentence, " ")
    return text


def of_guide(query: Row, page: Row) -> Sequence[str]:
    """Choose three sentences of a guide page that has six."""
    found = [s for s in dict.fromkeys(prose(page["text"])) if s not in query["text"]]
    return evenly(found, 3) if len(found) >= 6 else ()


def of_paragraph(query: Row, paragraph: Row) -> Sequence[str]:
    """Choose two sentences of a paragraph that has four, none with the answer."""
    meta: Mapping[str, Any] = query["meta"]
    found = [s for s in sentences(paragraph["text"]) if str(meta["answer"]) not in s]
    return evenly(found, 2) if len(found) >= 3 else ()


def around(question: str, told: Sequence[str]) -> str:
    """Put a question between the first and the other sentences."""
    return " ".join([told[0], question, *told[1:]])


def last(question: str, told: Sequence[str]) -> str:
    """Put a question behind the sentences."""
    return " ".join([*told, question])


def guides(judged: Judged) -> Judged:
    """Return the pages below ``docs/`` and the questions they answer."""
    corpus = [row for row in judged.corpus if row["id"].startswith("docs/")]
    names = {row["id"] for row in corpus}
    qrels = {q: found for q, found in judged.qrels.items() if found[0] in names}
    return Judged(corpus, [row for row in judged.queries if row["id"] in qrels], qrels)


MAKERS: dict[str, tuple[str, Callable[[Judged], Judged]]] = {
    "cranfield-background": ("cranfield", background),
    "haystack-cloze": ("haystack-docs", lambda found: cloze(guides(found), of_guide, around)),
    "squad2-cloze": ("squad2", lambda found: cloze(found, of_paragraph, last)),
}


def make(source: Path, out: Path) -> list[str]:
    """Make every set whose source is there; return their names."""
    made = [name for name, (folder, _) in MAKERS.items() if (source / folder).is_dir()]
    for name in made:
        folder, maker = MAKERS[name]
        write(out / name, maker(read(source / folder)))
    return made


if __name__ == "__main__":
    print("\n".join(make(Path(sys.argv[1]), Path(sys.argv[2]))))
