"""`ragstream forget`: erase one file from everything that was made from it, in all generations.

The tombstone in the project's catalog is the durable mark: after a kill `ragstream index check`
names the file, and running the command again goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, Refused, RunCommand, UsageError, quoted
from ragstream_core.index import derived, remove
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.schema import CATALOG_NAME, publishing_copy
from ragstream_core.platform.files import sync_dir
from ragstream_core.proposers import kept
from ragstream_core.text.fingerprints import TextFingerprints
from ragstream_core.wiring import erasure, project_files, projects
from ragstream_core.wiring.debug_log import vars_files
from ragstream_core.wiring.ingestion import inspection
from ragstream_core.wiring.shared_vectors import forget_shared
from ragstream_core.wiring.text_copies import CopyEraser, token_vectors

if TYPE_CHECKING:
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.index.remove import Tombstone
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What erasing a file did; all zero where that was done already."""

    project: str
    path: str
    generations: int = 0
    chunks: int = 0  # chunk rows that went, of all generations
    texts: int = 0
    shared: int = 0  # how many texts other files have too: they stay
    # names below the data root of what was removed
    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # files of yours that hold the same words
    searched: int = 0


def forget(
    workspace: Workspace, project: str, path: str, *, delete: bool = False, exclude: bool = False
) -> ForgetReport:
    """Erase a file from the index and from everything that holds its text.

    Args:
        workspace: The data root.
        project: Its name.
        path: The file, as `status` and the manifest name it.
        delete: Delete the file itself if it still lies in the project's folder, which must be below
            the data root.
        exclude: Name the file in ``project.yaml``, so that it is not taken in again and can stay.

    Raises:
        UsageError: No generation ever held that path, or nothing of it can be excluded.
        Refused: The file still lies in the project's folder.
        ProjectLocked: Another process writes the project.
        IntegrityError: The catalog is damaged.
        OperationFailed: Something still holds the text; run it again.
    """
    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists():
        raise UsageError(
            f"project {project} has no index", hint=(RunCommand("index generations"), " lists them")
        )
    with open_catalog(index_dir) as catalog:
        path = remove.named(catalog.db, path)
        if not remove.is_known(catalog.db, path):
            if remove.was_erased(catalog.db, path):
                return ForgetReport(project, path)
            raise UsageError(
                f"no generation of {project} holds {path!r}",
                hint=("give the path as ", RunCommand("status", project), " writes it"),
            )
        if exclude:
            _exclude(workspace, project, path)
        _require_gone(workspace, project, path, delete=delete)
        done = erasure.erase(FileSubject(workspace, project, path, catalog))
    hidden, shared = done.hidden, len(done.hidden.hashes) - done.texts
    return ForgetReport(
        project, path, hidden.generations, hidden.chunks, done.texts, shared,
        done.removed, done.left, done.searched,
    )  # fmt: skip


def _require_gone(workspace: Workspace, project: str, path: str, *, delete: bool) -> None:
    if project not in workspace.projects():
        return
    documents = workspace.documents(project)
    try:
        folder, inside = documents.place(path)
    except FileNotFoundError:  # the label of a folder that the project no longer has
        return
    file = folder / inside
    if documents.in_place:
        _require_left_out(workspace, project, path, file)
        return
    if archive := documents.archive_of(path):
        if path in documents.scan().files:
            raise Refused(
                f"{folder / archive} still holds it; RAGstream changes no ZIP",
                hint="take it out of the ZIP, or unpack the ZIP and move that away",
            )
        return
    if not file.is_symlink() and not file.exists():
        return
    if not delete:
        raise Refused(
            f"{file} still lies there; the next ingest would take it in again",
            hint=(
                "move it away, or ",
                RunCommand("forget", quoted(path, "-p", project, "--delete")),
            ),
        )
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise Refused(f"{file} leads outside the project", hint="remove it yourself")
    file.unlink()
    sync_dir(file.parent)


def _exclude(workspace: Workspace, project: str, path: str) -> None:
    if not projects.is_in_place(workspace.layout, project):
        raise UsageError(
            f"{project} does not read documents in place; nothing can be excluded for it alone",
            hint=("move the file away, or ", AddOption("--delete")),
        )
    project_files.exclude(workspace.layout, project, path)
    documents = workspace.documents(project)
    if documents.is_mirrored(path):  # a copy of ours; the next sync leaves it where it is
        documents.location(path).unlink(missing_ok=True)


def _require_left_out(workspace: Workspace, project: str, path: str, file: Path) -> None:
    """Refuse to erase a document in place that the next ingest would take in again.

    A folder that is missing may come back with the document, so only the globs can be trusted.
    """
    found, documents = inspection(workspace, project)
    lies_there = path in found.found.files
    away = any(path.startswith(root.prefix) for root, _ in documents.absent(found.found))
    if not lies_there and not (away and not documents.excludes(path)):
        return
    raise Refused(
        f"{file} still lies there and is yours: RAGstream deletes nothing in place"
        if lies_there
        else f"{file} may come back with its folder: the next ingest may find the document again",
        hint=(
            "delete it yourself, or leave it out for good: ",
            RunCommand("forget", quoted(path, "-p", project, "--exclude")),
        ),
    )


class FileSubject:
    """A file of a project as an `erasure.Subject`.

    Args:
        workspace: The data root.
        project: Its name.
        path: The file, as the manifest names it.
        catalog: The project's, open and locked.
    """

    name = "the text"

    def __init__(self, workspace: Workspace, project: str, path: str, catalog: Catalog) -> None:
        self.workspace, self.project, self.path = workspace, project, path
        self.catalog, self.db, self.index_dir = catalog, catalog.db, catalog.index_dir
        self.collection = workspace.layout.collections / project
        self.copies = CopyEraser(
            workspace, self.index_dir, yours=("history", "chroma_db"), made=[self.collection]
        )

    def hide(self) -> Tombstone:
        """Take the file's rows out of every generation."""
        return remove.tombstone(self.db, self.catalog.path, self.path)

    def publish(self) -> None:
        """Make lexical arrays and manifest again; the digests of their stamps have changed."""
        if (newest := self.catalog.latest()) is not None:
            derived.publish_again(self.db, self.index_dir, newest)

    def sought(self, hidden: Tombstone) -> TextFingerprints:
        """Return the texts that only this file has, and the citations of its chunks."""
        texts = remove.buried_texts(self.db, hidden)
        return TextFingerprints(texts, chunk_ids=hidden.chunk_ids)

    def erase_known(self, hidden: Tombstone, sought: TextFingerprints) -> None:
        """Remove what does not show the text it was made from: vectors, stores, cut texts."""
        kept.drop(self.workspace, self.project)
        forget_shared(self.workspace.config, remove.buried_texts(self.db, self._unnamed(hidden)))
        for path in (
            *token_vectors([self.index_dir], hidden.hashes),
            *(path for path in self.index_dir.glob("stores/**/*") if path.is_file()),
            *vars_files(self.workspace),
            self.collection,
            publishing_copy(self.index_dir),
        ):
            self.copies.remove(path)

    def staying(self) -> Iterator[str]:
        """Yield the texts of the project's other files."""
        return remove.named_texts(self.db)

    def erase_source(self) -> list[str]:
        """Return nothing: no journal names a file."""
        return []

    def erase_texts(self, hidden: Tombstone) -> int:
        """Take texts, vectors and the tombstone off the disk, and what a killed ingest left.

        Of those texts nobody knows which file they are of: it may be this one, changed.
        """
        every = self._unnamed(hidden)
        left = len(every.hashes) - len(hidden.hashes)
        return remove.purge_texts(self.db, self.index_dir, every) - left

    def _unnamed(self, hidden: Tombstone) -> Tombstone:
        return hidden._replace(hashes={*hidden.hashes, *remove.unnamed_texts(self.db)})
