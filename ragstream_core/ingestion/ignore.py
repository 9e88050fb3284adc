"""``.gitignore`` and ``.ragignore``: rules of a folder for what lies below it, as git reads them.

Nested files refine the ones above; in one folder ``.ragignore`` comes after ``.gitignore`` and may
take back what that excludes. As in git, nothing below an excluded folder comes back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from ragstream_core.errors import UsageError
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from ragstream_core.ingestion.packed import PackedFolder

# Of one ignore file, and characters of one line. What a stranger's file holds beyond them is said
# and not used: each line costs time at every file.
MAX_BYTES, MAX_LINES, MAX_LINE = 100_000, 2_000, 1_000
# Patterns that one file is compared with: those of its folder and of all folders above. One with n
# wildcards counts as n²: it may be looked for at so many more places of a name.
MAX_PATTERNS = 1_000
# Characters of all different lines of a tree, with `_PER_LINE` for each: a second of compiling.
MAX_COMPILED = 100_000
_PER_LINE = 5
_SHOWN = 3
_STARS = re.compile(r"\*+")

# A line with more wildcards, or more between two slashes, is not used.
MAX_STARS, MAX_STARS_IN_NAME = 8, 3


class IgnoreRules(NamedTuple):
    """The rules of one folder.

    Attributes:
        prefix: The folder relative to the project, ``""`` or ending in ``/``.
        specs: (file name, its patterns), the later one deciding.
    """

    prefix: str
    specs: tuple[tuple[str, GitIgnoreSpec], ...]


class _Pattern(GitIgnoreSpecPattern):
    """A git-style pattern that never tries the same place twice.

    As pathspec writes it, each wildcard may end anywhere, and a name of 200 letters keeps a few of
    them busy for minutes. What stands between two of them may be taken where it comes first: a
    later place leaves less for the rest.
    """

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        """Return the regular expression of a line, and whether it excludes."""
        regex, include = super().pattern_to_regex(pattern)
        return (regex and _without_retrying(regex)), include


_LEAD, _INNER, _LETTER = "^(?:.+/)?", "(?:/.+)?", "[^/]"
_TAILS = ("(?:(?P<ps_d>/)|$)", "(?P<ps_d>/)")


def _without_retrying(regex: str) -> str:
    """Rewrite an expression of pathspec's; no name matches one and not the other."""
    tail = next((tail for tail in _TAILS if regex.endswith(tail)), "")
    first, *others = regex.removesuffix(tail).replace(_LETTER, "\0").split(_INNER)
    leading = first.startswith(_LEAD)
    blocks = [("(?:\0+/)*" if leading else "", first.removeprefix(_LEAD if leading else "^"))]
    blocks += [("(?:/\0+)*", block) for block in others]
    parts = []
    for number, (folders, block) in enumerate(blocks):
        names = "/".join(map(_name_without_retrying, block.split("/")))
        is_last = number == len(blocks) - 1
        lazy = "?" * bool(folders)
        parts.append(f"{folders}{names}" if is_last else f"(?>{folders}{lazy}{names}(?=/))")
    start = "^" if regex.startswith("^") else ""
    return f"{start}{''.join(parts)}{tail}".replace("\0", _LETTER)


def _name_without_retrying(name: str) -> str:
    first, *others = name.split("\0*")
    if len(others) < 2:
        return name
    return "".join([first, *(f"(?>\0*?{part})" for part in others[:-1]), "\0*", others[-1]])


def extended(
    chain: tuple[IgnoreRules, ...],
    folder: str,
    prefix: str,
    *,
    names: list[str],
    compiled: dict[str, GitIgnoreSpecPattern],
    packed: PackedFolder | None = None,
) -> tuple[tuple[IgnoreRules, ...], list[tuple[str, str]]]:
    """Add the ignore files of a folder to the rules above it.

    Args:
        chain: The rules of the folders above, outermost first.
        folder: Its path.
        prefix: Its path relative to the project, ``""`` or ending in ``/``.
        names: Which of `scan.IGNORE_NAMES` are there, as regular files.
        compiled: The patterns of this tree so far by their lines; takes the new ones.
        packed: The folder, if it lies in an archive.

    Returns:
        The rules that hold below it, and (path, phrase) for what could not be used.
    """
    specs, problems = [], []
    above = (spec.patterns for rules in chain for _, spec in rules.specs)
    room = MAX_PATTERNS - sum(_weight(str(p.pattern)) for patterns in above for p in patterns)
    for name in sorted(names):
        try:
            lines, rest = _lines(
                packed.data(name, MAX_BYTES) if packed else _beginning(f"{folder}/{name}")
            )
        except OSError as error:
            problems.append((f"{prefix}{name}", f"cannot be used: {error}"))
            continue
        patterns, unused = _patterns(lines, compiled, room)
        room -= sum(_weight(str(pattern.pattern)) for pattern in patterns)
        specs.append((name, GitIgnoreSpec(patterns)))
        phrases = [rest] if rest else []
        for reason, of in unused.items():
            shown = ", ".join(map(repr, of[:_SHOWN]))
            left_out = f"{counted(len(of), 'line')} not used: {reason}"
            phrases.append(f"{reason}: {shown}" if reason == _NONE else left_out)
        problems += [(f"{prefix}{name}", "; ".join(phrases))] if phrases else []
    return (*chain, IgnoreRules(prefix, tuple(specs))) if specs else chain, problems


_NONE = "no pattern, so not used"
_TOO_MANY = f"at most {MAX_PATTERNS:,} patterns hold for a folder, fewer with many wildcards"
_TOO_LONG = f"all different lines of a folder have over {MAX_COMPILED:,} characters"


def _patterns(
    lines: list[str], compiled: dict[str, GitIgnoreSpecPattern], room: int
) -> tuple[list[GitIgnoreSpecPattern], dict[str, list[str]]]:
    """Return the patterns of some lines, and by its reason each line that is not used."""
    cost = sum(map(len, compiled)) + _PER_LINE * len(compiled)
    found: list[GitIgnoreSpecPattern] = []
    unused: dict[str, list[str]] = {}
    for line in lines:
        weight, reason = _weight(line), _unusable(line)
        if not reason and weight > room:
            reason = _TOO_MANY
        if not reason and line not in compiled:
            if cost > MAX_COMPILED:
                reason = _TOO_LONG
            elif not is_pattern(line):
                reason = _NONE
            else:
                cost += len(line) + _PER_LINE
                compiled[line] = _Pattern(line)
        if reason:
            unused.setdefault(reason, []).append(line)
        else:
            room -= weight
            found.append(compiled[line])
    return found, unused


def _weight(line: str) -> int:
    """Return as how many patterns a line counts."""
    return max(1, len(_STARS.findall(line))) ** 2


def _unusable(line: str) -> str:
    if len(line) > MAX_LINE:
        return f"over {MAX_LINE:,} characters"
    stars = [part.count("*") for part in line.split("/")]
    if sum(stars) > MAX_STARS or max(stars) > MAX_STARS_IN_NAME:
        return "too many wildcards"
    return ""


def is_pattern(line: str) -> bool:
    """Return whether a line can be read as git-style patterns are."""
    try:
        _Pattern(line)
    except (ValueError, re.error):  # re.error: letters in brackets that go backwards
        return False
    return True


def rules_of(name: str, patterns: Iterable[str]) -> IgnoreRules:
    """Return globs as the rules of a project, named after where they stand."""
    return IgnoreRules("", ((name, GitIgnoreSpec.from_lines(patterns, _Pattern)),))


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
    lines = [*globs]
    for line in lines:
        if not is_pattern(line):
            raise UsageError(
                f"{line!r} is no git-style glob", hint=f"correct `discovery.{setting}`"
            )
    return GitIgnoreSpec.from_lines(lines, _Pattern)


def ignored_by(path: str, chain: tuple[IgnoreRules, ...]) -> str:
    """Return the ignore file that excludes a path, or "".

    Args:
        path: Relative to the project; a folder ends in ``/``.
        chain: The rules of the folders above it, outermost first.
    """
    name, excluded = _decision(path, chain)
    return name if excluded else ""


def taken_back(path: str, *chains: tuple[IgnoreRules, ...]) -> bool:
    """Return whether a pattern that begins with ``!`` names a path, or all that a folder holds.

    Args:
        path: Relative to the project; a folder ends in ``/``.
        chains: Rules as for `ignored_by`.
    """
    meant = (path, f"{path}_") if path.endswith("/") else (path,)
    return any(_decision(each, chain)[1] is False for each in meant for chain in chains)


def _decision(path: str, chain: tuple[IgnoreRules, ...]) -> tuple[str, bool | None]:
    for rules in reversed(chain):
        below = path.removeprefix(rules.prefix)
        for name, spec in reversed(rules.specs):
            decision = spec.check_file(below).include
            if decision is not None:
                return f"{rules.prefix}{name}", decision
    return "", None


def _beginning(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(fd, MAX_BYTES + 1)
    finally:
        os.close(fd)


def _lines(data: bytes) -> tuple[list[str], str]:
    """Return the lines of an ignore file that may be patterns, and what of it is not used."""
    lines = data[:MAX_BYTES].decode("utf-8-sig", "replace").split("\n", MAX_LINES)
    rest = ""
    if len(lines) > MAX_LINES:
        del lines[MAX_LINES:]
        rest = f"what follows line {MAX_LINES:,} is not used"
    elif len(data) > MAX_BYTES:
        lines.pop()  # perhaps half a line
        rest = f"what follows the first {MAX_BYTES:,} bytes is not used"
    return [line for line in map(_line, lines) if line], rest


def _line(text: str) -> str:
    """Return a line without its end; nothing for one that says nothing."""
    text = text.removesuffix("\r")
    return "" if not text.strip() or text[0] == "#" or "\0" in text else text
