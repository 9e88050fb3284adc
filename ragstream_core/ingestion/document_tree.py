"""`DocumentTree`: where the documents of a project lie, and the only way to open one of them.

One folder, or several under labels. A document's path in the index is its path below its folder;
with several folders the label stands before it. Where the folders lie is no part of that path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import InputUnavailable, RunCommand
from ragstream_core.index.rows import Signature
from ragstream_core.ingestion.file_types import decode_name, encode_name, is_archive
from ragstream_core.ingestion.folder_files import IGNORE_NAMES, open_beneath
from ragstream_core.ingestion.scan import (
    DEFAULT_RULES,
    Bounds,
    Scan,
    ScanRules,
    narrow,
    scan,
    walk,
    wanted_by,
)
from ragstream_core.platform.data_root import PROJECT_FILE

if TYPE_CHECKING:
    from ragstream_core.ingestion.ignore import IgnoreRules

MISSING = "not there; is its disk mounted?"
NOT_FETCHED = "nothing of it was fetched yet"
EMPTY = "none of the documents that were ingested from it is there any more"
_MOST_UNPACKED = 1 << 30


class Root(NamedTuple):
    """One folder of a project.

    Attributes:
        label: Stands before the paths of its documents; empty: nothing does.
        path: Where it lies.
        closed: Prefixes of folders that are not entered, label included, each ending in ``/``.
        url: Where its documents were fetched from; empty: it is a folder of the user.
    """

    label: str
    path: Path
    closed: frozenset[str] = frozenset()
    url: str = ""

    @property
    def prefix(self) -> str:
        """What begins the paths of its documents: ``""`` or ``LABEL/``."""
        return f"{self.label}/" if self.label else ""

    @property
    def missing(self) -> str:
        """What it means if the folder is not there."""
        return NOT_FETCHED if self.url else MISSING

    @property
    def shown(self) -> str:
        """Where its documents come from, for people."""
        return self.url or str(self.path)


@dataclass(frozen=True, slots=True)
class DocumentTree:
    """The folders of one project.

    Attributes:
        roots: At least one; with several each has a label of its own.
        include: Git-style globs of documents to take; none: all.
        exclude: Git-style globs of what is left out, stronger than any ignore file.
        flat: The documents are the files of the folder itself; no folder below it is entered.
        in_place: The folders are the user's own, somewhere on the machine; nothing is written
            there, and a folder that is missing is never taken for deleted documents.
    """

    roots: tuple[Root, ...]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    flat: bool = False
    in_place: bool = False

    @classmethod
    def of(cls, folder: Path, *, flat: bool = False) -> DocumentTree:
        """Return the tree of a project that is one folder below the data root."""
        return cls((Root("", folder),), flat=flat)

    def scan(self, rules: ScanRules = DEFAULT_RULES) -> Scan:
        """List the documents with their signatures.

        Args:
            rules: What the settings say; a document is taken if they and the project agree.

        Raises:
            UnknownProject: The one folder below the data root is not there.
        """
        if not self.in_place:
            return scan(self.roots[0].path, rules._replace(flat=self.flat))
        excluded = self._excluded()
        found = Scan({}, [], [])
        for root in self.roots:
            if not root.path.is_dir():
                found.unreadable.append((root.label, root.missing))
                continue
            bounds = Bounds(root.closed, excluded, wanted_by(rules))
            walk(os.fspath(root.path), found, prefix=root.prefix, bounds=bounds)
        if self.include:
            narrow(found, ScanRules(self.include))
        narrow(found, rules)
        return found

    def excludes(self, path: str) -> bool:
        """Whether the globs of the project leave a document out, wherever it lies."""
        excluded = self._excluded()
        if excluded is None:
            return False
        from ragstream_core.ingestion.ignore import ignored_by

        return bool(ignored_by(path, (excluded,)))

    def takes_back(self, path: str, rules: ScanRules) -> bool:
        """Whether a pattern that begins with ``!`` says that a document is no junk.

        Args:
            path: As in the index.
            rules: What the settings say.
        """
        from ragstream_core.ingestion.ignore import extended, taken_back

        folder, inside = self.place(path)
        prefix = path.removesuffix(self._split(path)[1])
        chain: tuple[IgnoreRules, ...] = ()
        for part in ("", *inside.split("/")[:-1]):
            folder, prefix = folder / part, f"{prefix}{encode_name(part)}/" if part else prefix
            names = [name for name in IGNORE_NAMES if (folder / name).is_file()]
            chain, _ = extended(chain, str(folder), prefix, names=names, compiled={})
        said = (self._excluded(), wanted_by(rules))
        return taken_back(path, *((one,) for one in said if one is not None), chain)

    def _excluded(self) -> IgnoreRules | None:
        if not self.exclude:
            return None
        from ragstream_core.ingestion.ignore import rules_of

        return rules_of(PROJECT_FILE, self.exclude)

    def open(self, path: str) -> int:
        """Open a document for reading; no component below its folder may be a link.

        Args:
            path: As in the index.

        Returns:
            A descriptor the caller closes.

        Raises:
            OSError: It is missing, a link, or leads upwards, or no folder has that label.
        """
        fd, signature = self.opened(path, _MOST_UNPACKED)
        if signature and signature[0] > _MOST_UNPACKED:
            os.close(fd)
            raise OSError(f"unpacks to {signature[0]} bytes: {path!r}")
        return fd

    def opened(self, path: str, most: int) -> tuple[int, Signature | None]:
        """Open a document as `open`; one in an archive is unpacked into a file without a name.

        Args:
            path: As in the index.
            most: A document of an archive that has more bytes is not unpacked.

        Returns:
            A descriptor the caller closes, and the signature of a document in an archive.

        Raises:
            OSError: As `open`.
        """
        root, inside = self.place(path)
        try:
            return open_beneath(root, inside), None
        except NotADirectoryError:
            if not _leads_through(inside):
                raise
        from ragstream_core.ingestion.packed import unpacked

        return unpacked(root, inside, most)

    def lies_beside(self, path: str, name: str) -> bool:
        """Whether an entry of that name lies in a folder above a document, or beside it.

        Args:
            path: Of the document, as in the index.
            name: Of the entry.
        """
        root, inside = self.place(path)
        folders = inside.split("/")[:-1]
        above = ["/".join([*folders[:end], name]) for end in range(len(folders) + 1)]
        if any(os.path.lexists(root / one) for one in above):
            return True
        if not (archive := self.archive_of(path)):
            return False
        from ragstream_core.ingestion.packed import opened

        packed, start = opened(os.fspath(root / archive))[0], len(archive) + 1
        return any(packed.holds(one[start:]) for one in above if one.startswith(f"{archive}/"))

    def archive_of(self, path: str) -> str:
        """Return the path of the archive that a document lies in; "" if it is a file of its own.

        Raises:
            FileNotFoundError: No folder has that label.
        """
        root, inside = self.place(path)
        if not _leads_through(inside):
            return ""
        from ragstream_core.ingestion.packed import archive_of

        return archive_of(root, inside)

    def place(self, path: str) -> tuple[Path, str]:
        """Return the folder that a document lies in, and its path below that.

        Raises:
            FileNotFoundError: No folder has that label.
        """
        root, inside = self._split(path)
        return root.path, decode_name(inside)

    def location(self, path: str) -> Path:
        """Return where a document lies, for people; nothing is opened by that name.

        Raises:
            FileNotFoundError: No folder has that label.
        """
        root, inside = self.place(path)
        return root / inside

    def is_mirrored(self, path: str) -> bool:
        """Whether a document is a copy of one that lies at an address.

        Raises:
            FileNotFoundError: No folder has that label.
        """
        return bool(self._split(path)[0].url)

    def _split(self, path: str) -> tuple[Root, str]:
        if len(self.roots) == 1 and not self.roots[0].label:
            return self.roots[0], path
        label, _, inside = path.partition("/")
        for root in self.roots:
            if root.label == label:
                return root, inside
        raise FileNotFoundError(2, "no folder of the project has that label", path)

    def guarded(
        self, found: Scan, files: Iterable[str], signatures: Mapping[str, Signature]
    ) -> Scan:
        """Return a scan in which a folder that lost everything counts as unreadable.

        An empty mount point is a folder without documents, or with a note that nothing is mounted.
        So a folder of which not one known document is left, not even renamed, is taken for
        unmounted: its documents stay, and what lies there now is not taken in.

        Args:
            found: What was found.
            files: Paths of the last ingest.
            signatures: Their signatures.
        """
        if not self.in_place:
            return found
        tops = {top for top, _ in found.unreadable}
        known = {*files, *signatures}
        lost = [
            root
            for root in self.roots
            if not root.url  # what is gone from a mirror is gone from a complete listing
            and root.label not in tops
            and _lost(root.prefix, found, known, signatures)
        ]
        if not lost:
            return found
        prefixes = tuple(root.prefix for root in lost)
        files = {path: row for path, row in found.files.items() if not path.startswith(prefixes)}
        unreadable = [*found.unreadable, *((root.label, EMPTY) for root in lost)]
        return found._replace(files=files, unreadable=unreadable)

    def accepted(self, found: Scan) -> Scan:
        """Return a scan in which a folder that is not there counts as empty."""
        gone = {root.label for root in self.roots if not root.path.is_dir()}
        left = [row for row in found.unreadable if row[0] not in gone]
        return found._replace(unreadable=left) if self.in_place else found

    def absent(self, found: Scan) -> list[tuple[Root, str]]:
        """Return the folders that are missing, unmounted or closed to us, and why."""
        if not self.in_place:
            return []
        why = dict(found.unreadable)
        return [(root, why[root.label]) for root in self.roots if root.label in why]

    def kept_back(self, found: Scan) -> list[str]:
        """Return a sentence for each folder whose documents stay because it is not there."""
        return [
            f"{root.path}: {reason}; its documents stay in the index as they were"
            for root, reason in self.absent(found)
        ]

    def missing(self) -> Scan:
        """Return a scan that found nothing but which folders are missing; lists none of them."""
        gone = [(root.label, root.missing) for root in self.roots if not root.path.is_dir()]
        return Scan({}, [], gone if self.in_place else [])

    def require_present(self, found: Scan, project: str, *, all_of_them: bool = False) -> None:
        """Refuse to work on a project of which no folder is there.

        Args:
            found: A scan, guarded if anything is known.
            project: Its name.
            all_of_them: Refuse if only one is missing: its documents would be lost.

        Raises:
            InputUnavailable: All its folders are missing, and nothing was found.
        """
        absent = self.absent(found)
        some_left = found.files or len(absent) < len(self.roots)
        if not absent or (some_left and not all_of_them):
            return
        where = "; ".join(f"{root.shown}: {reason}" for root, reason in absent)
        what = "some documents" if some_left else "the documents"
        raise InputUnavailable(
            f"{what} of {project} are not there; nothing was changed: {where}",
            hint=RunCommand("project sync", project)
            if any(root.url for root, _ in absent)
            else (
                "mount or restore the folder; if its documents are deleted for good: ",
                RunCommand("ingest", f"{project} --yes"),
                ", or ",
                RunCommand("project remove", project),
            ),
        )


def _lost(prefix: str, found: Scan, known: set[str], signatures: Mapping[str, Signature]) -> bool:
    """Whether none of the known documents below a prefix is there, under any name."""
    mine = [path for path in known if path.startswith(prefix)]
    if not mine or any(path in found.files for path in mine):
        return False
    same = {_file(signatures[path]) for path in mine if path in signatures}
    here = (row for path, row in found.files.items() if path.startswith(prefix))
    return not any(_file(row) in same for row in here)


def _file(signature: Signature) -> tuple[int, int, int]:
    """Return what a signature keeps when a file is renamed: size, time of change, inode."""
    size, mtime, _, inode = signature
    return size, mtime, inode


def _leads_through(path: str) -> bool:
    """Whether a path may lead into an archive."""
    return any(map(is_archive, path.split("/")[:-1]))
