"""No cliffs: what a chunk costs, and a no-op afterwards, over folders of unusual shape.

    python -m tests.benchmarks.bench_cliffs [--mb 4] [--large-mb 19] [--small 10000]

CPU seconds of whole processes. The embedder is a fixed vector a text, the chunker counts the tokens
of the default model where its tokenizer is here: what is measured is everything but the model.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.bench_noop_ingest import WORDS, command_line, process
from tests.benchmarks.measure import table

ROOT = Path(__file__).parents[2]

INGEST = """
import json, resource, sys, time, zlib
from pathlib import Path
import numpy as np
from ragstream_core.text.chunk_profiles import chunk_profile
from ragstream_core.text.tokenizer import word_offsets
from ragstream_core.errors import RagstreamError
from ragstream_core.text.chunker import Chunker
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.ingestion_manager import IngestionManager

class Fixed:
    name, fingerprint, dimension, window = "fixed", "f" * 64, 384, 256
    truncated_inputs = 0
    def count(self, text):
        return len(text) // 4
    def embed_documents(self, texts, *, progress=None):
        rows = np.zeros((len(texts), 384), dtype=np.float32)
        for row, text in zip(rows, texts):
            row[zlib.crc32(text.encode()) % 384] = 1
        return rows

try:
    from ragstream_core.models.embedders.registry import EmbeddingOptions, create_embeddings
    options = EmbeddingOptions(models_dir=Path(sys.argv[3]))
    offsets = create_embeddings("onnx", options).token_offsets
except RagstreamError:
    offsets = word_offsets
docs = Path(sys.argv[1])
chunker = Chunker(chunk_profile("default"), token_offsets=offsets)
manager = IngestionManager(docs.parent, Path(sys.argv[2]), embedder=Fixed(),
                           chunkers=lambda name: chunker)
began = time.process_time()
stats = manager.run(docs.name, IngestionConfig()).to_json()
use = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": time.process_time() - began, "peak_mib": use.ru_maxrss / 1024,
                  "chunks": stats["chunks"]["live"], "skipped": stats["files"]["skipped"]}))
"""


def prose(rng: random.Random, size: int) -> str:
    """Return Markdown of about so many characters, with headings and paragraphs."""
    parts, total, number = [], 0, 0
    while total < size:
        number += 1
        words = " ".join(rng.choices(WORDS, k=12)).capitalize()
        sentences = " ".join(f"{words} {number} {n}." for n in range(5))
        parts.append(f"## Part {number}\n\n{sentences}\n")
        total += len(parts[-1])
    return "\n".join(parts)


def cjk(rng: random.Random, size: int) -> str:
    """Return Chinese signs in sentences and paragraphs, without a space."""
    signs = [chr(0x4E00 + n) for n in range(2000)]
    lines = ("".join(rng.choices(signs, k=rng.randint(10, 40))) + "。" for _ in range(size // 26))
    return "\n\n".join("".join(line for line, _ in zip(lines, "12345", strict=False))
                       for _ in range(size // 130))  # fmt: skip


def minified(rng: random.Random, size: int) -> str:
    """Return JSON in one line."""
    rows = [
        {"id": n, "name": rng.choice(WORDS), "value": rng.random(), "tags": rng.choices(WORDS, k=3)}
        for n in range(size // 90)
    ]
    return json.dumps(rows, separators=(",", ":"))


def log(rng: random.Random, size: int) -> str:
    """Return lines of a log."""
    lines = (
        f"2026-10-05T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z INFO worker-{n % 7} "
        f"{rng.choice(WORDS)} {rng.choice(WORDS)} id={rng.getrandbits(64):016x}"
        for n in range(size // 72)
    )
    return "\n".join(lines)


def shapes(mb: int, large_mb: int, small: int) -> dict[str, Callable[[Path], None]]:
    """Return what writes each folder, by its name."""
    rng = random.Random(0)

    def one(name: str, text: str) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            (folder / name).write_text(text[: 20_000_000 - 1], encoding="utf-8")

        return write

    def many(count: int, size: int) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            for n in range(count):
                (folder / f"{n:05}.md").write_text(f"Note {n}. {prose(rng, size)}", "utf-8")

        return write

    return {
        f"Markdown, {mb} MB in files of 8 KB": many(mb * 125, 8000),
        f"one Markdown file of {large_mb} MB": one("huge.md", prose(rng, large_mb * 1_000_000)),
        f"{small:,} notes of 150 bytes": many(small, 100),
        f"Chinese, {mb} MB": one("text.md", cjk(rng, mb * 1_000_000 // 3)),
        f"minified JSON, {mb} MB in one line": one("data.json", minified(rng, mb * 1_000_000)),
        f"a log of {large_mb} MB": one("log.txt", log(rng, large_mb * 1_000_000)),
    }


def report(mb: int = 4, large_mb: int = 19, small: int = 10_000) -> str:
    """Measure; return the Markdown section."""
    rows: list[list[object]] = []
    first = 0.0
    for name, write in shapes(mb, large_mb, small).items():
        with tempfile.TemporaryDirectory() as folder:
            docs = Path(folder) / "doc_raw" / "bench"
            docs.mkdir(parents=True)
            write(docs)
            answer = process(INGEST, docs, Path(folder) / "alone", ROOT / "data" / "models")[1]
            found = json.loads(answer)
            no_op = command_line(Path(folder), 3)
        each = found["cpu"] / max(1, found["chunks"])
        first = first or each
        cost = [f"{found['cpu']:.1f}", f"{each * 1000:.2f}", f"{each / first:.2f} ×"]
        peak = f"{found['peak_mib']:.0f}"
        rows.append([name, f"{found['chunks']:,}", *cost, peak, f"{no_op:.2f}"])
    head = ["documents", "chunks", "CPU s", "ms a chunk", "beside Markdown", "peak MiB", "no-op s"]
    return "## Folders of unusual shape, without the model\n\n" + table(head, rows)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=4)
    parser.add_argument("--large-mb", type=int, default=19)
    parser.add_argument("--small", type=int, default=10_000)
    given = parser.parse_args()
    print(report(given.mb, given.large_mb, given.small))


if __name__ == "__main__":
    main()
