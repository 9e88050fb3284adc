"""Fits the weights by which A4 judges whether the kept passages answer a question.

    python -m tests.benchmarks.fit_answers DIR --data FOLDER [--out FILE] [--judge]

DIR and FOLDER are those of `bench_prompt_quality`. The choosing halves fit: SQuAD's even articles
and the sets by hand answer or do not; questions of one set asked of another are about something
else. Without ``--judge`` the table is written, with its figures; with it the odd halves are asked
of the table that there is. A weight whose sign contradicts what its name says is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context import answer_estimate
from ragstream_core.agents.context.answer_estimate import weights_table
from ragstream_core.agents.context.answer_signs import Signs
from ragstream_core.evaluation.retrieval import read_jsonl
from ragstream_core.evaluation.separation import auc, recall_at
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.s_ctx import ANSWERED, NOT_FOUND
from ragstream_core.records.super_prompt import ANSWERS
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import ALONE, pin_inputs
from ragstream_core.wiring.stages import make_stage, run_prompt
from ragstream_core.wiring.workspace import Workspace
from tests.benchmarks.bench_prompt_quality import workspace_at
from tests.benchmarks.prompt_sets import by_hand, haystack, spread, squad2, write_sets

TABLE = Path(answer_estimate.__file__).parent / answer_estimate.TABLE
SPEAKS_AGAINST = (
    "missing_most", "missing_name", "missing_number", "negation", "question_negates",
)  # fmt: skip
DOMAINS = ("handbook", "manual", "source_code", "haystack-docs")
ALARMS = {"not found": 0.02, "perhaps": 0.15}
"""Share of the answerable questions of SQuAD that may be called so, or worse."""
EVEN = 0.5
"""What is more likely about the question than not is never *not found*."""
MADE = """Made by tests/benchmarks/fit_answers.py of SQuAD 2.0 (CC BY-SA 4.0; even articles), the
Haystack documentation (Apache-2.0), Cranfield and the sets by hand of tests/benchmarks/gold: their
choosing halves. A sign is [mean, weight]. On the very questions that fitted it:"""
Values = Mapping[str, float]


class Row(NamedTuple):
    """A question, whether the documents are about it and answer it, and its signs.

    Without signs nothing was estimated, and ``word`` is what was said.
    """

    name: str
    about: bool
    answerable: bool
    signs: Values
    word: str = ANSWERED
    searched: int = answer_estimate.USUAL

    def chance(self, scale: answer_estimate.Scale) -> float:
        """Return its chance by a scale; 1 or 0 if nothing was estimated."""
        return scale.chance(self.signs) if self.signs else float(self.word != NOT_FOUND)

    def said(self, scale: answer_estimate.Scale) -> str:
        """Return the word for it by a scale."""
        if not self.signs:
            return self.word
        signs = Signs(self.signs, 0, (0, 1), "")
        return answer_estimate.estimate(signs, scale, searched=self.searched).word


def asked(folder: Path, half: int) -> Iterator[tuple[str, str, str, bool, bool]]:
    """Yield set, project, question, whether it is about the project, whether it is answered."""
    mine = squad2(folder, half, count=0)
    hand = {n: by_hand(n, half) for n in DOMAINS[:3]}
    hand["haystack-docs"] = haystack(folder, half)
    cranfield = read_jsonl(folder / "cranfield" / "queries.jsonl")[half::2]
    for row in mine:
        yield "squad2", "squad2", row["question"], True, not row.get("unanswerable")
    for name, rows in hand.items():
        for row in rows:
            yield name, name, row["question"], True, not row.get("unanswerable")
            yield "others of squad2", "squad2", row["question"], False, False
        for row in spread(mine, 90):
            yield f"others of {name}", name, row["question"], False, False
    for query in cranfield:
        yield "others of squad2", "squad2", query["text"], False, False


def collected(workspace: Workspace, folder: Path, half: int) -> dict[str, list[Row]]:
    """Ask every question of one half; return the signs that the ledger holds for its pieces.

    Returns:
        Those by token vectors as ``meaning``, those by words as ``words``.
    """
    rows: dict[str, list[Row]] = {"meaning": [], "words": []}
    for name, project, question, about, answerable in asked(folder, half):
        request = PromptRequest(question, (project,), settings=ALONE)
        prompt = run_prompt(workspace, pin_inputs(workspace, request), through="a3_nli_gate")
        stage = make_stage(workspace, "a4_condenser", prompt)
        assert isinstance(stage, Condenser)
        for kind, judge in (("meaning", stage), ("words", replace(stage, nearness=None))):
            ledger = [d for d in judge(prompt).extras.decisions if d.stage == ANSWERS]
            rows[kind] += [
                Row(name, about, answerable, dict(d.scores), d.rule, stage.searched) for d in ledger
            ]
    return rows


def fitted(
    rows: Sequence[Row], *, subject: bool, without: Collection[str] = ()
) -> dict[str, list[float]]:
    """Fit one of the two sums; return the constant, and mean and weight of each sign.

    Args:
        rows: Of the choosing half.
        subject: Whether it tells questions about something else apart, not near misses.
        without: Signs that may not be used.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    used = [row for row in rows if row.signs and (subject or row.about)]
    names = sorted(set(used[0].signs).difference(without))
    y = np.array([row.about if subject else row.answerable for row in used])
    weight = np.array([_weight(row) if subject else 1.0 for row in used])
    while True:
        x = np.array([[row.signs[name] for name in names] for row in used])
        mean, spread_ = x.mean(axis=0), x.std(axis=0) + 1e-9
        model = LogisticRegression(C=0.3 if subject else 0.03, max_iter=3000)
        model.fit((x - mean) / spread_, y, sample_weight=weight)
        found = dict(zip(names, model.coef_[0], strict=True))
        wrong = [n for n, w in found.items() if (w > 0) == (n in SPEAKS_AGAINST)]
        if not wrong:
            break
        names.remove(max(wrong, key=lambda n: abs(found[n])))
    table = {"constant": [round(float(model.intercept_[0]), 4)]}
    for name, m, s in zip(names, mean, spread_, strict=True):
        table[name] = [round(float(m), 4), round(float(found[name] / s), 4)]
    return table


def _weight(row: Row) -> float:
    if row.name == "squad2":
        return 0.5 if row.answerable else 0.2
    return 2.0 if row.about else 1.0


def scale(rows: Sequence[Row], *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return both sums and the limits of the words; as `fitted`."""
    sums = {
        "subject": fitted(rows, subject=True, without=without),
        "answer": fitted(rows, subject=False, without=without),
        "limits": {name: [0.0] for name in ALARMS},
    }
    made = answer_estimate.scale_of(sums)
    mine = [row for row in rows if row.name == "squad2" and row.answerable and row.signs]
    right = {
        "not found": sorted(made.subject(row.signs, row.searched) for row in mine),
        "perhaps": sorted(row.chance(made) for row in mine),
    }
    for name, share in ALARMS.items():
        limit = right[name][int(share * len(mine))]
        sums["limits"][name] = [round(min(limit, EVEN), 4)]
    return sums


def figures(rows: Sequence[Row], made: answer_estimate.Scale) -> dict[str, Any]:
    """Return how well a scale tells questions apart."""
    chances = [(row, row.chance(made)) for row in rows]
    right = [-c for row, c in chances if row.answerable and row.name == "squad2"]
    near = [-c for row, c in chances if row.about and not row.answerable and row.name == "squad2"]
    other = [-c for row, c in chances if not row.about]
    words: dict[str, dict[str, float]] = {}
    for name in sorted({row.name for row in rows}):
        for label, want in (("answerable", True), ("unanswerable", False)):
            those = [row for row in rows if (row.name, row.answerable) == (name, want)]
            mine = [row.said(made) for row in those]
            if mine:
                shares = {w: round(mine.count(w) / len(mine), 3) for w in sorted(set(mine))}
                words[f"{name}, {label} ({len(mine)})"] = shares
    return {
        "near misses: AUC": auc(near, right),
        "near misses: recall at 5 % false alarms": recall_at(near, right, 0.05),
        "other subjects: AUC": auc(other, right),
        "other subjects: recall at 2 % false alarms": recall_at(other, right, 0.02),
        "words": words,
    }


def table_text(table: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Return the table as a file: what it is and its figures as comments, then the weights."""
    import yaml

    told = yaml.safe_dump(dict(report), sort_keys=False, allow_unicode=True)
    head = f"{answer_estimate.__doc__}\n{MADE}\n\n{told}".splitlines()
    lines = "".join(f"# {line}".rstrip() + "\n" for line in head)
    return lines + yaml.safe_dump(dict(table), sort_keys=False, default_flow_style=None)


def main() -> None:
    """Fit and write the table, or judge the one that there is."""
    import yaml

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=TABLE)
    parser.add_argument("--judge", action="store_true")
    given = parser.parse_args()
    table: dict[str, Any] = {"embedders": sorted(weights_table().embedders)}
    report: dict[str, Any] = {}
    space = workspace_at(given.data, ())
    write_sets(given.folder, space.data_dir)
    for project in ("squad2", *DOMAINS):
        ingest_project(space, project)
    for name, rows in collected(space, given.folder, int(given.judge)).items():
        made = getattr(weights_table(), name)
        if not given.judge:
            # the words' scale is for any model, and each has cosines of its own
            table[name] = scale(rows, without=() if name == "meaning" else ("cosine",))
            made = answer_estimate.scale_of(table[name])
        report[name] = figures(rows, made)
        sys.stderr.write(f"{name}: {len(rows)} pieces\n")
    if given.judge:
        print(yaml.safe_dump(report, sort_keys=False, allow_unicode=True))
        return
    given.out.write_text(table_text(table, report), encoding="utf-8")
    print(given.out)


if __name__ == "__main__":
    main()
