"""What an index costs as it grows, beside the model: ingest, delta, opening, a question, bytes.

OMP_NUM_THREADS=1 python -m tests.benchmarks.bench_growth [CHUNKS ...]

Documents of forty paragraphs, each a chunk of 120 words drawn by Zipf's law from 50,000, the most
frequent of them English: about as long and with as many terms as a chunk of this project's pages.
Vectors are drawn, and drawing them is not counted. Cutting at empty lines stands for the chunker,
which counts tokens with the model's tokenizer. Each step is a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.text.chunk_profiles import PROFILES
from ragstream_core.text.chunker import Chunker, ChunkPiece
from tests.benchmarks.bench_scale import unit
from tests.benchmarks.measure import table

if TYPE_CHECKING:
    from ragstream_core.index.view import CatalogView
    from ragstream_core.ports import F32, Progress

PARAGRAPHS, WORDS, VOCABULARY, FOLDER = 40, 120, 50_000, 100
DELTA_FILES, PIECES, PIECE_WORDS = 10, 10, 12
STEPS = ("ingest", "first", "open", "delta", "check")
PROJECT = "grown"
FREQUENT = """
the of and to in a is that for it as was with be by on not he his but at are this have from or had
an they which you were their one all we can her has there been if more when will would who so no
"""
HEAD = [
    "chunks", "ingest, CPU s", "its peak MiB", "delta of ten files, CPU s", "opening, CPU s",
    "first question", "one piece, warm", "ten pieces, warm", "catalog MB", "term arrays MB",
    "vectors MB",
]  # fmt: skip
TITLE = "## What an index costs as it grows"
PLOT = """[The same as lines](growth.svg), both axes logarithmic.

`opening` is that of an index whose rows were checked before. The first opening after a first ingest
checks them all: 10 CPU s for a million chunks, with 0.5 GiB (11.3 and 3.9 when all were held at
once). After the delta of ten files only what changed is checked: 1.4 CPU s. The first question maps
the vectors; when it copied them, it took 5.6 CPU s in turn with 0.95, and each of the next ones a
twentieth less. Of a million chunks the ingest was measured by one run on cores shared with other
work, questions by another on quiet ones. 5 million, by two runs on busy cores: ingest 1,074 and
1,515 CPU s with 3.6 GiB, delta of ten files 7.4, catalog 12.5 GB, vectors 7.7 GB, term arrays
3.0 GB; first opening 56 CPU s with 1.9 GiB, 6.5 after the delta. On quiet cores a question of one
piece takes 0.75 CPU s there and one of ten pieces 1.75, the first of a process 5 to 6, opening 0.5
to 0.8; 12 GB are resident, 7.7 of them the mapped vectors."""
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
Found = TypeVar("Found")


class Drawn(HashedEmbedder):
    """An embedder that draws its vectors and counts what that costs."""

    name = "drawn"
    seconds = 0.0

    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Return unit vectors that depend on the texts."""
        began = time.process_time()
        made = unit(np.random.default_rng(zlib.crc32("".join(texts).encode())), len(texts))
        self.seconds += time.process_time() - began
        return made

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Return the same vectors for as many texts."""
        return unit(np.random.default_rng(3), len(texts))

    def count(self, text: str) -> int:
        """Return about as many tokens as a text has."""
        return len(text) // 4


class Paragraphs(Chunker):
    """Cuts a text at its empty lines; the first paragraph is the heading of the others."""

    def chunk(self, text: str, *, file_type: str) -> list[ChunkPiece]:
        """Return the paragraphs of a text."""
        heading, *parts = text.split("\n\n")
        pieces: list[ChunkPiece] = []
        at = len(heading) + 2
        for part in parts:
            pieces.append(ChunkPiece(len(pieces), part, at, at + len(part), heading[2:]))
            at += len(part) + 2
        return pieces


def words() -> list[str]:
    """Return the vocabulary: distinct words of 3 to 12 letters."""
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (VOCABULARY * 2, 12), dtype=np.uint8)
    sizes = rng.integers(3, 13, len(letters))
    made = (bytes(row[:n]).decode() for row, n in zip(letters, sizes, strict=True))
    return [*FREQUENT.split(), *dict.fromkeys(made)][:VOCABULARY]


def paragraphs(rng: np.random.Generator, names: np.ndarray) -> Iterator[str]:
    """Yield paragraphs without end."""
    sums = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    while True:
        drawn = np.searchsorted(sums, rng.random((1024, WORDS)) * sums[-1])
        yield from map(" ".join, names[drawn].tolist())


def document(source: Iterator[str], n: int) -> str:
    """Return a document."""
    parts = [next(source) for _ in range(PARAGRAPHS)]
    return "\n\n".join([f"# Document {n} of the corpus", *parts])


def write_corpus(data: Path, chunks: int) -> None:
    """Write the documents."""
    source = paragraphs(np.random.default_rng(1), np.array(words(), dtype=object))
    for n in range(chunks // PARAGRAPHS):
        path = document_path(data, n)
        if n % FOLDER == 0:
            path.parent.mkdir(parents=True)
        path.write_text(document(source, n))


def document_path(data: Path, n: int) -> Path:
    """Return where a document lies."""
    return data / "doc_raw" / PROJECT / f"part-{n // FOLDER:04}" / f"document-{n:06}.md"


def ingest(data: Path) -> dict[str, float]:
    """Ingest; return what it cost beside the vectors."""
    from ragstream_core.ingestion.ingestion_config import IngestionConfig
    from ragstream_core.ingestion.ingestion_manager import IngestionManager

    phases: dict[str, float] = {}
    last = ("read", time.process_time())

    def progress(phase: str, done: int, total: int) -> None:
        nonlocal last
        name, began = last
        last = (phase, time.process_time())
        phases[name] = phases.get(name, 0.0) + last[1] - began

    embedder = Drawn()
    manager = IngestionManager(
        data / "doc_raw", data / "index", embedder=embedder, progress=progress,
        chunkers=lambda profile: Paragraphs(PROFILES["default"]),
    )  # fmt: skip
    stats = manager.run(PROJECT, IngestionConfig())
    progress("end", 0, 0)
    return {"embedded": stats.chunks["embedded"], "drawing": embedder.seconds, **phases}


def delta(data: Path) -> dict[str, float]:
    """Write some documents anew and ingest."""
    files = sum(1 for _ in (data / "doc_raw").rglob("*.md"))
    source = paragraphs(np.random.default_rng(2), np.array(words(), dtype=object))
    for n in range(0, files, max(files // DELTA_FILES, 1))[:DELTA_FILES]:
        document_path(data, n).write_text(document(source, n))
    began = time.process_time()
    found = ingest(data)
    return {**found, "cpu": time.process_time() - began - found["drawing"]}


def opened(data: Path) -> dict[str, float]:
    """Open the index and ask it."""
    import ragstream_core.text.bm25  # noqa: F401
    from ragstream_core.index.view import open_view

    view, opening = timed(lambda: open_view(data / "index" / PROJECT, keep=True))
    question = asking(view, PIECES)
    _, first = timed(question)
    warm = min(timed(question)[1] for _ in range(5))
    short = asking(view, 1)
    short()
    one = min(timed(short)[1] for _ in range(5))
    return {"opening": opening, "first": first, "warm": warm, "one": one}


def asking(view: CatalogView, count: int) -> Callable[[], object]:
    """Return a question of some pieces, whose words are drawn as those of the documents."""
    from ragstream_core.models.onnx_session import row_products
    from ragstream_core.retrieval.retriever import Fusion, Retriever

    source = paragraphs(np.random.default_rng(5), np.array(words(), dtype=object))
    pieces = [" ".join(next(source).split()[:PIECE_WORDS]) for _ in range(count)]
    retriever = Retriever(Drawn(), Fusion(), multiply=row_products)
    return lambda: retriever.search([view], " ".join(pieces), pieces=pieces)


def timed(call: Callable[[], Found]) -> tuple[Found, float]:
    """Return what a call returns, and its CPU seconds."""
    began = time.process_time()
    found = call()
    return found, time.process_time() - began


def check(data: Path) -> dict[str, float]:
    """Return the bytes of the index by part, and whether it is sound."""
    import sqlite3

    index = data / "index" / PROJECT
    db = sqlite3.connect(f"file:{index / 'catalog.sqlite'}?mode=ro", uri=True)
    kinds = {"catalog": "catalog.sqlite", "vectors": "*.f32", "terms": "lexical*/**/*"}
    return {
        "chunks": db.execute("SELECT count(*) FROM chunks WHERE to_gen IS NULL").fetchone()[0],
        **{name: sum(p.stat().st_size for p in index.glob(glob)) for name, glob in kinds.items()},
    }


CALLS: dict[str, Callable[[Path], dict[str, float]]] = {
    "ingest": ingest, "first": opened, "open": opened, "delta": delta, "check": check,
}  # fmt: skip


def step(name: str, data: Path) -> None:
    """Run a step in this process; print what it cost as JSON."""
    began = time.process_time()
    found = CALLS[name](data)
    whole = time.process_time() - began - found.get("drawing", 0.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": whole, "peak": peak, **found}))


def measured(chunks: int, data: Path) -> dict[str, dict[str, float]]:
    """Return what each step cost at a size."""
    write_corpus(data, chunks)
    found = {}
    for name in STEPS:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.bench_growth", "--step", name, str(data)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stderr)
        found[name] = json.loads(done.stdout)
        print(chunks, name, found[name], file=sys.stderr, flush=True)
    return found


def section(*sizes: int) -> str:
    """Measure; return the Markdown section with the rows of other sizes as they stand there."""
    rows = {int(row[0].replace(",", "")): row for row in kept_rows()}
    for chunks in sizes or (10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            rows[chunks] = row_of(chunks, measured(chunks, Path(folder)))
    return f"{TITLE}\n\n{table(HEAD, [rows[size] for size in sorted(rows)])}\n\n{PLOT}"


def row_of(chunks: int, found: dict[str, dict[str, float]]) -> list[str]:
    """Return the row of a size."""
    size, opened = found["check"], found["open"]
    return [
        f"{chunks:,}", f"{found['ingest']['cpu']:.1f}", f"{found['ingest']['peak']:,.0f}",
        f"{found['delta']['cpu']:.2f}", f"{opened['opening']:.2f}", f"{opened['first']:.2f}",
        f"{opened['one']:.3f}", f"{opened['warm']:.3f}",
        *(f"{size[name] / 1e6:,.0f}" for name in ("catalog", "terms", "vectors")),
    ]  # fmt: skip


def kept_rows() -> list[list[str]]:
    """Return the rows of the table on the page, ascending by chunks."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition(TITLE)
    lines = after.partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    return sorted(rows[2:], key=lambda row: int(row[0].replace(",", "")))


def report() -> str:
    """Return the Markdown section."""
    return section()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        step(sys.argv[2], Path(sys.argv[3]))
    else:
        print(section(*map(int, sys.argv[1:])))
