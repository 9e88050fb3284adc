"""`DebugLog`: a trace and, if wanted, a file of variables, line by line on the disk.

    <logs>/debug_trace_YYYYmmdd-HHMMSS_sessNN.log     what was done
    <logs>/debug_vars_YYYYmmdd-HHMMSS_sessNN.log      values, with ``vars_enabled``

A value becomes one short line, the same each time; secrets are replaced before anything is cut, so
that no part of one is left. Nothing that goes wrong here reaches the work that is logged. The files
are its own, since Dagster shuts down Python's logging handlers at the end of each recorded run.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstream_core.platform.files import append_line, make_private_dir, move_aside, open_append

ELLIPSIS = "…"
ARRAY_PACKAGES = ("numpy", "pandas", "pyarrow", "torch")

# So many values of an array are shown.
PREVIEW = 5
# Characters beyond the cut in which a secret may end: the longest pattern spans 8,000.
LOOKAHEAD = 8_400
_MAX_DEPTH = 6
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

Redact = Callable[[str], str]


def one_line(text: str) -> str:
    """Return a text with escapes for line breaks and whatever else cannot be printed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def dump(value: object, limit: int, redact: Redact) -> str:
    """Return a value as one line."""
    reach = limit + LOOKAHEAD
    if isinstance(value, str):
        return clip(redact(value[:reach]), limit, len(value))
    written, size = [], 0
    try:
        for piece in _pieces(value, functools.partial(_leaf, reach=reach, redact=redact), ()):
            written.append(piece)
            size += len(piece)
            if size > reach:
                break
    except Exception as error:  # a value that cannot be looked at must not stop who looks
        written.append(f"<{type(error).__name__}>")
    return clip(redact("".join(written)), limit, _length(value))


def clip(text: str, limit: int, length: int | None = None) -> str:
    """Return a redacted text as one line of ``limit`` characters, marked with its length if cut."""
    line = one_line(text)
    if len(line) <= limit:
        return line
    return f"{line[:limit]}{ELLIPSIS} (len={len(text) if length is None else length})"


def about(value: object) -> str:
    """Return what a value is, without anything of it: ``str of 12``, ``ndarray (3, 4) float32``."""
    name = type(value).__name__
    if _is_array(value):
        return " ".join([name, *_measures(value)])
    length = _length(value)
    return name if length is None else f"{name} of {length}"


def _leaf(text: str, *, reach: int, redact: Redact) -> str:
    return json.dumps(redact(text[:reach]), ensure_ascii=False)


def _pieces(value: object, leaf: Callable[[str], str], above: tuple[int, ...]) -> Iterator[str]:
    """Yield the text of a value bit by bit, so that nobody writes more of it than is shown."""
    if id(value) in above or len(above) > _MAX_DEPTH:
        yield ELLIPSIS
    elif isinstance(value, str):
        yield leaf(value)
    elif value is None or isinstance(value, (bool, int, float)):
        yield json.dumps(value) if type(value) in (type(None), bool, int, float) else repr(value)
    elif isinstance(value, Mapping):
        items = (
            (leaf(key if isinstance(key, str) else _represented(key)), item)
            for key, item in value.items()
        )
        yield from _bracketed("{}", items, leaf, (*above, id(value)))
    elif isinstance(value, (list, tuple, Set)):
        ordered = sorted(value, key=_represented) if isinstance(value, Set) else value
        yield from _bracketed("[]", (("", item) for item in ordered), leaf, (*above, id(value)))
    elif _is_array(value):
        yield _array(value)
    else:
        yield _represented(value)


def _bracketed(
    ends: str, items: Iterator[tuple[str, Any]], leaf: Callable[[str], str], above: tuple[int, ...]
) -> Iterator[str]:
    yield ends[0]
    for at, (name, item) in enumerate(items):
        yield (", " if at else "") + (f"{name}: " if name else "")
        yield from _pieces(item, leaf, above)
    yield ends[1]


def _represented(value: object) -> str:
    """Return ``repr`` without addresses in memory, or what it failed with."""
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception as error:
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"


def _is_array(value: object) -> bool:
    """Say whether a value is of an array library, without importing one."""
    package = type(value).__module__.partition(".")[0]
    return package in ARRAY_PACKAGES and (hasattr(value, "shape") or hasattr(value, "dtype"))


def _measures(value: object) -> list[str]:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    measures = [] if shape is None else [str(tuple(shape))]
    return measures if dtype is None else [*measures, str(dtype)]


def _array(value: Any) -> str:
    """Return type, shape and first values of an array, table or tensor."""
    head = " ".join([type(value).__name__, *_measures(value)])
    try:
        if hasattr(value, "columns"):
            names = list(value.columns)[:PREVIEW] if hasattr(value, "head") else []
            first: Any = {str(name): value[name].head(PREVIEW).tolist() for name in names}
        else:
            flat = value.reshape(-1) if hasattr(value, "reshape") else value
            first = flat[:PREVIEW].tolist()
        return f"<{head} {_represented(first)}>"
    except Exception as error:
        return f"<{head} without a preview: {type(error).__name__}>"


def _length(value: object) -> int | None:
    if isinstance(value, Collection):
        try:
            return len(value)
        except Exception:
            return None
    return None


HIDDEN = "[redacted]"

# A known secret that is shorter would be found in any text.
_LEAST = 4


class Redactor:
    """Replaces secrets in a text."""

    def __init__(self, known: Iterable[str], patterns: Callable[[str], str]) -> None:
        self._known = sorted({value for value in known if len(value) >= _LEAST}, key=len)[::-1]
        self._patterns = patterns

    def __call__(self, text: str) -> str:
        """Return the text without secrets; nothing of it where it cannot be searched."""
        for value in self._known:
            text = text.replace(value, HIDDEN)
        try:
            return self._patterns(text)
        except Exception as error:  # what cannot be searched is not shown
            return f"[{len(text)} characters, not shown: {type(error).__name__}]"


# From the least to the most urgent.
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
TRACE, VARS = "debug_trace", "debug_vars"
_NAME = re.compile(rf"(?:{TRACE}|{VARS})_\d{{8}}-\d{{6}}_sess\d+\.log(?:\.\d+)?")
_MISSING = "<no value given>"


def is_log(name: str) -> bool:
    """Return whether a file has the name of one of these logs, moved aside or not."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class DebugRules:
    """What is written."""

    vars_enabled: bool = False
    min_level: str = "INFO"
    max_chars: int = 200
    rotate_bytes: int = 0  # a file that would grow beyond it is moved to .1; 0: never
    rotate_keep: int = 5  # so many moved files stay, .1 the newest


class DebugLog:
    """The log of one session; nothing exists on the disk before its first line."""

    def __init__(
        self, folder: Path, rules: DebugRules, redact: Redact, clock: Callable[[], dt.datetime]
    ) -> None:
        self.problem = ""
        self._folder = folder
        self._rules = rules
        self._redact = redact
        self._clock = clock
        self._least = LEVELS.index(rules.min_level)
        self._guard = threading.Lock()
        self._files: dict[str, _File] = {}

    def wants(self, level: str) -> bool:
        """Say whether lines of a level are written; an unknown level is as urgent as an error."""
        return (LEVELS.index(level) if level in LEVELS else len(LEVELS)) >= self._least

    def log_write_text(self, msg: str, level: str = "INFO") -> None:
        """Write ``[ts] [LEVEL] msg`` to the trace, and to the variables where there are any."""
        if not self.wants(level):
            return
        limit = self._rules.max_chars
        line = clip(self._redact(msg[: limit + LOOKAHEAD]), limit, len(msg))
        self._write(level, {TRACE: [line], VARS: [line]})

    def log_write_var(self, *names_and_values: object, level: str = "INFO") -> None:
        """Write which variables there are to the trace, ``name=value`` to the variables."""
        if not self.wants(level):
            return
        given = iter(names_and_values)
        pairs = [
            (*(name if isinstance(name, tuple) else (name, self._rules.max_chars)), value)
            for name, value in itertools.zip_longest(given, given, fillvalue=_MISSING)
        ]
        said = ", ".join(f"{name} ({about(value)})" for name, _, value in pairs)
        wanted = pairs if self._rules.vars_enabled else []
        values = [f"{name}={dump(value, limit, self._redact)}" for name, limit, value in wanted]
        self._write(level, {TRACE: [clip(f"vars: {said}", len(said) + 6)], VARS: values})

    logWriteText = log_write_text  # noqa: N815 - the seed's own name
    logWriteVar = log_write_var  # noqa: N815 - the seed's own name

    def close(self) -> None:
        """Close the files; the next line opens new ones."""
        with self._guard:
            self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}

    def _write(self, level: str, lines: dict[str, list[str]]) -> None:
        with self._guard:
            if self.problem:
                return
            now = self._clock()
            head = f"[{now.isoformat(timespec='milliseconds')}] [{level}] "
            try:
                for kind, file in self._open(now).items():
                    for line in lines[kind]:
                        file.write(f"{head}{line}\n".encode("utf-8", "backslashreplace"))
            except OSError as error:  # the work goes on without its log
                self.problem = f"{type(error).__name__}: {error.strerror}"
                self._close()

    def _open(self, now: dt.datetime) -> dict[str, _File]:
        """Return the open files; anew where there are none or somebody removed one."""
        if self._files and not all(file.is_there() for file in self._files.values()):
            self._close()
        if not self._files:
            stem = self._new_trace(f"{now:%Y%m%d-%H%M%S}")
            if self._rules.vars_enabled:
                self._files[VARS] = _File(self._folder / f"{VARS}_{stem}.log", self._rules)
        return self._files

    def _new_trace(self, stamp: str) -> str:
        """Make a trace under the first free number of this second; return its stem."""
        make_private_dir(self._folder)  # here, where a file in its place is no taken number
        for number in itertools.count(1):
            stem = f"{stamp}_sess{number:02d}"
            with contextlib.suppress(FileExistsError):
                self._files[TRACE] = _File(self._folder / f"{TRACE}_{stem}.log", self._rules)
                return stem
        raise AssertionError("numbers do not end")


class _File:
    """One file that is appended to and moved aside when it is full."""

    def __init__(self, path: Path, rules: DebugRules) -> None:
        self._path = path
        self._rules = rules
        self._fd = open_append(path)
        self._size = 0

    def is_there(self) -> bool:
        """Whether the name still leads to the open file."""
        try:
            return self._path.stat().st_ino == os.fstat(self._fd).st_ino
        except OSError:
            return False

    def write(self, line: bytes) -> None:
        """Append a line and sync it."""
        if self._size and 0 < self._rules.rotate_bytes < self._size + len(line):
            self._rotate()
        append_line(self._fd, line)
        self._size += len(line)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)

    def _rotate(self) -> None:
        """Move ``.1`` to ``.2`` and so on, the oldest first: killed between, no line is lost."""
        for number in range(self._rules.rotate_keep - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                move_aside(self._turned(number), self._turned(number + 1))
        move_aside(self._path, self._turned(1))
        old, self._fd = self._fd, open_append(self._path)
        os.close(old)
        self._size = 0

    def _turned(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
