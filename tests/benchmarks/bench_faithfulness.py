"""How well the rule by quote and agreement tells support, and what the injection scan finds.

python -m tests.benchmarks.bench_faithfulness DIR

DIR holds the folder squad2, and perhaps cranfield and haystack-docs. Pairs of articles with an even
number chose the threshold; the others measure it.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragstream_core.evaluation.agreement import THRESHOLD, Support, support
from ragstream_core.models.embedders.onnx_encoder import open_model
from ragstream_core.prompts.injection_scan import suspicions, tally
from tests.benchmarks.claim_pairs import Pair, pairs
from tests.benchmarks.claims_by_hand import CLAIMS
from tests.benchmarks.injections import INJECTIONS
from tests.benchmarks.measure import table

ROOT = Path(__file__).parents[2]
MODELS = ROOT / ".pytest_cache" / "ragstream-models"
PASSAGE_CHARS = 1000
SETS = ("squad2", "cranfield", "haystack-docs")

Judged = tuple[Pair, Support]


def report(folder: Path) -> str:
    """Return the section of `docs/benchmarks.md`."""
    embed = open_model(MODELS, workers=2).embed_documents
    made = pairs(folder / "squad2")
    by_hand = [Pair("by hand", 1, said, passage, true) for passage, said, true in CLAIMS]
    found = [(p, support(p.sentence, p.passage, embed=embed)) for p in [*made, *by_hand]]
    return f"{_support(found[: len(made)], found[len(made) :])}\n\n{_injections(folder)}"


def _support(found: Sequence[Judged], by_hand: Sequence[Judged]) -> str:
    halves = {"chose the threshold": 0, "measured": 1}
    rows = [(name, *_figures([f for f in found if f[0].article % 2 == odd]))
            for name, odd in halves.items()]  # fmt: skip
    rows.append(("handbook, said by hand", *_figures(by_hand)))
    head = ("articles", "pairs", "true", "precision", "recall", "accuracy", "AUC")
    measured = [f for f in found if f[0].article % 2]
    kinds = dict.fromkeys(pair.kind for pair, _ in measured)
    by_kind = [_kind(k, [f for f in measured if f[0].kind == k]) for k in kinds]
    return (
        "## Faithfulness: quote and agreement\n\n"
        f"Threshold {THRESHOLD:g}. Sentences with the paragraph that they cite, made from SQuAD "
        "with labels that hold by how they are made (`tests/benchmarks/claim_pairs.py`); no model "
        "is trained for it.\n\n"
        f"{table(head, rows)}\n\nOf the measured half, taken as supported:\n\n"
        f"{table(('sentence', 'supported', 'pairs', 'taken as supported'), by_kind)}"
    )


def _figures(found: Sequence[Judged]) -> tuple[object, ...]:
    taken = [pair.supported for pair, verdict in found if verdict.supported]
    true = sum(pair.supported for pair, _ in found)
    right = sum(pair.supported == verdict.supported for pair, verdict in found)
    return (
        len(found), true, f"{sum(taken) / len(taken):.3f}", f"{sum(taken) / true:.3f}",
        f"{right / len(found):.3f}", f"{_auc(found):.3f}",
    )  # fmt: skip


def _auc(found: Sequence[Judged]) -> float:
    """Return the share of (true, false) pairs in which the true one scores higher; ties half."""
    true = [verdict.score for pair, verdict in found if pair.supported]
    false = [verdict.score for pair, verdict in found if not pair.supported]
    wins = sum((t > f) + (t == f) / 2 for t in true for f in false)
    return wins / (len(true) * len(false))


def _kind(name: str, found: Sequence[Judged]) -> tuple[object, ...]:
    taken = sum(verdict.supported for _, verdict in found)
    said = "yes" if found[0][0].supported else "no"
    return name, said, len(found), f"{taken / len(found):.2f}"


def _injections(folder: Path) -> str:
    rows = []
    for name, texts in _corpora(folder):
        found = tally(texts)
        kinds = ", ".join(f"{kind} {n}" for kind, n in found.to_json()["kinds"].items())
        rows.append((name, found.texts, f"{found.suspicious / found.texts:.2%}", kinds))
    seen = sum(bool(suspicions(text)) for text in INJECTIONS)
    return (
        "## Injection scan\n\n"
        f"Of {len(INJECTIONS)} written attacks ({'`tests/benchmarks/injections.py`'}) "
        f"{seen} are seen. False alarms, in pieces of {PASSAGE_CHARS:,} characters:\n\n"
        f"{table(('corpus', 'pieces', 'suspicious', 'kinds'), rows)}"
    )


def _corpora(folder: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for name in SETS:
        path = folder / name / "corpus.jsonl"
        if path.is_file():
            rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            yield name, [piece for row in rows for piece in _pieces(row["id"], row["text"])]
    pages = sorted((ROOT / "data" / "doc_raw" / "handbook").rglob("*"))
    texts = [(p.name, p.read_text("utf-8")) for p in pages if p.suffix in (".md", ".rst", ".txt")]
    yield "handbook", [piece for name, text in texts for piece in _pieces(name, text)]


def _pieces(name: str, text: str) -> list[tuple[str, str]]:
    return [(name, text[at : at + PASSAGE_CHARS]) for at in range(0, len(text), PASSAGE_CHARS)]


if __name__ == "__main__":
    sys.stdout.write(report(Path(sys.argv[1])) + "\n")
