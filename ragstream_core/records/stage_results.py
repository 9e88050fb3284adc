"""What single stages of the chain leave in a prompt, as records; `Extras` has a field for each.

Their fields are the names of the JSON form. A field that may be None is not written if it is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import NamedTuple

from ragstream_core.records.chat import ChatUsage
from ragstream_core.records.json_form import Json, json_of

# Start and end, in characters.
Span = tuple[int, int]
NONE: Mapping[str, str] = MappingProxyType({})


class Decision(NamedTuple):
    """What one stage decided about one candidate."""

    stage: str  # the stage that decided, as in ``views_by_stage``; or ``headers``
    chunk_id: str  # the candidate; or the header
    rank: int  # 1-based rank in the stage's order
    score: float  # the number the stage ranked by, higher is better, rounded to 6 digits
    kept: bool  # whether the candidate goes on
    rule: str  # name of the rule that decided, e.g. ``top_k`` or ``similarity_gate``
    reason: str  # one sentence for people
    tokens: int = 0  # token count of the chunk, 0 where it was not counted
    pass_no: int = 1  # 1, or 2 after the audit's re-run
    # the parts of the score, e.g. ``dense``, ``lexical``, ``maxsim``
    scores: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Note:
    """An event, for the transparency panel, or a warning, for the person."""

    stage: str  # name of the op
    pass_no: int  # 1, or 2 after the audit's re-run
    message: str  # one sentence


@dataclass(frozen=True, slots=True)
class UnknownHeader:
    """A section without a canonical name: shown, not searched for."""

    name: str
    text: str
    span: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """A section that is searched for."""

    id: str  # ``s1`` …, in the order of the prompt
    canon_type: str  # its canonical header
    text: str  # what it says
    weight: float  # 1.0
    span: Span  # where it stands in the raw prompt
    trace: Mapping[str, str]  # ``header`` as written, and the ``rule`` that made it what it is


@dataclass(frozen=True, slots=True)
class QueryPiece:
    """One of the texts that a prompt is looked up by."""

    id: str  # ``q1`` …
    text: str  # what is searched for
    segment_id: str = ""  # the segment that it stands in
    span: Span = (0, 0)  # where it stands in the raw prompt
    # the person's own words, if the audit put others in the text; else None
    asked: str | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that the person wrote into the prompt."""

    kind: str  # ``file``, ``type``, ``since`` or ``tag``
    values: tuple[str, ...]  # what it names; for ``since`` one date or age
    written: str  # as it stands in the prompt
    span: Span  # where, in the raw prompt


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked for; all empty if A2 is switched off."""

    intent: str = ""  # ``explain``, ``fix``, ``implement``, ``review``, ``compare``, ``plan``, …
    domain: str = ""  # a subject in free text, or ``undetermined``
    # ``answer``, ``text``, ``code``, ``spec``, ``plan``, ``tests``, ``docs``, …
    deliverable: str = ""
    artefacts: tuple[str, ...] = ()  # paths the answer is about, sorted
    headers: Mapping[str, str] | None = None  # what A2 proposed for headers that nobody had settled
    refined: Mapping[str, str] | None = None  # header → what it was before the audit refined it

    @property
    def proposed(self) -> Mapping[str, str]:
        """The proposed headers, perhaps none."""
        return self.headers or NONE

    @property
    def scope(self) -> Shape:
        """The shape alone, without headers."""
        return replace(self, headers=None, refined=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFile:
    """A row of ❖ FILES: a file, or its changes since the last commit."""

    id: str = ""  # ``files/…`` or ``diff/…``, with the digest
    path: str  # as it is shown
    home: tuple[str, str] = ("", "")  # project, and the path in it
    sha256: str = ""  # of the file's bytes, or of the changes
    mode: str = "FULL"  # ``FULL``, ``PACK`` or ``DIFF``
    numbered: bool | None = None  # whether its lines carry their numbers; None for changes
    tokens: int = 0  # of what is shown
    lines: int = 0  # of the whole text
    chars: int = 0  # of the whole text
    text: str = ""  # what is shown


@dataclass(frozen=True, slots=True)
class Pool:
    """The Eligibility Pool."""

    off: tuple[str, ...] = ()  # files that are not searched, sorted
    lock: bool = False  # Exact File Lock: only ❖ FILES are in the prompt
    closed: bool = False  # whether A1 has run


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a candidate, as `Hit` has them; ``parts`` are the scaled ones."""

    score: float = 0.0
    cosine: float = 0.0
    best_cosine: float = 0.0
    bm25: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    piece_cosines: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the scores and their parts, side by side."""
        return {
            "score": self.score,
            "cosine": self.cosine,
            "best_cosine": self.best_cosine,
            "bm25": self.bm25,
            **self.parts,
            "piece_cosines": list(self.piece_cosines),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Json]) -> Scores:
        """Return the scores of a JSON form."""
        whole = {name: row[name] for name in _WHOLE if name in row}
        parts = {k: v for k, v in row.items() if k not in (*_WHOLE, "piece_cosines")}
        return cls(**whole, parts=parts, piece_cosines=tuple(row.get("piece_cosines", ())))


_WHOLE = ("score", "cosine", "best_cosine", "bm25")


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two texts that say different things, and which of them stays; each a path or a chunk id."""

    winner: str
    loser: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What the audit decided about the scope."""

    outcome: str = ""  # ``settled``, or ``rescoped`` if it asks for the one re-run
    reason: str = ""  # one sentence for people
    before: Shape = Shape()  # the shape that it found
    after: Shape = Shape()  # the shape that it left

    def to_json(self) -> dict[str, Json]:
        """Return the fields; no shape is an empty object."""
        before, after = (json_of(s) if s.intent else {} for s in (self.before, self.after))
        return {"outcome": self.outcome, "reason": self.reason, "before": before, "after": after}


@dataclass(frozen=True, slots=True)
class Enforced:
    """What A5 measured and repaired."""

    total_tokens: int = 0  # of the whole prompt
    budget_tokens: int = 0  # most tokens that it may have
    counter: str = ""  # name of the token counter
    # the format as ``requested``, and our ``instruction`` for it, perhaps empty
    format: Mapping[str, str] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()  # what was left out, and why, for people
    digest: str = ""  # of all that A5 looked at


@dataclass(frozen=True, slots=True)
class Fence:
    """The mark of a finished prompt, and the invisible characters that were dropped, by kind."""

    nonce: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenPart:
    """A source that a block quotes, and the tokens of the quotation."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class TokenBlock:
    """A section of the prompt, its tokens, and the sources that it quotes; None for none."""

    name: str
    tokens: int
    parts: tuple[TokenPart, ...] | None = None


@dataclass(frozen=True, slots=True)
class TokenTree:
    """The tokens of a finished prompt; its blocks add up to the total."""

    counter: str = ""
    total: int = 0
    blocks: tuple[TokenBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What one question of an agent to a language model took."""

    op: str  # the stage that asked, with its pass if that is not the first: ``a4_condenser#2``
    model: str  # whom it asked
    taken: bool  # whether the stage took the answer
    usage: ChatUsage  # tokens and cost
    instead: str = ""  # what the stage did without the answer, e.g. ``SAF-A1``
    reason: str = ""  # why it did, for people

    def to_json(self) -> dict[str, Json]:
        """Return the fields, those of the usage among them."""
        head = {"op": self.op, "model": self.model, "taken": self.taken}
        return {**head, **asdict(self.usage), "instead": self.instead, "reason": self.reason}

    @classmethod
    def from_json(cls, row: Mapping[str, Json]) -> ModelCall:
        """Return the call of a JSON form."""
        usage = ChatUsage(**{item.name: row[item.name] for item in fields(ChatUsage)})
        told = {name: row[name] for name in ("instead", "reason") if name in row}
        return cls(row["op"], row["model"], row["taken"], usage, **told)


@dataclass(frozen=True, slots=True)
class Edit:
    """One value that a person replaced."""

    after: str  # the op after which it holds
    target: str  # what was replaced: ``intent``, ``domain``, …, a header, or ``super_prompt``
    before: str  # sha256 of the value that it replaces, 64 hex digits
    value: str  # the new value
    when: str = ""  # ISO 8601 time with its zone; recorded, not part of a key
