"""The claims of an answer, and whether a passage says what a claim says, by rules.

A sentence that stands in the passage word for word is supported. Any other one must hold no number
and no name that the passage lacks, must not deny what the passage affirms, and must not be a
sentence of the passage with other names, numbers or denials in it. Then

score = ½ · (share of its terms in one sentence, or two neighbours, of the passage)
      + ½ · (cosine of the two, at least 0), in [0, 1]

decides. `THRESHOLD` was chosen on one half of labelled pairs and measured on the other
(`docs/benchmarks.md`). If all the words are there, who did what to whom is not seen.

A citation marker belongs to the sentence before it on its line; if nothing stands before it, to the
one behind it; alone on a line, to the last one above. In a list item it also covers the sentences
before it that have none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.shown import readable
from ragstream_core.answers.answer import REFUSALS
from ragstream_core.answers.citations import Citation, Issued, citations_of
from ragstream_core.answers.stream_buffer import FoundMarker, markers
from ragstream_core.text.marked_blocks import Block, blocks
from ragstream_core.text.sentences import is_filler, sentences_in

if TYPE_CHECKING:
    from ragstream_core.ports import F32


Kind = Literal["claim", "heading", "question", "refusal", "connective", "code"]
_RULE_ROW = re.compile(r"[|\s:-]+")
_SPACE_BEFORE = re.compile(r"\s+([.,;:!?])")
_CHARACTERS = re.compile(r"\w")
_CONNECTIVE = re.compile(
    r"(?:let me know|feel free to|i hope (?:this|that) helps|hope this helps"
    r"|if you (?:have|need) (?:any |more |further |other )"
    r"|(?:in summary|in short|to sum up)[,:]?$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an answer."""

    text: str
    kind: Kind  # ``claim``, or why it is none
    cited: tuple[str, ...] = ()  # ids that its markers cite, as the prompt issued them, each once
    unknown: int = 0  # how many of its markers cite what the prompt did not issue


def sentences_of(answer: str, issued: Mapping[str, Issued]) -> list[Sentence]:
    """Return the sentences of an answer in order."""
    found = list(markers(answer, issued))
    bare, places = _without(answer, found)
    spans = list(_spans(bare))
    starts = [start for start, _, _ in spans]
    cited: dict[int, tuple[Citation, ...]] = {}
    for marker, place in zip(found, places, strict=True):
        at = _owner(bare, place, starts)
        cited[at] = (*cited.get(at, ()), *citations_of(marker.text, issued))
    for at in range(len(spans) - 2, -1, -1):
        block = spans[at][2]
        if block.kind == "item" and block is spans[at + 1][2] and at not in cited:
            cited[at] = cited.get(at + 1, ())
    return [_sentence(bare[a:b], block, cited.get(i, ())) for i, (a, b, block) in enumerate(spans)]


def is_refusal(answer: str) -> bool:
    """Return whether an answer is the one sentence that says that the documents do not answer."""
    return " ".join(answer.split()) in REFUSALS


def _without(answer: str, found: Sequence[FoundMarker]) -> tuple[str, list[int]]:
    """Return an answer with a blank for each marker, and where these are."""
    parts, places, end, size = [], [], 0, 0
    for marker in found:
        parts.append(answer[end : marker.start])
        size += len(parts[-1]) + 1
        places.append(size - 1)
        end = marker.end
    return " ".join([*parts, answer[end:]]), places


def _spans(text: str) -> Iterator[tuple[int, int, Block]]:
    for block in blocks(text):
        if block.kind in ("prose", "item"):
            for start, end in sentences_in(text, block.start, block.end):
                yield start, end, block
        elif not _RULE_ROW.fullmatch(text[block.start : block.end]):
            yield block.start, block.end, block


def _owner(text: str, at: int, starts: Sequence[int]) -> int:
    """Return which sentence a marker at a place belongs to; -1 if there is none."""
    line = text.rfind("\n", 0, at) + 1
    before = sum(start < at for start in starts) - 1
    if _CHARACTERS.search(text, line, at):
        return before
    end = text.find("\n", at)
    follows = _CHARACTERS.search(text, at, len(text) if end < 0 else end)
    return min(before + 1, len(starts) - 1) if follows or before < 0 else before


def _sentence(text: str, block: Block, cited: Sequence[Citation]) -> Sentence:
    said = _SPACE_BEFORE.sub(r"\1", " ".join(text.split()))
    said = said.strip("| ") if block.kind == "row" else said
    known = dict.fromkeys(citation.id for citation in cited if citation.verified)
    unknown = sum(not citation.verified for citation in cited)
    return Sentence(said, _kind(said, block.kind, is_cited=bool(cited)), tuple(known), unknown)


def _kind(text: str, block: str, *, is_cited: bool) -> Kind:
    if block == "heading":
        return "heading"
    if block in ("code", "markup"):
        return "code"
    if is_refusal(text):
        return "refusal"
    if text.endswith("?"):
        return "question"
    says_nothing = not stemmed_terms(text) or is_filler(text)
    leads = not is_cited and (text.endswith(":") or _CONNECTIVE.match(text) is not None)
    return "connective" if says_nothing or leads else "claim"


# Texts → unit vectors, shape (texts, d).
Embed = Callable[[Sequence[str]], "F32"]

THRESHOLD = 0.68

# So many places of a passage are compared by meaning: those that hold most of the words.
WINDOWS = 3
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
    ("mindestens", "höchstens"), ("mehr", "weniger"), ("vor", "nach"), ("immer", "nie"),
    ("mit", "ohne"), ("aktiviert", "deaktiviert"), ("erlaubt", "verboten"), ("erste", "letzte"),
    ("plus", "moins"), ("avant", "après"), ("toujours", "jamais"), ("avec", "sans"),
    ("más", "menos"), ("antes", "después"), ("siempre", "nunca"), ("con", "sin"),
)  # fmt: skip
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:['’]\w+)?")
_NEGATED = re.compile(r"\b(can)not\b|n['’]t\b|\bn['’](?=[aeéèêhiouy])", re.IGNORECASE)
_DENIAL_WORDS = """
not no never none nor neither without nobody nothing unable
nicht nichts nie niemals niemand kein keine keinen keinem keiner keines ohne weder
ne pas jamais aucun aucune rien personne sans ni
nunca jamás ningún ninguna ninguno nada nadie tampoco sin
non mai nessun nessuno nessuna niente senza
não nem nenhum nenhuma ninguém sem
niet geen nooit niemand zonder
nie nigdy nikt nic żaden żadna żadne bez brak
не нет никогда никто ничего без нельзя ні ніколи немає
inte aldrig ingen inget inga utan ikke aldri aldrig ingen intet uten uden
není nejsou nelze nikdy nikdo žádný žádná
değil yok hiç asla nem nincs soha ei eivät eikä koskaan δεν μην χωρίς ποτέ
لا ليس ليست لم لن بدون לא אין בלי
"""
_DENIALS = frozenset(_DENIAL_WORDS.split())

# Where words are not parted by blanks.
_DENIES_INSIDE = re.compile("[不没沒未無无]|ない|なく|ません|아니|없")
_COUNTED = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_NAME = re.compile(r"(?<=[\w,;’'\")] )[A-Z][\w’'-]*|\b\w{1,80}[_/.]\w[\w/.]{0,200}|\b[A-Z]{2,20}\b")
_CAPITAL = re.compile(r"\b[A-Z]")


class Support(NamedTuple):
    """What a passage does for a sentence."""

    score: float
    supported: bool
    # ``quote``, ``agreement``, ``number``, ``name``, ``denial``, ``opposite``, ``changed``,
    # ``far``; of other judges ``entailment``, ``model``
    rule: str
    reason: str = ""  # for people; names places of the sentence, never anything else


def support(sentence: str, passage: str, *, embed: Embed, title: str = "") -> Support:
    """Return whether a passage supports a sentence."""
    if stands(sentence, passage) and not _denied_behind(sentence, passage):
        return Support(1.0, True, "quote")
    rule, reason = _against(sentence, passage, title)
    score = 0.0 if rule else _nearness(sentence, passage, embed)
    if rule or score < THRESHOLD:
        return Support(score, False, rule or "far", reason or f"{score:.2f} < {THRESHOLD:g}")
    return Support(score, True, "agreement", f"{score:.2f} ≥ {THRESHOLD:g}")


def stands(sentence: str, passage: str) -> bool:
    """Return whether a sentence stands in a passage word for word; signs and case do not count."""
    wanted = _joined(_tokens(sentence))
    forms = (passage, readable(passage))  # facts show links by their text
    return len(wanted) > 2 and any(wanted in _joined(_tokens(form)) for form in forms)


def _denied_behind(sentence: str, passage: str) -> bool:
    """Return whether the passage's own sentences deny what stands in them: it works … not."""
    if _denies(sentence):
        return False
    whole = (passage[a:b] for a, b in sentences_in(passage))
    holding = [said for said in whole if stands(sentence, said)]
    return bool(holding) and all(_denies(said) for said in holding)


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
    from ragstream_core.retrieval.scoring import exact_cosines

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
    spans = sentences_in(passage)
    pairs = itertools.pairwise(spans)
    places = [passage[a:b] for a, b in [*spans, *((a[0], b[1]) for a, b in pairs)]]
    return sorted(places, key=lambda place: (-_held(sentence, place), len(place)))


def _held(sentence: str, place: str) -> float:
    """Return the share of a sentence's terms that a place holds; 0 if it has none."""
    wanted = set(stemmed_terms(sentence))
    return len(wanted.intersection(stemmed_terms(place))) / len(wanted) if wanted else 0.0


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_NEGATED.sub(lambda m: f"{m[1] or ''} not ", text))


def _joined(tokens: Sequence[str]) -> str:
    return f" {' '.join(tokens).casefold()} "


def _numbers(text: str) -> set[str]:
    words = {token.casefold() for token in _tokens(text)}
    found = {w.replace(",", "").rstrip(".") for w in words if w[0].isdigit()}
    return found | {str(n) for n, word in enumerate(_COUNTED, start=2) if word in words}


def _named(name: str, text: str) -> bool:
    """Return whether a name stands in a text: as it is, without an ending, or as first letters."""
    words = {token.casefold() for token in _tokens(text)}
    bare = {w.removesuffix("'s").removesuffix("’s").rstrip("s") for w in words}
    parts = [part.casefold() for part in _tokens(name)]
    if all(part in words or part.removesuffix("'s").rstrip("s") in bare for part in parts):
        return True
    return _is_short_form(name, text)


def _is_short_form(name: str, text: str) -> bool:
    """Return whether a name is the first letters of words that stand in a text, as EU."""
    return len(name) > 1 and name.isupper() and name in "".join(_CAPITAL.findall(text))


def _denies(text: str) -> bool:
    said = any(token.casefold() in _DENIALS for token in _tokens(text))
    return said or _DENIES_INSIDE.search(text) is not None


def _opposite(sentence: str, place: str) -> str:
    """Return the word of a place whose opposite alone stands in a sentence; "" for none."""
    said, there = ({t.casefold() for t in _tokens(text)} for text in (sentence, place))
    pairs = [pair for a, b in _OPPOSITES for pair in ((a, b), (b, a))]
    own, other = said - there, there - said
    return next((b for a, b in pairs if a in own and b in other), "")


def _is_special(token: str) -> bool:
    """Return whether a word is a name, a number or a denial; a capital letter makes a name."""
    return not token[0].islower() or token in _DENIALS


def _is_changed(sentence: str, passage: str) -> bool:
    """Return whether a sentence is one of the passage but for its names, numbers and denials."""
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
    from ragstream_core.text.terms import is_stop_word

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
    """Return whether special words stand there in this order, and as many denials as there."""
    rest = iter(there)
    denied = [sum(token in _DENIALS for token in found) for found in (own, there)]
    return denied[0] == denied[1] and all(token in rest for token in own)
