"""Everything a prompt's bytes depend on, pinned before the first stage runs, and its key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from ragstream_core.errors import UsageError
from ragstream_core.records.identity import digest_of
from ragstream_core.records.json_form import Json

INPUTS_VERSION = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """One project at one generation."""

    project: str
    generation: int
    digest: str
    embed_fp: str


@dataclass(frozen=True, slots=True)
class HistoryPin:
    """The conversation as one prompt sees it; all empty if there is none."""

    session: str = ""  # the prompt's own conversation
    seq: int = 0  # last record of the journal that counts
    chain: str = ""  # hash of that record's line; covers everything before it
    snapshot: str = ""  # digest of the published selection; empty: no older turn is searched
    high_water: int = 0  # last record that the selection includes
    note: str = ""  # why older turns are left out, for people


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """The typed inputs; stages read clock, files, environment and settings through them only."""

    text: str  # the raw prompt
    pins: tuple[Pin, ...]  # project generations, by project name
    named: tuple[str, ...]  # paths that must be injected
    names: tuple[str, ...]  # ``project/path`` of the files that a word of the prompt may mean
    off: tuple[str, ...]  # files outside the Eligibility Pool
    lock: bool  # Exact File Lock
    settings: Mapping[str, Mapping[str, Json]]  # the complete chain settings, section → key → value
    # ``hard_rules``, ``project_memory``, ``aliases``, ``lexicon``, verbatim; ``memory_digest`` and
    # ``follow_up`` if there is one; and ``diff:project/path`` for the changes of a file
    texts: Mapping[str, str]
    # ISO 8601 time of the request; for a finished prompt the beginning of its day, written in UTC
    # whatever the zone, if stages read that alone, and empty if none did
    now: str
    time_zone: str  # its zone's name; likewise
    # what was resolved: ``embedder``, ``reranker``, ``reranker_weights`` (digest of its files),
    # ``gate``, ``gate_weights``, ``counter``
    models: Mapping[str, str]
    # op → version of the code that ran it (`STAGE_VERSIONS`); empty in records made before stages
    # had versions
    code: Mapping[str, int]
    # settings changed on the way: op that saw it first, dotted key, value
    changes: tuple[tuple[str, str, Json], ...] = ()
    # ``project/path`` → sha256 of every injected file; filled by A1
    receipts: Mapping[str, str] = field(default_factory=dict)
    # sha256 of each query text → sha256 of its vector's bytes, if the vectors cannot be made again;
    # filled by retrieval
    query_vectors: Mapping[str, str] = field(default_factory=dict)
    history: HistoryPin = HistoryPin()  # the conversation as the prompt sees it

    def with_changes(self, op: str, changes: Mapping[str, Json]) -> PromptInputs:
        """Return inputs in which settings change from ``op`` on, replacing earlier ones there."""
        kept = [c for c in self.changes if not (c[0] == op and c[1] in changes)]
        added = [(op, key, value) for key, value in sorted(changes.items())]
        return replace(self, changes=(*kept, *added))

    @property
    def timeless(self) -> PromptInputs:
        """The inputs without a time."""
        return replace(self, now="", time_zone="")

    def read_as(self, *, time: bool, day: bool) -> PromptInputs:
        """Return the inputs with as much of the time as stages have read.

        A day is the same day in every zone, and before and after the clocks change.
        """
        if time or not self.now:
            return self
        if not day:
            return self.timeless
        today = dt.datetime.fromisoformat(self.now).date()
        began = dt.datetime.combine(today, dt.time(), dt.UTC)
        return replace(self, now=began.isoformat(), time_zone=str(dt.UTC))

    @property
    def key(self) -> str:
        """The ``input_key``: digest of all of it, 64 hex digits."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form; it shares the settings and texts."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        data |= {
            "pins": [asdict(pin) for pin in self.pins],
            "changes": [list(change) for change in self.changes],
            "history": asdict(self.history),
        }
        return {"version": INPUTS_VERSION, **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> PromptInputs:
        """Rebuild inputs from their JSON form."""
        given = dict(data)
        if given.pop("version", None) != INPUTS_VERSION:
            version = data.get("version")
            raise UsageError(f"prompt inputs of version {version!r} cannot be read here")
        return cls(
            **{
                **given,
                "pins": tuple(Pin(**pin) for pin in given["pins"]),
                "named": tuple(given["named"]),
                "names": tuple(given["names"]),
                "off": tuple(given["off"]),
                "changes": tuple((c[0], c[1], c[2]) for c in given["changes"]),
                "history": HistoryPin(**given.get("history", {})),
                "code": given["code"] if isinstance(given["code"], Mapping) else {},
            }
        )
