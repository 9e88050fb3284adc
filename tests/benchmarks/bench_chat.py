"""What a chat turn costs over the retrieval and the model, and what an earlier answer costs.

python -m tests.benchmarks.bench_chat
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from ragstream_core.records.chat import ChatDelta, ChatMessage, ChatReply, ChatUsage
from tests.benchmarks.bench_prompt import QUESTIONS, prepare
from tests.benchmarks.measure import table

FILLED = 300
"""Turns of earlier conversations, so that no file is empty."""
MEMORY: dict[str, object] = {"memory.enabled": True, "memory.cache_min_score": 0.9}


class AtOnce:
    """A language model that answers at once, with a marker of the first passage; counts calls."""

    name, host, is_local = "at-once", "127.0.0.1:1", True

    def __init__(self) -> None:
        self.calls = 0

    def list_models(self) -> list[str]:
        """One."""
        return [self.name]

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Free."""
        return 0.0

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Refuse: no agent of a benchmark asks it.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Say one sentence in ten pieces."""
        self.calls += 1
        head = next(x for x in messages[1].text.split("\n") if x.startswith("<<DOC "))
        short, name = (head.split(f'{key}="')[1].split('"')[0] for key in ("id", "source"))
        text = f"As the handbook says it, number {self.calls} [source: {name}, chunk: {short}]."
        step = max(1, len(text) // 10)
        yield from (ChatDelta(text[at : at + step]) for at in range(0, len(text), step))
        yield ChatDelta("", ChatReply(text, "complete", self.name, ChatUsage(1, 1, cost_usd=0.0)))


def turns(data: Path) -> list[list[object]]:
    """Ask ten questions with memory off and on, then all of them again."""
    from ragstream_core.conversations.journal.records import Turn
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.services.chat import ChatSession
    from ragstream_core.wiring.journal import append_records
    from ragstream_core.wiring.workspace import open_workspace

    space = open_workspace(data)
    append_records(
        space,
        [Turn("", f"s{n % 9}", "", f"Question {n} of old?", f"Answer {n}.") for n in range(FILLED)],
    )
    rows: list[list[object]] = []
    model = AtOnce()
    warm: tuple[str, dict[str, object]] = ("", {})
    sides: tuple[tuple[str, dict[str, object]], ...] = (
        ("memory off", {}),
        ("memory on", MEMORY),
        ("given again", MEMORY),
    )
    for name, settings in (warm, *sides):
        session = f"bench-{name.replace(' ', '-')}"
        talk = ChatSession(
            space,
            PromptRequest("any", ("handbook",), settings=settings, session=session),
            model=model,
        )
        calls, found = model.calls, []
        for question in QUESTIONS:
            began = time.perf_counter()
            turn = talk.ask(question)
            found.append(((time.perf_counter() - began) * 1e3, turn))
        whole = [ms for ms, _ in found]
        over = [ms - turn.timings_ms.get("prompt", 0) - turn.timings_ms.get("model", 0)
                for ms, turn in found]  # fmt: skip
        again = sum(turn.origin == "cached" for _, turn in found)
        if name:
            rows.append([name, len(found), again, model.calls - calls, _ms(whole), _ms(over)])
    chain = statistics.median(float(str(row[4]).split()[0]) for row in rows[:2])
    cached = float(str(rows[2][4]).split()[0])
    rows.append(["given again ÷ asked", "", "", "", f"{cached / chain:.3f}", ""])
    return rows


def _ms(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{statistics.median(ordered):.1f} (most {ordered[-1]:.1f})"


def report() -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data)
        rows = turns(data)
    head = ["over the handbook, ten questions, warm", "turns", "given again", "model calls",
            "ms a turn", "ms over prompt and model"]  # fmt: skip
    return "## A chat turn\n\n" + table(head, rows)


if __name__ == "__main__":
    print(report())
