"""What stands in the prompts of judged questions: `ragstream eval prompts` over every gold set.

    python -m tests.benchmarks.bench_prompt_quality DIR [--data FOLDER] [--half judge]
        [--only SET] [--set KEY=VALUE] [--json]

DIR holds the judged sets of `prompt_sets`; FOLDER is a data root with the model, which keeps what
was embedded for the next call. What chose a number is not what measures it: see `prompt_sets`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ragstream_core.config import parse_assignments, quiet_environment
from ragstream_core.evaluation.prompt_quality import PromptFigures
from ragstream_core.services.eval_gold import measure_prompts
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import Workspace, open_workspace
from tests.benchmarks.measure import table
from tests.benchmarks.prompt_sets import HALVES, project_of, write_sets

ROOT = Path(__file__).parents[2]
MODELS = ROOT / ".pytest_cache" / "ragstream-models"
SETTINGS = {"vector_store.collection": "false", "ingestion.recall_tolerance": "1"}
COLUMNS = (
    ("questions", "questions", 0), ("answer_shown", "answer shown", 3),
    ("answer_in_facts", "in facts", 3), ("expected_shown", "expected shown", 3),
    ("tokens", "tokens", 0), ("tokens_before", "before the answer", 0),
    ("relevant_share", "attachments relevant", 3), ("facts", "facts", 1),
    ("facts_relevant", "relevant", 3), ("facts_complete", "whole", 3),
    ("constraints", "constraints", 1), ("constraints_binding", "binding", 3),
    ("copies", "repeated passages", 2),
    ("issues_unanswerable", "open issue, no answer", 3),
    ("issues_answerable", "open issue, answer", 3),
    ("not_found_unanswerable", "not found, no answer", 3),
    ("not_found_answerable", "not found, answer", 3),
    ("perhaps_unanswerable", "perhaps, no answer", 3),
    ("perhaps_answerable", "perhaps, answer", 3), ("auc", "AUC", 3),
    ("recall_at_alarms", "recall at 5 %", 3),
)  # fmt: skip


def measured(
    workspace: Workspace, names: Sequence[str], half: str, only: str = ""
) -> list[tuple[str, PromptFigures]]:
    """Ingest what is not, ask the questions of one half; return the figures of each set."""
    found = []
    for name in names:
        gold = workspace.data_dir / "gold" / f"{name}-{half}.jsonl"
        if (only and name != only) or not gold.is_file():
            continue
        ingest_project(workspace, project_of(name))
        began = time.process_time()
        report = measure_prompts(workspace, project_of(name), gold=gold)
        spent = time.process_time() - began
        sys.stderr.write(f"{name}: {spent / len(report.rows):.3f} CPU s a prompt\n")
        found.append((name, report.figures))
    return found


def report(folder: Path, data: Path, *, half: str = "judge", settings: Sequence[str] = ()) -> str:
    """Measure every set; return the Markdown section.

    Args:
        folder: The judged sets.
        data: A data root of its own, with the models.
        half: Which half of each set.
        settings: ``KEY=VALUE``, beside the defaults.
    """
    space = workspace_at(data, settings)
    return _section(measured(space, write_sets(folder, data), half), half, settings)


def _section(found: Sequence[tuple[str, PromptFigures]], half: str, settings: Sequence[str]) -> str:
    names = [name for name, _ in found]
    rows = [
        [label, *(_cell(getattr(figures, name), digits) for _, figures in found)]
        for name, label, digits in COLUMNS
    ]
    with_ = f", with {', '.join(settings)}" if settings else ""
    return (
        "## What stands in a prompt\n\n"
        f"The half of each set that {half}s{with_}. `python -m "
        "tests.benchmarks.bench_prompt_quality DIR` makes it; `docs/decisions/"
        "101-what-a-prompt-is-measured-by.md` says what the figures mean.\n\n"
        + table(["", *names], rows)
    )


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def workspace_at(data: Path, settings: Sequence[str]) -> Workspace:
    """Open a data root with the models that the tests use."""
    quiet_environment()
    data.mkdir(parents=True, exist_ok=True)
    MODELS.mkdir(parents=True, exist_ok=True)
    if not (data / "models").exists():
        (data / "models").symlink_to(MODELS.resolve(), target_is_directory=True)
    return open_workspace(data, explicit={**SETTINGS, **dict(parse_assignments([*settings]))})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--half", choices=HALVES, default="judge")
    parser.add_argument("--only", default="")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        space = workspace_at(given.data or Path(temporary), given.settings)
        sets = write_sets(given.folder, space.data_dir)
        figures = measured(space, sets, given.half, given.only)
    if given.json:
        print(json.dumps({name: row.to_json() for name, row in figures}, indent=1))
    else:
        print(_section(figures, given.half, given.settings))
