"""A published index: its files in blocks named by their digest, one manifest, one pointer.

``blocks/ab/abcd…`` holds a block, compressed; ``manifests/DIGEST.json`` names the blocks of every
file; ``newest`` holds the digest of one manifest. Blocks are written before the manifest that names
them and the manifest before the pointer, and none of the first two ever changes: whoever reads
follows the pointer to one whole state. Every byte is checked against the digest that named it.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as _model_validator

from ragstream_core.errors import IntegrityError, RunCommand, UsageError
from ragstream_core.remote.depot import Depot

# A commit changes pages of SQLite here and there: small blocks, and little of the old is sent.
BLOCK_BYTES = 1 << 15
POINTER = "newest"
FOLDERS = BLOCKS, MANIFESTS, PUBLISHERS = "blocks", "manifests", "publishers"

# All that lies at the top of a place; the last one had marks, once.
ENTRIES = frozenset({POINTER, *FOLDERS, "pruning"})
MAX_MANIFEST_BYTES = 1 << 28
_MAX_STORED = BLOCK_BYTES + 1_024  # bytes that do not compress grow by a few
_MOST_POINTER = 100
_LEVEL = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[
    str, StringConstraints(pattern=r"^(catalog\.sqlite|vectors-[0-9a-f]{64}-\d{1,9}\.f32)$")
]


class PublishedFile(BaseModel):
    """One file of an index."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: FileName
    size: int = Field(ge=0, le=1 << 43)
    blocks: tuple[Digest, ...] = Field(strict=False)

    @_model_validator(mode="after")
    def _as_long_as_its_blocks(self) -> Self:
        if len(self.blocks) != -(-self.size // BLOCK_BYTES):
            raise ValueError("the size does not fit the number of blocks")
        return self

    def length(self, n: int) -> int:
        """Return the bytes of the n-th block."""
        return min(BLOCK_BYTES, self.size - n * BLOCK_BYTES)


class Manifest(BaseModel):
    """A published state of an index; it never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    version: Literal[1] = 1
    project: str = Field(max_length=64)
    generation: int = Field(ge=1)
    digest: Digest
    embed_fp: Digest
    created: str = Field(max_length=64)  # when the generation was committed, ISO 8601
    previous: Digest | Literal[""] = ""  # the manifest that was published before it
    files: tuple[PublishedFile, ...] = Field(strict=False)

    @_model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({file.name for file in self.files}) != len(self.files):
            raise ValueError("a file comes twice")
        return self

    def data(self) -> bytes:
        """Return the bytes that are stored and whose sha256 is the manifest's name."""
        return self.model_dump_json().encode()

    def blocks(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield (digest, file, offset, length) of every block."""
        for file in self.files:
            for n, digest in enumerate(file.blocks):
                yield digest, file.name, n * BLOCK_BYTES, file.length(n)


def digest_of(data: bytes) -> str:
    """Return the name of bytes: their sha256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def block_name(digest: str) -> str:
    """Return where a block lies in a depot."""
    return f"{BLOCKS}/{digest[:2]}/{digest}"


def manifest_name(digest: str) -> str:
    """Return where a manifest lies in a depot."""
    return f"{MANIFESTS}/{digest}.json"


def publisher_name(digest: str) -> str:
    """Return where it is noted who published a manifest."""
    return f"{PUBLISHERS}/{digest}"


def split(path: Path) -> PublishedFile:
    """Return a file as it would be published; reads all of it."""
    digests, size = [], 0
    with path.open("rb") as handle:
        while block := handle.read(BLOCK_BYTES):
            digests.append(digest_of(block))
            size += len(block)
    return PublishedFile(name=path.name, size=size, blocks=tuple(digests))


def packed(block: bytes) -> bytes:
    """Return a block as it is stored."""
    return zlib.compress(block, _LEVEL)


def unpacked(stored: bytes | None, digest: str, length: int) -> bytes | None:
    """Return the block of a stored object; None if it is not the one that its name says."""
    if stored is None:
        return None
    unzip = zlib.decompressobj()
    try:
        block = unzip.decompress(stored, length + 1)
    except zlib.error:
        return None
    return block if len(block) == length and digest_of(block) == digest else None


def read_block(depot: Depot, digest: str, length: int) -> bytes | None:
    """Return a block of a depot; None if it is missing or damaged."""
    return unpacked(depot.read(block_name(digest), most=_MAX_STORED), digest, length)


def newest(depot: Depot) -> str:
    """Return the digest of the manifest that a depot points to; "" for none."""
    data = depot.read(POINTER, most=_MOST_POINTER)
    if data is None:
        return ""
    text = data.decode("ascii", "replace")
    if _DIGEST.fullmatch(text[:-1]) is None or text[-1:] != "\n":
        raise _damaged(depot, POINTER)
    return text[:-1]


def point_to(depot: Depot, digest: str) -> None:
    """Let a depot point to a manifest that is there, whatever it points to now."""
    while not depot.exchange(POINTER, _pointer(digest), depot.read(POINTER, most=_MOST_POINTER)):
        pass  # another machine exchanged it meanwhile


def remove_while(depot: Depot, digest: str, names: Iterable[str]) -> bool:
    """Remove objects if a depot still points to a manifest; return whether it does."""
    return depot.remove(names, if_still=(POINTER, _pointer(digest)))


def point_on(depot: Depot, digest: str, before: str) -> bool:
    """Let a depot point to a manifest that is there, if it still points to another one."""
    return depot.exchange(POINTER, _pointer(digest), _pointer(before) if before else None)


def note_publisher(depot: Depot, digest: str, note: str) -> None:
    """Note who publishes a manifest, for the message of another machine that does so too."""
    depot.write(publisher_name(digest), note.encode())


def publisher(depot: Depot, digest: str) -> str:
    """Return who published a manifest and when; empty if that is not noted."""
    note = depot.read(publisher_name(digest), most=300) or b""
    return "".join(c for c in note.decode("utf-8", "replace") if c.isprintable())


def _pointer(digest: str) -> bytes:
    return f"{digest}\n".encode()


def read_manifest(depot: Depot, digest: str) -> Manifest | None:
    """Return a manifest of a depot; None if it is gone."""
    data = depot.read(manifest_name(digest), most=MAX_MANIFEST_BYTES)
    if data is None:
        return None
    if digest_of(data) != digest:
        raise _damaged(depot, manifest_name(digest))
    return parsed(data, f"{depot.url}: {manifest_name(digest)}")


def parsed(data: bytes, what: str) -> Manifest:
    """Return the manifest that checked bytes hold."""
    try:
        return Manifest.model_validate_json(data)
    except ValidationError:
        raise UsageError(
            f"{what} is no publication that this version can read",
            hint="install the version of RAGstream that published it, or a newer one",
        ) from None


def _damaged(depot: Depot, name: str) -> IntegrityError:
    return IntegrityError(
        f"{depot.url}: {name} is damaged",
        hint=("where it is made: ", RunCommand("index publish", "PROJECT PLACE --force")),
    )
