"""What the MCP server costs: its start, a search of 10,000 chunks, and many clients at once.

    python -m tests.benchmarks.bench_mcp [CLIENTS CALLS [BACKEND]]

Texts are words drawn from a Zipf vocabulary, embedded by the hashed embedder: the search is the
real one, the embedding of a question is not. With a BACKEND, e.g. `onnx`, both are real, and
passages are shorter, so that they are embedded within minutes. Clients are the SDK's own, over
pipes and over HTTP.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.app.mcp.mcp_clients import MODULE, client, http_client, server
from tests.app.serving import Served, serving
from tests.benchmarks.measure import environment, table
from tests.workspaces import hashed_workspace

CHUNKS, CHUNKS_A_FILE, VOCABULARY = 10_000, 20, 20_000
HASHED = "hashed"
WORDS, WORDS_FOR_A_MODEL = 180, 60
SEARCHES, FIRST = 200, 100
HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)
SEARCH = {"name": "search", "arguments": {"query": "word17 word230 word4711"}}


def own(backend: str) -> dict[str, str]:
    """Return the environment of a server."""
    return {"RAGSTREAM_EMBEDDINGS__BACKEND": backend}


def corpus(root: Path, backend: str) -> int:
    """Write and ingest documents; return how many chunks there are."""
    from ragstream_core.services.ingest import ingest_project

    rng = np.random.default_rng(7)
    weights = 1 / np.arange(1, VOCABULARY + 1)
    folder = root / "doc_raw" / "bench"
    folder.mkdir(parents=True)
    for number in range(CHUNKS // CHUNKS_A_FILE):
        shape = CHUNKS_A_FILE, WORDS if backend == HASHED else WORDS_FOR_A_MODEL
        drawn = rng.choice(VOCABULARY, shape, p=weights / weights.sum())
        parts = [
            f"## Part {at}\n\n" + " ".join(f"word{word}" for word in row) + ".\n"
            for at, row in enumerate(drawn)
        ]
        (folder / f"doc{number:04}.md").write_text("\n".join(parts), encoding="utf-8")
    settings = {"embeddings.backend": backend, "vector_store.collection": "false"}
    space = hashed_workspace(root, settings)
    return ingest_project(space, "bench").chunks["live"]


def started(root: Path, lines: str, backend: str) -> float:
    """Return the CPU seconds of a server that answers some lines and ends."""
    before = os.times()
    done = subprocess.run(
        [sys.executable, *MODULE, "--data", str(root), "mcp"],
        input=lines,
        env=environment(**own(backend)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert all("result" in json.loads(line) for line in done.stdout.splitlines())
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def warm_search(root: Path, backend: str) -> tuple[list[float], float]:
    """Return the milliseconds of searches over pipes, as their client sees them.

    And the CPU seconds of the server from its start to its end.
    """

    async def run() -> list[float]:
        took = []
        async with client(server(root, **own(backend))) as session:
            for number in range(SEARCHES + 5):
                began = time.perf_counter()
                query = {"query": f"word{number} word{number * 7} word{number * 31}"}
                answer = await session.call_tool("search", query)
                assert not answer.is_error
                took.append((time.perf_counter() - began) * 1000)
        return took[5:]

    before = os.times()
    took = asyncio.run(run())
    after = os.times()
    return took, sum(after[2:4]) - sum(before[2:4])


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def many_clients(root: Path, clients: int, calls: int, backend: str) -> dict[str, float]:
    """Return calls, errors, seconds, and memory after the first calls and at the end."""
    settings = {
        name.removeprefix("RAGSTREAM_").lower(): value for name, value in own(backend).items()
    }
    found = {"calls": 0, "errors": 0, "after_first_mb": 0.0, "most_mb": 0.0}

    async def one(served: Served, number: int) -> None:
        async with http_client(served) as session:
            for turn in range(calls):
                word = number * calls + turn
                query = {"query": f"word{word % VOCABULARY} word{word % 97}", "limit": 5}
                answer = await session.call_tool("search", query)
                found["errors"] += answer.is_error
                found["calls"] += 1
                if found["calls"] == FIRST:
                    found["after_first_mb"] = resident_mb(served.process.pid)
                if found["calls"] % FIRST == 0:
                    found["most_mb"] = max(found["most_mb"], resident_mb(served.process.pid))

    async def run(served: Served) -> None:
        await asyncio.gather(*(one(served, number) for number in range(clients)))

    with serving(root, "--data", str(root), **settings) as served:
        began = time.perf_counter()
        asyncio.run(run(served))
        found["seconds"] = time.perf_counter() - began
        found["end_mb"] = resident_mb(served.process.pid)
    return found


def report(clients: int = 16, calls: int = 40, backend: str = HASHED) -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "data"
        root.mkdir()
        chunks = corpus(root, backend)
        started(root, HELLO, backend)
        bare = [started(root, HELLO, backend) for _ in range(5)]
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": SEARCH}
        first = [started(root, HELLO + json.dumps(call) + "\n", backend) for _ in range(5)]
        took, cpu_s = warm_search(root, backend)
        load = many_clients(root, clients, calls, backend)
    one_ms = (cpu_s - statistics.median(first)) / (SEARCHES + 4) * 1000
    growth = load["most_mb"] / load["after_first_mb"]
    rows: list[list[object]] = [
        ["start to the first answer, CPU s", f"{statistics.median(bare):.2f}"],
        ["start to the first search, CPU s", f"{statistics.median(first):.2f}"],
        ["a warm search over pipes, median ms", f"{statistics.median(took):.1f}"],
        ["the same, 95th percentile, ms", f"{statistics.quantiles(took, n=20)[-1]:.1f}"],
        ["the same, CPU ms of the server", f"{one_ms:.1f}"],
        [f"{clients} clients over HTTP, {load['calls']:,.0f} searches: errors", load["errors"]],
        ["searches a second, all clients", f"{load['calls'] / load['seconds']:.0f}"],
        [f"memory after {FIRST} searches, MB", f"{load['after_first_mb']:.0f}"],
        ["most later, as a multiple", f"{growth:.2f}"],
    ]
    head = f"## MCP server\n\n{chunks:,} chunks, {backend} embedder.\n\n"
    return head + table(["what", "measured"], rows)


if __name__ == "__main__":
    clients, calls = map(int, sys.argv[1:3] or (16, 40))
    print(report(clients, calls, sys.argv[3] if len(sys.argv) > 3 else HASHED))
