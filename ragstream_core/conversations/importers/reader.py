"""Finds and reads exports: a file, a folder, or a ZIP as it was downloaded.

JSON is read as a stream, one conversation at a time, so that an export may be larger than memory;
what is too large, too deep or too much of one is left out, and the others are read. A ZIP is read
in place; nothing of it is written to disk.
"""

from __future__ import annotations

import codecs
import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ragstream_core.conversations.importers import agent_logs, chatgpt, claude_ai, gemini, markdown
from ragstream_core.conversations.importers.bounded_json import (
    MOST_BYTES,
    TooMuch,
    members,
    too_much,
)
from ragstream_core.conversations.importers.exchange import Conversation
from ragstream_core.errors import UsageError
from ragstream_core.platform.zips import FLOOR_BYTES, MAX_RATIO, MOST_MEMBERS, UNREADABLE

FORMATS = (
    chatgpt.NAME, claude_ai.NAME, gemini.NAME, agent_logs.CLAUDE_CODE, agent_logs.CODEX,
    markdown.NAME,
)  # fmt: skip

# A member of a ZIP that unpacks to more bytes is none.
MAX_BYTES = 32 << 30
# Bytes of Gemini's entries of one file, which are sorted by their time.
MOST_ACTIVITY = 128 << 20
ACTIVITY = (
    f"is behind {MOST_ACTIVITY >> 20} MiB of activity: it and what follows is not read. "
    "Export a shorter time"
)

# What an export of Claude.ai holds beside conversations: the report tells of it.
BESIDE = ("projects.json", "memories.json")
AS_JSON = "is HTML: ask Google Takeout for My Activity as JSON (Multiple formats, Activity records)"
NAME_ONE = "name the folder or ZIP of an export, or a coding agent's folder of sessions"
Opener = Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file that may hold conversations."""

    name: str  # path as it was given, with the member of a ZIP behind a colon
    stem: str  # its name without folder and extension
    open: Opener  # opens it for reading bytes
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Upload:
    """An export that was handed over as bytes; nothing of it is written to disk."""

    name: str  # its name, for people
    data: bytes  # its bytes

    def __str__(self) -> str:
        """Return its name."""
        return self.name


Source = Path | Upload


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read."""

    where: str  # file, and what in it
    what: str  # what is wrong with it
    unread: bool = False  # the file could not be read to its end; trying again may help

    def to_json(self) -> dict[str, str]:
        """Return what people are told."""
        return {"where": self.where, "what": self.what}


def expanded(name: str) -> Path:
    """Return a path with ``~`` in it as the home of that user; an unknown one stays as it is."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def export_files(path: Source, form: str = "") -> list[ExportFile]:
    """Return the files of an export that may hold conversations, by name."""
    try:
        if isinstance(path, Upload):
            found = _uploaded(path, form)
        elif path.is_dir():
            found = [
                ExportFile(str(file), file.stem, _opener(file), file.stat().st_size)
                for file in sorted(path.rglob("*"))
                if _may_hold(file.name, form) and file.is_file() and not file.is_symlink()
            ]
        elif zipfile.is_zipfile(path):
            found = _members(path, form)
        else:
            found = [ExportFile(str(path), path.stem, _opener(path), path.stat().st_size)]
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {why}", hint=NAME_ONE) from None
    if all(PurePosixPath(file.name).name in BESIDE for file in found):
        raise UsageError(
            f"{path} holds no conversations: no conversations.json, My Activity.json or *.jsonl",
            hint=NAME_ONE,
        )
    return found


def conversations(
    file: ExportFile, form: str = "", on_read: Callable[[int], object] = lambda size: None
) -> Iterator[Conversation | Problem]:
    """Yield what a file holds, one conversation at a time."""
    if file.name.lower().endswith((".html", ".htm")):
        yield Problem(file.name, AS_JSON)
        return
    try:
        with file.open() as opened:
            stream = _Counted(opened, on_read)
            if PurePosixPath(file.name.replace(":", "/")).name.lower() in BESIDE:
                yield from _of_account(file, stream)
            elif file.name.lower().endswith(".jsonl"):
                yield _of_log(file, stream, form)
            elif is_markdown(file.name):
                yield _of_markdown(file, stream, form)
            else:
                yield from _of_array(file, stream, form)
    except UNREADABLE as error:
        yield Problem(file.name, f"cannot be read further: {error}", unread=True)


def _of_log(file: ExportFile, stream: _Counted, form: str) -> Conversation | Problem:
    found = agent_logs.conversation(_lines(stream), name=file.stem)
    if found is None:
        return Problem(file.name, "no line is of a coding agent that is known")
    if form and found.format != form:
        return Problem(file.name, f"is a log of {found.format}, not of {form}")
    return found


def _of_markdown(file: ExportFile, stream: _Counted, form: str) -> Conversation | Problem:
    if form not in ("", markdown.NAME):
        return Problem(file.name, f"is Markdown, not of {form}")
    if file.size > MOST_BYTES:
        return Problem(file.name, f"is larger than {MOST_BYTES >> 20} MiB: split it")
    lines = (line for line in _lines(stream) if not isinstance(line, TooMuch))
    found = markdown.conversation(lines, name=file.stem)
    return found or Problem(
        file.name, "no conversation found: expected headings such as ## User and ## Assistant"
    )


def _lines(stream: _Counted) -> Iterator[str | TooMuch]:
    """Yield the lines of a file; in place of one that is too large, what is too large about it."""
    while line := stream.readline(MOST_BYTES + 1):
        wrong = too_much(line)
        while wrong and line and not line.endswith(b"\n"):
            line = stream.readline(MOST_BYTES)
        yield TooMuch(wrong) if wrong else line.decode("utf-8", "replace")


def _of_array(file: ExportFile, stream: _Counted, form: str) -> Iterator[Conversation | Problem]:
    activity: list[dict[str, Any]] = []
    size = rows = 0
    for member in members(stream):
        rows += 1
        where = f"{file.name}, record {member.number}" if member.number else file.name
        row = member.value
        if member.problem:
            yield Problem(where, member.problem)
        elif gemini.is_entry(row) and form in ("", gemini.NAME):
            size += member.size
            if size > MOST_ACTIVITY:
                yield Problem(where, ACTIVITY)
                break
            if problem := gemini.problem_of(row):
                yield Problem(where, problem)
            else:
                activity.append(row)
        else:
            yield _conversation(file, row, member.number, form)
    if not rows:
        yield Problem(file.name, "its list of conversations is empty")
    yield from gemini.conversations(activity)


def _of_account(file: ExportFile, stream: _Counted) -> Iterator[Problem]:
    """Tell of what Claude.ai exports beside conversations; nothing if the file is another's."""
    found = claude_ai.beside_conversations(m.value for m in members(stream) if not m.problem)
    if found:
        yield Problem(file.name, found)


def _conversation(file: ExportFile, row: Any, number: int, form: str) -> Conversation | Problem:
    where = f"{file.name}, record {number}"
    for name, is_one, read in (
        (chatgpt.NAME, chatgpt.is_conversation, chatgpt.conversation),
        (claude_ai.NAME, claude_ai.is_conversation, claude_ai.conversation),
    ):
        if is_one(row):
            if form and form != name:
                return Problem(where, f"is a conversation of {name}, not of {form}")
            return read(row)
    return Problem(where, "is no conversation of a format that is known")


def _uploaded(upload: Upload, form: str) -> list[ExportFile]:
    if zipfile.is_zipfile(io.BytesIO(upload.data)):
        return _members(upload, form)
    stem = PurePosixPath(upload.name).stem
    return [ExportFile(upload.name, stem, _opener(upload), len(upload.data))]


def _opener(source: Source) -> Opener:
    if isinstance(source, Upload):
        return lambda: io.BytesIO(source.data)
    return lambda: source.open("rb")


def _archive(source: Source) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(source.data) if isinstance(source, Upload) else source)


def _members(path: Source, form: str) -> list[ExportFile]:
    """Return the members of a ZIP that may hold conversations."""
    archive = _archive(path)  # stays open as long as one of its members may be read
    infos = [i for i in archive.infolist() if _may_hold(PurePosixPath(i.filename).name, form)]
    if len(infos) > MOST_MEMBERS:
        raise UsageError(
            f"{path} holds {len(infos):,} files, more than {MOST_MEMBERS:,}",
            hint="unpack it, and import its folders one by one",
        )
    for info in infos:
        if info.file_size > max(MAX_RATIO * info.compress_size, FLOOR_BYTES) or (
            info.file_size > MAX_BYTES
        ):
            raise UsageError(
                f"{path}: {info.filename} is packed so tightly that it may be a bomb: "
                f"{info.compress_size:,} bytes would become {info.file_size:,}",
                hint="if you trust it, unpack it yourself and import the folder",
            )
        if info.flag_bits & 1:
            raise UsageError(f"{path} is encrypted", hint="unpack it, and import the folder")
    return [
        ExportFile(
            f"{path}:{info.filename}",
            PurePosixPath(info.filename).stem,
            partial(_opened, archive, info),
            info.file_size,
        )
        for info in sorted(infos, key=lambda info: info.filename)
    ]


def _opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    return io.BufferedReader(archive.open(info))  # type: ignore[type-var]


class _Counted:
    """A stream that tells what was read of it, without a mark of its encoding."""

    def __init__(self, stream: IO[bytes], on_read: Callable[[int], object]) -> None:
        self._stream, self._on_read, self._begun = stream, on_read, False

    def read(self, size: int = -1) -> bytes:
        return self._told(self._stream.read(size))

    def readline(self, limit: int) -> bytes:
        return self._told(self._stream.readline(limit))

    def _told(self, found: bytes) -> bytes:
        self._on_read(len(found))
        if self._begun or not found:
            return found
        self._begun = True
        return found.removeprefix(codecs.BOM_UTF8)


def is_export(name: str) -> bool:
    """Whether a file of that name may hold conversations."""
    plain = name.lower().replace(" ", "").replace("-", "")
    if plain.endswith(".jsonl"):
        return not plain.startswith("history.")  # prompts alone, without their answers
    return plain.endswith(".json") and plain.startswith(("conversations", "myactivity"))


def is_markdown(name: str) -> bool:
    """Whether a file's name is that of Markdown."""
    return name.lower().endswith((".md", ".markdown"))


def _may_hold(name: str, form: str) -> bool:
    if form == markdown.NAME:
        return is_markdown(name)
    plain = name.lower()
    is_html = plain.endswith((".html", ".htm")) and plain.replace(" ", "").startswith("myactivity")
    return is_export(name) or is_html or (plain in BESIDE and form in ("", claude_ai.NAME))
