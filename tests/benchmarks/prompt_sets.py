"""Projects and gold files for `ragstream eval prompts`, made of judged sets and of labels by hand.

    python -m tests.benchmarks.prompt_sets DIR DATA

writes the documents of every set below DATA/doc_raw and its gold files into DATA/gold, two a set:
``SET-choose.jsonl`` may choose a rule or a number, ``SET-judge.jsonl`` measures it. The halves were
fixed before the first run: of SQuAD 2.0 the articles with an even number choose, of the labels by
hand and of the Haystack documentation every other question; composites only judge. DIR holds
folders with corpus.jsonl, queries.jsonl and qrels.tsv; a set that is not there is left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragstream_core.evaluation.retrieval import read_qrels
from tests.benchmarks.long_questions import Row, read_rows

ROOT = Path(__file__).parents[2]
GOLD = Path(__file__).parent / "gold"
HALVES = ("choose", "judge")
SAMPLE = 150
AROUND = 24
TOPICS = (
    "with", "try", "raise", "assert", "import", "slicings", "integers", "identifiers", "global",
    "for", "function", "calls", "formatstrings", "debugger", "compound", "types", "specialnames",
    "execmodel", "comparisons", "string-methods", "typesseq", "typesmapping",
)  # fmt: skip
PACKAGES = ("agents", "index", "platform", "retrieval", "text")
"""The source code that is asked about."""


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Return so many rows, evenly apart; all if there are no more."""
    step = max(1.0, len(rows) / count)
    return [rows[int(n * step)] for n in range(min(count, len(rows)))]


def squad2(folder: Path, half: int, *, count: int = SAMPLE) -> list[Row]:
    """Return 150 questions that a paragraph answers, and 150 that none does, of half the articles.

    Args:
        folder: Holds ``squad2`` and ``squad2-unanswerable``.
        half: 0: even articles, 1: odd ones.
        count: So many of each; 0: all.
    """
    qrels = read_qrels(folder / "squad2" / "qrels.tsv")
    yes = [
        {"id": q["id"], "question": q["text"], "file": f"{paragraph}.md",
         "answer": q["meta"]["answer"]}
        for q in read_rows(folder / "squad2" / "queries.jsonl")
        for paragraph in qrels[q["id"]]
        if _article(paragraph) % 2 == half
    ]  # fmt: skip
    no = [
        {"id": q["id"], "question": q["text"], "unanswerable": True, "note": f"near {q['near']}"}
        for q in read_rows(folder / "squad2-unanswerable" / "queries.jsonl")
        if _article(q["near"]) % 2 == half
    ]
    return [*spread(yes, count or len(yes)), *spread(no, count or len(no))]


def _article(paragraph: str) -> int:
    return int(paragraph.split("-")[0])


def composites(folder: Path) -> Iterator[Row]:
    """Yield a hundred questions of each kind, with the words around each part's answer."""
    texts = {row["id"]: row["text"] for row in read_rows(folder / "squad2" / "corpus.jsonl")}
    qrels = read_qrels(folder / "squad2" / "qrels.tsv")
    of: dict[str, list[Row]] = {}
    for query in read_rows(folder / "squad2" / "queries.jsonl"):
        for paragraph in qrels[query["id"]]:
            of.setdefault(paragraph, []).append(query)
    wanted = read_qrels(folder / "squad2-composites" / "qrels.tsv")
    kinds: dict[str, list[Row]] = {}
    for query in read_rows(folder / "squad2-composites" / "queries.jsonl"):
        kinds.setdefault(query["meta"]["kind"], []).append(query)
    for rows in kinds.values():
        for query in spread(rows, 100):
            passages = [
                _around(texts[paragraph], part["meta"])
                for paragraph in wanted[query["id"]]
                for part in of.get(paragraph, [])
                if part["text"] in query["text"]
            ]
            yield {"id": query["id"], "question": query["text"],
                   "files": [f"{paragraph}.md" for paragraph in wanted[query["id"]]],
                   "passages": passages, "note": query["meta"]["kind"]}  # fmt: skip


def _around(text: str, meta: Mapping[str, Any]) -> str:
    """Return the answer with some whole words on both sides."""
    start, end = meta["answer_start"], meta["answer_start"] + len(meta["answer"])
    left = text[max(0, start - AROUND) : start]
    right = text[end : end + AROUND]
    left = left[left.find(" ") + 1 :] if start > AROUND else left
    right = right[: right.rfind(" ")] if end + AROUND < len(text) and " " in right else right
    return (left + text[start:end] + right).strip()


def haystack(folder: Path, half: int) -> list[Row]:
    """Return every other description of a page; what is expected is the page."""
    qrels = read_qrels(folder / "haystack-docs" / "qrels.tsv")
    return [
        {"id": q["id"], "question": q["text"], "files": [f"{page}.md" for page in qrels[q["id"]]]}
        for q in read_rows(folder / "haystack-docs" / "queries.jsonl")[half::2]
    ]


def by_hand(name: str, half: int) -> list[Row]:
    """Return every other question of a set that was labelled by hand."""
    lines = (GOLD / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines][half::2]


def write_corpus(rows: Sequence[Row], folder: Path) -> None:
    """Write the documents of a judged set, one file each."""
    for row in rows:
        path = folder / f"{row['id']}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        title, text = row.get("title"), row["text"]
        head = f"# {title}\n\n" if title and not text.lstrip().startswith("# ") else ""
        if text.strip():
            path.write_text(head + text, encoding="utf-8")


def write_manual(path: Path) -> None:
    """Write topics of Python's language reference as a PDF (PSF licence; it comes with Python)."""
    from pydoc_data.topics import topics

    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import PageBreak, Paragraph, Preformatted, SimpleDocTemplate, Spacer

    styles, parts = getSampleStyleSheet(), []
    for topic in TOPICS:
        for number, block in enumerate(topics[topic].strip().split("\n\n")):
            lines = block.strip("\n").split("\n")
            ruled = len(lines) > 1 and set(lines[1].strip()) <= {"*", "=", "-"} and lines[1].strip()
            if ruled:
                style = styles["Heading1" if number == 0 else "Heading2"]
                parts.append(Paragraph(_escaped(lines[0]), style))
            elif lines[0].startswith("   ") and not lines[0].lstrip()[:1].isupper():
                parts.append(Preformatted("\n".join(lines), styles["Code"], maxLineLength=90))
            else:
                parts.append(Paragraph(_escaped(" ".join(block.split())), styles["BodyText"]))
            parts.append(Spacer(1, 4))
        parts.append(PageBreak())
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleDocTemplate(str(path), pagesize=A4, invariant=1, title="The language").build(parts)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def write_sets(folder: Path, data: Path) -> list[str]:
    """Write documents and gold files; return the names of the sets.

    Args:
        folder: The judged sets; need not exist.
        data: A data root.
    """
    made: dict[str, tuple[list[Row], list[Row]]] = {}
    for name in ("handbook", "source_code", "manual"):
        made[name] = (by_hand(name, 0), by_hand(name, 1))
    documents = data / "doc_raw"
    _copied(ROOT / "data" / "doc_raw" / "handbook", documents / "handbook")
    for package in PACKAGES:
        _copied(ROOT / "ragstream_core" / package, documents / "source_code" / package)
    write_manual(documents / "manual" / "language-reference.pdf")
    if (folder / "squad2" / "corpus.jsonl").is_file():
        write_corpus(read_rows(folder / "squad2" / "corpus.jsonl"), documents / "squad2")
        if (folder / "squad2-unanswerable").is_dir():
            made["squad2"] = (squad2(folder, 0), squad2(folder, 1))
        if (folder / "squad2-composites").is_dir():
            made["squad2-composites"] = ([], [*composites(folder)])
    if (folder / "haystack-docs" / "corpus.jsonl").is_file():
        rows = read_rows(folder / "haystack-docs" / "corpus.jsonl")
        write_corpus(rows, documents / "haystack-docs")
        made["haystack-docs"] = (haystack(folder, 0), haystack(folder, 1))
    (data / "gold").mkdir(parents=True, exist_ok=True)
    for name, halves in made.items():
        for half, rows in zip(HALVES, halves, strict=True):
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            if lines:
                (data / "gold" / f"{name}-{half}.jsonl").write_text("".join(lines), "utf-8")
    return [*made]


def _copied(source: Path, target: Path) -> None:
    hidden = shutil.ignore_patterns("__pycache__", "*.yaml")
    shutil.copytree(source, target, ignore=hidden, dirs_exist_ok=True)


def project_of(name: str) -> str:
    """Return the project that holds a set's documents."""
    return "squad2" if name.startswith("squad2") else name


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    print(", ".join(write_sets(given.folder, given.data)))
