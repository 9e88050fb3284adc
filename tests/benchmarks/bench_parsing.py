"""What it costs to read HTML in limited children, beside MarkItDown in one process.

    python -m tests.benchmarks.bench_parsing [--files 1000] [--size 15000]

CPU seconds of processes of their own, children and imports included. Children alone are measured on
a twentieth of the files, because each imports the engines again.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measure import child_cpu, table

ROOT = Path(__file__).parents[2]
WORDS = ["index", "chunk", "vector", "valve", "pressure", "section", "manual", "überall", "query"]

IN_PROCESS = """
import io, sys
from pathlib import Path
from markitdown import MarkItDown, StreamInfo
engine = MarkItDown(enable_plugins=False)
for path in sorted(Path(sys.argv[1]).iterdir()):
    data = io.BytesIO(path.read_bytes())
    engine.convert_stream(data, stream_info=StreamInfo(extension=".html"))
"""

CONVERTER = """
import sys
from pathlib import Path
from ragstream_core.ingestion.parsers import child
from ragstream_core.ingestion.parsers.engines import DEFAULT_LIMITS
child.leave_out()
for path in sorted(Path(sys.argv[1]).iterdir()):
    child.answer("office", path.read_bytes(), file_type="html", limits=DEFAULT_LIMITS)
"""

CHILDREN = """
import contextlib, sys
from pathlib import Path
from ragstream_core.ingestion.parsers.isolated import kept_engines, parse
from ragstream_core.ingestion.parsers.engines import DEFAULT_LIMITS
with kept_engines() if sys.argv[2] == "kept" else contextlib.nullcontext():
    for path in sorted(Path(sys.argv[1]).iterdir()):
        found = parse(path.read_bytes(), file_type="html", limits=DEFAULT_LIMITS)
        assert found.pages, found.note
"""


def page(number: int, size: int) -> str:
    """Return a page of a manual with headings, links, code and tables, about so many bytes."""
    rng = random.Random(number)
    links = "".join(f"<li><a href='{n}.html'>Page {n}</a></li>" for n in range(20))
    parts = [f"<html><head><title>{number}</title></head><body><nav><ul>{links}</ul></nav>"]
    while sum(map(len, parts)) < size:
        parts.append(f"<h2>{' '.join(rng.choices(WORDS, k=4))}</h2>")
        for _ in range(3):
            words = " ".join(rng.choices(WORDS, k=55))
            parts.append(f"<p>{words} <code>x_y</code> <b>bold</b> <a href='#a'>there</a>.</p>")
        rows = (
            f"<tr><td>{rng.choice(WORDS)}</td><td>{rng.random():.3f}</td></tr>" for _ in "12345"
        )
        parts.append(f"<table>{''.join(rows)}</table>")
    return "\n".join([*parts, "</body></html>"])


def report(files: int = 1000, size: int = 15_000) -> str:
    """Measure; return the Markdown section."""
    few = max(1, files // 20)
    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder) / "whole", Path(folder) / "part"
        for where, count in ((whole, files), (part, few)):
            where.mkdir()
            for n in range(count):
                (where / f"{n:05}.html").write_text(page(n, size), encoding="utf-8")
        sides = [
            ("MarkItDown in one process", files, IN_PROCESS, whole, ""),
            ("our reader in one process", files, CONVERTER, whole, ""),
            ("a limited child a file, engines kept", files, CHILDREN, whole, "kept"),
            ("a limited child a file, each alone", few, CHILDREN, part, "alone"),
        ]
        env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        costs = [
            child_cpu([sys.executable, "-c", script, str(where), how], env=env) / count
            for _, count, script, where, how in sides
        ]
    rows = [
        [what, f"{count:,}", f"{cost * 1000:.1f}", f"{cost / costs[0]:.2f} ×"]
        for (what, count, *_), cost in zip(sides, costs, strict=True)
    ]
    head = f"## Reading {files:,} HTML files of {size // 1000} KB\n\n"
    return head + table(["how", "files", "CPU ms a file", "ratio"], rows)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--size", type=int, default=15_000)
    given = parser.parse_args()
    print(report(given.files, given.size))


if __name__ == "__main__":
    main()
