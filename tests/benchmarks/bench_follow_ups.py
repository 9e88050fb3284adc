"""Whether follow-up questions bring the right passage first: ten conversations by hand.

``python -m tests.benchmarks.bench_follow_ups`` asks each of 40 follow-ups in its session, with and
without ``history.follow_ups``, and counts those whose passage stands first in the context. The
``tuned`` half was at hand when the rules were made; the ``held-out`` half was not.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import Workspace, open_workspace

GOLD = Path(__file__).parent / "gold" / "follow_ups.jsonl"
MISSING = 10**6
RIGHT = {"shown": MISSING, "first": 1}


def measured(root: Path) -> dict[str, Counter[str]]:
    """Return for each half and setting how many follow-ups there are, and how many are right."""
    rows = [json.loads(line) for line in GOLD.read_text(encoding="utf-8").splitlines()]
    space = open_workspace(root)
    for row in (r for r in rows if "files" in r):
        folder = root / "doc_raw" / row["project"]
        folder.mkdir(parents=True)
        for name, text in row["files"].items():
            (folder / f"{name}.md").write_text(text, encoding="utf-8")
        ingest_project(space, row["project"])
    found: dict[str, Counter[str]] = {}
    for n, row in enumerate(r for r in rows if "follow_ups" in r):
        session = f"talk-{n}"
        say(space, session, row["asked"])
        for question, wanted in row["follow_ups"]:
            for on in (True, False):
                counts = found.setdefault(f"{row['half']}, {'on' if on else 'off'}", Counter())
                texts = shown(space, row["project"], question, session, on=on)
                place = next((i for i, text in enumerate(texts) if wanted in text), MISSING)
                counts["all"] += 1
                counts.update(name for name, most in RIGHT.items() if place < most)
                if on and place:
                    print(f"  {question} -> {place if place < MISSING else 'not shown'}")
            say(space, session, question)
    return found


def say(space: Workspace, session: str, question: str) -> None:
    """Keep a question that nothing of use was answered to."""
    append_turn(space, Turn("", session, "2026-10-01T10:00:00+00:00", question, "Let me see."))


def shown(space: Workspace, project: str, question: str, session: str, *, on: bool) -> list[str]:
    """Return the passages of documents that a prompt shows, best first."""
    settings = {"history.follow_ups": on, "history.enabled": False}
    request = PromptRequest(question, (project,), session=session, settings=settings)
    prompt = run_prompt(space, pin_inputs(space, request))
    texts = {chunk.id: chunk.snippet for chunk in prompt.base_context_chunks}
    return [texts[i] for i in prompt.final_selection_ids if i in texts]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name, counts in sorted(measured(Path(folder)).items()):
            print(name, dict(counts))
