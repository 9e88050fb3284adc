"""Retrieval quality on judged sets, with ablations, through `ragstream eval retrieval`'s own code.

python -m tests.benchmarks.bench_retrieval DIR
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measure import table

SETS = {  # name → (folder of the corpus, folder of the queries)
    "squad2": ("squad2", "squad2"),
    "cranfield": ("cranfield", "cranfield"),
    "squad2-composites": ("squad2", "squad2-composites"),
    "locomo": ("locomo", "locomo"),
}
METRICS = ("nDCG@10", "R@10", "MRR@10", "MRR")
ABLATIONS: dict[str, dict[str, str]] = {
    "BM25": {"retrieval.dense_weight": "0", "rerank.backend": "none"},
    "dense": {"retrieval.dense_weight": "1", "rerank.backend": "none"},
    "hybrid (A only)": {"retrieval.mix_a": "1", "rerank.backend": "none"},
    "hybrid + pieces (A/B mix)": {"rerank.backend": "none"},
    "hybrid + pieces + MaxSim (default)": {"rerank.backend": "maxsim"},
}


def report(folder: Path, data: Path) -> str:
    """Evaluate every set that the folder holds; return the Markdown section."""
    from ragstream_core.build.evaluating import evaluate_retrieval
    from ragstream_core.build.workspace import open_workspace
    from ragstream_core.config import quiet_environment

    quiet_environment()
    rows = []
    for name, (corpus, queries) in SETS.items():
        if not (folder / queries).is_dir():
            continue
        for label, settings in ABLATIONS.items():
            found = evaluate_retrieval(
                open_workspace(data, explicit=settings),
                folder / corpus / "corpus.jsonl",
                queries=folder / queries / "queries.jsonl",
                qrels=folder / queries / "qrels.tsv",
            )
            kinds = {name: found.metrics, **found.by_kind}
            for kind, metrics in kinds.items():
                rows.append(
                    [kind, label, *(f"{metrics[m]:.3f}" if m in metrics else "" for m in METRICS),
                     found.fingerprint[:12]]
                )  # fmt: skip
            sys.stderr.write(f"{name} {label}: {found.metrics}\n")
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))
    head = ["set", "configuration", *METRICS, "fingerprint"]
    return "## Retrieval quality\n\n" + table(head, rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(report(Path(sys.argv[1]), Path(folder)))
