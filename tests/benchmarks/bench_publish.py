"""What publishing and pulling an index costs beside a plain copy of it, and after a small change.

python -m tests.benchmarks.bench_publish
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.publish_index import publish
from ragstream_core.services.pull_index import pull
from ragstream_core.wiring.workspace import open_workspace
from tests.benchmarks.bench_mirror import spent
from tests.benchmarks.bench_noop_ingest import corpus
from tests.benchmarks.measure import table

FILES, CHANGED = 10_000, 10


def report(files: int = FILES) -> str:
    """Measure once each; return the Markdown section."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place, docs = str(folder / "place"), folder / "writer" / "doc_raw" / "bench"
        corpus(docs, files)
        (folder / "reader").mkdir()
        hashed = {"embeddings.backend": "hashed"}
        writer = open_workspace(folder / "writer", explicit=hashed)
        reader = open_workspace(folder / "reader", explicit=hashed)
        ingest_project(writer, "bench", collection=False)
        index_dir = writer.index_dir("bench")
        copy = spent(lambda: shutil.copytree(index_dir, folder / "copy"))
        rows = [("a plain copy of the index, not synced", copy, size_of(folder / "copy"))]

        def turn(what: str) -> None:
            found: list[tuple[str, int]] = []
            cost = spent(lambda: found.append(("", publish(writer, "bench", place).sent_bytes)))
            rows.append((f"published, {what}", cost, found[-1][1]))
            cost = spent(lambda: found.append(("", pull(reader, place).fetched_bytes)))
            rows.append((f"pulled, {what}", cost, found[-1][1]))

        turn("the first time")
        for path in sorted(docs.rglob("*.md"))[:CHANGED]:
            path.write_text(path.read_text(encoding="utf-8") + "\nWords of another turn.\n")
        ingest_project(writer, "bench", collection=False)
        turn(f"after a change of {CHANGED} files")
        turn("nothing changed")
    lines = [
        (
            what,
            f"{wall:.2f}",
            f"{cpu:.2f}",
            f"{cpu / max(copy[1], 1e-3):.2f} ×",
            f"{sent / 1e6:.1f}",
        )
        for what, (wall, cpu), sent in rows
    ]
    head = f"## Publishing an index of {files:,} files\n\n"
    return head + table(("what", "wall s", "CPU s", "CPU beside the copy", "MB"), lines)


def size_of(folder: Path) -> int:
    """Return the bytes below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    print(report())
