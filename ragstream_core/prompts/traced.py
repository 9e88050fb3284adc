"""What a citation of a prompt was traced back to: a chunk, a file, a turn or a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ragstream_core.records.identity import Json
from ragstream_core.records.json_form import fields_of


class Cited(NamedTuple):
    """What a citation means."""

    prompt_key: str  # of the prompt
    short_id: str  # under which the prompt shows it, or would
    id: str  # of the chunk, the file, the turn or the conversation
    issued: bool  # whether the prompt shows it under that id


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the words behind a citation come from."""

    prompt_key: str  # as `Cited`
    short_id: str  # as `Cited`
    id: str  # as `Cited`
    issued: bool  # as `Cited`
    kind: str  # ``chunk``, ``file``, ``diff``, ``turn`` or ``conversation``
    source: str  # as the prompt names it
    now: str  # what has become of it

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream trace --json` prints."""
        return fields_of(self)


@dataclass(frozen=True, slots=True)
class TracedFile(Trace):
    """A file, a change of one, or a chunk of one."""

    project: str
    path: str  # relative to the project
    sha256: str  # of its bytes then; of a change: of its text
    # where its bytes lie in the newest generation if the file is deleted, or ""; of a change None
    moved_to: str | None = None
    # where it lies on this machine, for a document that is read in place; else None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class TracedGeneration:
    """The generation that a prompt read a chunk from."""

    n: int  # its number
    digest: str  # of its rows
    kept: bool = False  # whether it is there as it was
    since: int | None = None  # the generation that brought the chunk in; None if that is not known
    # when that was, ISO 8601 UTC; "" if that generation is no longer kept
    created: str | None = None
    provenance: Mapping[str, Json] | None = None  # what made it, such as ``run_id``


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedChunk(TracedFile):
    """A chunk of a document."""

    chunk_idx: int  # 0-based position in its file
    # what the newest generation holds of the file: ``current``, ``changed`` or ``no longer``
    indexed: str
    # character offsets in the decoded text; None if the generation is no longer kept
    span: tuple[int, int] | None = None
    page: int | None = None  # 1-based page, 0 for text files; None likewise
    heading: str | None = None  # heading path, or ""; None likewise
    # what was assumed or left out when its file was read, such as ``cp1252 (assumed)``, or ""; None
    # likewise
    remark: str | None = None
    generation: TracedGeneration  # that the prompt read it from
    read_by: str = ""  # ``OCR`` if that read its page, else ""

    @property
    def run_id(self) -> str:
        """The Dagster run that ingested it, or ""."""
        return str((self.generation.provenance or {}).get("run_id") or "")


@dataclass(frozen=True, slots=True)
class TracedTurn(Trace):
    """A turn of a conversation; the attributes are None if it is no longer there."""

    session_id: str | None = None  # its conversation
    turn_id: str | None = None  # its id
    seq: int | None = None  # its number in the journal


@dataclass(frozen=True, slots=True)
class TracedConversation(Trace):
    """The newest turns as a whole, or their digest."""

    session_id: str  # the conversation; "" for all of them
    seqs: tuple[int, int]  # its first and its last record
