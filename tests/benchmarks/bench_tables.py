"""Questions for one row of a table: is the row in the prompt, and its value among the facts?

    python -m tests.benchmarks.bench_tables [--most 50000] [--each 20] [--data DIR] [--failures]

Ten tables of 10 to 50,000 rows in one project, 20 questions each, asked by an id, a name or two
columns; see `table_questions`. A value counts only beside the keys that were asked for.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ragstream_core.evaluation.prompt_quality import PromptMeasure
from ragstream_core.services.eval_gold import measure_prompts
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import Workspace
from tests.benchmarks.bench_prompt_quality import workspace_at
from tests.benchmarks.measure import table
from tests.benchmarks.table_questions import KINDS, written

PROJECT = "tables"


def measured(
    space: Workspace, *, most: int, each: int, only: Sequence[str] = ()
) -> list[tuple[str, str, PromptMeasure]]:
    """Make the tables, ingest them, build the prompts; return (file, keys, measure) of each."""
    gold = space.data_dir / "tables.jsonl"
    written(space.data_dir / "doc_raw" / PROJECT, gold, most=most, each=each, only=only)
    ingest_project(space, PROJECT)
    rows = [json.loads(line) for line in gold.read_text(encoding="utf-8").splitlines()]
    report = measure_prompts(space, PROJECT, gold=gold)
    return [(rows[m.line - 1]["file"], rows[m.line - 1]["note"], m) for m in report.rows]


def section(found: Sequence[tuple[str, str, PromptMeasure]], most: int) -> str:
    """Return the Markdown section."""
    sizes = {kind.file: min(most, kind.rows) for kind in KINDS}
    rows = [
        [name, f"{sizes[name]:,}", *_shares([m for file, _, m in found if file == name])]
        for name in dict.fromkeys(file for file, _, _ in found)
    ]
    everything = [m for _, _, m in found]
    rows.append(["all", f"{sum(sizes.values()):,}", *_shares(everything)])
    head = ("table", "rows", "questions", "row in the prompt", "value among the facts")
    return "## Questions for one row of a table\n\n" + table(head, rows)


def _shares(measures: Sequence[PromptMeasure]) -> list[str]:
    count = len(measures)
    shown = sum(bool(m.answer_shown) for m in measures) / count
    told = sum(bool(m.answer_in_facts) for m in measures) / count
    return [str(count), f"{shown:.3f}", f"{told:.3f}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=50_000)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--failures", action="store_true", help="name what was not found")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        space = workspace_at(given.data or Path(temporary), given.settings)
        results = measured(space, most=given.most, each=given.each, only=given.only)
    print(section(results, given.most))
    for file, keys, one in results if given.failures else ():
        if not one.answer_in_facts:
            wrong = "not among the facts" if one.answer_shown else "not in the prompt"
            print(f"- {file} by {keys}: {one.question} → {wrong}")
