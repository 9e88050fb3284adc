"""The sentences of S_ctx: facts by score, constraints by words.

A fact's score is coverage · (0.7 + 0.3/(1 + rank/5)) · form factor + small bonuses, and facts are
chosen for diversity as well. Constraints are sentences that limit or demand something, in English,
German, Chinese and Japanese; the word list of one language would find wrong ones in another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ragstream_core.agents.context.coverage import Piece, Weights, coverage
from ragstream_core.agents.context.quotable import Quote
from ragstream_core.text.memo import remembered

_ENGLISH = re.compile(
    r"\b(?:must(?:n't)?|cannot|can't|can not|may not|shall|should not|have to|has to|mandatory"
    r"|requires?|requirement|(?:is|are|be) (?:required|limited|refused)|refuses|limited to"
    r"|limits? (?:is|are|of|the)|at most|at least|no more than|maximum|minimum|not supported"
    r"|unsupported|does(?:n't| not) support|deprecated|forbidden|not allowed"
    r"|(?<!was )(?<!were )(?<!had )(?<!although )never"
    # "the only", "not only", "only a few" and "only 26" say how many there are
    r"|(?<!the )(?<!not )(?<!was )(?<!were )only(?! (?:an?|one|the|few|small|in|for) )(?! [\d(]))\b"
    r"|(?:^|[.:;|] )(?:do(?: not|n't)|only(?! in \d))\b",
    re.IGNORECASE,
)
_GERMAN = re.compile(
    r"\b(?:muss|müssen)\b(?! nicht\b)|\b(?:darf|dürfen)\b[^.;]{0,60}?\b(?:nur|nicht|kein\w{0,2}"
    r"|höchstens|nie(?:mals)?)\b|\b(?:höchstens|mindestens|verboten|untersagt|unzulässig"
    r"|vorgeschrieben|verpflichtend|zwingend|niemals|nicht (?:erlaubt|zulässig|gestattet"
    r"|unterstützt)|(?<!nicht )(?:erforderlich|notwendig))\b",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"(?<!不)必[须須]|不得(?!不)|禁止|[严嚴]禁|不允[许許]|不准(?!确|確)|不可以|[务務]必"
    r"|(?<!了)至少|至多|最多(?=[\d一二三四五六七八九十百两只可为為])|不超[过過]|不支持|只能|[仅僅]限|不能超"
)
_JAPANESE = re.compile(
    r"(?:なければ|なくては)(?:なら|いけ)|(?:ては|では)(?:なら|いけ)|禁止|必須|必要があ(?:る|ります)"
    r"|(?:超えない|以内に|のみ(?:可能|許可|使用))|できません"
)
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
_SAYS = {
    "en": "the a an of to and in is are be for with must not do does only at most it its this that"
    " has have by on or as when from may can if",
    "de": "der die das und ist nicht ein eine einen einem einer zu den dem des mit für auf im von"
    " werden wird sind muss müssen darf dürfen nur sich bei oder als auch vor nach",
    "fr": "le la les des et est une un dans pour pas que qui du ne doit au aux sur par ce cette",
    "es": "el la los las y es un una en para que del no se debe al con por lo su",
    "it": "il lo la gli le e è un una di per che non si deve del della con al nel",
    "pt": "o os as e é um uma em para que do da não se deve ao com por no na",
    "nl": "de het een en is niet van op te voor met dat moet mag wordt zijn bij",
}
_FUNCTION_WORDS = {name: frozenset(words.split()) for name, words in _SAYS.items()}
_PATTERNS = {"en": _ENGLISH, "de": _GERMAN, "zh": _CHINESE, "ja": _JAPANESE}


def language_of(text: str) -> str:
    """Return the language of a sentence by its script and its function words.

    Returns:
        ``en``, ``de``, ``fr``, ``es``, ``it``, ``pt``, ``nl``, ``zh``, ``ja``, or an empty text.
        Letters of ASCII without any function word count as English.
    """
    if _KANA.search(text):
        return "ja"
    letters = len(_LETTER.findall(text))
    if 3 * len(_HAN.findall(text)) > letters:
        return "zh"
    words = [word.lower() for word in _WORD.findall(text)]
    counts = {name: sum(w in known for w in words) for name, known in _FUNCTION_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])  # English first, where several have as many
    return best if counts[best] or text.isascii() else ""


@remembered
def is_constraint(text: str) -> bool:
    """Return whether a sentence limits or demands something (must, never, only, at most, …)."""
    pattern = _PATTERNS.get(language_of(text))
    return pattern is not None and pattern.search(text) is not None


FLOOR = 0.2
RELATIVE_FLOOR = 0.5
CONSTRAINT_EASE = 0.7
SAME = 0.7
PER_CHUNK = 3
PHRASE_BONUS = 0.15
DEFINITION_BONUS = 0.15
REDUNDANCY = 0.35
FADING = 0.6
LEANING = 0.75

_LEANS = re.compile(
    r"(?:this|these|those|it|its|they|here|below|above|such|that|then|also|in (?:this|the) example"
    r"|for example|otherwise|however)\b",
    re.IGNORECASE,
)
_WHAT_IS = re.compile(r"\s*(?:so )?what(?:'s| is| are| does)\b", re.IGNORECASE)
_DEFINES = re.compile(
    r"^[^.]{1,70}?\b(?:is|are|means|refers to|stands for|lets?|allows?|wraps?|combines?)\b"
)


def _bonus(piece: Piece, quote: Quote) -> float:
    wanted = set(zip(piece.terms, piece.terms[1:], strict=False))
    said = set(zip(quote.terms, quote.terms[1:], strict=False))
    bonus = PHRASE_BONUS * len(wanted & said) / len(wanted) if wanted else 0.0
    defines = _WHAT_IS.match(piece.text) and _DEFINES.match(quote.text)
    if defines and set(quote.terms[:4]) & set(piece.terms):
        bonus += DEFINITION_BONUS
    return bonus


@remembered
def _form_factor(text: str) -> float:
    """Prefer sentences of a handy length that do not point at a sentence before."""
    words = len(text.split())
    length = 0.85 if words < 8 else 0.9 if words > 40 else 1.0
    return length * (LEANING if _LEANS.match(text) else 1.0)


def relevance(piece: Piece, quote: Quote, weight: Callable[[str], float]) -> float:
    """Score one sentence for one piece, ≥ 0; 0 if it holds none of the piece's terms."""
    if quote.held.isdisjoint(piece.terms):
        return 0.0
    prior = 0.7 + 0.3 / (1.0 + quote.rank / 5.0)
    base = coverage(piece, quote.held, quote.context, weight) * prior * _form_factor(quote.text)
    return round(base + _bonus(piece, quote), 6)


def similarity(left: Quote, right: Quote) -> float:
    """Return the Jaccard similarity of two sentences' terms, in [0, 1]."""
    a, b = left.held, right.held
    return len(a & b) / len(a | b) if a | b else 0.0


@dataclass
class Choice:
    """A growing choice of sentences.

    A term that chosen sentences hold already counts 1/(1 + 0.6·n): the next sentence is one that
    says something about what is still bare, so both sides of a comparison get their facts.

    Attributes:
        quotes: All sentences.
        scores: Per sentence, its score for each piece; 0 below the piece's floor.
        asked: Terms of all pieces.
        weight: Term weights.
        chosen: Positions of the chosen ones, in the order of choice.
    """

    quotes: Sequence[Quote]
    scores: list[list[float]]
    asked: frozenset[str]
    weight: Weights
    chosen: list[int] = field(default_factory=list)
    covered: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Read each sentence's terms once."""
        self._best = [max(row, default=0.0) for row in self.scores]
        self._held = [sorted(self.asked & q.held) for q in self.quotes]
        self._nearest = [0.0] * len(self.quotes)

    def freshness(self, i: int) -> float:
        """Return how much of what sentence ``i`` says about the question is new, in [0, 1]."""
        held = self._held[i]
        total = sum(map(self.weight, held))
        new = sum(self.weight(t) / (1.0 + FADING * self.covered[t]) for t in held)
        return new / total if total else 0.0

    def value(self, i: int) -> float:
        """Return what sentence ``i`` would add now; ≤ 0: not to be taken."""
        best, nearest = self._best[i], self._nearest[i]
        if best <= 0 or nearest >= SAME or self.used[self.quotes[i].chunk_id] >= PER_CHUNK:
            return 0.0
        return best * self.freshness(i) * (1 - REDUNDANCY * nearest)

    def take(self, i: int) -> None:
        """Choose sentence ``i``."""
        taken = self.quotes[i]
        self.chosen.append(i)
        self.used[taken.chunk_id] += 1
        self.covered.update(taken.held)
        for j, best in enumerate(self._best):
            if best > 0:
                near = similarity(self.quotes[j], taken)
                self._nearest[j] = max(self._nearest[j], near)


def choose(
    quotes: Sequence[Quote], pieces: Sequence[Piece], *, limit: int, weight: Weights
) -> list[tuple[Quote, list[str], float]]:
    """Choose up to ``limit`` sentences so that each piece gets its best ones.

    A sentence needs 0.2, and half of the best score for the piece; a constraint 0.7 of that.

    Args:
        quotes: Candidates in order of rank and position.
        pieces: Query pieces.
        limit: Most sentences.
        weight: Term weights.

    Returns:
        (sentence, ids of the pieces it speaks to, best score), in the order of choice.
    """
    raw = [[relevance(p, q, weight) for p in pieces] for q in quotes]
    best = [max((row[p] for row in raw), default=0.0) for p in range(len(pieces))]
    floors = [max(FLOOR, RELATIVE_FLOOR * top) for top in best]
    ease = [
        CONSTRAINT_EASE if any(row) and q.is_said and is_constraint(q.text) else 1.0
        for row, q in zip(raw, quotes, strict=True)
    ]
    scores = [
        [s if s >= f * e else 0.0 for s, f in zip(row, floors, strict=True)]
        for row, e in zip(raw, ease, strict=True)
    ]
    state = Choice(quotes, scores, frozenset(t for p in pieces for t in p.terms), weight)
    open_ = {i for i, row in enumerate(scores) if any(row)}
    while open_ and len(state.chosen) < limit:
        value, at = max((round(state.value(i), 9), -i) for i in open_)
        if value <= 0:
            break
        state.take(-at)
        open_.discard(-at)
    return [
        (quotes[i], [p.id for p, s in zip(pieces, scores[i], strict=True) if s], max(scores[i]))
        for i in state.chosen
    ]


def reading_order(
    chosen: Sequence[tuple[Quote, list[str], float]],
) -> list[tuple[Quote, list[str], float]]:
    """Order chosen sentences for reading: the source with the best one first, then as they stand.

    Args:
        chosen: As of `choose`.
    """
    best: dict[str, float] = {}
    for quote, _, score in chosen:
        best[quote.source] = max(score, best.get(quote.source, 0.0))
    return sorted(
        chosen, key=lambda row: (-best[row[0].source], row[0].source, row[0].rank, row[0].span)
    )
