"""Ingests in forked children that are killed or hindered, and what must hold afterwards.

The parent has imported everything, so a child costs milliseconds. ``strace`` attaches to the child
before it starts, so that its n-th system call is the n-th of the ingest.
"""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ragstream_core.index.check
import ragstream_core.index.vectors  # noqa: F401  # imported before the fork
from ragstream_core.errors import ProjectLocked, RagstreamError
from ragstream_core.index import derived
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.check import Part, verify_data
from ragstream_core.index.remove import leftovers
from ragstream_core.index.schema import reading
from ragstream_core.index.view import forget_views
from ragstream_core.text.bm25 import build_lexical
from tests.conftest import IngestBench
from tests.lengths import FULL

EFFECTS = ("signal=KILL", "error=ENOSPC", "error=EIO")
DONE, CLEAN, LOCKED, CRASH = 0, 3, 4, 99
CALLS = ("pwrite64", "write", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "mkdir")
STRACE = shutil.which("strace")


MISSING = "strace is not installed or may not attach: NO system call is swept"


def need_strace():
    """Skip the test with a warning where system calls cannot be hindered."""
    if not can_trace():
        warnings.warn(MISSING, stacklevel=2)
        pytest.skip(MISSING)


def can_trace():
    """Whether strace is here and may attach to a child of this process."""
    if STRACE is None:
        return False
    child = Child(lambda: None)
    try:
        return child.trace("trace=fsync") is not None
    finally:
        child.go()
        child.wait()


class Child:
    """A forked process that runs a function once it is told to.

    Its exit status says how it went: done, a clean refusal, locked, or a crash; what it had to
    say is in ``said``.
    """

    def __init__(self, task, said: Path | None = None, *, clean=(RagstreamError,)):
        self.said = said
        self.clean = clean
        self.tracer = None
        self.trace_file = None
        sys.stdout.flush()
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = CRASH
            try:
                status = self._live(task, reader)
            finally:  # a signal may come at any line: never go on as a second test runner
                os._exit(status)
        os.close(reader)

    def _live(self, task, reader):
        os.setpgid(0, 0)
        os.close(self._writer)
        _allow_tracing()
        try:
            os.read(reader, 1)
            task()
            return DONE
        except ProjectLocked as error:
            return self._tell(LOCKED, str(error))
        except self.clean as error:
            return self._tell(CLEAN, str(error))
        except BaseException:
            return self._tell(CRASH, traceback.format_exc())

    def _tell(self, code, text):
        if self.said is not None:
            with contextlib.suppress(OSError):
                self.said.write_text(text)
        return code

    def trace(self, *expressions, out=os.devnull, options=(), follow=True):
        """Attach strace with ``-e`` expressions; return the tracer, None where it may not.

        ``follow`` also traces what this process starts, threads too.
        """
        args = [STRACE, *(["-f"] if follow else []), "-qq", "-o", str(out), *options]
        for expression in expressions:
            args += ["-e", expression]
        self.tracer = subprocess.Popen(
            [*args, "-p", str(self.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        status = Path(f"/proc/{self.pid}/status")
        while "TracerPid:\t0" in status.read_text():
            if self.tracer.poll() is not None:
                self.tracer.stderr.close()
                return None
            time.sleep(0.0005)
        return self.tracer

    def go(self):
        os.write(self._writer, b"x")

    def kill(self, number=signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self):
        """Return the exit status, negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self._writer)
        if self.tracer is not None:
            self.tracer.wait()
            self.tracer.stderr.close()
        return os.waitstatus_to_exitcode(status)

    def words(self):
        return self.said.read_text() if self.said is not None and self.said.exists() else ""


def hindered(
    task, call: str, effect: str, n: int, folder: Path, *, clean=(RagstreamError, OSError)
) -> bool:
    """Let the n-th call of one kind of a task die or fail; return whether there was an n-th."""
    child, out = Child(task, folder / "said", clean=clean), folder / "trace"
    child.trace(f"trace={call}", f"inject={call}:{effect}:when={n}", out=out)
    child.go()
    assert child.wait() != CRASH, child.words()
    return "(INJECTED)" in out.read_text() or "killed by SIGKILL" in out.read_text()


class Killer:
    """Kills tasks at random moments of the time that they take, which it learns.

    Args:
        seed: Of the moments.
        span_s: How long a task takes, roughly.
        most_s: How late it may strike.
    """

    def __init__(self, seed: int, span_s: float = 0.05, most_s: float = 0.5):
        self.random = random.Random(seed)
        self.span_s, self.most_s = span_s, most_s
        self.struck = self.rounds = 0

    def times(self, count: int) -> Iterator[int]:
        """Yield 0, 1, … ``count`` times; in a short form on until one was killed in time."""
        while self.rounds < count or not (self.struck or self.rounds > 9 * count):
            yield self.rounds
            self.rounds += 1

    def strike(self, child: Child, *, go: bool = True) -> bool:
        """Let a child go and kill it; return whether it was killed before it was done."""
        if go:
            child.go()
        began = time.perf_counter()
        time.sleep(self.random.random() * self.span_s)
        child.kill()
        status = child.wait()
        if status == DONE:  # too late: aim earlier
            self.span_s *= 0.9
            return False
        assert status in (-signal.SIGKILL, CLEAN), child.words()
        took = time.perf_counter() - began
        self.span_s = min(self.most_s, max(self.span_s, 1.05 * took))
        self.struck += 1
        return True

    def line(self) -> str:
        """Say how many were killed in time; in the full form of many of them."""
        assert self.struck > (self.rounds // 3 if FULL else 0), (self.struck, self.rounds)
        return f"{self.struck} of {self.rounds} killed"


def _allow_tracing():
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # PR_SET_PTRACER, any process


class Ground:
    """Documents, an index before a change, and the digests before and after it.

    Args:
        root: A folder of its own.
        before: Called with a bench: makes the documents and the index as they are before.
        change: Called with the bench: changes documents.
        settings: Of the ingest that is hindered.
    """

    def __init__(self, root: Path, before, change, **settings):
        self.root = root
        self.settings = settings
        self.bench = IngestBench(root / "origin")
        before(self.bench)
        self.old = self.bench.view().digest if self.bench.index.exists() else ""
        change(self.bench)
        self.template = root / "template"
        shutil.copytree(self.bench.root / "index", self.template) if self.old else (
            self.template.mkdir()
        )
        self.bench.run(**settings)
        self.new = self.bench.view().digest
        self.count = 0

    def copy(self) -> IngestBench:
        """Return a bench with the index as it was before and the documents as they are now."""
        self.count += 1
        other = IngestBench(
            self.root / f"n{self.count}", docs=self.bench.doc_root, embedder=self.bench.embedder
        )
        shutil.copytree(self.template, other.root / "index")
        return other

    def child(self, other: IngestBench) -> Child:
        return Child(lambda: _ingest(other, self.settings), other.root / "said")


def _ingest(bench, settings):
    stats = bench.run(**settings)
    if any("Traceback" in warning for warning in stats.warnings):
        raise AssertionError(stats.warnings)


class Tally:
    """What the runs came to; the figures that the tests report."""

    def __init__(self):
        self.points = self.hit = self.old = self.new = self.refused = 0

    def line(self):
        return (
            f"{self.points} runs, {self.hit} hit: readers saw the old state {self.old}, the new "
            f"one {self.new} times, {self.refused} clean refusals; 0 mixed, 0 orphan, 0 missing"
        )


def require_old_or_new(bench, ground, tally):
    """A reader sees one whole generation: digest, every text, every vector of its own text."""
    forget_views()
    if not (bench.index / "catalog.sqlite").exists() or not _has_generation(bench):
        assert ground.old == ""
        tally.old += 1
        return
    view = bench.view()
    assert view.digest in (ground.old, ground.new)
    tally.old += view.digest == ground.old
    tally.new += view.digest != ground.old
    require_own_vectors(bench, view)
    require_own_terms(bench, view)


def _has_generation(bench):
    from ragstream_core.errors import GenerationGone

    try:
        bench.view()
    except GenerationGone:
        return False
    return True


def require_own_vectors(bench, view):
    """Each chunk's vector is, bit for bit, the one its text has."""
    chunks = view.chunks(view.chunk_ids)
    wanted = bench.embedder.embed_documents([chunk.snippet for chunk in chunks])
    assert np.array_equal(wanted, view.vectors)


def require_own_terms(bench, view):
    """The term arrays are those of the live rows, built at once."""
    with reading(bench.index) as db:
        built = build_lexical(derived.terms_of(db, bench.index, view.generation))
    assert view.lexical.packed() == built.packed()


def require_healed(bench, digest, **settings):
    """The next run completes: from-scratch digest, nothing missing, orphaned or left over."""
    bench.run(**settings)
    assert bench.health() == []
    assert verify_data(bench.index, Part(1, 1)) == []
    view = bench.view()
    assert view.digest == digest
    require_own_vectors(bench, view)
    require_own_terms(bench, view)
    with open_catalog(bench.index) as catalog:
        assert leftovers(catalog.db, bench.index) == []
        assert orphans(catalog.db) == (0, 0, 0)
    assert not list(bench.index.rglob("*.tmp")) and not list(bench.index.glob("*-journal"))


def orphans(db: sqlite3.Connection):
    """Texts no chunk names, vectors without a text, chunks without a file of their generations."""
    queries = (
        "SELECT count(*) FROM texts t WHERE NOT EXISTS "
        "(SELECT 1 FROM chunks c WHERE c.text_hash = t.text_hash)",
        "SELECT count(*) FROM vectors v WHERE NOT EXISTS "
        "(SELECT 1 FROM texts t WHERE t.text_hash = v.text_hash)",
        "SELECT count(*) FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM files f WHERE "
        "f.path = c.path AND f.sha256 = c.sha256 AND f.from_gen = c.from_gen "
        "AND f.to_gen IS c.to_gen)",
    )
    return tuple(db.execute(query).fetchone()[0] for query in queries)
