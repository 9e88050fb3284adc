"""What the endpoint costs over `ragstream ask` in the same process, and what 16 clients do.

python -m tests.benchmarks.bench_serve
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from ragstream_core.config import quiet_environment
from tests.benchmarks.bench_chat import AtOnce
from tests.benchmarks.bench_prompt import QUESTIONS, prepare
from tests.benchmarks.measure import environment, table
from tests.processes import memory_mb

SETTINGS = {
    "provider.model": "at-once",
}
BACKEND = "RAGSTREAM_PROVIDER__BACKEND"
ROUNDS = 24
CLIENTS, CALLS, FIRST = 16, 60, 100


def at_once(options: object) -> AtOnce:
    """Return the model, as `provider.backend` names it."""
    return AtOnce()


def overhead(data: Path) -> list[list[object]]:
    """Ask in turn: as `ragstream ask` does, and of a server in the same process."""
    quiet_environment()  # before NumPy is there, as the program does it
    os.environ[BACKEND] = f"{__spec__.name}:at_once"
    from ragstream_app.api.server import listen
    from ragstream_app.api.token import read_token
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring import answering
    from ragstream_core.wiring.make_prompt import make_prompt
    from ragstream_core.wiring.workspace import open_workspace

    space = open_workspace(data, explicit=SETTINGS)
    made = listen(space, port=0)
    threading.Thread(target=made.run, daemon=True).start()
    headers = {"Authorization": f"Bearer {read_token(data / 'api-token')}"}
    client = httpx.Client(base_url=made.url, headers=headers, timeout=60, trust_env=False)

    def direct(text: str) -> None:
        done = make_prompt(space, PromptRequest(text, ("handbook",), session="direct"))
        prepared = answering.prepare(
            space, done.super_prompt, prompt_key=done.key, session="direct", or_extract=True
        )
        answering.answer(space, prepared)

    def served(text: str) -> None:
        client.post("/v1/chat/completions", json=_asked(text, store=True)).raise_for_status()

    def plain(text: str) -> None:
        client.post("/v1/chat/completions", json=_asked(text)).raise_for_status()

    sides = {"asked in the process": direct, "asked of the endpoint": served,
             "the same, no turn kept": plain}  # fmt: skip
    took: dict[str, list[float]] = {name: [] for name in sides}
    for n in range(ROUNDS + 2):
        for at in range(len(sides)):
            side, ask = list(sides.items())[(n + at) % len(sides)]
            question = QUESTIONS[n % len(QUESTIONS)]  # of one sentence, so no vector is kept
            text = f"In case {n * len(sides) + at}, {question[0].lower()}{question[1:]}"
            began = time.process_time()  # of client and server together
            ask(text)
            if n >= 2:
                took[side].append((time.process_time() - began) * 1e3)
    first = _typical(took["asked in the process"])
    return [
        [name, f"{_typical(ms):.1f}", f"{_typical(ms) / first:.2f}"] for name, ms in took.items()
    ]


def _typical(values: list[float]) -> float:
    """Return the first quartile: what else the machine does only makes a call cost more."""
    return statistics.quantiles(values, n=4)[0]


def _asked(text: str, *, store: bool = False) -> dict[str, object]:
    message = {"role": "user", "content": text}
    body: dict[str, object] = {"model": "ragstream/handbook", "messages": [message]}
    return {**body, "store": True, "metadata": {"session": "served"}} if store else body


def many(data: Path) -> list[list[object]]:
    """Let clients ask a server of its own all at once."""
    settings = {
        f"RAGSTREAM_{name.upper().replace('.', '__')}": text for name, text in SETTINGS.items()
    }
    env = environment(**settings, **{BACKEND: f"{__spec__.name}:at_once"})
    command = [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data), "serve",
               "--port", "0"]  # fmt: skip
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2]
        headers = {"Authorization": f"Bearer {(data / 'api-token').read_text().strip()}"}
        found: Counter[int] = Counter()
        memory: list[int] = []

        def client(number: int) -> None:
            with httpx.Client(headers=headers, timeout=120, trust_env=False) as one:
                for call in range(CALLS):
                    text = f"{QUESTIONS[(number + call) % len(QUESTIONS)]} Case {number} {call}."
                    found[one.post(f"{url}/chat/completions", json=_asked(text)).status_code] += 1
                    if sum(found.values()) == FIRST:
                        memory.append(memory_mb(process.pid))

        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(client, range(CLIENTS)))
        seconds = time.perf_counter() - began
        memory.append(memory_mb(process.pid))
        process.terminate()
    errors = sum(n for status, n in found.items() if status != 200)
    rate = sum(found.values()) / seconds
    growth = f"{memory[0]} → {memory[-1]} MB, {memory[-1] / memory[0]:.2f}"
    return [[f"{CLIENTS} × {CALLS}", errors, f"{rate:.0f}", growth]]


def report() -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data)
        rows, clients = overhead(data), many(data)
    head = [f"a question over the handbook, {ROUNDS} of each in turn", "CPU ms", "ratio"]
    crowd = ["clients × questions at once", "errors", "answers a second",
             f"memory after {FIRST} → at the end, ratio"]  # fmt: skip
    return f"## The endpoint\n\n{table(head, rows)}\n\n{table(crowd, clients)}"


if __name__ == "__main__":
    print(report())
    os._exit(0)  # the server's thread serves for ever
