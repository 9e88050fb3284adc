"""Which turns of the history may be found, and what their tags, age and weight add to a score.

Pure: columns, settings and a time in; masks and numbers out. Nothing is deleted by age (R-145): a
term fades smoothly and can be overridden by importance. Time is used for freshness only, order is
``seq``: a clock that runs backwards makes a turn fresh, never negative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ragstream_core.conversations.columns import HistoryColumns, value_of
from ragstream_core.conversations.journal.records import (
    GOLD,
    INACTIVE,
    SILVER,
    moment_ns,
    project_tag,
)
from ragstream_core.conversations.use import OWN_LABEL

if TYPE_CHECKING:
    from ragstream_core.settings.prompts import HistoryConfig

F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

DIGITS = 6
CURRENT = "current"

# Why a row may not be found, in the order in which the rules are asked; the first one counts.
RULES = {
    "": "eligible",
    "cleared": "cleared by its owner",
    "recent": "shown in RECENT HISTORY already",
    "non_answers": "an extract, a refusal or an answer given again",
    "exclude_tags": "has an excluded tag",
    "elsewhere": "belongs to no project of this prompt",
    "days": "older than the time window",
    "since": "older than the time that was asked for",
    "sessions": "of another session",
    "projects": "of another project",
    "tags": "has none of the wanted tags",
}
_CODE = {name: code for code, name in enumerate(RULES)}
_DAY_NS = 86_400_000_000_000
_LAST_NS = (1 << 63) - 1

# A silence of this length fades what lies before it by half of ``damping``.
_PAUSE_DAYS = 7.0
_QUARTERS = 4.0
_WINDOWED = re.compile(r".@\d{1,6}(?:\.\d{1,6})?d$")


@dataclass(frozen=True, slots=True)
class Filters:
    """Rules of one prompt; an empty tuple and 0 mean no rule."""

    sessions: tuple[str, ...] = ()  # only these conversations
    tags: tuple[str, ...] = ()  # only turns with one of these tags
    projects: tuple[str, ...] = ()  # only turns of one of these projects
    days: float = 0.0  # only turns of so many days
    # turns with one of these pass ``sessions``, ``projects`` and ``tags``; ``TAG@30d``: those of 30
    # days only
    always_tags: tuple[str, ...] = ()
    # turns with one of these are never found; nothing overrides this
    exclude_tags: tuple[str, ...] = ()
    now_ns: int = 0  # the prompt's time, ns since the epoch
    since_ns: int | None = None  # only turns from this time on, ns since the epoch; None: all
    # the prompt's projects; turns that belong to others alone are not found unless ``sessions``,
    # ``projects`` or ``always_tags`` name them. Empty: all may be found
    own: tuple[str, ...] = ()
    session: str = ""  # the prompt's own conversation, all of which it may use

    @classmethod
    def of(
        cls, settings: HistoryConfig, *, session: str, projects: Sequence[str], now_ns: int
    ) -> Filters:
        """Return the rules of a prompt."""
        return cls(
            _named(settings.sessions, [session]),
            settings.tags,
            _named(settings.projects, projects),
            settings.days,
            settings.always_tags,
            (*settings.exclude_tags, INACTIVE),
            now_ns,
            moment_ns(settings.since) if settings.since else None,
            tuple(projects),
            session,
        )


def _named(names: Sequence[str], current: Sequence[str]) -> tuple[str, ...]:
    found = (own for name in names for own in (current if name == CURRENT else [name]))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Eligible:
    """Which rows may be found."""

    mask: Mask  # shape (rows,)
    rules: I8  # number of the rule in `RULES` that left each row out, 0 for none

    def counts(self) -> dict[str, int]:
        """Return how many rows each rule left out, rules without a row not named."""
        numbers = np.bincount(self.rules, minlength=len(RULES)).tolist()
        return {name: n for name, n in zip(RULES, numbers, strict=True) if name and n}


def eligible(
    columns: HistoryColumns,
    filters: Filters,
    *,
    hidden: Collection[tuple[int, int]] = (),
    shown: Mapping[int, Sequence[tuple[int, int]]] = MappingProxyType({}),
    non_answers: Collection[int] = (),
) -> Eligible:
    """Return which rows a prompt may find, and why not the others."""
    cleared = np.zeros(len(columns), dtype=bool)
    for first, last in hidden:
        cleared |= (columns.seq <= last) & (columns.seq_last >= first)
    always = _always(columns, filters)
    since = filters.now_ns - int(filters.days * _DAY_NS) if filters.days else None
    outside: dict[str, Mask] = {"cleared": cleared}
    outside["recent"] = _is_shown(columns, shown)
    outside["non_answers"] = np.isin(columns.seq, sorted(non_answers))
    outside["non_answers"] &= columns.seq == columns.seq_last
    outside["exclude_tags"] = columns.tags.where(_any_of(filters.exclude_tags))
    if filters.own:
        outside["elsewhere"] = _is_elsewhere(columns, filters) & ~always
    if since is not None:
        outside["days"] = columns.timestamp_ns < since
    if filters.since_ns is not None:
        outside["since"] = columns.timestamp_ns < filters.since_ns
    if filters.sessions:
        outside["sessions"] = ~columns.sessions.where(filters.sessions.__contains__) & ~always
    if filters.projects:
        outside["projects"] = ~_is_of(columns, filters.projects) & ~always
    if filters.tags:
        outside["tags"] = ~columns.tags.where(_any_of(filters.tags)) & ~always
    rules = np.zeros(len(columns), dtype=np.int8)
    for name, mask in outside.items():
        rules[mask & (rules == 0)] = _CODE[name]
    return Eligible(rules == 0, rules)


def _is_of(columns: HistoryColumns, projects: Collection[str]) -> Mask:
    """Return which rows are labelled with one of some projects, or adopted into it."""
    adopted = columns.tags.where(_any_of(map(project_tag, projects)))
    return adopted | columns.projects.where(_any_of(projects))


def _is_elsewhere(columns: HistoryColumns, filters: Filters) -> Mask:
    """Return which rows belong to projects, or to none, that the prompt does not name."""
    own = columns.projects.where(lambda names: OWN_LABEL in names)
    mine = {filters.session, *filters.sessions} - {""}
    named = columns.sessions.where(mine.__contains__)
    return own & ~named & ~_is_of(columns, (*filters.own, *filters.projects))


def is_timed(settings: HistoryConfig) -> bool:
    """Whether these settings let a turn be found for a time only."""
    return bool(settings.days) or any(map(_WINDOWED.search, settings.always_tags))


def _is_shown(columns: HistoryColumns, shown: Mapping[int, Sequence[tuple[int, int]]]) -> Mask:
    """Return which rows stand in RECENT HISTORY wholly; a summary of several turns never does."""
    found = np.zeros(len(columns), dtype=bool)
    for seq, spans in shown.items():
        of_turn = (columns.seq == seq) & (columns.seq_last == seq)
        for first, last in spans:
            found |= of_turn & (columns.start >= first) & (columns.end <= last)
    return found


def _always(columns: HistoryColumns, filters: Filters) -> Mask:
    """Return which rows pass the filters by a tag, some of them for a time only."""
    found = np.zeros(len(columns), dtype=bool)
    for rule in filters.always_tags:
        name, sign, days = rule.rpartition("@") if _WINDOWED.search(rule) else (rule, "", "")
        held = columns.tags.where(_any_of([name]))
        if sign:
            since = filters.now_ns - int(float(days.removesuffix("d")) * _DAY_NS)
            held &= columns.timestamp_ns >= since
        found |= held
    return found


def _any_of(wanted: Iterable[str]) -> Callable[[Iterable[str]], bool]:
    asked = frozenset(wanted)
    return lambda held: not asked.isdisjoint(held)


@dataclass(frozen=True, slots=True)
class Bias:
    """What is added to the fused score of each row, columns of their own in the ledger."""

    importance: F64  # in [0, ``importance_weight``]
    recency: F64  # in [0, ``recency_weight``]; the newer, the more
    tag: F64  # 0, ``silver_bias`` or ``gold_bias``
    damping: F64  # in [−``damping``, 0]: what a long silence since the turn takes away

    @property
    def total(self) -> F64:
        """Their sum, rounded to 6 digits."""
        parts = self.importance + self.recency + self.tag + self.damping
        return np.asarray(np.round(parts, DIGITS))

    def parts(self, row: int) -> dict[str, float]:
        """Return the terms of one row that are not 0, by name."""
        named = {
            "importance": self.importance,
            "recency": self.recency,
            "tag": self.tag,
            "damping": self.damping,
        }
        return {name: float(x[row]) for name, x in named.items() if x[row]}


def bias(columns: HistoryColumns, settings: HistoryConfig, now_ns: int) -> Bias:
    """Return what tags, weight and age add to the score of each row (R-237, R-238).

    recency = weight · max(exp(−age / quarter of the history), worth); damping = −weight ·
    (1 − worth) · (1 − 2^(−pause / 7 days)), where pause is the longest silence since the turn and
    worth its importance, 1 for GOLD and 0.5 for SILVER: what is important does not fade.
    """
    flag = np.clip(np.nan_to_num(columns.importance), 0.0, 1.0)
    by_tag = columns.tags.number(lambda tags: value_of(tags, 0.0))
    worth = np.maximum(flag, np.clip(by_tag, 0.0, 1.0))
    earliest = max(now_ns, 0) - _LAST_NS  # so that no difference of two times overflows
    times = np.clip(columns.timestamp_ns, earliest, now_ns)
    ages = (now_ns - times).astype(np.float64)
    span = max(float(ages.max(initial=0.0)) / _QUARTERS, 1.0)
    fresh = np.maximum(np.exp(-ages / span), worth)
    pauses = _longest_silence(times, now_ns) / (_PAUSE_DAYS * _DAY_NS)
    faded = (1.0 - worth) * (1.0 - np.exp2(-pauses))
    return Bias(
        np.round(settings.importance_weight * flag, DIGITS),
        np.round(settings.recency_weight * fresh, DIGITS),
        np.round(columns.tags.number(lambda tags: _tag_bias(tags, settings)), DIGITS),
        np.round(-settings.damping * faded, DIGITS),
    )


def _tag_bias(tags: Collection[str], settings: HistoryConfig) -> float:
    given = {GOLD: settings.gold_bias, SILVER: settings.silver_bias}
    return max((given.get(tag, 0.0) for tag in tags), default=0.0)


def _longest_silence(times: npt.NDArray[np.int64], now_ns: int) -> F64:
    """Return the longest pause between turns, or until now, since each turn, in ns."""
    if not len(times):
        return np.zeros(0)
    order = np.argsort(times, kind="stable")
    gaps = np.diff(np.append(times[order], now_ns))
    longest = np.empty(len(times))
    longest[order] = np.maximum.accumulate(gaps[::-1])[::-1]
    return longest
