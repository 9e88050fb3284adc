"""What fetching documents from elsewhere costs: a git repository beside `git clone`, and again.

python -m tests.benchmarks.bench_mirror
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.measure import table
from tests.remote_servers import Repository, WebServer

FILES, ROUNDS = 2_000, 3


def spent(call: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU seconds of a call, child processes included."""
    whom = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    before, began = [resource.getrusage(who) for who in whom], time.perf_counter()
    call()
    wall, after = time.perf_counter() - began, [resource.getrusage(who) for who in whom]
    return wall, sum(
        now.ru_utime + now.ru_stime - then.ru_utime - then.ru_stime
        for now, then in zip(after, before, strict=True)
    )


def mirrored(url: str, home: Path) -> None:
    """Make a mirror equal to an address, without rules."""
    from ragstream_core.remote.address import parse
    from ragstream_core.remote.mirror import MirrorRules, mirror, opened

    address = parse(url)
    rules = MirrorRules(lambda paths: {}, "all", FILES * 2, 1 << 30, 1 << 33)
    with opened(address, home / "work", max_bytes=1 << 33) as source:
        done = mirror(source, home, url=address.url, rules=rules)
    assert not done.failed and done.unchanged + len(done.fetched)


def report(files: int = FILES) -> str:
    """Measure, in turn, the best of some rounds; return the Markdown section."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        repository, web = Repository(folder / "git"), WebServer()
        pages = {f"f{n % 40}/{n}.md": b"# Page %d\n\n" % n + b"words " * 700 for n in range(files)}
        for path, data in pages.items():
            (repository.work / path).parent.mkdir(exist_ok=True)
            (repository.work / path).write_bytes(data)
        repository.commit()
        listing, bare, clone = web.put(pages), str(repository.bare), folder / "clone"
        words = ["git", "clone", "--quiet", "--depth=1", f"file://{bare}", str(clone)]
        calls: dict[str, Callable[[], object]] = {
            "git clone --depth=1": lambda: subprocess.run(words, check=True, capture_output=True),
            "first sync of the repository": lambda: mirrored(bare, folder / "m1"),
            "the same again": lambda: mirrored(bare, folder / "m1"),
            "first sync of a listing over HTTP": lambda: mirrored(listing, folder / "m2"),
            "again, nothing new": lambda: mirrored(listing, folder / "m2"),
        }
        best: dict[str, tuple[float, float]] = {}
        for _ in range(ROUNDS):
            for folder_of in (clone, folder / "m1", folder / "m2"):
                shutil.rmtree(folder_of, ignore_errors=True)
            for what, call in calls.items():
                best[what] = min(best.get(what, (1e9, 1e9)), spent(call))
        web.server_close()
    whole = best["git clone --depth=1"]
    rows = [
        [what, f"{wall:.2f}", f"{cpu:.2f}", f"{wall / whole[0]:.2f} ×"]
        for what, (wall, cpu) in best.items()
    ]
    head = [f"{files:,} files of 4 KB", "seconds", "CPU s", "beside the clone"]
    return (
        "## Documents from elsewhere\n\n"
        + table(head, rows)
        + (
            "\n\nEach file is synced to the disk before it takes its name; a clone syncs none. "
            "The web server runs in the same process, so its CPU is counted as well."
        )
    )


if __name__ == "__main__":
    print(report())
