"""`Extras`: what the stages leave in a prompt beside its own fields, one typed entry each."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_type_hints

from ragstream_core.records.json_form import Json, json_of, read_as
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.records.s_ctx import IssuedCitation, PieceAnswer, SCtx
from ragstream_core.records.stage_results import (
    AuditResult,
    Conflict,
    Decision,
    Edit,
    Enforced,
    Fence,
    Filter,
    InjectedFile,
    ModelCall,
    Note,
    Pool,
    QueryPiece,
    Scores,
    Segment,
    Shape,
    Span,
    TokenTree,
    UnknownHeader,
)
from ragstream_core.records.trail_step import TrailStep

NONE: Mapping[str, Any] = MappingProxyType({})


class Extras:
    """The entries of a prompt that no field of its own holds.

    An entry that nothing was assigned to has its default, and no place in the JSON form. Entries
    are never changed in place: a stage assigns another value to its copy of the extras.

    Attributes:
        inputs: The pinned inputs; without them the prompt was made outside of the chain.
        trail: Op and digest of its result, of every op so far.
        events: What the stages did.
        warnings: What the person should look at.
        decisions: The ledger.
        pass_no: 1, or 2 after the audit's re-run.
        edits: What a person changed by hand, in the order of the chain.
        exchanges: Stage and pass → digest of its exchange with a language model.
        llm_usage: Stage and pass → what that took.
        time_read: Whether a stage has read the prompt's time.
        day_read: Whether a stage has read its day.
        raw_text: The prompt as written.
        format: How it is written: ``json``, ``markdown``, ….
        headers: Sections without a canonical name.
        explicit: Body keys that the person set, sorted.
        persona: Body keys that the settings set, sorted.
        segments: What is searched for.
        query_pieces: The texts it is looked up by.
        filters: What the person wrote to narrow the pool.
        shape: What is asked for, and the headers that A2 proposed.
        files: The injected files.
        diffs: Changes of files since the last commit.
        pool: The Eligibility Pool.
        scores: Chunk id → scores of the candidates.
        query_vectors: sha256 of a query text → sha256 of its vector, if it cannot be made again.
        conflicts: Older turns that gave way to what says otherwise.
        repeats: Repeated passage → the one that is shown in its place and says hardly more.
        cuts: Chunk id → length of the part that is shown.
        windows: Chunk id → the parts that are shown, if they are not one from its start.
        short_ids: Chunk or file id → citation id.
        nothing_relevant: Whether no document is relevant.
        s_ctx: Facts, constraints and open issues.
        answers: Whether each query piece is answered.
        citations: Citation id → what the prompt issued under it.
        fallback: The form that A4 took in place of a language model's answer.
        audit: What the audit decided.
        enforced: What A5 measured and repaired.
        super_prompt: The finished prompt; empty before.
        fence: Its mark.
        token_tree: Its tokens by section and source.
    """

    inputs: PromptInputs
    trail: tuple[TrailStep, ...] = ()
    events: tuple[Note, ...] = ()
    warnings: tuple[Note, ...] = ()
    decisions: tuple[Decision, ...] = ()
    pass_no: int = 1
    edits: tuple[Edit, ...] = ()
    exchanges: Mapping[str, str] = NONE
    llm_usage: Mapping[str, ModelCall] = NONE
    time_read: bool = False
    day_read: bool = False
    raw_text: str = ""
    format: str = ""
    headers: tuple[UnknownHeader, ...] = ()
    explicit: tuple[str, ...] = ()
    persona: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()
    query_pieces: tuple[QueryPiece, ...] = ()
    filters: tuple[Filter, ...] = ()
    shape: Shape = Shape()
    files: tuple[InjectedFile, ...] = ()
    diffs: tuple[InjectedFile, ...] = ()
    pool: Pool = Pool()
    scores: Mapping[str, Scores] = NONE
    query_vectors: Mapping[str, str] = NONE
    conflicts: tuple[Conflict, ...] = ()
    repeats: Mapping[str, str] = NONE
    cuts: Mapping[str, int] = NONE
    windows: Mapping[str, tuple[Span, ...]] = NONE
    short_ids: Mapping[str, str] = NONE
    nothing_relevant: bool = False
    s_ctx: SCtx = SCtx()
    answers: tuple[PieceAnswer, ...] = ()
    citations: Mapping[str, IssuedCitation] = NONE
    fallback: str = ""
    audit: AuditResult = AuditResult()
    enforced: Enforced = Enforced()
    super_prompt: str = ""
    fence: Fence = Fence()
    token_tree: TokenTree = TokenTree()

    def drop(self, name: str) -> None:
        """Take back what was assigned to an entry, if anything was."""
        vars(self).pop(name, None)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form of every entry that something was assigned to, in that order."""
        return {name: json_of(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Extras:
        """Return the extras of a JSON form; an entry that is not known here stays as it is."""
        result = cls()
        for name, value in data.items():
            setattr(result, name, entry_from(name, value))
        return result


def entry_from(name: str, value: Json) -> Json:
    """Return an entry by its JSON form."""
    return read_as(_kinds().get(name, object), value)


@functools.cache
def _kinds() -> Mapping[str, Any]:
    return get_type_hints(Extras)
