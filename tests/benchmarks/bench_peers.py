"""Ingestion beside LangChain and LlamaIndex, on the same files with the same simple pieces.

python -m tests.benchmarks.bench_peers ENVIRONMENT [--files 2000]

ENVIRONMENT is a virtual environment of its own, with langchain-classic, langchain-chroma and
llama-index-core in it; none is a dependency of this project. No side has a model: a vector is a
constant. CPU seconds of whole processes, the sides in turn. A peer without a store on disk loses
its vectors at the end; ours are committed and synced.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.bench_noop_ingest import (
    ENV,
    INGEST,
    NO_OP,
    change,
    command_line,
    corpus,
)
from tests.benchmarks.measure import child_cpu, table

FAR_NS = 10**11
LANGCHAIN, LLAMAINDEX = "langchain_indexing.py", "llamaindex_pipeline.py"
PEERS = {
    "LangChain, memory": (LANGCHAIN, "memory"),
    "LlamaIndex, memory": (LLAMAINDEX, "memory"),
    "LangChain, Chroma": (LANGCHAIN, "disk"),
    "LlamaIndex, JSON": (LLAMAINDEX, "disk"),
}


def peers(python: Path, docs: Path, state: Path) -> dict[str, list[str]]:
    """Return the command of each peer."""
    here = Path(__file__).parent / "peers"
    return {
        name: [str(python), str(here / file), str(docs), str(state / name), store]
        for name, (file, store) in PEERS.items()
    }


def phase(commands: dict[str, list[str]]) -> dict[str, float]:
    """Return the CPU seconds of each side."""
    return {name: child_cpu(command, env=ENV) for name, command in commands.items()}


def report(environment: Path, files: int = 2000) -> str:
    """Measure; return the Markdown section."""
    python = environment / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        data, state = Path(folder), Path(folder) / "state"
        docs = data / "doc_raw" / "bench"
        corpus(docs, files)
        given = [str(docs), str(state / "ours" / docs.name)]
        others = peers(python, docs, state)
        ingest = {"RAGstream": [sys.executable, "-c", INGEST, *given, str(FAR_NS)], **others}
        no_op = {"RAGstream": [sys.executable, "-c", NO_OP, *given], **others}
        first = phase(ingest)
        idle = phase(no_op)
        whole = command_line(data, 3)
        change(docs, 100)
        changed = phase(ingest)
    rows = [line("G4 first ingest", first), line("G1 nothing changed, library", idle)]
    rows += [line("G1 nothing changed, command", {**idle, "RAGstream": whole})]
    rows += [line("G2 1 % of the files changed", changed)]
    return f"## Beside other programs, {files:,} files\n\n" + table(["CPU s", *first], rows)


def line(what: str, found: dict[str, float]) -> list[object]:
    """Return a row: seconds of each side, of the peers also as a multiple of ours."""
    ours = found["RAGstream"]
    others = [f"{found[name]:.2f} = {found[name] / ours:.1f} ×" for name in PEERS]
    return [what, f"{ours:.2f}", *others]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path)
    parser.add_argument("--files", type=int, default=2000)
    given = parser.parse_args()
    print(report(given.environment, given.files))


if __name__ == "__main__":
    main()
