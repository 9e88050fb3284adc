"""The conversation as one prompt sees it: Layer G from the journal, Layer E from the snapshot.

It reads what `prompt_inputs` pinned, so the same inputs give the same turns; it never waits for a
lock or for the embedding worker.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.digest import fitted
from ragstream_core.conversations.edits import Folded, apply_edits, visible_turns
from ragstream_core.conversations.given import entries_in
from ragstream_core.conversations.journal.records import INACTIVE, Entry, Turn
from ragstream_core.conversations.lexicon import default_lexicon_text, lexicon_of
from ragstream_core.conversations.non_answers import is_evidence, non_answers_in
from ragstream_core.conversations.recent_history import (
    Recent,
    Scope,
    Shown,
    is_question_alone,
    layer_g,
    render_recent,
    text_of,
)
from ragstream_core.prompts.blocks import HISTORY_PREFIX, digest_tokens
from ragstream_core.prompts.inputs import CONVERSATION, DIGEST, settings_at
from ragstream_core.prompts.stage_versions import Clock
from ragstream_core.records import Hit
from ragstream_core.records.prompt_inputs import HistoryPin, PromptInputs
from ragstream_core.text.plurals import counted
from ragstream_core.text.terms import term_id, terms
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.conversations.eligible_turns import Eligible
    from ragstream_core.index.snapshot import HistoryView
    from ragstream_core.retrieval.rows import HistoryRows
    from ragstream_core.settings import ChainSettings
    from ragstream_core.settings.prompts import HistoryConfig
    from ragstream_core.wiring.workspace import Workspace

BACKFILL = "ragstream history backfill"
G_OP = "a0_preprocessing"
OLDER = 3  # turns that are an anchor of A2
_LOOKED_AT = 64  # records of a journal without a selection: one turn among them is enough to say so
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class ConversationMemory:
    """Layers G and E of one prompt: read-only, and the same for the same inputs (R-242)."""

    workspace: Workspace
    inputs: PromptInputs
    op: str = G_OP  # the stage that reads; its settings hold

    @property
    def pin(self) -> HistoryPin:
        """What of the conversation counts."""
        return self.inputs.history

    @functools.cached_property
    def count(self) -> Callable[[str], int]:
        """Counts tokens as the prompt does."""
        return counter_of(self.workspace, self.inputs).count

    @functools.cached_property
    def settings(self) -> HistoryConfig:
        """Section ``history`` at this stage."""
        return settings_at(self.inputs, self.op).history

    @functools.cached_property
    def shown(self) -> bool:
        """Whether the prompt shows RECENT HISTORY at all."""
        settings = settings_at(self.inputs, self.op)
        said = self.pin.seq or self._given
        return bool(settings.prompt.recent_history and said and not self.inputs.lock)

    @property
    def _given(self) -> str:
        """The conversation that came with the question, "" for none."""
        return self.inputs.texts.get(CONVERSATION, "")

    @functools.cached_property
    def clock(self) -> Clock:
        """Tells the prompt's time, and whether it was asked; the present, where none is known.

        None is where a prompt is varied whose own stages had no use for it.
        """
        return Clock(self.inputs.now or dt.datetime.now().astimezone().isoformat())

    def _now_ns(self) -> int:
        """Return the prompt's time, ns since the epoch."""
        return (self.clock.now() - _EPOCH) // dt.timedelta(microseconds=1) * 1000

    @functools.cached_property
    def _first(self) -> ChainSettings:
        """The settings of the stage that shows RECENT HISTORY, whatever stage reads now."""
        return settings_at(self.inputs, G_OP)

    @functools.cached_property
    def recent(self) -> Recent:
        """Layer G: the newest pairs of the prompt's conversation, none without one (C-40)."""
        settings = self._first.history
        if not (self.shown and settings.recency_k):
            return Recent()
        if self._given:
            return Recent(own=entries_in(self._given)[-settings.recency_k :])
        scope = Scope(
            self.pin.session,
            settings.recency_k,
            settings.recent_fill,
            projects=tuple(pin.project for pin in self.inputs.pins),
            exclude_tags=(*settings.exclude_tags, INACTIVE),
        )
        return layer_g(journal(self.workspace), scope, upto=self.pin.seq)

    @functools.cached_property
    def recent_shown(self) -> tuple[Shown, ...]:
        """What of Layer G stands in the prompt: within its budget, and half of the prompt's."""
        settings, count = self._first, self.count
        most = min(settings.history.recent_max_tokens, settings.prompt.budget_tokens // 2)
        return render_recent(self.recent.pairs, fits=lambda text: count(text) <= most)

    @functools.cached_property
    def _turns_shown(self) -> dict[int, Shown]:
        """What of `recent_shown` is in the journal, by its number there."""
        return {pair.entry.seq: pair for pair in self.recent_shown if pair.entry.seq}

    def rendered(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return ``recentConversation`` and what the person should know about it."""
        pairs, shown = self.recent.pairs, self.recent_shown
        notes = [self.pin.note] if self.pin.note and self.settings.enabled and self.shown else []
        if len(shown) < len(pairs):
            notes.append(
                f"RECENT HISTORY shows {len(shown)} of {len(pairs)} pairs: "
                f"history.recent_max_tokens is {self._first.history.recent_max_tokens}"
            )
        behind = self._behind()
        if behind:
            notes.append(f"{behind} not searchable yet: run `{BACKFILL}` or `ragstream up`")
        digest = {"digest": self.digest} if self.digest else {}
        if not shown:
            empty = {"body": "", "pairs_count": 0, "range": (0, 0), **digest}
            return empty if digest else {}, tuple(notes)
        seqs = [pair.entry.seq for pair in shown]
        found = {
            "body": text_of(shown),
            "pairs_count": len(shown),
            "range": (min(seqs), max(seqs)),
            **self._apart(shown),
        }
        return {**found, **digest}, tuple(notes)

    def _apart(self, shown: Sequence[Shown]) -> dict[str, int]:
        """Return how many pairs are cut or unanswered, and where the own conversation begins."""
        others = [pair for pair in shown if pair.entry in self.recent.others]
        own = len(text_of(shown)) - len(text_of(shown[len(others) :]))
        parts = {"cut_pairs": sum(not pair.is_whole for pair in shown), "own_start": own}
        parts["unanswered_pairs"] = sum(is_question_alone(pair.entry) for pair in shown)
        return {name: n for name, n in parts.items() if n}

    @functools.cached_property
    def digest(self) -> str:
        """The pinned digest of the newest turns, within its own and the memory's budget."""
        settings = settings_at(self.inputs, G_OP).memory
        if not (self.shown and settings.enabled):
            return ""
        count = self.count
        text = self.inputs.texts.get(DIGEST, "")
        text = fitted(text, count=count, budget_tokens=settings.summary_tokens)
        if settings.max_chars:
            text = fitted(text, count=len, budget_tokens=settings.max_chars)
        framed = functools.partial(digest_tokens, count=count)
        return fitted(text, count=framed, budget_tokens=settings.max_tokens)

    def _behind(self) -> str:
        """Say which turns are newer than the selection and not wholly shown either.

        "" for none, and where it was said before: to whoever asked one of them but the first.
        """
        if not (self.shown and self.settings.enabled) or self.pin.note:
            return ""
        seqs = {seq for seq, pair in self._turns_shown.items() if pair.is_whole}
        if not self.pin.snapshot:
            before = journal(self.workspace).entries(1, self.pin.seq + 1)
            first = itertools.islice(before, _LOOKED_AT)  # a question without answer is no turn
            older = [
                e.record
                for e in first
                if isinstance(e.record, Turn) and is_evidence(e.record) and e.seq not in seqs
            ]
            return "Earlier conversations are" if older and not _said_before(older) else ""
        turns = visible_turns(*self._newer)
        out = {*self.settings.exclude_tags, INACTIVE}
        waiting = [
            turn
            for e, turn, tags in turns
            if is_evidence(turn) and e.seq not in seqs and out.isdisjoint(tags)
        ]
        if not waiting or _said_before(waiting):
            return ""
        one, several = (f"{noun} of earlier conversations" for noun in ("turn", "turns"))
        return counted(len(waiting), f"{one} is", f"{several} are")

    @functools.cached_property
    def view(self) -> HistoryView | None:
        """The pinned selection of older turns; None where none is searched."""
        from ragstream_core.wiring.history_index import History  # NumPy

        if not (self.shown and self.settings.enabled and self.pin.snapshot):
            return None
        pin, cap = self.pin, self.settings.max_chunks
        history = History(self.workspace)
        return history.selection_at(upto=pin.high_water, digest=pin.snapshot, cap=cap)

    @functools.cached_property
    def _newer(self) -> tuple[list[Entry], Folded]:
        """The records behind the selection's mark, up to the pinned one, and what they edit."""
        pin, mark = self.pin, self.view.mark.position if self.view else None
        found = journal(self.workspace).entries(pin.high_water + 1, pin.seq + 1, hint=mark)
        entries = list(found)
        return entries, apply_edits(entries)

    @functools.cached_property
    def eligible(self) -> Eligible:
        """Which rows of `view` may be found."""
        from ragstream_core.conversations.eligible_turns import Filters, eligible, is_timed

        filters = Filters.of(
            self.settings,
            session=self.pin.session,
            projects=[pin.project for pin in self.inputs.pins],
            now_ns=self._now_ns() if is_timed(self.settings) else 0,
        )
        _, edits = self._newer
        shown = {seq: pair.spans for seq, pair in self._turns_shown.items()}
        return eligible(
            self._columns,
            filters,
            hidden=edits.hidden,
            shown=shown,
            non_answers=self._non_answers(),
        )

    def _non_answers(self) -> frozenset[int]:
        """Return the turns of `view` that are no answers; the journal knows of an older file's."""
        view = self.view
        assert view is not None
        if view.non_answers is None:
            view.non_answers = non_answers_in(journal(self.workspace), view.mark.position.seq)
        return view.non_answers

    @functools.cached_property
    def _columns(self) -> Any:
        assert self.view is not None
        _, edits = self._newer
        return self.view.columns.edited(edits)

    def past(self) -> HistoryRows | None:
        """Return what the retriever searches beside the documents; None where there is nothing."""
        from ragstream_core.retrieval.rows import HistoryRows

        if self.view is None:
            return None
        lexicon = lexicon_of(default_lexicon_text(), self.inputs.texts.get("lexicon", ""))
        return HistoryRows(self.view, self.eligible.mask, lexicon.expand)

    def older(self, text: str) -> str:
        """Return the older turns that share most words with a text, as one text, best first.

        Those of the prompt's own conversation, found by BM25 alone: nothing is embedded here.
        """
        from ragstream_core.text.bm25 import Bm25

        if self.view is None or not len(self.view.chunk_ids) or not self.pin.session:
            return ""
        mine = self._columns.sessions.where(lambda session: session == self.pin.session)
        scores = Bm25([self.view.lexical]).scores(terms(text)) * (self.eligible.mask & mine)
        best = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:OLDER]
        found = [self.view.chunk_ids[row] for row in best if scores[row] > 0]
        return "\n".join(chunk.snippet for chunk in self.view.chunks(found))

    def biased(self, hits: Sequence[Hit], asked: str = "") -> list[Hit]:
        """Let turns around a turn, importance, recency and tags count; return the new order."""
        from ragstream_core.conversations.eligible_turns import bias

        turns = [hit for hit in hits if hit.chunk_id.startswith(HISTORY_PREFIX)]
        if self.view is None or not turns:
            return list(hits)
        ages = bool(self.settings.recency_weight or self.settings.damping)
        added = bias(self._columns, self.settings, self._now_ns() if ages else 0)
        turns = self._around(turns, asked)
        rows = self.view.rows_of(hit.chunk_id for hit in turns)
        found = [hit for hit in hits if not hit.chunk_id.startswith(HISTORY_PREFIX)]
        found += [_with_terms(hit, added.parts(row)) for hit, row in zip(turns, rows, strict=True)]
        return sorted(found, key=lambda hit: (-hit.score, hit.chunk_id))

    def _around(self, turns: list[Hit], asked: str) -> list[Hit]:
        """Rank turns by what stands around them as well; not where one signal alone decides."""
        from ragstream_core.conversations.around import Asked, Found, ranked
        from ragstream_core.text.bm25 import idf

        pure = settings_at(self.inputs, self.op).retrieval.dense_weight in (0.0, 1.0)
        if pure or not self.settings.around or self.view is None:
            return turns
        rows, texts = self.view.rows_of(hit.chunk_id for hit in turns), self.view.text("text")
        found, indexes = Found(turns, rows, [texts[row] for row in rows]), [self.view.lexical]
        question = Asked(asked, self.clock.today, lambda term: idf(indexes, term_id(term)))
        return ranked(found, self.view.order, question)

    def events(self) -> list[str]:
        """Say how many older turns were searched, and why not the others."""
        if self.view is None:
            return []
        left = ", ".join(f"{n} {rule}" for rule, n in self.eligible.counts().items())
        searched = int(self.eligible.mask.sum())
        return [f"{searched} pieces of older turns searched" + (f"; left out: {left}" * bool(left))]


def _with_terms(hit: Hit, terms: dict[str, float]) -> Hit:
    if not terms:
        return hit
    score = round(hit.score + sum(terms.values()), 6)
    return hit._replace(score=score, scores={**hit.scores, **terms})


def _said_before(waiting: Sequence[Turn]) -> bool:
    """Whether somebody asked while the first of some turns was not searchable yet."""
    return any(turn.prompt_key for turn in waiting[1:])
