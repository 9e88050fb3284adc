"""Everything that a kept prompt can say of itself: its candidates' ways, its line, its files.

Its line is the prompts that it goes on from, stage by stage, and what was set otherwise each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.errors import RagstreamError, RunCommand, UnknownPrompt, UsageError
from ragstream_core.platform.data_frame import data_frame
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT
from ragstream_core.prompts.explain import (
    HeaderDecision,
    Way,
    answers_of,
    candidates_of,
    headers_of,
    load_decisions,
    named,
    step_row,
    ways,
)
from ragstream_core.prompts.recorded import Asking, times_asked
from ragstream_core.prompts.store import PromptRecord, PromptStore
from ragstream_core.records.identity import Json, parse_chunk_id, sha256_hex, shown_name
from ragstream_core.records.json_form import json_of
from ragstream_core.text.markup import fold_html, table_html, visible
from ragstream_core.wiring.file_states import chunk_locations, file_locations
from ragstream_core.wiring.kept_prompt import InjectedFile, KeptPrompt
from ragstream_core.wiring.llm_stages import recorded_usage

if TYPE_CHECKING:
    import pandas as pd

    from ragstream_core.prompts.exchanges import AgentsUsage
    from ragstream_core.records.stage_results import Decision, Edit
    from ragstream_core.wiring.workspace import Workspace

# So many are looked through for a citation that comes without a key.
RECENT_PROMPTS = 50


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A prompt whose first stages were taken over."""

    prompt_key: str
    # op, dotted setting and value of what the prompt after it has set otherwise; all of what that
    # one has set where this one is not kept
    changes: tuple[tuple[str, str, Json], ...]
    kept: bool  # whether it is there


def line_of(store: PromptStore, record: PromptRecord) -> list[Ancestor]:
    """Return the prompts that a prompt goes on from, the nearest first; each comes once.

    Args:
        store: Where they are kept.
        record: Of the prompt.

    Raises:
        IntegrityError: A record is damaged.
    """
    line: list[Ancestor] = []
    seen = {record.prompt_key}
    while record.resumed and record.resumed not in seen:
        seen.add(record.resumed)
        now = record.inputs["changes"]
        try:
            before = store.record(record.resumed)
        except UnknownPrompt:
            return [*line, Ancestor(record.resumed, tuple(map(_triple, now)), kept=False)]
        then = before.inputs["changes"]
        changed = tuple(_triple(change) for change in now if change not in then)
        line.append(Ancestor(record.resumed, changed, kept=True))
        record = before
    return line


def _triple(change: tuple[str, str, Json]) -> tuple[str, str, Json]:
    op, key, value = change
    return op, key, value


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """A prompt, explained."""

    record: PromptRecord  # of the prompt
    candidates: Sequence[Way]  # their ways through the stages, the best first
    line: Sequence[Ancestor]  # the prompts that it goes on from, the nearest first
    files: Sequence[InjectedFile]  # what it injected
    usage: AgentsUsage  # what its agents took
    # every time that it was asked for, in order; empty where that was not noted
    asked: Sequence[Asking] = ()
    headers: Sequence[HeaderDecision] = ()  # what the audit decided about headers
    # id of a candidate or file → where it lies on this machine, of those that are read in place
    locations: Mapping[str, str] = field(default_factory=dict)
    answers: Sequence[Decision] = ()  # whether the passages answer each query piece, by which signs
    # file of a passage in the prompt → what was assumed or left out when it was read
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def locked(self) -> bool:
        """Whether the prompt had the Exact File Lock."""
        return bool(self.record.inputs["lock"])

    def __str__(self) -> str:
        """Return one line a candidate: its id, and the stage and rule that decided last."""
        last = [(way.chunk_id, way.last) for way in self.candidates]
        return "\n".join(
            f"{shown_name(i)}: {'kept' if at.kept else 'out'} at {at.stage}, {at.rule}"
            for i, at in last
        )

    def __repr__(self) -> str:
        """Return key and size on one line."""
        return f"Explanation({self.record.prompt_key[:12]!r}, candidates={len(self.candidates)})"

    def _repr_html_(self) -> str:
        head = f"<b>Explanation</b> <code>{visible(self.record.prompt_key[:12])}</code>"
        return f"<div>{head}{''.join(map(_way_html, self.candidates))}</div>"

    def to_frame(self) -> pd.DataFrame:
        """Return the decisions as a pandas DataFrame: one row a candidate and stage.

        Raises:
            OperationFailed: pandas is not installed.
        """
        rows = (
            {"chunk_id": way.chunk_id, **step_row(step)}
            for way in self.candidates
            for step in way.steps
        )
        return data_frame(rows, ("chunk_id", *_STEP))

    def to_json(self) -> dict[str, Json]:
        """Return it for scripts; of a Super-Prompt edited by hand only the digest."""
        return {
            "prompt_key": self.record.prompt_key,
            "locked": self.locked,
            "asked": [asdict(asking) for asking in self.asked],
            "edits": [_told(edit) for edit in self.record.edits],
            "parent": self.record.parent,
            "goes_on_from": [asdict(ancestor) for ancestor in self.line],
            "notes": self.record.notes,
            "headers": json_of(self.headers),
            "answers": [
                {
                    "piece": row.chunk_id,
                    "word": row.rule,
                    "reason": row.reason,
                    "signs": dict(sorted(row.scores.items())),
                }
                for row in self.answers
            ],
            "remarks": dict(self.remarks),
            "files": [{**row._asdict(), **self._location(row.id)} for row in self.files],
            "llm": self.usage.to_json(),
            "candidates": [
                {**way.to_json(), **self._location(way.chunk_id)} for way in self.candidates
            ],
        }

    def _location(self, identifier: str) -> dict[str, Json]:
        place = self.locations.get(identifier)
        return {"location": place} if place else {}


_STEP = ("pass", "stage", "rank", "score", "kept", "rule", "reason")


def _way_html(way: Way) -> str:
    """Return a candidate's way: how it ended, with the decisions of the stages folded."""
    mark = "✓" if way.kept else "✗"
    ended = f"{mark} {shown_name(way.chunk_id)} · {way.last.stage}: {way.ended}"
    rows = ([step_row(step)[name] for name in _STEP] for step in way.steps)
    return fold_html(visible(ended), table_html(_STEP, rows))


def explanation(workspace: Workspace, key: str, *, chunk: str = "") -> Explanation:
    """Explain a kept prompt.

    Args:
        workspace: The data root.
        key: Its key or the first digits of it.
        chunk: Only this candidate: its id, its citation, its name in tables or a part of that.

    Raises:
        UsageError: No such prompt, or no such candidate in it.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    kept = KeptPrompt.of(workspace, key)
    found = ways(kept.ledger)
    if chunk:
        known = [way.chunk_id for way in found]
        meant = named(known, chunk) or [i for i in known if chunk in shown_name(i)]
        found = [way for way in found if way.chunk_id in meant]
    if chunk and not found:
        raise UsageError(
            f"no candidate {chunk!r} in prompt {kept.key[:12]}",
            hint=(RunCommand("explain", kept.key[:12]), " lists them"),
        )
    return Explanation(
        kept.record,
        found,
        line_of(workspace.store, kept.record),
        kept.injected,
        recorded_usage(workspace, kept.record.exchanges),
        times_asked(kept.folder),
        headers_of(kept.ledger),
        _locations(kept, found),
        answers_of(kept.ledger),
        _remarks(kept, [way.chunk_id for way in found if way.kept or chunk]),
    )


def _remarks(kept: KeptPrompt, chunk_ids: Sequence[str]) -> dict[str, str]:
    """Return what was assumed or left out of files, by their paths; of others nothing."""
    from ragstream_core.index.look import origin

    first = {
        parse_chunk_id(i)[0]: i for i in chunk_ids if kept.pins and not i.startswith(HISTORY_PREFIX)
    }
    found = dict[str, str]()
    for path, chunk_id in first.items():
        for pin in kept.pins:
            with suppress(RagstreamError):
                made = origin(kept.workspace.index_dir(pin.project), chunk_id, pin.generation)
                if made is not None and made.remark:
                    found[path] = made.remark
    return found


def _locations(kept: KeptPrompt, found: Sequence[Way]) -> dict[str, str]:
    chunks = chunk_locations(kept.workspace, kept.pins, (way.chunk_id for way in found))
    homes = {row.id: (row.project, row.path) for row in kept.injected}
    places = file_locations(kept.workspace, homes.values())
    return {**chunks, **{i: places[home] for i, home in homes.items() if home in places}}


def newest_with(
    workspace: Workspace, citation: str, *, wanted: Callable[[PromptRecord], bool] | None = None
) -> str:
    """Return the key of the newest prompt that considered a passage.

    Args:
        workspace: The data root.
        citation: As `explanation` takes a candidate, but for parts of a path.
        wanted: Whether a prompt may be the one; default: each may.

    Raises:
        IntegrityError: `wanted` is given, and the record of a prompt that did is damaged.
        UnknownPrompt: None of the last `RECENT_PROMPTS` did.
    """
    store = workspace.store
    for key in store.keys()[: -RECENT_PROMPTS - 1 : -1]:
        ledger = load_decisions(store.root / key) or ()
        if not named((row.chunk_id for row in candidates_of(ledger)), citation):
            continue
        if wanted is None or wanted(store.record(key)):
            return key
    raise UnknownPrompt(
        f"none of the last {RECENT_PROMPTS} prompts considered {citation[:200]!r}",
        hint=(RunCommand("prompt", '"…" -p PROJECT'), ", then ", RunCommand("why-not")),
    )


def _told(edit: Edit) -> dict[str, str]:
    """Return an edit without passages: of the finished text only its digest."""
    if edit.target != SUPER_PROMPT:
        return asdict(edit)
    return {**asdict(edit), "value": f"sha256:{sha256_hex(edit.value)}"}
