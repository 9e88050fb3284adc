"""What an ingest of documents in place costs beside one of the same files, copied.

    python -m tests.benchmarks.bench_in_place [--files 10000] [--repeat 5]

CPU seconds of whole `ragstream ingest` processes, user and system, both sides in turn; a ratio. The
embedder is the hashed one, so that what is measured is not the model.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.bench_noop_ingest import RACY_S, corpus
from tests.benchmarks.measure import child_cpu, table

PROJECT = "bench"
ENV = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
    "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",  # it costs more than all the rest, on both sides
}


def command(data: Path, *words: str) -> float:
    """Run a command over a data root; return its CPU seconds."""
    program = [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data)]
    return child_cpu([*program, *words], env=ENV)


def ingest(data: Path) -> float:
    """Ingest; return the CPU seconds."""
    return command(data, "ingest", PROJECT)


def change(docs: Path, share: int, turn: int) -> None:
    """Add words to every ``share``-th file, others in each turn."""
    for path in sorted(docs.rglob("*.md"))[::share]:
        with path.open("a", encoding="utf-8") as handle:
            handle.write(f"\nWords of turn {turn}.\n")


def one_turn(sides: dict[str, tuple[Path, Path]], turn: int) -> dict[str, dict[str, float]]:
    """Return kind of ingest → side → CPU seconds; the sides change places from turn to turn."""
    order = sorted(sides, reverse=bool(turn % 2))
    for data, _ in sides.values():
        shutil.rmtree(data / "index", ignore_errors=True)
    found: dict[str, dict[str, float]] = {}
    found["first ingest"] = {side: ingest(sides[side][0]) for side in order}
    time.sleep(RACY_S)
    for data, _ in sides.values():
        ingest(data)  # what was too fresh for its time to tell is hashed here, not below
    found["nothing changed"] = {side: ingest(sides[side][0]) for side in order}
    for _, docs in sides.values():
        change(docs, 100, turn)
    found["1 % changed"] = {side: ingest(sides[side][0]) for side in order}
    return found


def made(folder: Path, files: int) -> dict[str, tuple[Path, Path]]:
    """Return side → data root and folder of documents; both hold the same files."""
    copied, away = folder / "copied", folder / "away"
    sides = {
        "copied": (copied, copied / "doc_raw" / PROJECT),
        "in place": (away, folder / "documents"),
    }
    for data, docs in sides.values():
        data.mkdir()
        corpus(docs, files)
    command(away, "project", "add", PROJECT, str(sides["in place"][1]))
    return sides


def digest(data: Path) -> str:
    """Return the digest of the newest generation, after the measuring."""
    from ragstream_core.wiring.ingestion import status
    from ragstream_core.wiring.workspace import open_workspace

    space = open_workspace(data, explicit={"embeddings.backend": "hashed"})
    return status(space, PROJECT).digest


def report(files: int = 10_000, repeat: int = 5) -> str:
    """Measure; return the Markdown section."""
    kinds: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = made(folder, files)
        for turn in range(repeat):
            for kind, seconds in one_turn(sides, turn).items():
                for side, value in seconds.items():
                    kinds.setdefault(kind, {}).setdefault(side, []).append(value)
        digests = {side: digest(data) for side, (data, _) in sides.items()}
    rows = []
    for kind, times in kinds.items():
        one, other = (statistics.median(times[side]) for side in ("copied", "in place"))
        rows.append([kind, f"{one:.2f}", f"{other:.2f}", f"{other / one:.3f} ×"])
    same = len(set(digests.values())) == 1
    head = [f"{files:,} files of 4 KB", "copied, CPU s", "in place, CPU s", "beside it"]
    return (
        "## Documents in place\n\n"
        + table(head, rows)
        + f"\n\nThe medians of {repeat} turns. The digests of both indexes are "
        + ("the same." if same else f"NOT the same: {json.dumps(digests)}.")
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    print(report(given.files, given.repeat))


if __name__ == "__main__":
    main()
