"""What importing a large export costs, without embedding.

python -m tests.benchmarks.bench_import
"""

from __future__ import annotations

import json
import random
import resource
import tempfile
import time
from pathlib import Path

from tests.benchmarks.measure import table
from tests.unit.conversations.importers import exports

QUESTIONS = 20
WORDS = [f"word{n}" for n in range(3000)]


def write(path: Path, chats: int) -> None:
    """Write an export of ChatGPT with 20 questions of 30 words a chat, answers of 120."""
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for chat in range(chats):
            nodes = [exports.node(f"{chat}r", None)]
            for n in range(QUESTIONS):
                for role, count in (("user", 30), ("assistant", 120)):
                    text, parent = " ".join(rng.choices(WORDS, k=count)), nodes[-1]["id"]
                    nodes.append(exports.node(f"{chat}{role}{n}", parent, role, text, at=n * 60))
            row = json.dumps(exports.chatgpt(*nodes, id_=f"c{chat}"))
            file.write(("[" if not chat else ",") + row)
        file.write("]")


def report(chats: int = 5000) -> str:
    """Measure; return the Markdown section."""
    from ragstream_core.services.import_conversations import import_conversations
    from ragstream_core.wiring.workspace import open_workspace

    rows = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "conversations.json"
        write(path, chats)
        space = open_workspace(Path(name) / "data")
        for what in ("the whole export", "the same again"):
            began = time.process_time()
            done = import_conversations(space, path)
            took = time.process_time() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            rows.append([what, f"{done.added:,}", f"{done.existing:,}", f"{took:.1f}", peak])
        size = path.stat().st_size >> 20
    head = [f"an export of {size} MB", "turns added", "there", "CPU s", "peak MiB of the process"]
    return "## Importing conversations, without embedding\n\n" + table(head, rows)


if __name__ == "__main__":
    print(report())
