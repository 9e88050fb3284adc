"""One pass over a project's folder: which files there are and their stat signatures.

Stdlib only and lean on purpose: this is the no-op path, where 10k files should cost little more
than their ``stat`` calls. Opens no document (only ignore files, where there are any). Links, pipes,
sockets and devices are never followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ragstream_core.errors import RunProgram, UnknownProject, quoted
from ragstream_core.index.rows import Signature
from ragstream_core.ingestion.file_types import (
    NOT_SUPPORTED,
    OWN_FOLDER,
    PICTURES,
    TYPES,
    denial,
    encode_name,
    file_type,
    is_archive,
    not_supported,
)
from ragstream_core.ingestion.folder_files import IGNORE_NAMES, signature_of
from ragstream_core.ingestion.junk import MAY_BE_JUNK, junk_file, junk_folder, seems_junk
from ragstream_core.ingestion.junk import PREFIX as JUNK
from ragstream_core.ingestion.parsers.engines import missing_extra
from ragstream_core.platform.extras import install

if TYPE_CHECKING:
    from ragstream_core.ingestion.ignore import IgnoreRules
    from ragstream_core.ingestion.packed import PackedEntry, PackedFolder

    Entry: TypeAlias = os.DirEntry[str] | PackedEntry

RACY_NS = 2_000_000_000
_PLAIN = frozenset(TYPES) - {f".{name}" for name in PICTURES}


class ScanRules(NamedTuple):
    """Which files are documents: git-style globs, include AND NOT exclude.

    ``flat``: only the files of the folder itself; no folder below it is entered.
    """

    include: tuple[str, ...] = ("**",)
    exclude: tuple[str, ...] = ()
    flat: bool = False


class Scan(NamedTuple):
    """What a folder holds.

    Attributes:
        files: Signature of each document by POSIX path relative to the folder.
        refused: (path, reason) of what is no document; never opened.
        unreadable: (path, reason) of folders that could not be listed; "" is the root.
    """

    files: dict[str, Signature]
    refused: list[tuple[str, str]]
    unreadable: list[tuple[str, str]]


class Changes(NamedTuple):
    """How a scan differs from the recorded signatures; paths sorted.

    ``racy`` files look unchanged but were written so close to the last scan that a later write
    may have left the same signature.
    """

    new: list[str]
    changed: list[str]
    removed: list[str]
    racy: list[str]

    def any(self) -> bool:
        """Say whether an ingest has anything to look at."""
        return bool(self.new or self.changed or self.removed or self.racy)


DEFAULT_RULES = ScanRules()


def _refusal(entry: Entry, name: str) -> str:
    if reason := getattr(entry, "refusal", ""):
        return denial(name) or str(reason)
    if entry.is_symlink():
        return "symbolic link; only regular files are read"
    return denial(name) or "not a regular file (pipe, socket or device)"


def require_folder(root: Path) -> None:
    """Refuse a project that has no folder.

    Raises:
        UnknownProject: ``root`` is no folder.
    """
    if not os.path.isdir(root):
        raise UnknownProject(
            f"no folder {root}",
            hint=(RunProgram(quoted("mkdir", "-p", root)), " and put documents in it"),
        )


def scan(root: Path, rules: ScanRules = DEFAULT_RULES) -> Scan:
    """List the documents below ``root`` with their signatures.

    Args:
        root: Folder of one project.
        rules: Globs; anything but the defaults imports pathspec.

    Raises:
        UnknownProject: ``root`` is no folder.
    """
    require_folder(root)
    result = Scan({}, [], [])
    walk(os.fspath(root), result, bounds=Bounds(wanted=wanted_by(rules)), flat=rules.flat)
    narrow(result, rules)
    return result


class Bounds(NamedTuple):
    """What is left out of a folder whatever lies in it.

    Attributes:
        closed: Prefixes of folders that are not entered, each ending in ``/``.
        excluded: The globs of the project; no ignore file takes back what they leave out.
        wanted: The globs of the settings, if one of them takes something back.
    """

    closed: frozenset[str] = frozenset()
    excluded: IgnoreRules | None = None
    wanted: IgnoreRules | None = None


UNBOUNDED = Bounds()


def walk(
    root: str, into: Scan, *, prefix: str = "", bounds: Bounds = UNBOUNDED, flat: bool = False
) -> None:
    """List the documents below a folder into a scan; one that is not there is unreadable.

    Args:
        root: The folder.
        into: Takes what is found.
        prefix: Stands before each path: ``""`` or a label that ends in ``/``.
        bounds: What is left out.
        flat: Enter no folder below it.
    """
    stack: list[_Folder] = [_Folder(root, prefix, (), bounds, {})]
    while stack:
        folder = stack.pop()
        try:
            if folder.is_archive:
                folder = _opened(folder, into)
            if folder.packed is not None:
                below = _scan_folder(folder.packed.entries(folder.path), folder, into)
            else:
                with os.scandir(folder.path) as entries:
                    below = _scan_folder(entries, folder, into)
        except OSError as error:
            top = folder.prefix.rstrip("/")
            into.unreadable.append((top, error.strerror or "cannot be listed"))
            continue
        stack += [inner for inner in below if not flat or inner.is_archive or folder.packed]


def wanted_by(rules: ScanRules) -> IgnoreRules | None:
    """Return the excludes of the settings if one of them takes something back."""
    if not any(glob.startswith("!") for glob in rules.exclude):
        return None
    from ragstream_core.ingestion.ignore import is_pattern, rules_of

    return rules_of("discovery.exclude", filter(is_pattern, rules.exclude))


def narrow(found: Scan, rules: ScanRules) -> None:
    """Take what the globs leave out from the files of a scan."""
    if (rules.include, rules.exclude) != DEFAULT_RULES[:2]:
        from ragstream_core.ingestion.ignore import not_chosen

        for path, reason in not_chosen(sorted(found.files), rules.include, rules.exclude):
            del found.files[path]
            found.refused.append((path, reason))


class _Folder(NamedTuple):
    """A folder still to be listed: its path, its prefix, the ignore rules above it, its bounds.

    All folders of a tree share the compiled patterns. One may be an archive that is still closed,
    or lie in one.
    """

    path: str
    prefix: str
    chain: tuple[IgnoreRules, ...]
    bounds: Bounds
    compiled: dict[str, Any]
    is_archive: bool = False
    packed: PackedFolder | None = None

    @property
    def has_rules(self) -> bool:
        """Whether patterns hold in it before its own ignore files are read."""
        return bool(self.chain or self.bounds.excluded or self.bounds.wanted)

    def holds(self, inside: str) -> bool:
        """Whether a path is there."""
        if self.packed is not None:
            return self.packed.holds(inside)
        return os.path.lexists(f"{self.path}/{inside}")


def _opened(folder: _Folder, into: Scan) -> _Folder:
    """Return an archive with what lies in it; with nothing, and refused, if it cannot be used.

    Raises:
        OSError: It cannot be read.
    """
    from ragstream_core.ingestion.packed import opened

    packed, refused = opened(folder.path)
    into.refused.extend(
        (folder.prefix + encode_name(path) if path else folder.prefix.rstrip("/"), reason)
        for path, reason in refused
    )
    return folder._replace(is_archive=False, packed=packed)


def _scan_folder(entries: Iterable[Entry], folder: _Folder, into: Scan) -> list[_Folder]:
    """Sort the entries of one folder into ``into``; return the folders in it."""
    prefix, files, below, rule_files = folder.prefix, dict[str, Signature](), [], []
    junk: dict[str, str] = {}
    for entry in entries:
        name = entry.name
        if "%" in name or not name.isascii():
            name = encode_name(name)
        # the common case first: a plain suffix, no first letter of a denied name
        ending = name[name.rfind(".") :]
        plain = ending in _PLAIN and name[0] not in ".iI~"
        plain = plain and not (ending in MAY_BE_JUNK and seems_junk(name))
        packed = not plain and is_archive(name)
        file = not packed and (plain or name not in IGNORE_NAMES)
        if file and entry.is_file(follow_symlinks=False):
            reason = "" if plain else refusal_of(name)
            if reason and not reason.startswith(JUNK):
                into.refused.append((prefix + name, reason))
                continue
            try:
                files[prefix + name] = signature_of(entry.stat(follow_symlinks=False))
            except FileNotFoundError:  # gone since it was listed
                continue
            if reason:
                junk[prefix + name] = reason
        elif entry.is_dir(follow_symlinks=False) or (
            packed and entry.is_file(follow_symlinks=False)
        ):
            if inner := _inner(entry, name, folder, into=into, junk=junk):
                below.append(inner)
        elif name in IGNORE_NAMES and entry.is_file(follow_symlinks=False):
            rule_files.append(name)
        else:
            into.refused.append((prefix + name, _refusal(entry, name)))
    if rule_files or folder.has_rules:
        below = _apply_ignores(folder, rule_files, files, below=below, junk=junk, into=into)
    into.refused.extend(junk.items())
    for path in files.keys() & junk.keys():
        del files[path]
    into.files.update(files)
    return [inner for inner in below if inner.prefix not in junk]


def _inner(
    entry: Entry, name: str, folder: _Folder, *, into: Scan, junk: dict[str, str]
) -> _Folder | None:
    """Return a folder or archive; None if nothing takes it back. One that is junk is noted."""
    prefix = f"{folder.prefix}{name}/"
    if name.lower() == OWN_FOLDER:
        return None  # of `ragstream init`: nothing that a person would miss
    if reason := denial(name):
        into.refused.append((prefix, reason))
        return None
    if prefix in folder.bounds.closed:
        into.refused.append((prefix, "written by RAGstream itself"))
        return None
    closed = is_archive(name) and entry.is_file(follow_symlinks=False)
    if reason := junk_file(name) if closed else junk_folder(name, folder.holds):
        junk[prefix] = reason
    packed = folder.packed and folder.packed.below(entry.name)
    return folder._replace(path=entry.path, prefix=prefix, is_archive=closed, packed=packed)


def _apply_ignores(
    folder: _Folder,
    rule_files: list[str],
    files: dict[str, Signature],
    *,
    below: list[_Folder],
    junk: dict[str, str],
    into: Scan,
) -> list[_Folder]:
    """Take what is ignored out of ``files``, and what is wanted after all out of ``junk``.

    Returns:
        The folders that are left, with their rules.
    """
    from ragstream_core.ingestion.ignore import extended, ignored_by, taken_back

    chain, problems = extended(
        folder.chain,
        folder.path,
        folder.prefix,
        names=rule_files,
        compiled=folder.compiled,
        packed=folder.packed,
    )
    into.refused.extend(problems)
    first = () if folder.bounds.excluded is None else (folder.bounds.excluded,)
    settings = () if folder.bounds.wanted is None else (folder.bounds.wanted,)
    kept = []
    for inner in below:
        if source := ignored_by(inner.prefix, first) or ignored_by(inner.prefix, chain):
            into.refused.append((inner.prefix, f"ignored by {source}"))
            junk.pop(inner.prefix, None)
        else:
            kept.append(inner._replace(chain=chain))
    for path in list(files):
        if source := ignored_by(path, first) or ignored_by(path, chain):
            del files[path]
            junk.pop(path, None)
            into.refused.append((path, f"ignored by {source}"))
    for path in [path for path in junk if taken_back(path, first, settings, chain)]:
        del junk[path]
    return kept


def refusal_of(name: str) -> str:
    """Return why a file of this name is no document, or ""."""
    return denial(name) or junk_file(name) or unsupported(name)


def unsupported(name: str) -> str:
    """Return why files of this name cannot be read, or ""; it begins with `NOT_SUPPORTED`.

    Pictures are no documents as long as nothing that reads them is installed.
    """
    kind = file_type(name)
    if kind in PICTURES and (extra := missing_extra(kind)):
        return f"{NOT_SUPPORTED} without the extra '{extra}': {install(extra).line}"
    return "" if kind or is_archive(name) else not_supported(name)


def compare(found: Scan, recorded: Mapping[str, Signature], *, last_started_ns: int) -> Changes:
    """Compare a scan with the signatures of the last ingest.

    Args:
        found: The present state.
        recorded: Signatures by path; must be a dict for the fast equality.
        last_started_ns: When the scan behind ``recorded`` began, ns since the epoch.

    Returns:
        The differences; files below a folder that could not be listed are not "removed".
    """
    files, limit = found.files, last_started_ns - RACY_NS
    racy = sorted(
        p for p, s in files.items() if (s[1] > limit or s[2] > limit) and recorded.get(p) == s
    )
    if files == recorded:
        return Changes([], [], [], racy)
    new = sorted(p for p in files if p not in recorded)
    changed = sorted(p for p, s in files.items() if p in recorded and recorded[p] != s)
    removed = sorted(
        p for p in recorded if p not in files and not under_unreadable(p, found.unreadable)
    )
    return Changes(new, changed, removed, racy)


def under_unreadable(path: str, unreadable: list[tuple[str, str]]) -> bool:
    """Say whether a path lies below a folder that could not be listed."""
    return any(not top or path.startswith(top + "/") for top, _ in unreadable)
