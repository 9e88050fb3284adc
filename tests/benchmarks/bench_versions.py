"""Re-ingesting real documentation from release to release: what is embedded again, what is reused.

    python -m tests.benchmarks.bench_versions DIR

DIR holds ``haystack-docs-versions`` (two releases) and ``haystack-docs`` (the pages of today). The
chunks are cut with the real tokenizer; which of them are embedded does not depend on the vectors,
so that the hashed embedder stands in for the model.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.measure import table

RELEASES = (
    ("2.18", "haystack-docs-versions/pages-2.18.jsonl"),
    ("2.30", "haystack-docs-versions/pages-2.30.jsonl"),
    ("today", "haystack-docs/corpus.jsonl"),
)
YEAR_NS = 365 * 86_400 * 10**9


def pages(path: Path) -> dict[str, str]:
    """Return the guide pages of a release by file name."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        str(Path(row["id"]).with_suffix(".md")): row["text"]
        for row in rows
        if row["id"].startswith("docs/")
    }


def check_out(docs: Path, wanted: dict[str, str]) -> int:
    """Make the folder hold exactly the wanted pages; return how many were there before."""
    have = {str(p.relative_to(docs)) for p in docs.rglob("*.md")}
    for name in have - set(wanted):
        (docs / name).unlink()
    for name, text in wanted.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return len(have)


def report(folder: Path) -> str:
    """Ingest release after release; return the Markdown section, empty without the pages."""
    if not all((folder / name).is_file() for _, name in RELEASES):
        return ""
    from ragstream_core.config import quiet_environment
    from ragstream_core.ingestion.ingestion_config import IngestionConfig
    from ragstream_core.ingestion.ingestion_manager import IngestionManager
    from ragstream_core.models.embedders.hashed import HashedEmbedder
    from ragstream_core.models.embedders.onnx_encoder import open_model
    from ragstream_core.text.chunk_profiles import chunk_profile
    from ragstream_core.text.chunker import Chunker

    quiet_environment()
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as made:
        docs = Path(made) / "doc_raw" / "haystack"
        docs.mkdir(parents=True)
        offsets = open_model(Path(made) / "models").token_offsets
        manager = IngestionManager(
            docs.parent,
            Path(made) / "index",
            embedder=HashedEmbedder(),
            chunkers=lambda name: Chunker(chunk_profile(name), token_offsets=offsets),
            clock=lambda: time.time_ns() + YEAR_NS,  # nothing is too young to be trusted
        )
        for release, name in RELEASES:
            check_out(docs, pages(folder / name))
            stats = manager.run("haystack", IngestionConfig())
            files, chunks = stats.files, stats.chunks
            live = chunks["live"]
            rows.append(
                [release, stats.documents,
                 f"{files['new']} / {files['updated']} / {files['deleted']}", live,
                 chunks["embedded"], chunks["reused"], f"{1 - chunks['embedded'] / live:.0%}"]
            )  # fmt: skip
    head = [
        "release", "pages", "new / changed / deleted", "chunks", "embedded", "reused in these",
        "of all not embedded",
    ]  # fmt: skip
    return (
        "## Re-ingesting real documentation, release to release\n\n"
        + table(head, rows)
        + "\n\nThe guide pages of Haystack (Apache-2.0, deepset GmbH); those of today lack their "
        "description sentence."
    )


if __name__ == "__main__":
    print(report(Path(sys.argv[1])))
