"""Vectors of questions that were answered: which earlier turn asked what is asked now.

A file of it holds no text: ids, numbers, digests and vectors, under a checksum. It is derived from
the journal; one that is damaged, or of another model, is no file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragstream_core.errors import IntegrityError
from ragstream_core.records.identity import sha256_hex

F32 = npt.NDArray[np.float32]
VERSION = 1

# So many of the newest questions are kept: an answer that old has hardly the same documents.
MOST = 5_000
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that has an answer."""

    turn: str  # id of its turn
    seq: int  # the turn's number in the journal
    sha256: str  # digest of the question
    scope: str  # under what its answer holds
    blue: bool = False  # whether the turn is tagged BLUE, so that its answer is not given again


class Match(NamedTuple):
    """An earlier question and its cosine to the one that is asked."""

    asked: Asked
    score: float


@dataclass(frozen=True)
class QuestionIndex:
    """Questions and their vectors."""

    model: str  # fingerprint of the embedder
    seq: int = 0  # last record of the journal that is in it
    chain: str = ""  # hash of that record's line
    rows: tuple[Asked, ...] = ()  # the questions, by `Asked.seq` ascending
    # shape (len(rows), dimension), unit rows
    vectors: F32 = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))

    def nearest(self, vector: F32, *, scope: str, least: float) -> list[Match]:
        """Return the questions of a scope that are near enough, the best first, then the newest."""
        own = [n for n, row in enumerate(self.rows) if row.scope == scope and not row.blue]
        if not own:
            return []
        cosines = np.round(self.vectors[own] @ vector, _DIGITS).tolist()
        near = [Match(self.rows[n], c) for n, c in zip(own, cosines, strict=True) if c >= least]
        return sorted(near, key=lambda match: (-match.score, -match.asked.seq))

    def moved(
        self,
        *,
        seq: int,
        chain: str,
        added: Iterable[tuple[Asked, F32]] = (),
        blue: Mapping[str, bool] | None = None,
        hidden: Iterable[int] = (),
    ) -> QuestionIndex:
        """Return the index further on in the journal."""
        gone, changed = set(hidden), blue or {}
        old = zip(self.rows, self.vectors, strict=True)
        pairs = [(row, vector) for row, vector in [*old, *added] if row.seq not in gone][-MOST:]
        rows = tuple(replace(row, blue=changed.get(row.turn, row.blue)) for row, _ in pairs)
        vectors = [vector for _, vector in pairs]
        stacked = np.stack(vectors) if vectors else np.zeros((0, 0), dtype=np.float32)
        return QuestionIndex(self.model, seq, chain, rows, stacked.astype(np.float32))


def to_bytes(index: QuestionIndex) -> bytes:
    """Return the file of an index: its checksum, one line of JSON, the vectors."""
    head = {
        "version": VERSION,
        "model": index.model,
        "seq": index.seq,
        "chain": index.chain,
        "dimension": int(index.vectors.shape[1]),
        "rows": [asdict(row) for row in index.rows],
    }
    body = json.dumps(head).encode() + b"\n" + index.vectors.astype("<f4").tobytes()
    return sha256_hex(body).encode() + b"\n" + body


def from_bytes(data: bytes) -> QuestionIndex:
    """Read a file of `to_bytes`."""
    checksum, _, body = data.partition(b"\n")
    if checksum.decode("ascii", "replace") != sha256_hex(body):
        raise IntegrityError("the index of questions is damaged", hint="it is made again")
    line, _, packed = body.partition(b"\n")
    head = json.loads(line)
    if head.pop("version") != VERSION:
        raise IntegrityError("the index of questions is of another version")
    rows = tuple(Asked(**row) for row in head["rows"])
    shape = (len(rows), int(head["dimension"]))
    vectors = np.frombuffer(packed, dtype="<f4").reshape(shape).astype(np.float32)
    return QuestionIndex(head["model"], head["seq"], head["chain"], rows, vectors)
