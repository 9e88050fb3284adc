"""`ragstream forget`: one file out of everything that was made from it, all generations at once.

Order: durable tombstone and rows, in one transaction; derived files; every copy that a search of
all files below the data root finds; then the texts and vectors themselves; then the search again.
A kill at any moment leaves the tombstone, and running it again goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import OperationFailed, Refused, UsageError
from ragstream_core.index import derived, erase
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.ingestion.manifest import MANIFEST_NAME, refused_rows
from ragstream_core.platform.files import sync_dir
from ragstream_core.wiring.debug_log import vars_files
from ragstream_core.wiring.text_copies import DataScanner, TextFingerprints, purge, remove

if TYPE_CHECKING:
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.index.erase import Tombstone
    from ragstream_core.wiring.workspace import Workspace

ROUNDS = 3


def forget(
    workspace: Workspace, project: str, path: str, *, delete: bool = False
) -> dict[str, Any]:
    """Erase a file from the index and from everything that holds its text.

    Args:
        workspace: The data root.
        project: Its name.
        path: The file, as `status` and the manifest name it.
        delete: Delete the file itself where it still lies in the project's folder.

    Returns:
        ``project, path``, ``generations`` (that held it), ``chunks``, ``texts`` (erased),
        ``shared`` (texts that other files have too: they stay), ``removed`` (names below the data
        root), ``left`` (files of yours that hold the same words), ``searched`` (files).

    Raises:
        UsageError: No generation ever held that path.
        Refused: The file still lies in the project's folder.
        ProjectLocked: Another process writes the project.
        IntegrityError: The catalog is damaged.
        OperationFailed: Something still holds the text; run it again.
    """
    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists():
        raise UsageError(
            f"project {project} has no index", hint="ragstream index generations lists them"
        )
    with open_catalog(index_dir) as catalog:
        if not erase.is_known(catalog.db, path):
            raise UsageError(
                f"no generation of {project} holds {path!r}",
                hint=f"give the path as `ragstream status {project}` writes it",
            )
        _require_gone(workspace, project, path, delete=delete)
        return _Forgetting(workspace, project, catalog).run(path)


def _require_gone(workspace: Workspace, project: str, path: str, *, delete: bool) -> None:
    if project not in workspace.projects():
        return
    folder = workspace.doc_dir(project)
    file = folder / path
    if not file.is_symlink() and not file.exists():
        return
    if not delete:
        raise Refused(
            f"{file} still lies there; the next ingest would take it in again",
            hint=f"move it away, or ragstream forget {path} -p {project} --delete",
        )
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise Refused(f"{file} leads outside the project", hint="remove it yourself")
    file.unlink()
    sync_dir(file.parent)


class _Forgetting:
    """One erasing, with the catalog open and locked."""

    def __init__(self, workspace: Workspace, project: str, catalog: Catalog) -> None:
        self.workspace = workspace
        self.project = project
        self.catalog = catalog
        self.finder = DataScanner(
            workspace.data_dir,
            workspace.config.index_dir,
            workspace.config.logs_dir,
            project=project,
        )

    def run(self, path: str) -> dict[str, Any]:
        """Do it, in the order that is law.

        Raises:
            OperationFailed: Something still holds the text after several rounds.
        """
        db, index_dir = self.catalog.db, self.catalog.index_dir
        buried = erase.tombstone(db, self.catalog.path, path)
        texts = erase.buried_texts(db, buried)
        traces = TextFingerprints(texts.values(), buried.chunk_ids)
        self._derive()
        removed = self._drop_derived(buried)
        removed += self._purge(traces)
        erase.purge_texts(db, index_dir, buried)
        left = self._left(traces)
        return {
            "project": self.project,
            "path": path,
            "generations": buried.generations,
            "chunks": buried.chunks,
            "texts": len(texts),
            "shared": len(buried.hashes) - len(texts),
            "removed": sorted(set(removed)),
            "left": left,
            "searched": self.finder.searched,
        }

    def _derive(self) -> None:
        """Make lexical arrays and manifest anew; the digests of their stamps have changed."""
        newest, db, index_dir = self.catalog.latest(), self.catalog.db, self.catalog.index_dir
        if newest is None:
            return
        refused = refused_rows(index_dir / MANIFEST_NAME)
        derived.publish_lexical(db, index_dir, newest)
        derived.publish_manifest(db, index_dir, newest, refused=refused, force=True)

    def _drop_derived(self, buried: Tombstone) -> list[str]:
        """Drop what is made from texts and does not show them: token vectors, other stores."""
        index_dir = self.catalog.index_dir
        gone = [
            token
            for text_hash in buried.hashes
            for token in index_dir.glob(f"tokens-*/*/{text_hash}.*")
        ]
        gone += [path for path in index_dir.glob("stores/**/*") if path.is_file()]
        gone += vars_files(self.workspace)  # cut texts: a search would not know all of them
        chroma = self.workspace.data_dir / "chroma_db" / self.project
        if chroma.is_dir():
            shutil.rmtree(chroma)
            gone.append(chroma)
        for file in gone:
            remove(file)
        return [self.finder.name_of(file) for file in gone]

    def _purge(self, traces: TextFingerprints) -> list[str]:
        """Remove every copy that is ours; other processes may make new ones meanwhile."""
        removed: list[str] = []
        for _ in range(ROUNDS):
            hits = self.finder.hits(traces, self.finder.ours(), self._other_texts)
            if not hits:
                return removed
            for file in hits:
                removed += purge(file, traces, finder=self.finder)
        return removed

    def _left(self, traces: TextFingerprints) -> list[str]:
        """Search everything once more.

        Raises:
            OperationFailed: A file of ours still holds the text.
        """
        hits = self.finder.hits(traces, self.finder.everything(), self._other_texts)
        mine = [file for file in hits if self.finder.is_ours(file)]
        if mine:
            raise OperationFailed(
                f"{len(mine)} files still hold the text, first {mine[0]}",
                hint="end `ragstream up` and other processes, then run the command again",
            )
        return sorted(self.finder.name_of(file) for file in hits)

    def _other_texts(self) -> Iterator[str]:
        query = (
            "SELECT text FROM texts t WHERE EXISTS "
            "(SELECT 1 FROM chunks c WHERE c.text_hash = t.text_hash)"
        )
        return (str(text) for (text,) in self.catalog.db.execute(query))
