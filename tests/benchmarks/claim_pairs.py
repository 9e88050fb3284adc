"""Sentences with the paragraph that they cite, and whether it supports them; made from SQuAD.

True ones: a sentence of the paragraph as it stands, one with its opening phrase left out, a
question turned into a statement with its answer. False ones: the same with another answer of the
same paragraph, with a number changed, two names changed places, another name, an opposite word, a
`not` put in or taken out, and true ones that cite another paragraph. The labels hold by how the
pairs are made; nobody read each of them.
"""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragstream_core.text.sentences import sentences_in

SEED = 7
EACH = {"question and answer": 120}
MOST = 60
"""Most pairs of a kind; `MOST` for the others."""
OPPOSITES = tuple(
    pair
    for a, b in (
        ("more", "less"), ("before", "after"), ("first", "last"), ("increased", "decreased"),
        ("largest", "smallest"), ("high", "low"), ("higher", "lower"), ("north", "south"),
        ("eastern", "western"), ("early", "late"), ("old", "new"), ("always", "never"),
        ("won", "lost"), ("positive", "negative"), ("strong", "weak"), ("public", "private"),
        ("with", "without"), ("most", "least"), ("all", "no"), ("long", "short"),
        ("internal", "external"), ("major", "minor"), ("began", "ended"), ("allowed", "forbidden"),
    )
    for pair in ((a, b), (b, a))
)  # fmt: skip
_STATED = re.compile(r"(?:Who|What|Which \w+) (?!did|do|does|else|other)(\w+) (.+?)\?*$")
_DEFINED = re.compile(r"What (is|was|are|were) (the [^?]+?)\?*$")
_INVERTS = re.compile(r"\b(?:to|of|for|from|in|as|by|with|called|known|named|on|at|about|into)$")
_AUXILIARY = {"is", "was", "are", "were", "has", "had", "can", "may", "could", "will"}
_VERB = re.compile(r"\b(is|was|are|were|has|had|can|could|will) (?!not\b)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*")
_NUMBER = re.compile(r"\b\d[\d,]*\b")
_OPENING = re.compile(r"^(?:In|During|After|By|At|From|Since|On) [^,]{4,60}, (?=[a-zA-Z])")


class Pair(NamedTuple):
    """One labelled pair."""

    kind: str
    article: int
    sentence: str
    passage: str
    supported: bool


class _Asked(NamedTuple):
    article: int
    paragraph: str
    passage: str
    question: str
    answer: str


def pairs(folder: Path) -> list[Pair]:
    """Return the pairs of a SQuAD folder (corpus.jsonl, queries.jsonl, qrels.tsv), always the same.

    Args:
        folder: The folder.
    """
    asked = _asked(folder)
    dice = random.Random(SEED)  # noqa: S311
    kinds: dict[str, list[Pair]] = {}
    for pair in _made(asked, dice):
        kinds.setdefault(pair.kind, []).append(pair)
    return [
        pair
        for kind, found in kinds.items()
        for pair in dice.sample(found, min(EACH.get(kind, MOST), len(found)))
    ]


def _asked(folder: Path) -> list[_Asked]:
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    corpus = {row["id"]: row for row in map(json.loads, lines)}
    qrels = (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]
    home = dict(line.split("\t")[:2] for line in qrels)
    found = []
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        document = corpus[home[row["id"]]]
        found.append(
            _Asked(
                document["meta"]["article"], document["id"], document["text"],
                row["text"].strip(), row["meta"]["answer"].strip(" ."),
            )
        )  # fmt: skip
    return found


def _made(asked: list[_Asked], dice: random.Random) -> Iterator[Pair]:
    by_article: dict[int, list[_Asked]] = {}
    by_paragraph: dict[str, list[_Asked]] = {}
    for row in asked:
        by_article.setdefault(row.article, []).append(row)
        by_paragraph.setdefault(row.paragraph, []).append(row)
    for row in asked:
        said = _stated(row.question, row.answer)
        if said:
            yield Pair("question and answer", row.article, said, row.passage, True)
            others = [r.answer for r in by_paragraph[row.paragraph] if _other(r.answer, row.answer)]
            if others:
                wrong = _stated(row.question, dice.choice(others))
                yield Pair("another answer", row.article, wrong, row.passage, False)
            if _VERB.search(said):
                no = _VERB.sub(lambda m: f"{m[1]} not ", said, count=1)
                yield Pair("a not put in", row.article, no, row.passage, False)
            far = [r for r in by_article[row.article] if row.answer not in r.passage]
            if far:
                there = dice.choice(far).passage
                yield Pair("another paragraph", row.article, said, there, False)
    for rows in by_paragraph.values():
        yield from _from_sentences(rows[0], dice)
    names = {row.article: _NAME.findall(row.passage) for row in asked}
    for rows in by_paragraph.values():
        yield from _foreign_name(rows[0], names, dice)
        yield from _turned(rows[0])


def _from_sentences(row: _Asked, dice: random.Random) -> Iterator[Pair]:
    whole = [row.passage[a:b] for a, b in sentences_in(row.passage)]
    said = [text for text in whole if 6 <= len(text.split()) <= 45]
    if not said:
        return
    text = dice.choice(said)
    yield Pair("as it stands", row.article, text, row.passage, True)
    opened = [t for t in said if _OPENING.match(t)]
    if opened:
        rest = _OPENING.sub("", opened[0], count=1)
        yield Pair("shortened", row.article, rest[0].upper() + rest[1:], row.passage, True)
    for text in said:
        numbers = _NUMBER.findall(text)
        if numbers:
            old = dice.choice(numbers)
            new = re.sub(r"\d", lambda m: str((int(m[0]) + 3) % 10), old)
            if new not in row.passage:
                yield Pair(
                    "a number changed", row.article, text.replace(old, new), row.passage, False
                )
            break
    for text in said:
        names = list(dict.fromkeys(_NAME.findall(text)))
        apart = [(a, b) for a in names for b in names if a < b and _are_apart(a, b, text)]
        if apart:
            a, b = apart[0]
            turned = text.replace(a, "\0").replace(b, a).replace("\0", b)
            yield Pair("names changed places", row.article, turned, row.passage, False)
            break


def _turned(row: _Asked) -> Iterator[Pair]:
    """Yield a sentence with an opposite word in it, and one without its denial."""
    said = [row.passage[a:b] for a, b in sentences_in(row.passage)]
    for text in said:
        pair = next((p for p in OPPOSITES if re.search(rf"\b{p[0]}\b", text)), None)
        if pair and not re.search(rf"\b{pair[1]}\b", row.passage):
            changed = re.sub(rf"\b{pair[0]}\b", pair[1], text, count=1)
            yield Pair("an opposite word", row.article, changed, row.passage, False)
            break
    denied = next((text for text in said if re.search(r"\bnot \b", text)), "")
    if denied:
        yes = re.sub(r"\bnot ", "", denied, count=1)
        yield Pair("a not taken out", row.article, yes, row.passage, False)


def _are_apart(a: str, b: str, text: str) -> bool:
    """Say whether two names are others and do not stand in one list, where their order is free."""
    listed = rf"{a}(?:,| and| or) [^.]{{0,40}}{b}|{b}(?:,| and| or) [^.]{{0,40}}{a}"
    return a not in b and b not in a and not re.search(listed, text)


def _foreign_name(row: _Asked, names: dict[int, list[str]], dice: random.Random) -> Iterator[Pair]:
    """Yield a sentence with one name replaced by a name of another article."""
    said = [row.passage[a:b] for a, b in sentences_in(row.passage)]
    named = [(text, _NAME.findall(text)) for text in said if _NAME.search(text)]
    there = [n for article, found in names.items() if article != row.article for n in found]
    new = dice.choice(there)
    if named and new not in row.passage:
        text, found = dice.choice(named)
        changed = text.replace(dice.choice(found), new)
        yield Pair("a name from elsewhere", row.article, changed, row.passage, False)


def _stated(question: str, answer: str) -> str:
    """Return a question with its answer as a statement, "" where its form is another."""
    if len(answer.split()) > 12:
        return ""
    first = answer[0].upper() + answer[1:]
    defined = _DEFINED.match(question)
    if defined and not _INVERTS.search(defined[2]):
        subject = defined[2]
        return f"{subject[0].upper()}{subject[1:]} {defined[1]} {answer}."
    stated = _STATED.match(question)
    if not stated or _INVERTS.search(stated[2]):
        return ""
    verb = stated[1]
    if verb in _AUXILIARY or verb.endswith("ed") or question.startswith("Who "):
        return f"{first} {verb} {stated[2]}."
    return ""


def _other(answer: str, than: str) -> bool:
    """Say whether an answer is another one of the same make."""
    a, b = set(answer.casefold().split()), set(than.casefold().split())
    same = answer[0].isdigit() == than[0].isdigit() and answer[0].isupper() == than[0].isupper()
    return same and not a & b and len(answer.split()) <= 12
