from __future__ import annotations

import pytest

from ragstream_core.errors import UnknownProject
from ragstream_core.index.derived import inspect, pending
from ragstream_core.ingestion.ingestion_config import IngestionConfig


@pytest.fixture
def quiet(bench):
    """A bench whose files are long past the racy window."""
    bench.write("a.md", "text")
    bench.write("b.md", b"\xff\xff")
    bench.run()
    later = bench.manager(clock=lambda: __import__("time").time_ns() + 10**10)
    later.run(bench.project, IngestionConfig())
    assert bench.pending() is None
    return bench


def test_nothing_changed_is_a_no_op_that_writes_nothing(quiet):
    before = {p.name: p.stat() for p in quiet.index.rglob("*")}
    assert quiet.pending() is None
    assert {p.name: p.stat() for p in quiet.index.rglob("*")} == before


def test_idle_stats_tell_what_is_live(quiet):
    found = inspect(quiet.index, quiet.docs, scan_fp=IngestionConfig().scan_fp)
    stats = found.idle_stats("demo", seconds=0.1).to_json()
    assert (stats["generation"], stats["committed"]) == (1, False)
    assert stats["files"]["unchanged"] == stats["documents"] == stats["files"]["skipped"] == 1
    assert stats["chunks"] == {"embedded": 0, "reused": 0, "live": 1}
    assert stats["digest"] == quiet.view().digest


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.write("a.md", "text", mtime=5),
        lambda b: b.write("new.md", "x"),
        lambda b: (b.docs / "a.md").unlink(),
        lambda b: (b.docs / "a.md").rename(b.docs / "c.md"),
        lambda b: (b.docs / "a.md").chmod(0o600),
        lambda b: (b.index / "file_manifest.json").unlink(),
        lambda b: (b.index / "lexical-latest" / "arrays.bin").write_bytes(b"{}\n"),
        lambda b: (b.index / "catalog.sqlite").unlink(),
        lambda b: (b.index / "catalog.sqlite").write_bytes(b"garbage" * 999),
    ],
)
def test_every_difference_is_pending(quiet, change):
    change(quiet)
    assert quiet.pending() is not None


def test_other_settings_are_pending(quiet):
    for other in ({"profile": "sentence_400"}, {"max_text_bytes": 5}, {"embedding": "x"}):
        assert quiet.pending(**other).reason == "settings changed"


def test_what_is_no_document_is_no_reason(quiet):
    quiet.write("c.png", "x")
    (quiet.docs / "link.md").symlink_to(quiet.docs / "a.md")
    assert quiet.pending() is None


def test_never_ingested(bench):
    assert bench.pending().reason == "never ingested"
    with pytest.raises(UnknownProject):
        pending(bench.index, bench.root / "none", scan_fp="")
    assert not bench.index.exists()


def test_derived_files_that_are_behind_are_healed_by_the_next_run(quiet):
    (quiet.index / "file_manifest.json").unlink()
    (quiet.index / "lexical-latest" / "arrays.bin").unlink()
    stats = quiet.run()
    assert not stats.committed
    assert (quiet.index / "file_manifest.json").exists()
    assert (quiet.index / "lexical-latest" / "arrays.bin").exists()
