"""Questions as people speak them, over three small folders: what is shown, and what is said of it.

    python -m tests.benchmarks.bench_everyday [--only SET] [--set KEY=VALUE] [--failures] [--json]

A folder of a dozen pages shows a third of itself whatever is asked; so the same answerable
questions are asked once more of all three folders and the handbook in one project (*together*).
The folders and questions of `gold/everyday` were written before anybody looked at how a prompt
judges, and choose no rule and no number. A question that the folder does not answer is *near* if
it might be asked of such a folder, and of another subject otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ragstream_core.evaluation.prompt_quality import PromptMeasure
from ragstream_core.services.eval_prompts import measure_prompts
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import Workspace
from tests.benchmarks.bench_prompt_quality import workspace_at
from tests.benchmarks.measure import table

FOLDER = Path(__file__).parent / "gold" / "everyday"
HANDBOOK = Path(__file__).parents[2] / "data" / "doc_raw" / "handbook"
FOLDERS = ("consultancy", "device", "workplace")
TOGETHER = "together"
SETS = (*FOLDERS, TOGETHER)
HEAD = (
    "folder", "answerable", "answer shown", "in facts", "answered", "perhaps", "not found",
    "near", "answered", "not found", "other subjects", "answered", "not found", "tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """One question's prompt.

    Attributes:
        kind: ``answerable``, ``near`` or ``other``.
        measure: What its prompt holds.
    """

    kind: str
    measure: PromptMeasure

    @property
    def failure(self) -> str:
        """Say what is wrong with it; empty if nothing is."""
        shown, word = self.measure.answer_shown, self.measure.word
        if self.kind == "answerable":
            wrong = [] if shown else ["not shown"]
            return ", ".join([*wrong, *(["not found"] if word == "not found" else [])])
        return "" if word == "not found" else word


def measured(workspace: Workspace, name: str) -> list[Asked]:
    """Ingest a folder, or all of them, and build the prompts of its questions."""
    documents = workspace.data_dir / "doc_raw" / name
    if name == TOGETHER:
        for folder in (*(FOLDER / one for one in FOLDERS), HANDBOOK):
            shutil.copytree(folder, documents / folder.name)
        rows = [
            {**row, "file": f"{folder}/{row['file']}"}
            for folder in FOLDERS
            for row in _questions(folder)
            if not row.get("unanswerable")
        ]
    else:
        shutil.copytree(FOLDER / name, documents)
        rows = _questions(name)
    ingest_project(workspace, name)
    gold = workspace.data_dir / f"{name}.jsonl"
    gold.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = measure_prompts(workspace, name, gold=gold)
    return [Asked(_kind(rows[row.line - 1]), row) for row in report.rows]


def _questions(name: str) -> list[dict[str, object]]:
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _kind(row: dict[str, object]) -> str:
    if not row.get("unanswerable"):
        return "answerable"
    return "near" if row.get("note") == "near" else "other"


def _row(name: str, asked: Sequence[Asked]) -> list[object]:
    kinds = {kind: [a.measure for a in asked if a.kind == kind] for kind in KINDS}
    yes = kinds["answerable"]
    return [
        name, len(yes), sum(bool(m.answer_shown) for m in yes),
        sum(bool(m.answer_in_facts) for m in yes), *_words(yes, "answered", "perhaps", "not found"),
        len(kinds["near"]), *_words(kinds["near"], "answered", "not found"),
        len(kinds["other"]), *_words(kinds["other"], "answered", "not found"),
        f"{median(m.tokens for m in yes):,.0f}",
    ]  # fmt: skip


KINDS = ("answerable", "near", "other")


def _words(measures: Sequence[PromptMeasure], *words: str) -> Iterator[int]:
    return (sum(m.word == word for m in measures) for word in words)


def section(found: Sequence[tuple[str, Sequence[Asked]]]) -> str:
    """Return the Markdown section."""
    rows = [_row(name, asked) for name, asked in found]
    alone = [one for name, asked in found for one in asked if name != TOGETHER]
    if len(found) > 1:
        rows.insert(len(FOLDERS), _row("all three", alone))
    return "## Questions as people speak them\n\n" + table(HEAD, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", choices=("", *SETS))
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--failures", action="store_true", help="name what went wrong")
    parser.add_argument("--json", action="store_true", help="every question as a line of JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        space = workspace_at(Path(temporary), given.settings)
        results = [(name, measured(space, name)) for name in SETS if given.only in ("", name)]
    lines = [(name, one) for name, asked in results for one in asked]
    if given.json:
        for name, one in lines:
            m = one.measure
            print(json.dumps({"folder": name, "kind": one.kind, "question": m.question,
                              "word": m.word, "shown": m.answer_shown, "fact": m.answer_in_facts,
                              "doubt": m.doubt, "tokens": m.tokens}))  # fmt: skip
    else:
        print(section(results))
    if given.failures:
        for name, one in lines:
            if one.failure:
                print(f"- {name}: {one.measure.question} → {one.failure}")
