"""Filters that a person writes into the prompt: ``file:GLOB type:md since:30d tag:GOLD``.

They narrow the Eligibility Pool and are blanked out of the text that is searched, length for
length, so that every span stays true. Several values of one filter widen each other, different
filters narrow each other. Only the words that are searched are looked at: not code, not sections
without a canonical name. What is no valid filter stays in the text, with a warning.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from unicodedata import normalize

from ragstream_core.agents.headers import CONTENT, find_sections, guarantee_task
from ragstream_core.conversations.journal.records import moment_ns
from ragstream_core.records.stage_results import Filter
from ragstream_core.text.code import BY_LINES, GRAMMARS
from ragstream_core.text.headings import PROSE_TYPES

if TYPE_CHECKING:
    from ragstream_core.index.rows import FileEntry

KINDS = ("file", "type", "since", "tag")

# Tags that are kept in capitals, however they are written.
TAGS = ("GOLD", "SILVER", "BLUE")
MAX_VALUE = 200
_OTHERS = frozenset(
    {"path", "dir", "folder", "source", "ext", "extension", "project", "session", "before", "after",
     "until", "date", "label"}
)  # fmt: skip
_MAYBE = re.compile(r"[A-Za-z]:\S")
_TOKEN = re.compile(r"""(?<!\S)([A-Za-z]{2,12}):("[^"\n]*"|'[^'\n]*'|\S+)([^\s]*)""")

# Fenced, quoted, and indented behind an empty line.
_CODE = re.compile(
    r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)|`[^`\n]+`"
    r"|(?<=\n)[ \t\r]*\n(?:(?: {4}|\t)[^\n]*(?:\n|\Z)|[ \t\r]*\n)+",
    re.DOTALL | re.MULTILINE,
)
_END = ".,;:!?)"
_TYPE = re.compile(r"\.?[A-Za-z0-9_]{1,12}")
_TAG = re.compile(r"[\w-]{1,40}")
_AGE = re.compile(r"(\d{1,5})([hdw])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TYPE_NAMES = """
json jsonl ndjson yml yaml pdf docx doc pptx xlsx html htm xhtml epub odt ods odp eml mbox msg ipynb
rtf srt vtt csv tsv parquet
"""
_TYPES = frozenset(_TYPE_NAMES.split()) | {*GRAMMARS, *BY_LINES, *PROSE_TYPES}
_DAYS = {"d": 1, "w": 7}


@dataclass(frozen=True, slots=True)
class Filtered:
    """A prompt and its filters.

    Attributes:
        text: The raw prompt with blanks for the filters; of the same length.
        filters: In the order of the prompt.
        warnings: What looks like a filter and is none.
    """

    text: str
    filters: tuple[Filter, ...] = ()
    warnings: tuple[str, ...] = ()

    def values(self, kind: str) -> tuple[str, ...]:
        """Return all values of one kind, each once."""
        return tuple(dict.fromkeys(v for f in self.filters if f.kind == kind for v in f.values))

    def since(self, now: dt.datetime) -> dt.datetime | None:
        """Return the latest of the ``since:`` times; None if there is none.

        Args:
            now: The prompt's time, with its zone. A date begins at its midnight there, an age in
                days or weeks at the midnight so many days ago, one in hours with that hour.
        """
        times = [_time(value, now) for value in self.values("since")]
        return max(times) if times else None

    def closed(self, documents: Mapping[str, FileEntry], now: dt.datetime) -> set[str]:
        """Return the documents that the filters leave out.

        Args:
            documents: ``project/path`` → its row of the manifest.
            now: The prompt's time.
        """
        globs, types, since = self.values("file"), self.values("type"), self.since(now)
        floor_ns = int(since.timestamp()) * 10**9 if since else None
        return {
            name
            for name, entry in documents.items()
            if (globs and not any(_fits(name, entry.path, glob) for glob in globs))
            or (types and entry.type not in types)
            or (floor_ns is not None and entry.mtime_ns < floor_ns)
        }

    def past(self, tags: Iterable[str], since: str, now: dt.datetime) -> dict[str, object]:
        """Return the settings of the conversation that the filters narrow; never wider.

        Args:
            tags: ``history.tags`` as it is; empty: all.
            since: ``history.since`` as it is; empty: all.
            now: The prompt's time.

        Returns:
            Dotted setting → value; empty if nothing changes.
        """
        changes: dict[str, object] = {}
        allowed, wanted, asked = tuple(tags), self.values("tag"), self.since(now)
        if wanted:
            left = tuple(tag for tag in wanted if tag in allowed) if allowed else wanted
            changes |= {"history.tags": left} if left else {"history.enabled": False}
        if asked:
            told = (asked.isoformat(), *([since] if since else ()))
            changes["history.since"] = max(told, key=moment_ns)
        return changes


def read_filters(raw: str, aliases: Mapping[str, str]) -> Filtered:
    """Find the filters of a prompt.

    Args:
        raw: The prompt as written.
        aliases: Folded header name → canonical header.
    """
    if not _MAYBE.search(raw):
        return Filtered(raw)
    found: dict[tuple[int, int], Filter] = {}
    warnings: dict[str, None] = {}
    sections, _ = guarantee_task(raw, find_sections(raw, aliases)[1])
    for section in sections:
        for kind, written, start in _tokens(section.text) if section.canon in CONTENT else ():
            try:
                values = _values(kind, written[len(kind) + 1 :])
            except ValueError as error:
                warnings[f"{written[:MAX_VALUE]!r} is left in the text: {error}"] = None
                continue
            span = section.raw_span(start, start + len(written))
            found[span] = Filter(kind.lower(), values, written, span)
    text = raw
    for start, end in found:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return Filtered(text, tuple(found[span] for span in sorted(found)), tuple(warnings))


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (kind as written, the token, its start) of what may be meant as a filter."""
    code = [match.span() for match in _CODE.finditer(text)]
    for match in _TOKEN.finditer(text):
        kind, value, rest = match.groups()
        if value[0] not in "\"'" or rest.strip(_END):
            value = (value + rest).rstrip(_END)
        known = kind.lower() in KINDS
        near = kind in _OTHERS or get_close_matches(kind, KINDS, 1, 0.8)
        if (known or near) and not any(a <= match.start() < b for a, b in code):
            yield kind, f"{kind}:{value}", match.start()


def _values(kind: str, value: str) -> tuple[str, ...]:
    """Return the values of a filter.

    Raises:
        ValueError: It is none; the message says why.
    """
    if kind.lower() not in KINDS:
        raise ValueError(f"there is no filter {kind!r}; there are {', '.join(KINDS)}")
    quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
    value = value[1:-1] if quoted else value
    if not value.strip() or len(value) > MAX_VALUE or any(c in "\"'`" for c in value):
        raise ValueError(f"{kind}: needs a value, quoted as a whole where it holds blanks")
    found = _READERS[kind.lower()](value)
    if not quoted and any(_WORDS[kind.lower()](one) for one in found):
        raise ValueError(f'to filter by it, write {kind.lower()}:"{value}"')
    return found


def _file(value: str) -> tuple[str, ...]:
    glob = value.replace("\\", "/").removeprefix("./")
    if glob.startswith("/"):
        raise ValueError("paths are relative to the project")
    return (glob,)


def _type(value: str) -> tuple[str, ...]:
    return tuple(part.lower().removeprefix(".") for part in _parts(value, _TYPE, "type:md"))


def _tag(value: str) -> tuple[str, ...]:
    parts = _parts(value, _TAG, "tag:GOLD")
    return tuple(tag.upper() if tag.upper() in TAGS else tag for tag in parts)


def _since(value: str) -> tuple[str, ...]:
    if not _AGE.fullmatch(value):
        if not _DATE.fullmatch(value):
            raise ValueError("write since:2026-10-01, since:30d, since:12h or since:2w")
        dt.date.fromisoformat(value)  # says which part of a date is wrong
    return (value,)


_READERS = {"file": _file, "type": _type, "tag": _tag, "since": _since}


# What is written without quotes and fits neither a file nor a type nor the look of a tag is a word
# of the question: type:ignore, file:line, tag:latest.
_WORDS: Mapping[str, Callable[[str], bool]] = {
    "file": lambda value: value.isalpha() and value.islower(),
    "type": lambda value: value not in _TYPES,
    "tag": lambda value: value.isalpha() and value.islower(),
    "since": lambda value: False,
}


def _parts(value: str, pattern: re.Pattern[str], example: str) -> tuple[str, ...]:
    parts = tuple(value.split(","))
    if not all(pattern.fullmatch(part) for part in parts):
        raise ValueError(f"write {example}; several with commas and without blanks")
    return parts


def _time(value: str, now: dt.datetime) -> dt.datetime:
    """Return where a ``since:`` begins: the same all day, or all hour if it counts hours."""
    age = _AGE.fullmatch(value)
    if age and age[2] == "h":
        return now.replace(minute=0, second=0, microsecond=0) - dt.timedelta(hours=int(age[1]))
    if age:
        day = now.date() - dt.timedelta(days=int(age[1]) * _DAYS[age[2]])
    else:
        day = dt.date.fromisoformat(value)
    return dt.datetime.combine(day, dt.time(), now.tzinfo)


def _fits(name: str, path: str, glob: str) -> bool:
    """Return whether a glob, path, end of a path or folder means a document."""
    if not glob.isascii():  # systems write an accent as part of its letter, or as a sign behind it
        name, path, glob = (normalize("NFC", text) for text in (name, path, glob))
    folder = glob.rstrip("/") + "/"
    return any(
        fnmatchcase(one, glob) or one.endswith(f"/{glob}") or one.startswith(folder)
        for one in (name, path, path.rsplit("/", 1)[-1])
    )
