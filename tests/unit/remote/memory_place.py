"""A place in memory that can break at any call, and a mirror of it."""

import contextlib

from ragstream_core.errors import FileChanging, OperationFailed
from ragstream_core.records.identity import sha256_hex
from ragstream_core.remote.mirror import MirrorRules, mirror
from ragstream_core.remote.source import RemoteFile, TransferBroken

URL = "s3://bucket/docs"
BLOCK = 3


class Dies(Exception):
    """Stands for a kill: nobody catches it."""


class Place:
    """A place.

    Attributes:
        files: Path → bytes.
        calls: Steps so far: a file listed, a block read; at ``dies_at`` the process dies.
        broken: Paths whose transfer breaks.
        changed: Paths that are another version when they are fetched.
        cut: Number of files after which the listing breaks off; None: never.
    """

    parallel = 3

    def __init__(self, files, *, dies_at=None, state=""):
        self.files, self.dies_at, self.calls, self.state = files, dies_at, 0, state
        self.broken, self.changed, self.cut, self.faults, self.read = set(), set(), None, {}, []

    def _step(self):
        self.calls += 1
        if self.calls == self.dies_at:
            raise Dies

    def revision(self):
        return self.state

    def files_listed(self):
        for number, (path, data) in enumerate(sorted(self.files.items())):
            self._step()
            if number == self.cut:
                raise OperationFailed("the listing broke off")
            version = sha256_hex(data.hex() + path)
            fault = self.faults.get(path, "")
            yield RemoteFile(path, len(data), version, 1_700_000_000_000_000_000, path, fault)

    def blocks(self, file):
        self.read.append(file.path)
        if file.handle in self.broken:
            raise TransferBroken("the connection broke")
        if file.handle in self.changed:
            raise FileChanging("it changed since it was listed")
        data = self.files[file.handle]
        for at in range(0, len(data), BLOCK):
            self._step()
            yield data[at : at + BLOCK]

    def close(self):
        pass


class _Source:
    """A place as a mirror sees it."""

    def __init__(self, place):
        self.place, self.parallel = place, place.parallel
        self.revision, self.blocks, self.close = place.revision, place.blocks, place.close
        self.files = place.files_listed


def rules(left_out=lambda paths: {}, **more):
    limits = {"max_files": 1000, "max_file_bytes": 10_000, "max_bytes": 100_000, **more}
    return MirrorRules(left_out, "rules", **limits)


def mirrored(place, home, *, chosen=None, url=URL, **more):
    return mirror(_Source(place), home, url=url, rules=chosen or rules(), **more)


@contextlib.contextmanager
def dying():
    """Let a place die without an error of the test."""
    with contextlib.suppress(Dies):
        yield
