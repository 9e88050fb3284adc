"""Questions as people speak them, over small folders: what is shown, and what is said of it.

    python -m tests.benchmarks.bench_everyday [--only SET] [--set KEY=VALUE] [--failures] [--json]

A folder of a dozen pages shows a third of itself whatever is asked; so the same answerable
questions are asked once more of all folders of a hand and the handbook in one project (*together*).
The three folders of `gold/everyday` and the five of `gold/spoken` were written by two hands, the
questions before anybody looked at how a prompt judges; they choose no rule and no number. The
second hand took care to share no word with the page ("Will I throw up when I come round?"). A
question that the folder does not answer is *near* if it might be asked of such a folder, and of
another subject otherwise.
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
from ragstream_core.services.eval_gold import measure_prompts
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import Workspace
from tests.benchmarks.bench_prompt_quality import workspace_at
from tests.benchmarks.measure import table

GOLD = Path(__file__).parent / "gold"
HANDBOOK = Path(__file__).parents[2] / "data" / "doc_raw" / "handbook"
HANDS = {
    "everyday": ("consultancy", "device", "workplace"),
    "spoken": ("bakery", "clinic", "sailing", "school", "tool"),
}
TOGETHER = "together"
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


def measured(workspace: Workspace, hand: str, name: str) -> list[Asked]:
    """Ingest a folder of a hand, or all of them, and build the prompts of its questions."""
    documents = workspace.data_dir / "doc_raw" / name
    if name.startswith(TOGETHER):
        for folder in (*(GOLD / hand / one for one in HANDS[hand]), HANDBOOK):
            shutil.copytree(folder, documents / folder.name)
        rows = [
            {**row, "file": f"{folder}/{row['file']}"}
            for folder in HANDS[hand]
            for row in _questions(hand, folder)
            if not row.get("unanswerable")
        ]
    else:
        shutil.copytree(GOLD / hand / name, documents)
        rows = _questions(hand, name)
    ingest_project(workspace, name)
    gold = workspace.data_dir / f"{name}.jsonl"
    gold.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = measure_prompts(workspace, name, gold=gold)
    return [Asked(_kind(rows[row.line - 1]), row) for row in report.rows]


def _questions(hand: str, name: str) -> list[dict[str, object]]:
    lines = (GOLD / hand / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
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


def section(found: Sequence[tuple[str, str, Sequence[Asked]]]) -> str:
    """Return the Markdown section, from (hand, set, its prompts) rows."""
    rows = []
    for hand in dict.fromkeys(hand for hand, *_ in found):
        mine = [(name, asked) for of, name, asked in found if of == hand]
        alone = [one for name, asked in mine if not name.startswith(TOGETHER) for one in asked]
        rows += [_row(name, asked) for name, asked in mine]
        if len(mine) > 1:
            rows.append(_row(f"all of {hand}, alone", alone))
    return "## Questions as people speak them\n\n" + table(HEAD, rows)


def _sets(only: str) -> Iterator[tuple[str, str]]:
    for hand, folders in HANDS.items():
        for name in (*folders, f"{TOGETHER}-{hand}"):
            if only in ("", hand, name):
                yield hand, name


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    names = [one for pair in _sets("") for one in pair]
    parser.add_argument("--only", default="", choices=("", *dict.fromkeys(names)))
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--failures", action="store_true", help="name what went wrong")
    parser.add_argument("--json", action="store_true", help="every question as a line of JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        space = workspace_at(Path(temporary), given.settings)
        results = [(*pair, measured(space, *pair)) for pair in _sets(given.only)]
    lines = [(name, one) for _, name, asked in results for one in asked]
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
