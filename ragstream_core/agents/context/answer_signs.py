"""Signs of whether some passages answer a question: what its words find in the nearest sentence.

Nearness of a word to a sentence is its best cosine with one of the sentence's tokens (as MaxSim,
per sentence and not per passage), or, without token vectors, 1 if the sentence holds the word and
0 otherwise. Words count by how few of the sentences hold them: ln(1 + (N − df + 0.5)/(df + 0.5)).
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ragstream_core.agents.context.coverage import VAGUE, VAGUE_WEIGHT
from ragstream_core.agents.context.quotable import Terms
from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.sentences import sentences_in
from ragstream_core.text.task_words import is_saying, small_words, what_is_asked

Span = tuple[int, int]

# (question, its words, (passage, its sentences) …) → for each sentence one number a word.
Nearness = Callable[[str, Sequence[Span], Sequence[tuple[str, Sequence[Span]]]], list[list[float]]]
DIGITS = 6
MOST_PASSAGES = 6
_WORD = re.compile(r"[^\W_]+(?:[.'’_-][^\W_]+)*")
_CAPITAL = re.compile(r"(?<!^)\b[A-Z][\w'’.-]+")
_DATE = re.compile(
    r"\b(?:1\d{3}|20\d\d|\d{1,3}0s|\d{1,2}(?:st|nd|rd|th) century|January|February|March|April|May"
    r"|June|July|August|September|October|November|December)\b"
)
_COUNT = re.compile(
    r"\b(?:\d[\d,.]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty"
    r"|thirty|forty|fifty|hundreds?|thousands?|million|billion|half|third|quarter|several|double"
    r"|twice|both|percent|most|few|many)\b",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
# "without" denies nothing: it names a circumstance that is asked about
_NEGATES = re.compile(
    r"\b(?:not|never|cannot|no longer|except|neither|nor|\w+n['’]t)\b", re.IGNORECASE
)
_ASKS_COUNT = re.compile(
    r"\bhow (?:many|much|long|old|far|often|large|big|tall|high|deep|wide|fast)\b|\bwhat (?:number"
    r"|percent\w*|amount|population|proportion|fraction)\b",
    re.IGNORECASE,
)
_ASKS_DATE = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century|decade|time)\b", re.IGNORECASE
)
_ASKS_NAME = re.compile(
    r"\b(?:who|whom|whose|where)\b"
    r"|\b(?:what|which) (?:country|city|place|state|region|town|area)\b",
    re.IGNORECASE,
)
_SMALL_TEXT = (
    "a an the of to in on at by for from with as is are was were be been being do does did done has"
    " have had having will would can could may might shall should must and or but if than then that"
    " this these those it its their his her he she they them him we you i my your our who whom"
    " whose which what when where why how there here into onto about over under between among"
    " during after before many much some any all each every no not also other another such so one"
    " ones type kind called name der die das ein eine und ist sind war wie wer wo wann was welche"
    " den dem des zu im von mit le la les des un une et est sont que qui quel quelle du de el los"
    " las es son en por para"
)

# Words that say nothing by themselves in a question.
SMALL_WORDS = frozenset(_SMALL_TEXT.split())


class Word(NamedTuple):
    """A word of a question that says something.

    Attributes:
        text: As written.
        span: Where it stands in the question.
        stems: Its stems.
        is_name: Whether it names something: a digit, or a capital that no sentence begins with.
    """

    text: str
    span: Span
    stems: tuple[str, ...]
    is_name: bool


class Sentence(NamedTuple):
    """What is read of a sentence of a passage.

    Attributes:
        span: Where it stands in the passage.
        stems: Its stems.
        names: Stems of each word with a capital that does not begin it.
        dates: Years, months, centuries.
        counts: Numbers and words of number.
        negates: Whether it denies something.
    """

    span: Span
    stems: frozenset[str]
    names: tuple[frozenset[str], ...]
    dates: frozenset[str]
    counts: frozenset[str]
    negates: bool


@functools.lru_cache(maxsize=4_096)  # the same passages come back prompt after prompt
def sentences_of(text: str, terms: Terms) -> tuple[Sentence, ...]:
    """Read the sentences, rows and blocks of code of a passage, in order; at least one."""
    spans: list[Span] = []
    for block in blocks(text):
        whole = (block.start, block.end)
        prose = block.kind in ("prose", "item")
        spans += sentences_in(text, *whole) if prose else [whole]
    spans = [span for span in spans if text[slice(*span)].strip()]
    return tuple(_read(text, span, terms) for span in spans or [(0, len(text))])


def _read(text: str, span: Span, terms: Terms) -> Sentence:
    said = text[slice(*span)]
    names = tuple(frozenset(terms(name)) for name in _CAPITAL.findall(said))
    counts = frozenset(found.lower() for found in _COUNT.findall(said))
    dates = frozenset(_DATE.findall(said))
    return Sentence(span, frozenset(terms(said)), names, dates, counts, bool(_NEGATES.search(said)))


def words_of(question: str, terms: Terms) -> list[Word]:
    """Return the words of a question that say something, in order.

    What tells the reader to do something ("explain", "write") is no such word.
    """
    found = []
    asked = frozenset(_WORD.findall(what_is_asked(question)))
    for match in _WORD.finditer(question):
        text = match.group()
        stems = tuple(terms(text))
        if stems and text in asked and text.lower() not in SMALL_WORDS and not is_saying(text):
            first = not question[: match.start()].strip(" \"'`*([“¿¡")
            inner = any(c.isdigit() or c == "_" for c in text) or any(map(str.isupper, text[1:]))
            found.append(
                Word(text, match.span(), stems, inner or (text[0].isupper() and not first))
            )
    return found


class Wanted(NamedTuple):
    """What a question asks for.

    Attributes:
        kind: The pattern that says it; None: anything.
        low: The question in small letters.
        stems: Its stems.
    """

    kind: re.Pattern[str] | None
    low: str
    stems: frozenset[str]


def holds_candidate(wanted: Wanted, sentence: Sentence) -> bool:
    """Return whether a sentence holds something of the kind that is asked for.

    A number for "how many", a date for "when", a name for "who" and "where", and for anything else
    a word; in each case one that is not in the question itself.

    Args:
        wanted: What the question asks for.
        sentence: The sentence.
    """
    if wanted.kind is _ASKS_COUNT:
        return any(found not in wanted.low for found in sentence.counts)
    if wanted.kind is _ASKS_DATE:
        return any(found.lower() not in wanted.low for found in sentence.dates)
    if wanted.kind is _ASKS_NAME:
        return any(not stems <= wanted.stems for stems in sentence.names)
    return not sentence.stems <= wanted.stems


def _wanted(question: str, terms: Terms) -> Wanted:
    kinds = (_ASKS_COUNT, _ASKS_DATE, _ASKS_NAME)
    kind = next((kind for kind in kinds if kind.search(question)), None)
    return Wanted(kind, question.lower(), frozenset(terms(question)))


class Passage(NamedTuple):
    """A passage that may answer.

    Attributes:
        text: All of it.
        sentences: All that was read of it, in order; at least one.
        cosine: With the question, in [-1, 1].
        end: How much of the text is shown; None: all of it.
    """

    text: str
    sentences: Sequence[Sentence]
    cosine: float
    end: int | None = None

    @property
    def shown(self) -> Sequence[Sentence]:
        """The sentences that are shown; the first one at least."""
        if self.end is None:
            return self.sentences
        return [s for s in self.sentences if s.span[1] <= self.end] or self.sentences[:1]


class Signs(NamedTuple):
    """What speaks for an answer and what against it.

    Attributes:
        values: Name of a sign → number.
        passage: Position of the passage with the nearest sentence.
        span: That sentence in it.
        farthest: The word of the question that this sentence lacks and is farthest from, by weight;
            empty if it lacks none but words that say little in the question's language.
    """

    values: Mapping[str, float]
    passage: int
    span: Span
    farthest: str


def signs_of(
    question: str, passages: Sequence[Passage], terms: Terms, nearness: Nearness | None = None,
    *, beside: Sequence[Passage] = (),
) -> Signs | None:  # fmt: skip
    """Return the signs of a question over some passages; None if it says nothing, or there is none.

    Args:
        question: A query piece.
        passages: At most `MOST_PASSAGES` of them, those nearest to the question.
        terms: Stems a text.
        nearness: By token vectors; None: by words alone.
        beside: Passages that are not shown: they answer nothing, but say how common a word is and
            how far the best sentence leads.
    """
    words = words_of(question, terms)
    if not words or not passages:
        return None
    shown = [(passage.text, passage.shown) for passage in (*passages, *beside)]
    read = [(at, s) for at, (_, sentences) in enumerate(shown) for s in sentences]
    said = [[float(not s.stems.isdisjoint(w.stems)) for w in words] for _, s in read]
    near = said
    if nearness is not None:
        places = [(text, [s.span for s in sentences]) for text, sentences in shown]
        near = nearness(question, [w.span for w in words], places)
    weights = _weights(words, [s for _, s in read])
    best = max(passage.cosine for passage in passages)
    wanted = _wanted(question, terms)
    return _Read(question, words, weights, read, said, near, len(passages)).signs(best, wanted)


def _weights(words: Sequence[Word], sentences: Sequence[Sentence]) -> list[float]:
    held, total = [sentence.stems for sentence in sentences], len(sentences)
    df = {x: sum(x in stems for stems in held) for word in words for x in word.stems}

    def weight(word: Word) -> float:
        rarest = max(math.log1p((total - df[x] + 0.5) / (df[x] + 0.5)) for x in word.stems)
        return rarest * (VAGUE_WEIGHT if VAGUE.issuperset(word.stems) else 1.0)

    return [weight(word) for word in words]


class _Read(NamedTuple):
    """A question and the sentences read for it; the first ``shown`` passages are shown."""

    question: str
    words: list[Word]
    weights: list[float]
    sentences: list[tuple[int, Sentence]]
    said: list[list[float]]
    near: list[list[float]]
    shown: int

    def share(self, row: Sequence[float]) -> float:
        """Return the mean of a number a word, by the words' weights."""
        return math.fsum(map(operator.mul, self.weights, row)) / math.fsum(self.weights)

    def signs(self, cosine: float, wanted: Wanted) -> Signs:
        shares = [round(self.share(row), DIGITS) for row in self.near]
        mine = [i for i, (p, _) in enumerate(self.sentences) if p < self.shown]
        best = max(mine, key=lambda i: (shares[i], -i))
        at, nearest = self.sentences[best]
        near, said = self.near[best], self.said[best]
        same = [row for (p, _), row in zip(self.sentences, self.near, strict=True) if p == at]
        other = [x for (p, _), x in zip(self.sentences, shares, strict=True) if p != at]
        fitting = [shares[i] for i in mine if holds_candidate(wanted, self.sentences[i][1])]
        words = range(len(self.words))
        missing = [w * (1 - x) for w, x in zip(self.weights, near, strict=True)]
        names = [1 - x for word, x in zip(self.words, near, strict=True) if word.is_name]
        numbers = [1 - x for w, x in zip(self.words, said, strict=True) if _DIGIT.search(w.text)]
        negates = bool(_NEGATES.search(self.question))
        found = {
            "sentence": shares[best],
            "sentence_words": self.share(said),
            "weakest_word": min(near),
            "product": math.exp(math.fsum(math.log(max(x, 0.05)) for x in near) / len(near)),
            "missing_most": max(missing),
            "passage": self.share([max(column) for column in zip(*same, strict=True)]),
            "anywhere": self.share([max(self.said[i][w] for i in mine) for w in words]),
            "fitting_sentence": max(fitting, default=0.0),
            "margin": shares[best] - max(other, default=0.0) if other else 0.0,
            "missing_name": max(names, default=0.0),
            "missing_number": float(sum(numbers)),
            "negation": float(negates and not nearest.negates),
            "question_negates": float(negates),
            "cosine": cosine,
        }
        small = small_words(self.question)
        lacking = [i for i in words if not said[i] and self.words[i].text.lower() not in small]
        worst = max(lacking, key=lambda i: (missing[i], -i), default=None)
        rounded = {name: round(value, DIGITS) for name, value in found.items()}
        farthest = "" if worst is None else self.words[worst].text
        return Signs(rounded, at, nearest.span, farthest)
