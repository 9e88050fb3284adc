"""Which class speaks to which kind of place; each library is imported when it is first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ragstream_core.remote.address import Address
from ragstream_core.remote.source import Source


@contextlib.contextmanager
def opened(address: Address, work: Path, *, max_bytes: int) -> Iterator[Source]:
    """Open a place; close it at the end.

    Args:
        address: Of it.
        work: A folder that it may use meanwhile; it is gone afterwards.
        max_bytes: Most bytes that may be written there.

    Raises:
        UsageError: A program or library for it is not installed.
        Refused: It does not let us in.
        OperationFailed: It does not answer.
    """
    source = _source(address, work, max_bytes)
    try:
        yield source
    finally:
        source.close()


def _source(address: Address, work: Path, max_bytes: int) -> Source:
    if address.kind == "git":
        from ragstream_core.remote.git import GitRepository

        return GitRepository(address, work, max_bytes=max_bytes)
    if address.kind == "https":
        from ragstream_core.remote.web import WebFiles

        return WebFiles(address)
    if address.kind == "sftp":
        from ragstream_core.remote.sftp import SftpFolder

        return SftpFolder(address)
    from ragstream_core.remote.object_store import ObjectStore

    return ObjectStore(address)
