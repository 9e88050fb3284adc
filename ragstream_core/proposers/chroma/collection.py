"""`Collection`: a sealed Chroma collection derived from an index, brought up to it under a lock.

One child builds, another verifies, then CURRENT names the folder. Too few rows that find themselves
lead to one build with a denser graph and to nothing worse. After a kill, readers have the old
collection and the next call starts again.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, IntegrityError, StoreFailed
from ragstream_core.index.derived import MANIFEST_NAME
from ragstream_core.index.look import is_as_it_was
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import check_hint, label, no_generation, project_lock, read
from ragstream_core.platform import extras
from ragstream_core.platform.disk import on_disk
from ragstream_core.platform.files import make_private_dir, publish_dir, remove_path, replace_bytes
from ragstream_core.proposers.chroma import seal
from ragstream_core.proposers.chroma.names import collection_name
from ragstream_core.proposers.chroma.process import Built, ChromaProcess, Job, Verified
from ragstream_core.proposers.chroma.seal import STAGING, Receipt, copy_checked, copy_of, sweep
from ragstream_core.proposers.chroma.vector_store_chroma import DENSE, STANDARD
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation

JOB_S = 300.0

# A child may take five minutes and a twentieth of a second a row.
ROW_S = 0.05
# With a smaller `self_recall` the graph is built once more, denser, and then sealed anyway.
ENOUGH = 0.99
SPARSE = "too few rows found themselves: built anew with a denser graph"


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What became of a collection."""

    receipt: Receipt
    folder: Path  # where it lies; plain chromadb opens it
    made: str  # ``unchanged``, ``updated`` or ``rebuilt``
    reason: str = ""
    added: int = 0
    deleted: int = 0
    verified: int = 0  # vectors that were compared with the catalog's
    seconds: float = 0.0


def _why(collection: Collection, newest: Generation) -> tuple[bool, str]:
    """Return whether the current collection is of no use, and why there is anything to do."""
    now = seal.current_receipt(collection.chroma_dir)
    if now is None:
        return True, "there is none"
    if now.embed_fp != newest.embed_fp:
        return True, f"made by model {now.embed_fp[:12]}, the index by {newest.embed_fp[:12]}"
    if _minor(now.chromadb) != _minor(chromadb_version()):
        return True, f"written by chromadb {now.chromadb}, this is {chromadb_version()}"
    if now.dead > now.rows:
        return True, f"{now.dead} dead rows for {now.rows} live ones"
    if now.digest != newest.digest or now.generation != newest.n:
        return False, f"it is that of generation {now.generation}, the newest is {newest.n}"
    if now.manifest != sha256_hex(_manifest(collection)):
        return False, "the manifest is another one"
    return False, ""


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def chromadb_version() -> str:
    """Return the version of chromadb that is installed; imports nothing of it."""
    extras.require("the vector store chroma", "chroma")

    return metadata.version("chromadb")


def _manifest(collection: Collection) -> bytes:
    try:
        return (collection.index_dir / MANIFEST_NAME).read_bytes()
    except OSError:
        return b""


class CollectionPublisher:
    """One call of `Collection.sync`, under its lock."""

    def __init__(self, collection: Collection, newest: Generation) -> None:
        self.of = collection
        self.newest = newest
        self.old = seal.current(collection.chroma_dir)
        self.receipt = now = seal.current_receipt(collection.chroma_dir)
        mapped = now is not None and now.project == collection.project  # tools know it by its name
        self.name = now.collection if now and mapped else collection_name(collection.project)
        self.patience = JOB_S + ROW_S * newest.counts.get("chunks", 0)

    def run(self, *, rebuild: bool, verify_all: bool) -> CollectionReport:
        """Do what is to be done; see `Collection.sync`."""
        now = self.receipt
        useless, cause = _why(self.of, self.newest)
        reason = (cause if useless else "") or ("asked for" if rebuild else "")
        if now and self.old and not reason:
            try:
                if not cause:
                    compared = self.look(self.old, vectors=verify_all)
                    return CollectionReport(now, self.old, "unchanged", verified=compared)
                if updated := self._make(now, now.graph):
                    return updated
                reason = SPARSE
            except (StoreFailed, IntegrityError) as error:
                reason = error.message
        graphs = (DENSE,) if reason == SPARSE else (STANDARD, DENSE)
        made = next(made for graph in graphs if (made := self._make(None, graph)))
        return replace(made, made="rebuilt", reason=reason)

    def look(self, folder: Path, *, vectors: bool) -> int:
        """Compare a sealed folder with its receipt, and ask it for every vector if wanted."""
        if vectors:
            return self._verified(folder)["vectors"]
        with copy_of(folder):
            return 0

    def _make(self, base: Receipt | None, graph: str) -> CollectionReport | None:
        """Make, verify and seal one; None if a denser graph is to be tried instead."""
        with self._staging(base) as staging:
            built = self._build(staging, graph)
            manifest = _manifest(self.of)
            replace_bytes(staging / MANIFEST_NAME, manifest)
            receipt = seal.write_receipt(
                staging, replace(self._receipt(built, base, sha256_hex(manifest)), graph=graph)
            )
            found = self._verified(staging)
            if found["self_recall"] < ENOUGH and graph != DENSE:
                return None
            receipt = seal.note_recall(staging, receipt, found["self_recall"])
            folder = self._name()
            publish_dir(staging, folder)
        seal.point_to(self.of.chroma_dir, folder)
        return CollectionReport(
            receipt,
            folder,
            "updated",
            added=built["added"],
            deleted=built["deleted"],
            verified=found["vectors"],
        )

    @contextlib.contextmanager
    def _staging(self, base: Receipt | None) -> Iterator[Path]:
        staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=self.of.chroma_dir))
        try:
            if base is not None and self.old is not None:
                copy_checked(self.old, staging)
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _build(self, staging: Path, graph: str) -> Built:
        with contextlib.closing(ChromaProcess()) as child:
            built: Built = child.ask("build", self._job(staging, graph), within_s=self.patience)
        return built

    def _verified(self, folder: Path) -> Verified:
        """Check a copy, so that what is sealed is what the first child wrote."""
        with copy_of(folder) as copy, contextlib.closing(ChromaProcess()) as child:
            found: Verified = child.ask("verify", self._job(copy, STANDARD), within_s=self.patience)
        if found["faults"]:
            raise IntegrityError(
                f"the Chroma collection of {label(self.of.index_dir)}: "
                f"{'; '.join(found['faults'][:3])}",
                hint=check_hint(self.of.index_dir),
            )
        return found

    def _job(self, folder: Path, graph: str) -> Job:
        return {
            "folder": str(folder.absolute()),
            "name": self.name,
            "metadata": {
                "project": self.of.project,
                "embed_fp": self.newest.embed_fp,
                **({"model": self.of.model} if self.of.model else {}),
            },
            "graph": graph,
            "index_dir": str(self.of.index_dir.absolute()),
            "project": self.of.project,
            "generation": self.newest.n,
        }

    def _receipt(self, built: Built, base: Receipt | None, manifest: str) -> Receipt:
        return Receipt(
            self.of.project,
            self.name,
            self.newest.n,
            self.newest.digest,
            self.newest.embed_fp,
            self.of.model,
            built["dimension"],
            built["rows"],
            (base.dead if base else 0) + built["deleted"],
            built["chromadb"],
            manifest,
        )

    def _name(self) -> Path:
        """Return a new name: generation, digest, and a counter if both stay."""
        stem = f"{seal.SEALED}{self.newest.n}-{self.newest.digest[:8]}"
        names = {path.name for path in self.of.chroma_dir.iterdir()}
        tries = (stem if n == 0 else f"{stem}-{n}" for n in range(len(names) + 1))
        return self.of.chroma_dir / next(name for name in tries if name not in names)


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection and the index it is derived from."""

    chroma_dir: Path  # ``data/chroma_db/<project>``, or ``data/history/vectors/history_main``
    index_dir: Path  # ``data/index/<project>``, or ``data/history/index``
    project: str
    model: str = ""

    def sync(self, *, rebuild: bool = False, verify_all: bool = False) -> CollectionReport:
        """Bring the collection up to the newest generation."""
        began = time.perf_counter()
        with project_lock(make_private_dir(self.chroma_dir)):
            newest = self._newest()
            with on_disk(self.chroma_dir):
                report = CollectionPublisher(self, newest).run(
                    rebuild=rebuild, verify_all=verify_all
                )
                sweep(self.chroma_dir, report.folder)
                self._require_unerased(newest, report)
        return replace(report, seconds=time.perf_counter() - began)

    def _require_unerased(self, newest: Generation, report: CollectionReport) -> None:
        """Remove a collection that was made of what was erased meanwhile."""
        if is_as_it_was(self.index_dir, newest):
            return
        (self.chroma_dir / seal.CURRENT).unlink(missing_ok=True)
        remove_path(report.folder)
        raise GenerationGone(
            f"{label(self.index_dir)}: generation {newest.n} was changed meanwhile",
            hint=check_hint(self.index_dir),
        )

    def faults(self, *, vectors: bool = False) -> list[str]:
        """Return what tells the sealed collection from the newest generation, for people.

        A collection is sealed after every row was compared; if its generation and its bytes are
        the same, it still is that of the index.
        """
        newest, folder = self._newest(), seal.current(self.chroma_dir)
        behind = _why(self, newest)[1]
        if behind or folder is None:
            return [behind or "there is none"]
        try:
            CollectionPublisher(self, newest).look(folder, vectors=vectors)
        except (IntegrityError, StoreFailed) as error:
            return [error.message]
        return []

    def _newest(self) -> Generation:
        newest = read(self.index_dir, latest_generation)
        if newest is None:
            raise no_generation(self.index_dir)
        return newest
