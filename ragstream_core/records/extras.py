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
    """

    inputs: PromptInputs  # the pinned inputs; without them the prompt was made outside of the chain
    trail: tuple[TrailStep, ...] = ()  # op and digest of its result, of every op so far
    events: tuple[Note, ...] = ()  # what the stages did
    warnings: tuple[Note, ...] = ()  # what the person should look at
    decisions: tuple[Decision, ...] = ()  # the ledger
    pass_no: int = 1  # 1, or 2 after the audit's re-run
    edits: tuple[Edit, ...] = ()  # what a person changed by hand, in the order of the chain
    # stage and pass → digest of its exchange with a language model
    exchanges: Mapping[str, str] = NONE
    llm_usage: Mapping[str, ModelCall] = NONE  # stage and pass → what that took
    time_read: bool = False  # whether a stage has read the prompt's time
    day_read: bool = False  # whether a stage has read its day
    raw_text: str = ""  # the prompt as written
    format: str = ""  # how it is written: ``json``, ``markdown``, …
    headers: tuple[UnknownHeader, ...] = ()  # sections without a canonical name
    explicit: tuple[str, ...] = ()  # body keys that the person set, sorted
    persona: tuple[str, ...] = ()  # body keys that the settings set, sorted
    segments: tuple[Segment, ...] = ()  # what is searched for
    query_pieces: tuple[QueryPiece, ...] = ()  # the texts it is looked up by
    filters: tuple[Filter, ...] = ()  # what the person wrote to narrow the pool
    shape: Shape = Shape()  # what is asked for, and the headers that A2 proposed
    files: tuple[InjectedFile, ...] = ()  # the injected files
    diffs: tuple[InjectedFile, ...] = ()  # changes of files since the last commit
    pool: Pool = Pool()  # the Eligibility Pool
    scores: Mapping[str, Scores] = NONE  # chunk id → scores of the candidates
    # sha256 of a query text → sha256 of its vector, if it cannot be made again
    query_vectors: Mapping[str, str] = NONE
    conflicts: tuple[Conflict, ...] = ()  # older turns that gave way to what says otherwise
    # repeated passage → the one that is shown in its place and says hardly more
    repeats: Mapping[str, str] = NONE
    cuts: Mapping[str, int] = NONE  # chunk id → length of the part that is shown
    # chunk id → the parts that are shown, if they are not one from its start
    windows: Mapping[str, tuple[Span, ...]] = NONE
    short_ids: Mapping[str, str] = NONE  # chunk or file id → citation id
    nothing_relevant: bool = False  # whether no document is relevant
    s_ctx: SCtx = SCtx()  # facts, constraints and open issues
    answers: tuple[PieceAnswer, ...] = ()  # whether each query piece is answered
    citations: Mapping[str, IssuedCitation] = NONE  # citation id → what the prompt issued under it
    fallback: str = ""  # the form that A4 took in place of a language model's answer
    audit: AuditResult = AuditResult()  # what the audit decided
    enforced: Enforced = Enforced()  # what A5 measured and repaired
    super_prompt: str = ""  # the finished prompt; empty before
    fence: Fence = Fence()  # its mark
    token_tree: TokenTree = TokenTree()  # its tokens by section and source

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
