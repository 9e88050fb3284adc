"""Whether a passage says what a sentence says, by a rule that no model has to be trained for.

A sentence that stands in the passage word for word is supported. Any other one must hold no number
and no name that the passage lacks, must not deny what the passage affirms, and must not be a
sentence of the passage with other names, numbers or denials in it. Then

score = ½ · (share of its terms in one sentence, or two neighbours, of the passage)
      + ½ · (cosine of the two, at least 0), in [0, 1]

decides. `THRESHOLD` was chosen on one half of labelled pairs and measured on the other
(`docs/benchmarks.md`). Who did what to whom is not seen where the words are all there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.agents.quotable import readable
from ragstream_core.agents.reading import stemmed_terms
from ragstream_core.agents.sentences import sentence_spans

if TYPE_CHECKING:
    from ragstream_core.ports import F32

Embed = Callable[[Sequence[str]], "F32"]
"""Texts → unit vectors, shape (texts, d)."""

THRESHOLD = 0.68
WINDOWS = 3
"""So many places of a passage are compared by meaning: those that hold most of the words."""
_DIGITS = 6
_LEAST_PLAIN = 3
_SAME_CLAUSE = 0.6
_CLAUSE = re.compile(r"[,;:–—]\s|\s(?:but|because|while|although|whereas)\s", re.IGNORECASE)
_OPPOSITES = (
    ("least", "most"), ("more", "less"), ("more", "fewer"), ("before", "after"), ("first", "last"),
    ("always", "never"), ("above", "below"), ("higher", "lower"), ("increases", "decreases"),
    ("minimum", "maximum"), ("near", "far"), ("close", "far"), ("larger", "smaller"),
    ("enabled", "disabled"), ("allowed", "forbidden"), ("oldest", "newest"), ("older", "newer"),
    ("longest", "shortest"), ("with", "without"), ("all", "none"), ("starts", "stops"),
    ("inside", "outside"), ("public", "private"), ("early", "late"), ("everything", "nothing"),
)  # fmt: skip
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:['’]\w+)?")
_NEGATED = re.compile(r"\b(can)not\b|n['’]t\b", re.IGNORECASE)
_DENIALS = frozenset(
    ("not", "no", "never", "none", "nor", "neither", "without", "nobody", "nothing", "unable")
)
_COUNTED = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_NAME = re.compile(r"(?<=[\w,;’'\")] )[A-Z][\w’'-]*|\b\w{1,80}[_/.]\w[\w/.]{0,200}|\b[A-Z]{2,20}\b")
_CAPITAL = re.compile(r"\b[A-Z]")


class Support(NamedTuple):
    """What a passage does for a sentence.

    Attributes:
        score: In [0, 1].
        supported: Whether it says it.
        rule: ``quote``, ``agreement``, ``number``, ``name``, ``denial``, ``opposite``,
            ``changed``, ``far``; of
            other judges ``entailment``, ``model``.
        reason: For people; names places of the sentence, never anything else.
    """

    score: float
    supported: bool
    rule: str
    reason: str = ""


def support(sentence: str, passage: str, *, embed: Embed, title: str = "") -> Support:
    """Say whether a passage supports a sentence.

    Args:
        sentence: One sentence, without markers.
        passage: What it cites.
        embed: Turns texts into unit vectors.
        title: Name of the passage's source; names may come from there.
    """
    if stands(sentence, passage):
        return Support(1.0, True, "quote")
    rule, reason = _against(sentence, passage, title)
    score = 0.0 if rule else _nearness(sentence, passage, embed)
    if rule or score < THRESHOLD:
        return Support(score, False, rule or "far", reason or f"{score:.2f} < {THRESHOLD:g}")
    return Support(score, True, "agreement", f"{score:.2f} ≥ {THRESHOLD:g}")


def stands(sentence: str, passage: str) -> bool:
    """Say whether a sentence stands in a passage word for word; signs and case do not count."""
    wanted = _joined(_tokens(sentence))
    forms = (passage, readable(passage))  # facts show links by their text
    return len(wanted) > 2 and any(wanted in _joined(_tokens(form)) for form in forms)


def _against(sentence: str, passage: str, title: str) -> tuple[str, str]:
    """Return which rule speaks against a sentence and why; two empty texts for none."""
    here = _numbers(passage) | _numbers(title)
    missing = sorted(_numbers(sentence) - here)
    if missing:
        return "number", f"{missing[0]} does not stand there"
    foreign = [name for name in _NAME.findall(sentence) if not _named(name, f"{title} {passage}")]
    if foreign:
        return "name", f"{foreign[0]} does not stand there"
    if _is_changed(sentence, passage):
        return "changed", "the same words with other names, numbers or denials"
    place = next(iter(_best_windows(sentence, passage)), "")
    if _denies(sentence) and not _denies(place):
        return "denial", "it denies what the passage does not"
    clause = max(_CLAUSE.split(place), key=lambda part: _held(sentence, part))
    if _denies(clause) and not _denies(sentence) and _held(sentence, clause) >= _SAME_CLAUSE:
        return "denial", "the passage denies it"
    opposite = _opposite(sentence, place)
    return ("opposite", f"the passage says {opposite}") if opposite else ("", "")


def _nearness(sentence: str, passage: str, embed: Embed) -> float:
    from ragstream_core.scoring import exact_cosines

    places = _best_windows(sentence, passage)[:WINDOWS]
    if not places:
        return 0.0
    vectors = embed([sentence, *places])
    cosines = exact_cosines(vectors[1:], vectors[:1])[:, 0].tolist()
    held = [_held(sentence, place) for place in places]
    return round(
        max((h + max(0.0, float(c))) / 2 for h, c in zip(held, cosines, strict=True)), _DIGITS
    )


def _best_windows(sentence: str, passage: str) -> list[str]:
    """Return sentences and neighbours of two, those that hold most of its terms first."""
    spans = sentence_spans(passage)
    pairs = itertools.pairwise(spans)
    places = [passage[a:b] for a, b in [*spans, *((a[0], b[1]) for a, b in pairs)]]
    return sorted(places, key=lambda place: (-_held(sentence, place), len(place)))


def _held(sentence: str, place: str) -> float:
    """Return the share of a sentence's terms that a place holds; 0 where it has none."""
    wanted = set(stemmed_terms(sentence))
    return len(wanted.intersection(stemmed_terms(place))) / len(wanted) if wanted else 0.0


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_NEGATED.sub(lambda m: f"{m[1] or ''} not", text))


def _joined(tokens: Sequence[str]) -> str:
    return f" {' '.join(tokens).casefold()} "


def _numbers(text: str) -> set[str]:
    words = {token.casefold() for token in _tokens(text)}
    found = {w.replace(",", "").rstrip(".") for w in words if w[0].isdigit()}
    return found | {str(n) for n, word in enumerate(_COUNTED, start=2) if word in words}


def _named(name: str, text: str) -> bool:
    """Say whether a name stands in a text: as it is, without an ending, or as first letters."""
    words = {token.casefold() for token in _tokens(text)}
    bare = {w.removesuffix("'s").removesuffix("’s").rstrip("s") for w in words}
    parts = [part.casefold() for part in _tokens(name)]
    if all(part in words or part.removesuffix("'s").rstrip("s") in bare for part in parts):
        return True
    return _is_short_form(name, text)


def _is_short_form(name: str, text: str) -> bool:
    """Say whether a name is the first letters of words that stand in a text, as EU."""
    return len(name) > 1 and name.isupper() and name in "".join(_CAPITAL.findall(text))


def _denies(text: str) -> bool:
    return any(token.casefold() in _DENIALS for token in _tokens(text))


def _opposite(sentence: str, place: str) -> str:
    """Return the word of a place whose opposite alone stands in a sentence; "" for none."""
    said, there = ({t.casefold() for t in _tokens(text)} for text in (sentence, place))
    pairs = [pair for a, b in _OPPOSITES for pair in ((a, b), (b, a))]
    own, other = said - there, there - said
    return next((b for a, b in pairs if a in own and b in other), "")


def _is_special(token: str) -> bool:
    """Say whether a word is a name, a number or a denial; a capital letter makes a name."""
    return not token[0].islower() or token in _DENIALS


def _is_changed(sentence: str, passage: str) -> bool:
    """Say whether a sentence is one of the passage but for its names, numbers and denials."""
    said, there = _tokens(sentence), _tokens(passage)
    plain = [token for token in said if not _is_special(token)]
    if len(plain) < _LEAST_PLAIN:
        return False
    small = {token for token in there if not _is_special(token)}
    named = [token for token in said if not _is_short_form(token, passage)]
    own = [t for t in _specials(named) if t not in small]  # a sentence begins with a capital letter
    places = [_specials(place) for place in _places(plain, there)]
    return bool(places) and not any(_agree(own, place) for place in places)


def _specials(tokens: Sequence[str]) -> list[str]:
    from ragstream_core.terms import is_stop_word

    folded = [token.casefold() for token in tokens if _is_special(token)]
    return [token for token in folded if token in _DENIALS or not is_stop_word(token)]


def _places(plain: Sequence[str], tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield where the plain words stand one after the other, with the special ones around them."""
    at = [i for i, token in enumerate(tokens) if not _is_special(token)]
    size = len(plain)
    for k in range(len(at) - size + 1):
        if tokens[at[k]] == plain[0] and [tokens[i] for i in at[k : k + size]] == plain:
            first = at[k - 1] + 1 if k else 0
            yield tokens[first : at[k + size] if k + size < len(at) else len(tokens)]


def _agree(own: Sequence[str], there: Sequence[str]) -> bool:
    """Say whether special words stand there in this order, and as many denials as there."""
    rest = iter(there)
    denied = [sum(token in _DENIALS for token in found) for found in (own, there)]
    return denied[0] == denied[1] and all(token in rest for token in own)
