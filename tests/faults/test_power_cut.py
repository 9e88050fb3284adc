"""A power cut without hardware: every write since the last fsync is dropped from a real trace.

``strace`` records one ingest with its data. For a cut after each system call two disks are rebuilt:
names and bytes only as far as they were synced, and all names but only synced bytes (a rename that
overtook its data). From both, a reader must see the old or the new state and the next run heal it.
"""

import random
import re
import shutil
from pathlib import Path

import pytest

from ragstream_core.index import derived, vectors
from ragstream_core.ingestion import staging
from tests.conftest import IngestBench
from tests.faults.harness import (
    DONE,
    Ground,
    Tally,
    need_strace,
    require_healed,
    require_old_or_new,
)
from tests.faults.test_sweep import everything_changes, three_generations
from tests.lengths import by_length

CUTS = by_length(9, 25, 10_000)
_CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<args>.*)\) += (?P<result>-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FD = re.compile(r"^(?P<number>\d+)<(?P<path>[^>]*)>")
_CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,unlink,close"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    need_strace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BATCH_TEXTS", 4)
        patch.setattr(vectors, "COMPACT_MIN_ROWS", 4)
        patch.setattr(derived, "WHOLE_BELOW", 1)
        patch.setattr(derived, "MOST_CHANGED", 1.0)
        ground = Ground(
            tmp_path_factory.mktemp("power"), three_generations, everything_changes,
            delete_replaced=True,
        )  # fmt: skip
        bench = ground.copy()
        out = bench.root / "trace"
        child = ground.child(bench)
        child.trace(f"trace={_CALLS}", out=out, options=("-y", "-xx", "-s", "4000000"))
        child.go()
        assert child.wait() == DONE, child.words()
        yield ground, events(out.read_text(), bench.root / "index"), bench.root / "index"


def events(text, root):
    """(call, paths, data, offset) of every successful call below a folder."""
    found = []
    for line in text.splitlines():
        match = _CALL.match(line)
        if match is None or int(match["result"]) < 0:
            continue
        name, args = match["name"], match["args"]
        strings = [bytes.fromhex(s.replace("\\x", "")) for s in _TEXT.findall(args)]
        fd = _FD.match(args)
        paths = [_path(fd["path"])] if fd else []
        if name == "openat":
            paths, strings = [strings[0].decode()], [args.encode()]
        elif name in ("rename", "unlink"):
            paths, strings = [s.decode() for s in strings], []
        if paths and all(Path(p).is_relative_to(root) for p in paths):
            offset = int(args.rpartition(", ")[2]) if name in ("pwrite64", "ftruncate") else 0
            handle = fd["number"] if fd else match["result"]
            found.append((name, paths, strings[0] if strings else b"", offset, handle))
    return found


def _path(shown):
    decoded = re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), shown)
    return decoded.removesuffix(" (deleted)")


class Disk:
    """Files as they are in memory and as they are on the platter."""

    def __init__(self, template, root):
        self.files, self.seen, self.synced = [], {}, {}
        self.at = {}
        for path in sorted(template.rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                self.files.append([bytearray(data), data])
                name = str(root / path.relative_to(template))
                self.seen[name] = self.synced[name] = len(self.files) - 1

    def apply(self, event):
        name, paths, data, offset, handle = event
        path = paths[0]
        if name == "openat":
            if path not in self.seen and b"O_CREAT" in data:
                self.files.append([bytearray(), b""])
                self.seen[path] = len(self.files) - 1
            if b"O_TRUNC" in data:
                self.files[self.seen[path]][0].clear()
            self.at[handle] = 0
        elif name in ("write", "pwrite64", "ftruncate") and path not in self.seen:
            pass  # a scratch file that has no name: after a power cut it is gone in any case
        elif name == "write":
            self._write(path, data, self.at.get(handle, 0))
            self.at[handle] = self.at.get(handle, 0) + len(data)
        elif name == "pwrite64":
            self._write(path, data, offset)
        elif name == "ftruncate":
            held = self.files[self.seen[path]][0]
            del held[offset:]
            held.extend(bytes(offset - len(held)))
        elif name in ("fsync", "fdatasync"):
            self._sync(path)
        elif name == "rename":
            self.seen[paths[1]] = self.seen.pop(path)
        elif name == "unlink":
            del self.seen[path]

    def _write(self, path, data, offset):
        held = self.files[self.seen[path]][0]
        held.extend(bytes(max(0, offset - len(held))))
        held[offset : offset + len(data)] = data

    def _sync(self, path):
        if path in self.seen:
            entry = self.files[self.seen[path]]
            entry[1] = bytes(entry[0])
            return
        inside = {p for p in {*self.seen, *self.synced} if str(Path(p).parent) == path}
        for name in inside:
            if name in self.seen:
                self.synced[name] = self.seen[name]
            else:
                self.synced.pop(name, None)

    def rebuild(self, root, target, *, all_names):
        names = self.seen if all_names else self.synced
        for name, number in names.items():
            path = target / Path(name).relative_to(root)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.files[number][1])


def test_the_recorded_trace_rebuilds_the_disk_it_was_recorded_on(recorded):
    ground, calls, root = recorded
    disk = Disk(ground.template, root)
    for event in calls:
        disk.apply(event)
    there = {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    simulated = {name: bytes(disk.files[number][0]) for name, number in disk.seen.items()}
    assert set(simulated) == set(there)
    assert all(simulated[name] == there[name] for name in there)


@pytest.mark.sweep
@pytest.mark.parametrize("all_names", [False, True])
def test_what_was_not_synced_may_be_lost_at_any_call(recorded, tmp_path, all_names):
    ground, calls, root = recorded
    tally, rng = Tally(), random.Random(9)
    cuts = range(len(calls) + 1)
    chosen = set(cuts if len(cuts) <= CUTS else rng.sample(cuts, CUTS)) | {len(calls)}
    disk = Disk(ground.template, root)
    for at in cuts:
        if at:
            disk.apply(calls[at - 1])
        if at not in chosen:
            continue
        bench = IngestBench(
            tmp_path / f"n{at}", docs=ground.bench.doc_root, embedder=ground.bench.embedder
        )
        disk.rebuild(root, bench.root / "index", all_names=all_names)
        tally.points += 1
        require_old_or_new(bench, ground, tally)
        if at == len(calls):
            assert bench.view().digest == ground.new  # what was acknowledged is there
        require_healed(bench, ground.new, **ground.settings)
        shutil.rmtree(bench.root)
    print(f"\npower cut, all names {all_names}: {tally.line()}")
    assert tally.old and tally.new


def test_a_rename_comes_after_its_bytes_and_before_its_folder(recorded):
    """fsync(file) < rename < fsync(folder), for everything that is published by a rename."""
    _, calls, _ = recorded
    renames = [i for i, (name, *_) in enumerate(calls) if name == "rename"]
    assert len(renames) >= 2
    for i in renames:
        source, target = calls[i][1]
        before = [(n, p[0]) for n, p, *_ in calls[:i] if p[0] == source]
        assert before[-1][0] == "close" and ("fsync", source) in before
        written = max(k for k, (n, _) in enumerate(before) if n == "write")
        assert written < before.index(("fsync", source))
        after = [(n, p[0]) for n, p, *_ in calls[i + 1 :]]
        assert ("fsync", str(Path(target).parent)) in after


def test_vectors_are_on_the_disk_before_the_catalog_names_them(recorded):
    _, calls, _ = recorded
    dirty = set()
    for name, paths, *_ in calls:
        path = paths[0]
        if path.endswith(".f32"):
            dirty = dirty | {path} if name == "pwrite64" else dirty - {path}
        elif path.endswith("catalog.sqlite-journal") and name == "unlink":
            assert not dirty  # the commit
