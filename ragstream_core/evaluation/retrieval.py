"""Retrieval quality over judged queries, through the same chunker, scores and fusion as prompts.

Reads the layout `corpus.jsonl` (id, title, text), `queries.jsonl` (id, text), `qrels.tsv`
(query-id, corpus-id, score), indexed in memory as one generation. A document is ranked by its best
chunk. Metrics come from ir-measures.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from ragstream_core.errors import UsageError
from ragstream_core.platform import extras
from ragstream_core.platform.files import lines_of, replace_text
from ragstream_core.records import Chunk
from ragstream_core.records.identity import Json, chunk_id, digest_of, parse_chunk_id, sha256_hex
from ragstream_core.text.terms import term_blob

if TYPE_CHECKING:
    from ragstream_core.ports import F32, Embedder, Progress
    from ragstream_core.text.bm25 import LexicalArrays
    from ragstream_core.text.chunker import Chunker


class Row(TypedDict):
    """A document or a question, as a line of a file holds it."""

    id: str
    text: str
    title: NotRequired[str]
    meta: NotRequired[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CorpusView:
    """The chunks of a corpus; implements `ragstream_core.ports.IndexView`.

    A document is the Markdown text ``# title`` and its text, as a file would be.
    """

    project: str
    generation: int
    digest: str
    embed_fp: str
    chunk_ids: Sequence[str]
    paths: Sequence[str]
    vectors: F32
    lexical: LexicalArrays
    texts: dict[str, Chunk]

    @classmethod
    def build(
        cls,
        documents: Sequence[Row],
        *,
        chunker: Chunker,
        embedder: Embedder,
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> CorpusView:
        """Chunk and embed a corpus."""
        from ragstream_core.text.bm25 import build_lexical  # with numpy

        chunks = sorted(_chunks(documents, chunker), key=lambda c: c.id)
        texts = [chunk.in_context for chunk in chunks]
        vectors = _cached_vectors(texts, embedder, cache=cache, progress=progress)
        blobs = [[term_blob(str(c.meta["heading"])), term_blob(c.in_context)] for c in chunks]
        return cls(
            project="corpus",
            generation=1,
            digest=digest_of([c.id for c in chunks]),
            embed_fp=embedder.fingerprint,
            chunk_ids=[c.id for c in chunks],
            paths=[c.source for c in chunks],
            vectors=vectors,
            lexical=build_lexical(blobs),
            texts={c.id: c for c in chunks},
        )

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Return chunks in the order asked for."""
        return [self.texts[i] for i in chunk_ids]

    def documents(self, chunk_ids: Iterable[str]) -> list[str]:
        """Return the document ids of ranked chunks, each at its best chunk's place."""
        return list(dict.fromkeys(parse_chunk_id(i)[0] for i in chunk_ids))


def _chunks(documents: Sequence[Row], chunker: Chunker) -> Iterable[Chunk]:
    for document in documents:
        title = str(document.get("title") or "").strip()
        text = f"# {title}\n\n{document['text']}" if title else str(document["text"])
        sha256 = sha256_hex(text)
        for piece in chunker.chunk(text, file_type="md"):
            yield Chunk(
                id=chunk_id(str(document["id"]), sha256, piece.chunk_idx),
                source=str(document["id"]),
                snippet=piece.chunk_text,
                span=(piece.start, piece.end),
                meta={
                    "heading": piece.heading,
                    "context": piece.context,
                    "project": "corpus",
                    "sha256": sha256,
                },
            )


def _cached_vectors(
    texts: Sequence[str],
    embedder: Embedder,
    *,
    cache: Path | None,
    progress: Progress | None,
) -> F32:
    import numpy as np

    from ragstream_core.platform.files import replace_bytes

    said = digest_of(texts)  # not of the ids: other chunk rules may give the same ones
    path = cache / f"{said[:16]}-{embedder.fingerprint[:16]}.f32" if cache else None
    size = len(texts) * embedder.dimension * 4
    if path is not None and path.is_file() and path.stat().st_size == size:
        return np.fromfile(path, dtype=np.float32).reshape(-1, embedder.dimension)
    vectors = embedder.embed_documents(list(texts), progress=progress)
    if path is not None:
        replace_bytes(path, np.ascontiguousarray(vectors, dtype="<f4").tobytes(), durable=False)
    return vectors


METRICS = ("nDCG@10", "R@10", "MRR@10")
RUN_DEPTH = 100

# Returns the document ids for one query, best first, each once.
Ranker = Callable[[Row], list[str]]


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Metrics of one run."""

    metrics: dict[str, float]  # name → mean over the queries
    by_kind: dict[str, dict[str, float]]  # ``meta.kind`` → metrics, where queries have one
    queries: int
    fingerprint: str
    seconds: float  # wall time of the queries, indexing not included
    run: dict[str, list[str]]  # query id → document ids, best first

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return {
            "metrics": {**self.metrics},
            "by_kind": {kind: {**found} for kind, found in self.by_kind.items()},
            "queries": self.queries,
            "fingerprint": self.fingerprint,
            "seconds": round(self.seconds, 3),
        }


def read_jsonl(path: Path) -> list[Row]:
    """Read one JSON object a line."""
    rows = []
    try:
        lines = lines_of(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            words = row["id"], row["text"], row.get("title") or ""
            "".join(words).encode()  # half a character cannot be hashed
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UsageError(f"{path}:{number}: not an object with id and text") from None
        rows.append(row)
    if not rows:
        raise UsageError(f"{path} holds no line", hint='e.g. {"id": "a", "text": "…"}')
    return rows


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read judgements: query id → document id → grade."""
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = lines_of(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        try:
            query, document, grade = line.split("\t")
            qrels.setdefault(query, {})[document] = int(grade)
        except ValueError:
            raise UsageError(f"{path}:{number}: not query-id, corpus-id, score") from None
    return qrels


def ticker(total: int, progress: Progress | None) -> Callable[[], None]:
    """Return what is called after each of so many steps, and tells how many are done."""
    done = itertools.count(1)

    def tick() -> None:
        if progress is not None:
            progress(next(done), total)

    return tick


def evaluate(
    rank: Ranker,
    *,
    queries: Sequence[Row],
    qrels: dict[str, dict[str, int]],
    fingerprint: str,
    metrics: Sequence[str] = METRICS,
    progress: Progress | None = None,
) -> EvaluationResult:
    """Rank every judged query and measure."""
    judged = [query for query in queries if query["id"] in qrels]
    if not judged:
        raise UsageError(
            "no query has a judgement: do the ids of queries and qrels belong together?"
        )
    began = time.perf_counter()
    run, tick = {}, ticker(len(judged), progress)
    for query in judged:
        run[query["id"]] = rank(query)[:RUN_DEPTH]
        tick()
    seconds = time.perf_counter() - began
    kinds: dict[str, list[str]] = {}
    for query in judged:
        kinds.setdefault(str((query.get("meta") or {}).get("kind", "")), []).append(query["id"])
    by_kind = {k: measure(run, qrels, ids, metrics) for k, ids in sorted(kinds.items()) if k}
    whole = measure(run, qrels, [query["id"] for query in judged], metrics)
    return EvaluationResult(whole, by_kind, len(judged), fingerprint, seconds, run)


def measure(
    run: dict[str, list[str]],
    qrels: dict[str, dict[str, int]],
    queries: Iterable[str],
    metrics: Sequence[str] = METRICS,
) -> dict[str, float]:
    """Return the mean metrics of some queries."""
    extras.require("metrics", "eval", "ir_measures")
    import ir_measures

    wanted = set(queries)
    scored = {q: {d: -float(rank) for rank, d in enumerate(run[q])} for q in wanted}
    judged = {q: qrels[q] for q in wanted}
    measures = [ir_measures.parse_measure(name.replace("MRR", "RR")) for name in metrics]
    found = ir_measures.calc_aggregate(measures, judged, scored)
    return {name: round(float(found[m]), 4) for name, m in zip(metrics, measures, strict=True)}


def write_run(path: Path, run: dict[str, list[str]]) -> None:
    """Write a TREC run file: ``query Q0 document rank 1/rank ragstream``."""
    lines = [
        f"{query} Q0 {document} {rank} {1 / rank:.6f} ragstream"
        for query, ranked in run.items()
        for rank, document in enumerate(ranked, 1)
    ]
    replace_text(path, "\n".join(lines) + "\n")
