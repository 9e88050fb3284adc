"""What a whole prompt over 10,000 chunks costs beside its models and its search, warm.

python -m tests.benchmarks.bench_whole_prompt

The index holds the handbook and pages mixed anew from its sentences; a mixed passage has the mean
of its sentences' own vectors, so that making it takes a minute and not ten.
"""

from __future__ import annotations

import random
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import Workspace
from tests.benchmarks.bench_prompt import QUESTIONS, prepare
from tests.benchmarks.measure import cpu, table

if TYPE_CHECKING:
    from ragstream_core.ports import F32, Progress

PAGES, PASSAGES, SENTENCES = 970, 10, 8
KINDS = 1_000
ROUNDS = 3


def sentences(docs: Path) -> list[str]:
    """Return some sentences of the pages, no headings, lists, tables or code."""
    found: set[str] = set()
    for page in sorted(docs.glob("*.md")):
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for part in prose.split("\n\n"):
            if not part.startswith(("#", "|", "-")):
                said = re.split(r"(?<=[.:;!?])\s+", " ".join(part.split()))
                found.update(text for text in said if 40 < len(text) < 300)
    return random.Random(0).sample(sorted(found), KINDS)


def enlarge(data: Path) -> int:
    """Add mixed pages to the handbook and ingest them; return the number of chunks."""
    import numpy as np

    from ragstream_core.wiring import models
    from ragstream_core.wiring.workspace import open_workspace

    space, docs = open_workspace(data), data / "doc_raw" / "handbook"
    embedder, known = models.embedder(space.config), sentences(docs)
    own = dict(zip(known, embedder.embed_documents(known), strict=True))
    mixed, rng = docs / "mixed", random.Random(1)
    mixed.mkdir()
    for number in range(PAGES):
        parts = ["\n".join(rng.sample(known, SENTENCES)) for _ in range(PASSAGES)]
        body = "".join(f"\n## Part {number}-{i}\n\n{part}\n" for i, part in enumerate(parts))
        (mixed / f"{number:04}.md").write_text(f"# Page {number}\n{body}", encoding="utf-8")

    def means(texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        sums = [np.sum([own[line] for line in t.split("\n") if line in own], 0) for t in texts]
        units: F32 = np.stack([total / np.linalg.norm(total) for total in sums])
        return units.astype(np.float32)

    with patch.object(embedder, "embed_documents", means):
        stats = ingest_project(space, "handbook")
    return int(stats.chunks["live"])


class Parts:
    """Adds up the CPU seconds inside some calls, each without what is inside another of them."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside = [0.0]

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Count a method of an object or a class as a part."""
        call: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            started = time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                took = time.process_time() - started
                self.seconds[part] += took - self._inside.pop()
                self._inside[-1] += took

        setattr(owner, name, watched)


def _prompt(space: Workspace, request: PromptRequest) -> None:
    run_prompt(space, pin_inputs(space, request))


def asked(data: Path) -> dict[str, list[tuple[float, float, float]]]:
    """Return (all, models, search) in CPU seconds of every warm prompt, by the number of pieces."""
    from ragstream_core.models.embedders.onnx_encoder import RECENT
    from ragstream_core.retrieval.max_sim import MaxSimScorer
    from ragstream_core.retrieval.retriever import Retriever
    from ragstream_core.wiring import models
    from ragstream_core.wiring.workspace import open_workspace

    space, parts = open_workspace(data), Parts()
    embedder = models.embedder(space.config)
    others = [f"something else, number {n}" for n in range(RECENT)]
    turns = [QUESTIONS[n:] + QUESTIONS[:n] for n in range(len(QUESTIONS))]
    asks = {"one": QUESTIONS, "ten": ["\n\n".join(turn) for turn in turns]}
    parts.watch(embedder, "embed_queries", "models")
    parts.watch(embedder, "token_vectors", "models")
    parts.watch(MaxSimScorer, "score", "models")
    parts.watch(Retriever, "search", "search")
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in asks}
    for number in range(ROUNDS + 1):
        for kind, texts in asks.items():
            for text in texts:
                embedder.embed_queries(others)  # no question is still known from the last round
                parts.seconds.clear()
                request = PromptRequest(text, ("handbook",))
                total = cpu(partial(_prompt, space, request))
                row = (total, parts.seconds["models"], parts.seconds["search"])
                found[kind] += [row] if number else []  # the first round fills the token cache
    return found


def report() -> str:
    """Measure everything; return the Markdown section."""
    from ragstream_core.config import quiet_environment

    quiet_environment()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data)
        chunks = enlarge(data)
        found = asked(data)
    rows = []
    for kind, taken in found.items():
        columns = [f"{1000 * statistics.median(column):.1f}" for column in zip(*taken, strict=True)]
        alone = statistics.median(total / models for total, models, _ in taken)
        both = statistics.median(total / (models + search) for total, models, search in taken)
        rows.append([kind, *columns, f"{alone:.2f} ×", f"{both:.2f} ×"])
    head = [f"pieces of a warm prompt over {chunks:,} chunks", "CPU ms", "of it models", "search",
            "÷ models", "÷ models and search"]  # fmt: skip
    return "## A whole prompt\n\n" + table(head, rows)


if __name__ == "__main__":
    print(report())
