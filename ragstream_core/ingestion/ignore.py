"""``.gitignore`` and ``.ragignore``: rules of a folder for what lies below it, as git reads them.

Nested files refine the ones above; in one folder ``.ragignore`` comes after ``.gitignore`` and may
take back what that excludes. As in git, nothing below an excluded folder comes back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from ragstream_core.errors import UsageError

MAX_BYTES = 1_000_000
_SHOWN = 3
MAX_STARS, MAX_STARS_IN_NAME = 8, 3
"""A line with more wildcards, or more between two slashes, is not used: each may end anywhere in a
name, so matching it could take for ever."""


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
        except OSError as error:
            problems.append((f"{prefix}{name}", f"cannot be used: {error}"))
            continue
        used = [line for line in lines if not _may_take_for_ever(line)]
        spec, no_patterns = _spec(used)
        specs.append((name, spec))
        phrases = []
        if len(used) < len(lines):
            phrases.append(f"{len(lines) - len(used)} lines with too many wildcards are not used")
        if no_patterns:
            phrases.append(f"no pattern, so not used: {', '.join(map(repr, no_patterns[:_SHOWN]))}")
        problems += [(f"{prefix}{name}", "; ".join(phrases))] if phrases else []
    return (*chain, IgnoreRules(prefix, tuple(specs))) if specs else chain, problems


def _may_take_for_ever(line: str) -> bool:
    stars = [part.count("*") for part in line.split("/")]
    return sum(stars) > MAX_STARS or max(stars) > MAX_STARS_IN_NAME


def _spec(lines: list[str]) -> tuple[GitIgnoreSpec, list[str]]:
    """Return the patterns of some lines, and the lines that are none: the others hold."""
    try:
        return GitIgnoreSpec.from_lines(lines), []
    except (ValueError, re.error):
        wrong = [line for line in lines if not is_pattern(line)]
        return GitIgnoreSpec.from_lines(line for line in lines if line not in wrong), wrong


def is_pattern(line: str) -> bool:
    """Return whether a line can be read as git-style patterns are."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):  # re.error: letters in brackets that go backwards
        return False
    return True


def rules_of(name: str, patterns: Iterable[str]) -> IgnoreRules:
    """Return globs as the rules of a project, named after where they stand."""
    return IgnoreRules("", ((name, GitIgnoreSpec.from_lines(patterns)),))


def not_chosen(
    paths: Iterable[str], include: Iterable[str], exclude: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield (path, reason) of what git-style globs leave out: taken is include AND NOT exclude.

    Raises:
        UsageError: A glob is no pattern.
    """
    wanted, unwanted = _globs("include", include), _globs("exclude", exclude)
    for path in paths:
        if not wanted.match_file(path):
            yield path, "not matched by an include glob"
        elif unwanted.match_file(path):
            yield path, "matched by an exclude glob"


def _globs(setting: str, globs: Iterable[str]) -> GitIgnoreSpec:
    spec, wrong = _spec([*globs])
    if wrong:
        raise UsageError(
            f"{wrong[0]!r} is no git-style glob", hint=f"correct `discovery.{setting}`"
        )
    return spec


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
