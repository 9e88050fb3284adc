"""What records say about earlier ones: current tags, and turns that are hidden (R-146, R-221)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ragstream_core.conversations.journal.records import (
    NO_VECTORS,
    Cleared,
    Entry,
    Position,
    Record,
    TagEdit,
    Turn,
)


class Edit(NamedTuple):
    """Tags that one turn got and lost after its tags were stored; the two are disjoint."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Folded:
    """Edits in the order of the journal, as one."""

    edits: Mapping[str, Edit] = field(default_factory=dict)  # turn id → what its tags got and lost
    # disjoint (first, last) ranges of cleared numbers, ascending
    hidden: tuple[tuple[int, int], ...] = ()

    def tags(self, turn_id: str, tags: Iterable[str]) -> tuple[str, ...]:
        """Return the tags of a turn now: those given, without the removed, with the added.

        The order is that of first addition; nothing stands twice.
        """
        edit = self.edits.get(turn_id, Edit())
        kept = [tag for tag in tags if tag not in edit.remove]
        return tuple(dict.fromkeys([*kept, *edit.add]))

    def is_hidden(self, seq: int) -> bool:
        """Whether the record of that number was cleared."""
        at = bisect_right(self.hidden, (seq, 1 << 62)) - 1
        return at >= 0 and self.hidden[at][0] <= seq <= self.hidden[at][1]


def apply_edits(entries: Iterable[Entry]) -> Folded:
    """Fold the tag edits and clearings among entries, given in ascending order.

    Turns of these entries keep their own tags; ask `Folded.tags` with them.
    """
    edits: dict[str, Edit] = {}
    ranges: list[tuple[int, int]] = []
    for entry in entries:
        record = entry.record
        if isinstance(record, TagEdit):
            edits[record.turn] = _edited(edits.get(record.turn, Edit()), record)
        elif isinstance(record, Cleared):
            ranges += [(int(first), int(last)) for first, last in record.seqs]
    return Folded(edits, merged(ranges))


def fold_tail(
    entries: Iterator[Entry],
    upto: int | None,
    holds: Callable[[int, int], bool] = lambda first, last: False,
) -> tuple[Folded, Position | None]:
    """Return what records say about turns, and the place behind the last one to take.

    What was cleared later than that is hidden all the same, and what lost its vectors has none. The
    last one to take is before a clearing whose turns are still in the catalog: behind the mark it
    hides them from prompts.
    """
    last: Position | None = None

    def taken() -> Iterator[Entry]:
        nonlocal last, upto
        for entry in entries:
            cleared = entry.record.seqs if isinstance(entry.record, Cleared) else ()
            if any(holds(*span) for span in cleared):
                upto = min(upto or entry.seq, entry.seq - 1)
            if upto is None or entry.seq <= upto:
                last = entry.position
            elif not (cleared or _is_of_vectors(entry)):
                continue
            yield entry

    return apply_edits(taken()), last


def _is_of_vectors(entry: Entry) -> bool:
    edit = entry.record
    return isinstance(edit, TagEdit) and NO_VECTORS in {*edit.add, *edit.remove}


@dataclass(slots=True)
class Backwards:
    """What records say of earlier ones, read from the newest on: what hides a turn comes first."""

    # disjoint (first, last) ranges of cleared numbers, ascending
    hidden: tuple[tuple[int, int], ...] = ()
    # turn id → tag → whether the turn has it, of the tags that were edited
    tags: dict[str, dict[str, bool]] = field(default_factory=dict)

    def note(self, record: Record, *, counts: bool = True) -> None:
        """Note a record."""
        if isinstance(record, Cleared):
            self.hidden = merged([*self.hidden, *((int(a), int(b)) for a, b in record.seqs)])
        elif isinstance(record, TagEdit) and counts:
            known = self.tags.setdefault(record.turn, {})
            for tag in (*record.add, *record.remove):
                known.setdefault(tag, tag in record.add)

    def tags_of(self, turn: Turn) -> set[str]:
        """Return the tags of a turn now."""
        known = {**dict.fromkeys(turn.tags, True), **self.tags.get(turn.id, {})}
        return {tag for tag, held in known.items() if held}

    def is_hidden(self, seq: int) -> bool:
        """Whether the record of that number was cleared."""
        return Folded(hidden=self.hidden).is_hidden(seq)


def visible_turns(
    entries: Iterable[Entry], folded: Folded
) -> Iterator[tuple[Entry, Turn, tuple[str, ...]]]:
    """Yield (entry, turn, current tags) of the turns that were not cleared, in the given order."""
    for entry in entries:
        if isinstance(entry.record, Turn) and not folded.is_hidden(entry.seq):
            yield entry, entry.record, folded.tags(entry.record.id, entry.record.tags)


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges as disjoint ones, ascending; adjacent ones become one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def _edited(state: Edit, edit: TagEdit) -> Edit:
    """Return added and removed tags after one more edit; within one, adding comes last."""
    add = dict.fromkeys(edit.add)
    drop = dict.fromkeys(tag for tag in edit.remove if tag not in add)
    return Edit(
        tuple(dict.fromkeys([*(tag for tag in state.add if tag not in drop), *add])),
        tuple(dict.fromkeys([*(tag for tag in state.remove if tag not in add), *drop])),
    )
