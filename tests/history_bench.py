"""A journal with its catalog in a folder of its own: what the tests of the worker stand on."""

import datetime as dt
import itertools
import random
from pathlib import Path

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Asked, Cleared, TagEdit, Turn
from ragstream_core.conversations.units import TurnChunker, turn_path, turn_sha
from ragstream_core.index.history import open_history_catalog
from ragstream_core.index.selection import selection_rows
from ragstream_core.ingestion.history_worker import HistoryIngestionWorker
from ragstream_core.records.identity import sha256_hex
from tests.conftest import CountingEmbedder

START = dt.datetime(2026, 8, 30, 9, 0, tzinfo=dt.UTC)
WORDS = ["brake", "noise", "gear", "sensor", "report", "limit", "budget", "meeting", "test", "road"]
_ids = itertools.count(1)


def turn(user="What is it?", assistant="It is this.", *, day=0, session="s1", **given):
    """A turn some days after the start."""
    number = next(_ids)
    when = (START + dt.timedelta(days=day, seconds=number)).isoformat(timespec="seconds")
    given = {"id": f"turn-{number:06}", "timestamp": when} | given
    return Turn(session_id=session, user_text=user, assistant_text=assistant, **given)


def words(rng: random.Random, count=12):
    return " ".join(rng.choices(WORDS, k=count))


class HistoryBench:
    """A history below a folder; the real journal, catalog and worker, a hashing embedder."""

    def __init__(self, root: Path, *, embedder=None, chunker=None):
        self.root = root
        self.index = root / "history" / "index"
        self.journal = Journal(root / "history" / "logs")
        self.embedder = embedder or CountingEmbedder()
        self.chunker = chunker or TurnChunker(window=self.embedder.window)
        self.earlier = [TurnChunker(window=self.embedder.window)]

    def say(self, *records):
        return self.journal.append(records)

    def store(self, *, rebuild=False):
        return open_history_catalog(self.index, rebuild=rebuild)

    def worker(self, **given):
        parts = {"embedder": self.embedder, "chunker": self.chunker} | given
        return HistoryIngestionWorker(self.journal, self.index, **parts)

    def run(self, upto=None):
        return self.worker().run(upto)

    def rows(self, upto=None):
        return selection_rows(self.index, upto)

    def texts_seen(self):
        """Texts given to the model since the last call."""
        seen = list(self.embedder.seen)
        self.embedder.seen.clear()
        return seen

    def require_complete(self, upto=None):
        """Vectors = turns: every turn once, with its texts, tags and the vectors of its texts."""
        turns, tags, hidden = [], {}, set()
        for entry in self.journal.entries():
            record = entry.record
            if isinstance(record, Cleared):
                for first, last in record.seqs:
                    hidden |= set(range(first, last + 1))
            if upto is not None and entry.seq > upto:
                continue
            if isinstance(record, Turn) and record.status == "complete":
                turns.append((entry.seq, record))
                tags[record.id] = set(record.tags)
            elif isinstance(record, TagEdit) and record.turn in tags:
                tags[record.turn] = (tags[record.turn] - set(record.remove)) | set(record.add)
        wanted = [(seq, t) for seq, t in turns if seq not in hidden]
        live = self.rows()
        mark, rules = live.mark, [self.chunker, *self.earlier]
        chunker = next(c for c in rules if c.index_fp(mark.embed_fp) == mark.index_fp)
        assert list(live.turns) == [seq for seq, _ in wanted]
        for seq, record in wanted:
            assert live.turns[seq].sha256 == turn_sha(record)
            assert live.turns[seq].tags == tuple(sorted(tags[record.id]))
        pieces = {
            (seq, i): piece.text
            for seq, record in wanted
            for i, piece in enumerate(chunker.pieces(record))
        }
        assert {(row.seq, row.chunk_idx): row.text for row in live.rows} == pieces
        assert len(live.rows) == len(pieces)
        assert all(sha256_hex(row.text) == row.text_hash for row in live.rows)
        vectors = self.embedder.embed_documents([row.text for row in live.rows])
        del self.embedder.seen[len(self.embedder.seen) - len(live.rows) :]
        assert vectors.tobytes() == live.vectors.tobytes()
        return live


__all__ = ["Asked", "Cleared", "HistoryBench", "TagEdit", "turn", "turn_path", "words"]
