"""One flipped bit in any file: found before it changes an answer, or it changed none.

The full form (``make faults``) flips 1000 bits in each kind of file, the short form 30.
"""

import json
import random

import numpy as np
import pytest

from ragstream_core.errors import RagstreamError
from ragstream_core.index import derived
from ragstream_core.index.check import Part, repair_derived, verify_data
from ragstream_core.index.generation_rows import ROWS_FILE
from ragstream_core.index.view import forget_views, open_view
from tests.lengths import by_length

FLIPS = by_length(10, 30, 1000)
REBUILDS = by_length(2, 3, 40)
ROWS = str(ROWS_FILE)
DERIVED = (
    "lexical-latest/arrays.bin", "lexical-latest/changes.bin", "file_manifest.json", ROWS,
)  # fmt: skip


@pytest.fixture
def filled(bench, monkeypatch):
    """Two generations of 25 files, one of them long; the rows of the newest are kept."""
    monkeypatch.setattr(derived, "WHOLE_BELOW", 1)
    monkeypatch.setattr(derived, "MOST_CHANGED", 1.0)
    for n in range(25):
        bench.write(f"{n}.md", f"# Heading {n}\n\nbody words number {n}")
    bench.write("long.md", "\n\n".join(f"paragraph {n} of the long one " * 9 for n in range(40)))
    bench.run()
    bench.write("0.md", "# Another heading\n\nreplaced")
    (bench.docs / "1.md").unlink()
    bench.run()
    forget_views()
    open_view(bench.index, project=bench.project, keep=True)
    return bench


def answers(bench):
    """All that any query can get from any generation, or the error that says it cannot be had."""
    found = []
    for n in (1, 2):
        view = bench.fresh_view(n)
        chunks = [(c.id, c.source, c.snippet, c.span, sorted(c.meta.items()))
                  for c in view.chunks(view.chunk_ids)]  # fmt: skip
        found.append((view.digest, view.generation, view.chunk_ids, view.paths, chunks,
                      np.asarray(view.vectors).tobytes(), view.lexical.packed()))  # fmt: skip
    manifest = bench.index / "file_manifest.json"
    found.append(json.loads(manifest.read_bytes()) if manifest.exists() else None)
    return found


def flipped(intact, rng):
    raw = bytearray(intact)
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(raw)


def restored(bench, files):
    for path, intact in files.items():
        path.write_bytes(intact)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["catalog.sqlite", "vectors", *DERIVED])
def test_every_flip_that_changes_an_answer_is_found(filled, name, record_property):
    path = filled.vector_file() if name == "vectors" else filled.index / name
    files = {p: p.read_bytes() for p in filled.index.rglob("*") if p.is_file()}
    sound, intact = answers(filled), files[path]
    rng = random.Random(f"corruption {name}")
    tally = {"changed an answer or its error": 0, "found": 0, "repaired": 0, "harmless": 0}
    for _ in range(FLIPS):
        path.write_bytes(flipped(intact, rng))
        try:
            changed = answers(filled) != sound
            assert not changed or name in DERIVED  # nothing else answers differently in silence
        except (RagstreamError, ValueError):
            changed = True
        found = verify_data(filled.index, Part(1, 1)) + filled.health()
        repaired = repair_derived(filled.index) if not found else []
        if name in DERIVED:
            assert not found and answers(filled) == sound
        assert found or repaired or not changed, (name, changed)
        kind = "found" if found else "repaired" if repaired else "harmless"
        tally[kind] += 1
        tally["changed an answer or its error"] += changed
        restored(filled, files)
    record_property("flips", str(tally))
    print(f"\n{FLIPS} flips in {name}: {tally}")
    assert answers(filled) == sound
    if name == "vectors":
        assert tally["found"] == FLIPS


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["catalog.sqlite", "vectors"])
def test_a_rebuild_repairs_any_flip_and_uses_again_what_survived(filled, name, record_property):
    path = filled.vector_file() if name == "vectors" else filled.index / name
    files = {p: p.read_bytes() for p in filled.index.rglob("*") if p.is_file()}
    fresh = filled.from_scratch().view().digest
    rng = random.Random(f"rebuild {name}")
    embedded, texts = 0, len(set(filled.embedder.seen))
    for _ in range(REBUILDS):
        path.write_bytes(flipped(files[path], rng))
        stats = filled.run(rebuild=True)
        embedded += stats.chunks["embedded"]
        assert verify_data(filled.index, Part(1, 1)) + filled.health() == []
        assert filled.fresh_view().digest == fresh
        for stray in set(filled.index.rglob("*")) - set(files):
            if stray.is_file():
                stray.unlink()
        restored(filled, files)
    print(f"\n{REBUILDS} rebuilds after a flip in {name}: {embedded} texts embedded again, "
          f"{REBUILDS * texts} without reuse")  # fmt: skip
    assert embedded < REBUILDS * texts / 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["catalog.sqlite", "vectors", *DERIVED])
def test_every_cut_is_found_or_repaired(filled, name):
    path = filled.vector_file() if name == "vectors" else filled.index / name
    files = {p: p.read_bytes() for p in filled.index.rglob("*") if p.is_file()}
    intact, sound = files[path], answers(filled)
    rng = random.Random(f"cut {name}")
    for n in range(by_length(5, 12, 100)):
        path.write_bytes(intact[: rng.randrange(len(intact)) if n else 0])
        found = verify_data(filled.index, Part(1, 1)) + filled.health()
        if not found:
            # damaged rows are passed over, then replaced
            assert repair_derived(filled.index) or name == ROWS
            assert answers(filled) == sound and name in DERIVED
        restored(filled, files)
    assert answers(filled) == sound
