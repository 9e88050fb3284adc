"""Retrieval quality on judged sets, with ablations, through `ragstream eval retrieval`'s own code.

Questions of several sentences are made from the sets (`long_questions`).

python -m tests.benchmarks.bench_retrieval DIR
"""

import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import long_questions
from tests.benchmarks.bench_spans import prepared
from tests.benchmarks.measure import table

SETS = {  # name → (folder of the corpus, folder of the queries)
    "squad2": ("squad2", "squad2"),
    "cranfield": ("cranfield", "cranfield"),
    "squad2-composites": ("squad2", "squad2-composites"),
    "locomo": ("locomo", "locomo"),
}
GATED = ("squad2", "cranfield", "squad2-composites")
GATE = "the same + gate (default)"
SAMPLE = 300
METRICS = ("nDCG@10", "R@10", "MRR@10", "MRR")
ABLATIONS: dict[str, dict[str, str]] = {
    "BM25": {"retrieval.dense_weight": "0", "rerank.backend": "none"},
    "dense": {"retrieval.dense_weight": "1", "rerank.backend": "none"},
    "hybrid (A only)": {"retrieval.mix_a": "1", "rerank.backend": "none"},
    "hybrid + pieces (A/B mix)": {"rerank.backend": "none"},
    "the same + MaxSim, words count once, A 0.3, MaxSim 0.45": {
        "retrieval.k3": "0",
        "retrieval.mix_a": "0.3",
        "retrieval.mix_coherence": "0",
        "rerank.weight": "0.45",
        "rerank.backend": "maxsim",
    },
    "hybrid + pieces + MaxSim (default)": {"rerank.backend": "maxsim"},
}


def gated(corpus: Path, queries: Path, data: Path) -> Iterator[tuple[str, float, str]]:
    """Yield (kind of query, share of the relevant candidates that the gate keeps, fingerprint).

    The documents are those of a project and the queries its gold questions, a sample of each kind.
    """
    from ragstream_core.evaluation.retrieval import read_jsonl, read_qrels
    from ragstream_core.services.eval_gold import sweep
    from ragstream_core.wiring.quality_gate import gold_path

    workspace = prepared(corpus / "corpus.jsonl", data, corpus.name)
    gold, gate = gold_path(workspace, corpus.name), workspace.config.chain().gate
    gold.parent.mkdir(parents=True, exist_ok=True)
    qrels, kinds = read_qrels(queries / "qrels.tsv"), dict[str, list[str]]()
    for row in read_jsonl(queries / "queries.jsonl"):
        if row["id"] in qrels:
            line = {"question": row["text"], "files": [f"{d}.md" for d in qrels[row["id"]]]}
            kind = (row.get("meta") or {}).get("kind", queries.name)
            kinds.setdefault(kind, []).append(json.dumps(line))
    for kind, lines in kinds.items():
        chosen = random.Random(7).sample(lines, min(SAMPLE, len(lines)))  # noqa: S311
        gold.write_text("\n".join(chosen), encoding="utf-8")
        (point,) = sweep(workspace, corpus.name, [(gate.theta, gate.relative)])
        sys.stderr.write(f"{kind} gate: {point}\n")
        yield kind, point.kept_relevant, point.fingerprint
    gold.unlink()


def report(folder: Path, data: Path) -> str:
    """Evaluate every set that the folder holds; return the Markdown section."""
    from ragstream_core.config import quiet_environment
    from ragstream_core.services.eval_retrieval import evaluate_retrieval
    from ragstream_core.wiring.workspace import open_workspace

    quiet_environment()
    rows, made = [], data / "made"
    places = {name: (folder / corpus, folder / asked) for name, (corpus, asked) in SETS.items()}
    places |= {name: (made / name, made / name) for name in long_questions.make(folder, made)}
    for name, (corpus, queries) in places.items():
        if not queries.is_dir():
            continue
        for label, settings in ABLATIONS.items():
            found = evaluate_retrieval(
                open_workspace(data, explicit=settings),
                corpus / "corpus.jsonl",
                queries=queries / "queries.jsonl",
                qrels=queries / "qrels.tsv",
            )
            kinds = {name: found.metrics, **found.by_kind}
            for kind, metrics in kinds.items():
                rows.append(
                    [kind, label, *(f"{metrics[m]:.3f}" if m in metrics else "" for m in METRICS),
                     "", found.fingerprint[:12]]
                )  # fmt: skip
            sys.stderr.write(f"{name} {label}: {found.metrics}\n")
        if name in GATED:
            for kind, kept, digest in gated(corpus, queries, data):
                rows.append([kind, GATE, *[""] * len(METRICS), f"{kept:.3f}", digest[:12]])
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))
    head = ["set", "configuration", *METRICS, "kept relevant", "fingerprint"]
    return "## Retrieval quality\n\n" + table(head, rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(report(Path(sys.argv[1]), Path(folder)))
