"""Whether the answer's words are still in the prompt, by stage, over judged questions with answers.

The paragraphs are documents of a project and every question goes through the whole chain with a
budget of 2,000 tokens. An answer counts as shown where its words stand in the part of its paragraph
that the prompt shows (attachments, or a fact of S_ctx).

    python -m tests.benchmarks.bench_spans DIR [--questions 300] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.prompts.blocks import shown_text
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from tests.benchmarks.measure import table

if TYPE_CHECKING:
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

PROJECT = "spans"
SAMPLE = 300
GOAL = 0.95
BUDGET = 2_000
NOT_FOUND = "not found"
STAGES = ("retrieval", "reranked", "a3", "a4", "a5")
SETTINGS = {
    "prompt.budget_tokens": str(BUDGET),
    "vector_store.collection": "false",
}


def lost_at(prompt: SuperPrompt, paragraph: str, answer: str) -> str:
    """Return where an answer was lost, empty where the prompt shows it.

    Args:
        prompt: After the whole chain.
        paragraph: Path of the document that answers.
        answer: Its words.

    Returns:
        ``not found`` where no chunk of the paragraph was, ``other chunk`` where only chunks were
        that do not hold the answer, else the first stage whose view has none that does, or ``cut``
        where the parts that are shown do not hold it.
    """
    chunks = {c.id: c for c in prompt.base_context_chunks if c.source == paragraph}
    if not chunks:
        return NOT_FOUND
    wanted = _plain(answer)
    holders = {i for i, chunk in chunks.items() if wanted in _plain(chunk.snippet)}
    if not holders:
        return "other chunk"
    for stage in STAGES:
        if not holders & set(prompt.views_by_stage[stage]):
            return stage
    selected = holders & set(prompt.final_selection_ids)
    shown = [shown_text(prompt, chunks[i]) for i in selected]
    s_ctx = prompt.extras.s_ctx
    shown += [fact.text for fact in (*s_ctx.facts, *s_ctx.constraints)]
    return "" if any(wanted in _plain(text) for text in shown) else "cut"


def _plain(text: str) -> str:
    from ragstream_core.agents.context.shown import readable

    return readable(text)


def measured(
    workspace: Workspace, questions: Sequence[Mapping[str, Any]], qrels: Mapping[str, Any]
) -> list[tuple[str, str, int]]:
    """Ask the questions; return (question, where its answer was lost, tokens) of each."""
    from ragstream_core.prompts.inputs import PromptRequest

    found = []
    for number, question in enumerate(questions, 1):
        inputs = pin_inputs(workspace, PromptRequest(question["text"], (PROJECT,)))
        prompt = run_prompt(workspace, inputs)
        (paragraph,) = qrels[question["id"]]
        lost = lost_at(prompt, f"{paragraph}.md", question["meta"]["answer"])
        found.append((question["text"], lost, prompt.extras.enforced.total_tokens))
        if number % 50 == 0:
            sys.stderr.write(f"{number} of {len(questions)}\n")
    return found


def prepared(corpus: Path, data: Path, project: str = PROJECT) -> Workspace:
    """Write a judged set's documents as those of a project and ingest them."""
    from ragstream_core.config import quiet_environment
    from ragstream_core.evaluation.retrieval import read_jsonl
    from ragstream_core.wiring.workspace import open_workspace

    quiet_environment()
    documents = data / "doc_raw" / project
    documents.mkdir(parents=True, exist_ok=True)
    for row in read_jsonl(corpus):
        path = documents / f"{row['id']}.md"
        if not path.exists():
            title = f"# {row['title']}\n\n" if row.get("title") else ""
            path.write_text(title + row["text"], encoding="utf-8")
    workspace = open_workspace(data, explicit=SETTINGS)
    ingest_project(workspace, project)
    return workspace


def report(folder: Path, data: Path, *, sample: int = SAMPLE) -> str:
    """Measure; return the Markdown section.

    Args:
        folder: Holds corpus.jsonl, queries.jsonl (with ``meta.answer``) and qrels.tsv.
        data: A data root of its own, with the models.
        sample: So many questions, drawn with a fixed seed.
    """
    from ragstream_core.evaluation.retrieval import read_jsonl, read_qrels
    from ragstream_core.records.identity import digest_of

    workspace = prepared(folder / "corpus.jsonl", data)
    questions = read_jsonl(folder / "queries.jsonl")
    chosen = random.Random(7).sample(questions, min(sample, len(questions)))  # noqa: S311
    rows = measured(workspace, chosen, read_qrels(folder / "qrels.tsv"))
    lost = Counter(where for _, where, _ in rows)
    found = len(rows) - lost.pop(NOT_FOUND, 0)
    share = lost.pop("", 0) / max(1, found)
    told = ", ".join(f"{where} {n}" for where, n in lost.most_common()) or "none"
    for question, where, _ in rows:
        if where not in ("", NOT_FOUND):
            sys.stderr.write(f"lost at {where}: {question}\n")
    cells = [
        folder.name, len(rows), found, f"{share:.3f}", f"{GOAL:.2f}", told,
        max(tokens for *_, tokens in rows), digest_of(workspace.config.chain().model_dump())[:12],
    ]  # fmt: skip
    head = ["set", "questions", "paragraph retrieved", "answer shown", "goal", "lost at"]
    return f"## Answers within {BUDGET:,} tokens\n\n" + table(
        [*head, "most tokens", "config digest"], [cells]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=SAMPLE)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        data_root = given.data or Path(temporary)
        print(report(given.folder, data_root, sample=given.questions))
