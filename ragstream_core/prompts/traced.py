"""What a citation of a prompt was traced back to: a chunk, a file, a turn or a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ragstream_core.records.identity import Json
from ragstream_core.records.json_form import fields_of


class Cited(NamedTuple):
    """What a citation means.

    Attributes:
        prompt_key: Of the prompt.
        short_id: Under which the prompt shows it, or would.
        id: Of the chunk, the file, the turn or the conversation.
        issued: Whether the prompt shows it under that id.
    """

    prompt_key: str
    short_id: str
    id: str
    issued: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the words behind a citation come from.

    Attributes:
        prompt_key: As `Cited`.
        short_id: As `Cited`.
        id: As `Cited`.
        issued: As `Cited`.
        kind: ``chunk``, ``file``, ``diff``, ``turn`` or ``conversation``.
        source: As the prompt names it.
        now: What has become of it.
    """

    prompt_key: str
    short_id: str
    id: str
    issued: bool
    kind: str
    source: str
    now: str

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream trace --json` prints."""
        return fields_of(self)


@dataclass(frozen=True, slots=True)
class TracedFile(Trace):
    """A file, a change of one, or a chunk of one.

    Attributes:
        project: Its project.
        path: Relative to the project.
        sha256: Of its bytes then; of a change: of its text.
        moved_to: Where its bytes lie in the newest generation if the file is deleted, or ""; of a
            change None.
        location: Where it lies on this machine, for a document that is read in place; else None.
    """

    project: str
    path: str
    sha256: str
    moved_to: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class TracedGeneration:
    """The generation that a prompt read a chunk from.

    Attributes:
        n: Its number.
        digest: Of its rows.
        kept: Whether it is there as it was.
        since: The generation that brought the chunk in; None if that is not known.
        created: When that was, ISO 8601 UTC; "" if that generation is no longer kept.
        provenance: What made it, such as ``run_id``.
    """

    n: int
    digest: str
    kept: bool = False
    since: int | None = None
    created: str | None = None
    provenance: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedChunk(TracedFile):
    """A chunk of a document.

    Attributes:
        chunk_idx: 0-based position in its file.
        indexed: What the newest generation holds of the file: ``current``, ``changed`` or ``no
            longer``.
        span: Character offsets in the decoded text; None if the generation is no longer kept.
        page: 1-based page, 0 for text files; None likewise.
        heading: Heading path, or ""; None likewise.
        remark: What was assumed or left out when its file was read, such as ``cp1252 (assumed)``,
            or ""; None likewise.
        generation: That the prompt read it from.
        read_by: ``OCR`` if that read its page, else "".
    """

    chunk_idx: int
    indexed: str
    span: tuple[int, int] | None = None
    page: int | None = None
    heading: str | None = None
    remark: str | None = None
    generation: TracedGeneration
    read_by: str = ""

    @property
    def run_id(self) -> str:
        """The Dagster run that ingested it, or ""."""
        return str((self.generation.provenance or {}).get("run_id") or "")


@dataclass(frozen=True, slots=True)
class TracedTurn(Trace):
    """A turn of a conversation; the attributes are None if it is no longer there.

    Attributes:
        session_id: Its conversation.
        turn_id: Its id.
        seq: Its number in the journal.
    """

    session_id: str | None = None
    turn_id: str | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class TracedConversation(Trace):
    """The newest turns as a whole, or their digest.

    Attributes:
        session_id: The conversation; "" for all of them.
        seqs: Its first and its last record.
    """

    session_id: str
    seqs: tuple[int, int]
