"""Old spans of the history as compact, titled, extractive summaries (R-240); off by default.

Words are chosen, never written: a summary quotes the sentences of those turns that lie nearest to
the middle of their span, and names them. It takes the place of the span's turns in the published
selection only: the catalog keeps them all, RECENT HISTORY never holds a summary, and turns that
a person tagged or flagged stay beside it as they are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ragstream_core.conversations.columns import SelectedRow, value_of
from ragstream_core.conversations.journal.records import HIDDEN, Turn
from ragstream_core.conversations.units import history_chunk_id
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.sentences import sentence_spans
from ragstream_core.text.terms import is_stop_word, term_blob, words

if TYPE_CHECKING:
    from ragstream_core.ports import F32

SOURCE = "summary"

# Turns of one session and project that become one summary; what is left over waits for more.
SPAN_TURNS = 12
# Answers that must cite a summary before it counts as useful.
PROMOTED_FROM = 2
QUOTED = 4
TITLE_WORDS = 5
SENTENCE_CHARS = 240
_DAY_NS = 86_400_000_000_000
_MIN_LETTERS = 4


def rolled_up(
    rows: Sequence[SelectedRow],
    vectors: F32,
    *,
    after_days: float,
    tags: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> tuple[list[SelectedRow], F32]:
    """Put summaries in the place of old turns; the same rows give the same summaries.

    The vector of a summary is the normalised mean of those of the turns that it quotes.
    """
    newest = max((row.timestamp_ns for row in rows), default=0)
    old = [i for i, r in enumerate(rows) if r.timestamp_ns < newest - after_days * _DAY_NS]
    gone: set[int] = set()
    made: list[SelectedRow] = []
    middles: list[F32] = []
    told_of = [i for i in old if HIDDEN.isdisjoint(rows[i].tags) and not rows[i].is_non_answer]
    for span in _spans(rows, told_of):
        row, quoted = _summary([rows[i] for i in span], vectors[span])
        made.append(row._replace(tags=tags.get(row.chunk_id, ())))
        middle = vectors[[span[i] for i in quoted]].mean(axis=0)
        middles.append(middle / max(float(np.linalg.norm(middle)), 1e-9))
        gone.update(i for i in span if value_of(rows[i].tags, rows[i].importance) <= 0)
    stay = [i for i in range(len(rows)) if i not in gone]
    kept = vectors[stay] if gone else vectors
    if made:
        kept = np.concatenate([kept, np.stack(middles)]).astype(np.float32)
    return [*(rows[i] for i in stay), *made], kept


def citing(summaries: Iterable[str], turns: Iterable[Turn]) -> dict[str, int]:
    """Return how many answers cite each summary by a marker that their prompt issued."""
    digests = {name: sha256_hex(name) for name in summaries}
    found = dict.fromkeys(digests, 0)
    for turn in turns if digests else ():
        ids = {str(row["id"]) for row in turn.citations if row.get("known") and row.get("id")}
        for name, digest in digests.items():
            found[name] += any(map(digest.startswith, ids))
    return found


def promoted(answers: Mapping[str, int], edits: Collection[str]) -> list[str]:
    """Return the summaries that proved useful and are not promoted yet, in order (R-240).

    One whose tags were edited, by the promotion itself or by a person, is passed by for good.
    """
    useful = (name for name, count in answers.items() if count >= PROMOTED_FROM)
    return sorted(name for name in useful if name not in edits)


def _spans(rows: Sequence[SelectedRow], old: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of each span: whole turns, all of one session and the same projects."""
    order = sorted(old, key=lambda i: (rows[i].session, rows[i].seq, rows[i].chunk_idx))
    for _, group in itertools.groupby(order, key=lambda i: (rows[i].session, rows[i].projects)):
        turns = [list(turn) for _, turn in itertools.groupby(group, key=lambda i: rows[i].seq)]
        for at in range(0, len(turns) - SPAN_TURNS + 1, SPAN_TURNS):
            yield [i for turn in turns[at : at + SPAN_TURNS] for i in turn]


def _summary(rows: Sequence[SelectedRow], vectors: F32) -> tuple[SelectedRow, list[int]]:
    """Return the summary of one span, and which of its rows it quotes."""
    near = np.round(vectors.astype(np.float64) @ vectors.mean(axis=0, dtype=np.float64), 6)
    order = sorted(range(len(rows)), key=lambda i: (-near[i], rows[i].chunk_id))
    best = {rows[i].seq: i for i in reversed(order)}  # of each turn its nearest chunk
    quoted = sorted([i for i in order if best[rows[i].seq] == i][:QUOTED])
    title = _title(rows)
    first, last = rows[0], rows[-1]
    lines = [f"Summary of turns {first.seq} to {last.seq}: {', '.join(title)}"]
    lines += [f"- {_quote(rows[i].text, title)}" for i in quoted]
    text = "\n".join(lines)
    identifier = history_chunk_id(first.session, first.seq, last.seq, 0)
    row = first._replace(
        chunk_id=identifier,
        turn_id=identifier,
        seq_last=last.seq,
        chunk_idx=0,
        text=text,
        text_hash=sha256_hex(text),
        terms=term_blob(text),
        timestamp_ns=max(r.timestamp_ns for r in rows),
        tags=(),
        source=SOURCE,
        importance=0.0,
        start=0,
        end=len(text),
        versions=canonical_json([{"turns": sorted({rows[i].turn_id for i in quoted})}]),
        prompt_key="",
        sha256=sha256_hex(canonical_json([r.text_hash for r in rows])),
    )
    return row, quoted


def _title(rows: Sequence[SelectedRow]) -> list[str]:
    """Return the words that most turns of a span use."""
    held = Counter(word for row in rows for word in set(words(row.text.partition(": ")[2])))
    useful = {w: n for w, n in held.items() if len(w) >= _MIN_LETTERS and not is_stop_word(w)}
    return [
        w for w, _ in sorted(useful.items(), key=lambda item: (-item[1], item[0]))[:TITLE_WORDS]
    ]


def _quote(text: str, title: Sequence[str]) -> str:
    """Return the sentence of a turn that says most of the title, after its date and speaker."""
    heading, _, said = text.partition(": ")
    spans = sentence_spans(said) or [(0, len(said))]
    wanted = set(title)
    start, end = max(spans, key=lambda s: len(wanted.intersection(words(said[s[0] : s[1]]))))
    sentence = " ".join(said[start:end].split())
    return f"{heading}: {sentence[:SENTENCE_CHARS]}"
