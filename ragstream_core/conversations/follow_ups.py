"""Follow-up questions: "And its weight?" is read with what was asked before it.

No model takes part. A question leans on the one before it if it points back ("it", "their"), goes
on asking ("and …", "what about …") or has no subject ("How heavy?"). What it leans on are the names
of the question before, or if there are none all of its words; a name of its own takes their place.
The words by which this is seen are data, by language, in ``follow_ups.yaml``.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ragstream_core.conversations.given import Pair
from ragstream_core.records.identity import canonical_json
from ragstream_core.text.sentences import is_filler, sentence_spans

# A longer question says itself what it is about.
MAX_CHARS = 160
# So many turns before the question are looked at.
TURNS = 8
# Words of its own that a question may have which only goes on asking.
_MAX_OWN = 2
# Words of its own that a question may have which points back.
_MAX_AFTER = 4
_MAX_ABOUT = 12
_ANSWER_CHARS = 240
_ANSWER_NAMES = 2
_WORD = re.compile(r"\w+(?:[-./_'’]\w+)*")
_INVERTED = re.compile(r"(?<=\w)-(?=(?:t-)?(?:ils?|elles?|on|je|tu|nous|vous)\b)", re.IGNORECASE)
_ELIDED = re.compile(r"\b(?:[ldjnmtsc]|qu)['’](?=\w)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s$")

# What stands behind these is a thing that is asked about, and not where it is.
_OF = ("of", "for", "von", "vom", "für", "de", "du", "del", "pour", "para")
_ONE = ("one", "ones")
_THAT_ONE = re.compile(r"^\s+ones?\b", re.IGNORECASE)
_CITED = re.compile(r"\[[^\]]*\]")
_EDGE = " \t\n¿?¡!.,;:"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """How a question is read that leans on the one before it."""

    about: str  # what was asked about before, as far as it holds for the question
    query: str  # the question with it: by this passages are searched and judged

    def pinned(self) -> str:
        """Return the text that a prompt pins."""
        return canonical_json([self.about, self.query])

    @classmethod
    def of_pinned(cls, text: str) -> FollowUp | None:
        """Return what a prompt has pinned; None of an empty text."""
        return cls(*json.loads(text)) if text else None


@dataclass(frozen=True, slots=True)
class _Language:
    about: tuple[str, ...]
    and_: tuple[str, ...]
    pronouns: frozenset[str]
    bare: frozenset[str]
    prepositions: frozenset[str]
    how: frozenset[str]
    function: frozenset[str]
    expletive: re.Pattern[str]
    names_by_capital: bool

    def known(self, word: str) -> bool:
        return any(word in words for words in (self.function, self.pronouns, self.bare, self.and_))


@dataclass(frozen=True, slots=True)
class _Token:
    """A word of a question: what it names, and the preposition before it."""

    text: str
    kind: str  # "name", "number", "content", "function"
    at: int
    before: str = ""

    @property
    def key(self) -> str:
        return self.text.casefold()


@dataclass(frozen=True, slots=True)
class _Topic:
    """What a conversation is about after a turn: a thing, and what was asked of it."""

    thing: tuple[_Token, ...] = ()
    asked: tuple[_Token, ...] = ()

    @property
    def all(self) -> tuple[_Token, ...]:
        return tuple(sorted((*self.asked, *self.thing), key=lambda token: token.at))

    @property
    def is_named(self) -> bool:
        return any(token.kind == "name" for token in self.thing)


@functools.cache
def _languages() -> dict[str, _Language]:
    import yaml

    text = resources.files(__package__).joinpath("follow_ups.yaml").read_text(encoding="utf-8")
    return {name: _language(name, row) for name, row in yaml.safe_load(text).items()}


def _language(name: str, row: dict[str, Any]) -> _Language:
    return _Language(
        about=tuple(sorted(row["about"], key=len, reverse=True)),
        and_=tuple(row["and"]),
        pronouns=frozenset(row["pronouns"].split()),
        bare=frozenset(row["bare"].split()),
        prepositions=frozenset(row["prepositions"].split()),
        how=frozenset(row["how"].split()),
        function=frozenset(row["function"].split()),
        expletive=re.compile(row["expletive"], re.IGNORECASE),
        names_by_capital=name != "de",
    )


def follow_up(question: str, before: Sequence[Pair]) -> FollowUp | None:
    """Return how a question is read in its conversation; None: it stands by itself."""
    topic = _Topic()
    for asked, answered in before[-TURNS:]:
        found = _read(asked, topic)
        topic = found[0] if found else _topic_of(asked, answered) if asked.strip() else topic
    found = _read(question, topic)
    return found[1] if found else None


def may_lean(question: str) -> bool:
    """Return whether a question could lean on one before it, whatever that is."""
    anything = _Token("x", "content", 0)
    return _read(question, _Topic((anything,))) is not None


def _read(question: str, topic: _Topic) -> tuple[_Topic, FollowUp] | None:
    """Return a follow-up's own topic and how it is read; None if it stands by itself."""
    text = _only_sentence(question)
    if not (text and topic.all):
        return None
    language = _language_of(text)
    tokens = _tokens(text, language)
    lead, is_about = _lead(text, language)
    own = [t for t in tokens if t.kind != "function" and t.at >= lead]
    pointer = _pointer(text, tokens, language)
    if pointer:
        return _pointing(text, pointer, own, topic)
    if not _goes_on(tokens, own, lead, is_about, topic, language):
        return None
    names = [t for t in own if t.kind in ("name", "number")]
    if names:
        return _exchanged(own, names, topic)
    if is_about:
        return _added(own, topic)
    held = topic.thing if topic.is_named or not own else topic.all
    return _joined(text[lead:].strip(_EDGE), held, own, topic)


def _only_sentence(question: str) -> str:
    """Return the one sentence that asks, "" where there are several, or a structured prompt."""
    if len(question) > 2 * MAX_CHARS or "\n" in question.strip():
        return ""
    found = [question[start:end] for start, end in sentence_spans(question)]
    asking = [sentence for sentence in found if not is_filler(sentence)]
    return asking[0].strip() if len(asking) == 1 and len(asking[0]) <= MAX_CHARS else ""


def _language_of(text: str) -> _Language:
    words = [match[0].casefold() for match in _WORD.finditer(_split(text))]
    return max(_languages().values(), key=lambda known: sum(known.known(w) for w in words))


def _split(text: str) -> str:
    """Return a text of the same length whose French joints are blanks: ``pèse-t-il``, ``l'eau``."""
    text = _INVERTED.sub(" ", text)
    text = re.sub(r"\bt-(?=(?:ils?|elles?|on)\b)", "t ", text)
    return _ELIDED.sub(lambda match: match[0][:-1] + " ", text)


def _tokens(text: str, language: _Language) -> list[_Token]:
    found: list[_Token] = []
    preposition = ""
    for place, match in enumerate(_WORD.finditer(_split(text))):
        word = match[0]
        plain = word.casefold()
        if language.known(plain):
            kind = "function"
        elif re.fullmatch(r"[\d.,]+", word):
            kind = "number"
        elif _is_identifier(word) or (place and word[0].isupper() and language.names_by_capital):
            kind = "name"
        else:
            kind = "content"
        if plain in language.prepositions:
            preposition = plain
        clean = _POSSESSIVE.sub("", word) if kind != "function" else word
        found.append(_Token(clean, kind, match.start(), preposition))
        if kind != "function":
            preposition = ""
    return found


def _is_identifier(word: str) -> bool:
    """Return whether a word names one thing by its form: ``K-20``, ``max_pieces``, ``ISO``."""
    letters = any(c.isalpha() for c in word)
    inner = any(c.isupper() for c in word[1:])
    return letters and (any(c.isdigit() for c in word) or "_" in word or inner)


def _lead(text: str, language: _Language) -> tuple[int, bool]:
    """Return where the question goes on behind its opening, and if all before it holds."""
    plain = text.casefold().replace("’", "'")
    start = len(plain) - len(plain.lstrip(_EDGE))
    for words, is_about in ((language.about, True), (language.and_, False)):
        for opening in words:
            end = start + len(opening)
            if plain.startswith(opening, start) and not plain[end : end + 1].isalnum():
                return end, is_about
    return 0, False


def _pointer(text: str, tokens: Sequence[_Token], language: _Language) -> _Token | None:
    """Return the word that points back; None if there is none, or its thing is in the question."""
    if language.expletive.search(text):
        return None
    own = [token for token in tokens if token.kind != "function"]
    for place, token in enumerate(tokens):
        is_last = all(other.key in _ONE for other in tokens[place + 1 :])
        points = token.key in language.pronouns
        points = points or (token.key in language.bare and (is_last or not own))
        if not points:
            continue
        before = [other for other in own if other.at < token.at]
        named = any(other.kind != "content" for other in before)
        return None if named or len(before) > 1 or len(own) > _MAX_AFTER else token
    return None


def _goes_on(
    tokens: Sequence[_Token],
    own: Sequence[_Token],
    lead: int,
    is_about: bool,
    topic: _Topic,
    language: _Language,
) -> bool:
    """Return whether a question without a pointer has no subject that is its own."""
    if not tokens:
        return False
    if not lead:
        return len(tokens) <= 2 and tokens[0].key in language.how and _all_small(own)
    said = {token.key for token in topic.all}
    new = [token for token in own if token.key not in said]
    if any(token.kind == "name" for token in own):
        return is_about or all(token.kind != "content" for token in new)
    return len(new) <= _MAX_OWN or (is_about and len(new) <= _MAX_AFTER)


def _all_small(own: Sequence[_Token]) -> bool:
    return all(token.kind == "content" for token in own)


def _pointing(
    text: str, pointer: _Token, own: Sequence[_Token], topic: _Topic
) -> tuple[_Topic, FollowUp]:
    about = _said(topic.thing)
    end = pointer.at + len(pointer.text)
    begin = re.sub(r"-(?:t-)?$", " ", text[: pointer.at])  # combien pèse-t-elle
    query = f"{begin}{about}{_THAT_ONE.sub('', text[end:])}"
    lead = re.match(r"[¿¡\s]*(?:and|but|so|und|aber|et|mais|y|pero)\b[\s,]*", query, re.IGNORECASE)
    query = query[lead.end() :] if lead else query
    return _Topic(topic.thing, _placed(own, topic)), FollowUp(about, query)


def _joined(
    rest: str, held: Sequence[_Token], own: Sequence[_Token], topic: _Topic
) -> tuple[_Topic, FollowUp]:
    about = _said(held)
    return _Topic(topic.thing, _placed(own, topic)), FollowUp(about, f"{rest} {about}?".strip())


def _exchanged(
    own: Sequence[_Token], names: Sequence[_Token], topic: _Topic
) -> tuple[_Topic, FollowUp]:
    """Put the names of a question in the place of those before it."""
    kinds = {token.kind for token in names}
    rest = [t for t in topic.all if t.kind not in kinds]
    if "name" in kinds and topic.is_named and topic.asked:
        things = {t.at for t in topic.thing if t.kind != "number"}
        rest = [t for t in rest if t.at not in things]
    elif len(rest) == len(topic.all):
        rest = _without_place(rest, own)
    about = _said(rest)
    thing = _placed(own, topic)
    return _Topic(thing, tuple(rest)), FollowUp(about, f"{about} {_said(thing)}?")


def _added(own: Sequence[_Token], topic: _Topic) -> tuple[_Topic, FollowUp]:
    """Keep all that was asked; what stood behind the same preposition gives its place."""
    rest = _without_place(topic.all, own)
    kept = {token.at for token in rest}
    about, placed = _said(rest), _placed(own, topic)
    thing = tuple(t for t in topic.thing if t.at in kept)
    asked = tuple(t for t in topic.asked if t.at in kept)
    return _Topic((*thing, *placed), asked), FollowUp(about, f"{about} {_said(own)}?")


def _without_place(tokens: Sequence[_Token], own: Sequence[_Token]) -> list[_Token]:
    taken = own[0].before if own else ""
    return [token for token in tokens if not (taken and token.before == taken)]


def _placed(own: Sequence[_Token], topic: _Topic) -> tuple[_Token, ...]:
    """Return a question's words behind all that came before it."""
    last = max((token.at for token in topic.all), default=0) + 1
    return tuple(_Token(t.text, t.kind, last + t.at, t.before) for t in own)


def _said(tokens: Sequence[_Token]) -> str:
    ordered = sorted(tokens, key=lambda token: token.at)
    unique = {token.key: token.text for token in reversed(ordered)}
    return " ".join(reversed(list(unique.values())[:_MAX_ABOUT]))


def _topic_of(asked: str, answered: str) -> _Topic:
    """Return what a question that stands by itself is about."""
    language = _language_of(asked)
    tokens = _tokens(asked, language)
    own = [token for token in tokens if token.kind != "function"]
    near = {place for place, token in enumerate(tokens) if _is_thing(token)}
    if not any(token.kind == "name" for token in own):
        own += _names_in(answered, len(asked) + 1)
    if not near:
        return _Topic(tuple(own))
    beside = {place + step for place in near for step in (-1, 1)}
    places = {p for p in beside if 0 <= p < len(tokens) and tokens[p].kind == "content"} | near
    thing = tuple(tokens[place] for place in sorted(places))
    held = {token.at for token in thing}
    return _Topic(thing, tuple(token for token in own if token.at not in held))


def _is_thing(token: _Token) -> bool:
    """Return whether a name is what is asked about; "in Germany" says where."""
    placed = token.before not in ("", *_OF) and not _is_identifier(token.text)
    return token.kind == "name" and not placed


def _names_in(answer: str, after: int) -> tuple[_Token, ...]:
    """Return the first names of an answer, as words behind those of its question."""
    plain = _CITED.sub(" ", answer[:_ANSWER_CHARS])
    sentence = next((plain[start:end] for start, end in sentence_spans(plain)), "")
    found = [t for t in _tokens(sentence, _language_of(sentence)) if t.kind == "name"]
    return tuple(_Token(t.text, "name", after + t.at) for t in found[:_ANSWER_NAMES])
