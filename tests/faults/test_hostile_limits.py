"""R13, R15, R18: hostile folders are read inside their root, in bounded memory, all in one go."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.faults.harness import DONE, Child, need_strace
from tests.faults.hostile_pdfs import corpus as hostile_pdfs
from tests.lengths import FULL
from tests.unit.ingestion.test_corpora import (
    BOMBS,
    ENCODINGS,
    NAMES,
    links_and_special_files,
    sizes_and_binaries,
)

ROOT = Path(__file__).parents[2]
LIMIT_BYTES = 1_500_000_000
_OPENED = re.compile(r"open(?:at2?)?\(.* = \d+<([^>]*)>")
INGEST = """
import json, resource, sys
from pathlib import Path
from ragstream_core.text.chunk_profiles import chunk_profile
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.text.chunker import Chunker
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.ingestion_manager import IngestionManager
manager = IngestionManager(
    Path(sys.argv[1]), Path(sys.argv[2]),
    embedder=HashedEmbedder(), chunkers=lambda name: Chunker(chunk_profile(name)))
stats = manager.run("demo", IngestionConfig(fallback_encoding="latin-1"))
(own,) = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM")]
print(json.dumps({
    "own": int(own.split()[1]) * 1024,
    "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
    "new": stats.files["new"], "skipped": [list(row) for row in stats.skipped_reasons]}))
"""


def allowed(bench):
    """Where an ingest may open files: the documents, the index, and what programs are made of."""
    python = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")]
    return [
        Path(p).resolve()
        for p in (
            bench.docs,
            bench.root / "index",
            ROOT,
            sys.prefix,
            *python,
            "/usr",
            "/etc",
            "/lib",
        )
    ]


def test_fifteen_links_and_special_files_lead_nowhere_outside_of_the_root(bench, tmp_path):
    """Every file that the ingest opens is written down by strace, links resolved."""
    need_strace()
    names = links_and_special_files(bench)
    out = tmp_path / "trace"
    child = Child(bench.run, tmp_path / "said")
    child.trace("trace=open,openat,openat2", out=out, options=("-y",))
    child.go()
    assert child.wait() == DONE, child.words()
    opened = {
        Path(match[1]) for match in map(_OPENED.search, out.read_text().splitlines()) if match
    }
    inside = {path for path in opened if path.is_relative_to(bench.docs)}
    assert {bench.docs / name for name in ("real.md", "sub/real.md", "hard.md")} <= inside
    assert not inside & {bench.docs / name for name in names}
    roots = allowed(bench)
    strange = {p for p in opened if not any(p.is_relative_to(root) for root in roots)}
    folders = {bench.root, *bench.root.parents}  # synced, since one below them was made
    assert strange - folders - {Path("/dev/urandom"), Path(f"/proc/{child.pid}/stat")} == set()
    assert not [p for p in opened if "outside" in p.parts or p.name == "zero"]
    print(f"\n{len(names)} links and special files: {len(opened)} files opened, 0 outside the root")


def test_all_hostile_files_at_once_are_read_in_bounded_memory(bench):
    """Names, encodings, links, sizes to a terabyte, JSON and YAML bombs; in full, PDF bombs too."""
    root = os.fsencode(bench.docs)
    for n, name in enumerate(NAMES):
        with open(root + b"/" + name, "wb") as handle:
            handle.write(b"text number %d" % n)
    for name, raw, _, _ in ENCODINGS:
        bench.write(f"encodings/{name}.txt", raw)
    links_and_special_files(bench)
    sizes_and_binaries(bench)
    for name, text in BOMBS.items():
        bench.write(f"bombs/{name}", text)
    pdfs = hostile_pdfs() if FULL else {}
    for name, (data, _) in pdfs.items():
        bench.write(f"pdfs/{name}.pdf", data)
    bench.write("neighbour.md", "an innocent neighbour")
    answer = subprocess.run(
        [sys.executable, "-B", "-c", INGEST, str(bench.doc_root), str(bench.root / "index")],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "RecursionError" not in answer.stderr
    found = json.loads(answer.stdout)
    skipped = {path for path, _ in found["skipped"]}
    assert not [path for path in skipped if path.startswith("bombs/")]
    assert found["own"] < LIMIT_BYTES and found["children"] < LIMIT_BYTES
    view = bench.fresh_view()
    texts = {chunk.source: chunk.snippet for chunk in view.chunks(view.chunk_ids)}
    assert texts["neighbour.md"] == "an innocent neighbour"
    assert {f"bombs/{name}" for name in BOMBS} <= set(texts)
    assert bench.health() == []
    print(f"\n{found['new']} hostile files ingested, {len(skipped)} refused with a reason; at most "
          f"{found['own'] / 1e6:.0f} MB, children {found['children'] / 1e6:.0f} MB")  # fmt: skip
