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

Span = tuple[int, int]
"""Start and end, in characters."""
NONE: Mapping[str, str] = MappingProxyType({})


class Decision(NamedTuple):
    """What one stage decided about one candidate.

    Attributes:
        stage: The stage that decided, as in ``views_by_stage``; or ``headers``.
        chunk_id: The candidate; or the header.
        rank: 1-based rank in the stage's order.
        score: The number the stage ranked by, higher is better, rounded to 6 digits.
        kept: Whether the candidate goes on.
        rule: Name of the rule that decided, e.g. ``top_k`` or ``similarity_gate``.
        reason: One sentence for people.
        tokens: Token count of the chunk, 0 where it was not counted.
        pass_no: 1, or 2 after the audit's re-run.
        scores: The parts of the score, e.g. ``dense``, ``lexical``, ``maxsim``.
    """

    stage: str
    chunk_id: str
    rank: int
    score: float
    kept: bool
    rule: str
    reason: str
    tokens: int = 0
    pass_no: int = 1
    scores: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Note:
    """An event, for the transparency panel, or a warning, for the person.

    Attributes:
        stage: Name of the op.
        pass_no: 1, or 2 after the audit's re-run.
        message: One sentence.
    """

    stage: str
    pass_no: int
    message: str


@dataclass(frozen=True, slots=True)
class UnknownHeader:
    """A section without a canonical name: shown, not searched for."""

    name: str
    text: str
    span: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """A section that is searched for.

    Attributes:
        id: ``s1`` …, in the order of the prompt.
        canon_type: Its canonical header.
        text: What it says.
        weight: 1.0.
        span: Where it stands in the raw prompt.
        trace: ``header`` as written, and the ``rule`` that made it what it is.
    """

    id: str
    canon_type: str
    text: str
    weight: float
    span: Span
    trace: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QueryPiece:
    """One of the texts that a prompt is looked up by.

    Attributes:
        id: ``q1`` …
        text: What is searched for.
        segment_id: The segment that it stands in.
        span: Where it stands in the raw prompt.
        asked: The person's own words, if the audit put others in the text; else None.
    """

    id: str
    text: str
    segment_id: str = ""
    span: Span = (0, 0)
    asked: str | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that the person wrote into the prompt.

    Attributes:
        kind: ``file``, ``type``, ``since`` or ``tag``.
        values: What it names; for ``since`` one date or age.
        written: As it stands in the prompt.
        span: Where, in the raw prompt.
    """

    kind: str
    values: tuple[str, ...]
    written: str
    span: Span


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked for; all empty if A2 is switched off.

    Attributes:
        intent: ``explain``, ``fix``, ``implement``, ``review``, ``compare``, ``plan``, ….
        domain: A subject in free text, or ``undetermined``.
        deliverable: ``answer``, ``text``, ``code``, ``spec``, ``plan``, ``tests``, ``docs``, ….
        artefacts: Paths the answer is about, sorted.
        headers: What A2 proposed for headers that nobody had settled.
        refined: Header → what it was before the audit refined it.
    """

    intent: str = ""
    domain: str = ""
    deliverable: str = ""
    artefacts: tuple[str, ...] = ()
    headers: Mapping[str, str] | None = None
    refined: Mapping[str, str] | None = None

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
    """A row of ❖ FILES: a file, or its changes since the last commit.

    Attributes:
        id: ``files/…`` or ``diff/…``, with the digest.
        path: As it is shown.
        home: Project, and the path in it.
        sha256: Of the file's bytes, or of the changes.
        mode: ``FULL``, ``PACK`` or ``DIFF``.
        numbered: Whether its lines carry their numbers; None for changes.
        tokens: Of what is shown.
        lines: Of the whole text.
        chars: Of the whole text.
        text: What is shown.
    """

    id: str = ""
    path: str
    home: tuple[str, str] = ("", "")
    sha256: str = ""
    mode: str = "FULL"
    numbered: bool | None = None
    tokens: int = 0
    lines: int = 0
    chars: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """The Eligibility Pool.

    Attributes:
        off: Files that are not searched, sorted.
        lock: Exact File Lock: only ❖ FILES are in the prompt.
        closed: Whether A1 has run.
    """

    off: tuple[str, ...] = ()
    lock: bool = False
    closed: bool = False


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
    """What the audit decided about the scope.

    Attributes:
        outcome: ``settled``, or ``rescoped`` if it asks for the one re-run.
        reason: One sentence for people.
        before: The shape that it found.
        after: The shape that it left.
    """

    outcome: str = ""
    reason: str = ""
    before: Shape = Shape()
    after: Shape = Shape()

    def to_json(self) -> dict[str, Json]:
        """Return the fields; no shape is an empty object."""
        before, after = (json_of(s) if s.intent else {} for s in (self.before, self.after))
        return {"outcome": self.outcome, "reason": self.reason, "before": before, "after": after}


@dataclass(frozen=True, slots=True)
class Enforced:
    """What A5 measured and repaired.

    Attributes:
        total_tokens: Of the whole prompt.
        budget_tokens: Most tokens that it may have.
        counter: Name of the token counter.
        format: The format as ``requested``, and our ``instruction`` for it, perhaps empty.
        repairs: What was left out, and why, for people.
        digest: Of all that A5 looked at.
    """

    total_tokens: int = 0
    budget_tokens: int = 0
    counter: str = ""
    format: Mapping[str, str] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()
    digest: str = ""


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
    """What one question of an agent to a language model took.

    Attributes:
        op: The stage that asked, with its pass if that is not the first: ``a4_condenser#2``.
        model: Whom it asked.
        taken: Whether the stage took the answer.
        usage: Tokens and cost.
        instead: What the stage did without the answer, e.g. ``SAF-A1``.
        reason: Why it did, for people.
    """

    op: str
    model: str
    taken: bool
    usage: ChatUsage
    instead: str = ""
    reason: str = ""

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
    """One value that a person replaced.

    Attributes:
        after: The op after which it holds.
        target: What was replaced: ``intent``, ``domain``, …, a header, or ``super_prompt``.
        before: sha256 of the value that it replaces, 64 hex digits.
        value: The new value.
        when: ISO 8601 time with its zone; recorded, not part of a key.
    """

    after: str
    target: str
    before: str
    value: str
    when: str = ""
