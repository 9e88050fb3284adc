"""`make bench`: run the benchmarks and write `docs/benchmarks.md`.

    python -m tests.benchmarks.run [--eval DIR] [--peers ENVIRONMENT]

DIR holds folders with corpus.jsonl, queries.jsonl and qrels.tsv, and perhaps releases of real pages
(`bench_versions`); without it the parts on retrieval quality and releases stay as they were, and
without ENVIRONMENT (`bench_peers`) so does the part on other programs.
"""

import argparse
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from tests.benchmarks import (
    bench_chroma,
    bench_cliffs,
    bench_encoder,
    bench_facts,
    bench_faithfulness,
    bench_fan_out,
    bench_growth,
    bench_history_commit,
    bench_in_place,
    bench_inverted_lists,
    bench_journal,
    bench_mirror,
    bench_model_share,
    bench_near_equal,
    bench_noop_ingest,
    bench_parsing,
    bench_peers,
    bench_pgvector,
    bench_prompt_quality,
    bench_publish,
    bench_scale,
    bench_snapshot,
    bench_spans,
    bench_starts,
    bench_versions,
)
from tests.benchmarks.bench_retrieval import report as retrieval_report

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
START, END = "<!-- retrieval -->", "<!-- /retrieval -->"
PEERS_START, PEERS_END = "<!-- peers -->", "<!-- /peers -->"
SECTIONS: tuple[Callable[[], str] | str, ...] = (
    bench_noop_ingest.report,
    bench_in_place.report,
    bench_parsing.report,
    bench_mirror.report,
    bench_publish.report,
    bench_cliffs.report,
    bench_model_share.report,
    bench_chroma.report,
    bench_near_equal.report,
    bench_scale.report,
    bench_growth.report,
    "bench_term_arrays",
    bench_inverted_lists.report,
    bench_pgvector.report,
    bench_journal.report,
    bench_history_commit.report,
    "bench_import",
    bench_snapshot.report,
    "bench_conversation",
    "bench_chat",
    "bench_serve",
    "bench_load",
    bench_facts.report,
    bench_starts.report,
    "bench_prompt",
    "bench_whole_prompt",
    "bench_mcp",
    "bench_tables",
    bench_encoder.report,
    bench_fan_out.report,
)
"""In the page's order; a name is a section measured in a process of its own (`apart`)."""


def heading() -> str:
    """Return the head of the page: what was measured where."""
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("dagster", "numpy", "onnxruntime", "torch")
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return (
        "# Benchmarks\n\nMade by `make bench`. CPU seconds of whole processes or blocks, both "
        f"sides of a ratio run in turn in one session.\nPython {platform.python_version()}, "
        f"{platform.machine()}, {versions}; commit {commit}.\n"
    )


def apart(module: str) -> str:
    """Return a section measured in a process of its own.

    NumPy chooses its threads when it is first imported: what counts CPU seconds of prompts must
    not share a process with what imported it before the program's settings were made.
    """
    command = [sys.executable, "-m", f"tests.benchmarks.{module}"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eval", type=Path)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--only-eval", action="store_true")
    given = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    quality = old.partition(START)[2].partition(END)[0].strip()
    peers = old.partition(PEERS_START)[2].partition(PEERS_END)[0].strip()
    if given.peers is not None:
        peers = bench_peers.report(given.peers)
    if given.eval is not None:
        with tempfile.TemporaryDirectory() as folder:
            quality = retrieval_report(given.eval, Path(folder))
            quality = "\n\n".join(filter(None, (bench_versions.report(given.eval), quality)))
        if (given.eval / "squad2").is_dir():
            with tempfile.TemporaryDirectory() as folder:
                spans = bench_spans.report(given.eval / "squad2", Path(folder))
            judged = bench_faithfulness.report(given.eval)
            with tempfile.TemporaryDirectory() as folder:
                prompts = bench_prompt_quality.report(given.eval, Path(folder))
            quality = f"{quality}\n\n{spans}\n\n{judged}\n\n{prompts}"
    if given.only_eval:
        parts = [old.partition(START)[0].rstrip() or heading()]
    else:
        parts = [heading()]
        for section in SECTIONS:
            parts.append(apart(section) if isinstance(section, str) else section())
            print(parts[-1], file=sys.stderr, flush=True)
        if peers:
            parts.append(f"{PEERS_START}\n{peers}\n{PEERS_END}")
    page = "\n\n".join([*parts, f"{START}\n{quality}\n{END}"]) + "\n"
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(page)


if __name__ == "__main__":
    main()
