"""``.gitignore`` and ``.ragignore``: rules of a folder for what lies below it, as git reads them.

Nested files refine the ones above; in one folder ``.ragignore`` comes after ``.gitignore`` and may
take back what that excludes. As in git, nothing below an excluded folder comes back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pathspec import GitIgnoreSpec

MAX_BYTES = 1_000_000
MAX_STARS = 8
"""A line with more wildcards is not used: matching it could take for ever."""


class IgnoreRules(NamedTuple):
    """The rules of one folder.

    Attributes:
        prefix: The folder relative to the project, ``""`` or ending in ``/``.
        specs: (file name, its patterns), the later one deciding.
    """

    prefix: str
    specs: tuple[tuple[str, GitIgnoreSpec], ...]


def extended(
    chain: tuple[IgnoreRules, ...], folder: str, prefix: str, *, names: list[str]
) -> tuple[tuple[IgnoreRules, ...], list[tuple[str, str]]]:
    """Add the ignore files of a folder to the rules above it.

    Args:
        chain: The rules of the folders above, outermost first.
        folder: Its path.
        prefix: Its path relative to the project, ``""`` or ending in ``/``.
        names: Which of `scan.IGNORE_NAMES` are there, as regular files.

    Returns:
        The rules that hold below it, and (path, phrase) for what could not be used.
    """
    specs, problems = [], []
    for name in sorted(names):
        try:
            lines = _read(f"{folder}/{name}").splitlines()
            used = [line for line in lines if line.count("*") <= MAX_STARS]
            specs.append((name, GitIgnoreSpec.from_lines(used)))
        except (OSError, ValueError) as error:
            problems.append((f"{prefix}{name}", f"cannot be used: {error}"))
            continue
        if len(used) < len(lines):
            left = f"{len(lines) - len(used)} lines with too many wildcards are not used"
            problems.append((f"{prefix}{name}", left))
    return (*chain, IgnoreRules(prefix, tuple(specs))) if specs else chain, problems


def rules_of(name: str, patterns: Iterable[str]) -> IgnoreRules:
    """Return globs as the rules of a project, named after where they stand."""
    return IgnoreRules("", ((name, GitIgnoreSpec.from_lines(patterns)),))


def not_chosen(
    paths: Iterable[str], include: Iterable[str], exclude: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield (path, reason) of what git-style globs leave out: taken is include AND NOT exclude."""
    wanted, unwanted = GitIgnoreSpec.from_lines(include), GitIgnoreSpec.from_lines(exclude)
    for path in paths:
        if not wanted.match_file(path):
            yield path, "not matched by an include glob"
        elif unwanted.match_file(path):
            yield path, "matched by an exclude glob"


def ignored_by(path: str, chain: tuple[IgnoreRules, ...]) -> str:
    """Return the ignore file that excludes a path, or "".

    Args:
        path: Relative to the project; a folder ends in ``/``.
        chain: The rules of the folders above it, outermost first.
    """
    for rules in reversed(chain):
        below = path.removeprefix(rules.prefix)
        for name, spec in reversed(rules.specs):
            decision = spec.check_file(below).include
            if decision is not None:
                return f"{rules.prefix}{name}" if decision else ""
    return ""


def _read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(fd, MAX_BYTES).decode("utf-8-sig", "replace")
    finally:
        os.close(fd)
