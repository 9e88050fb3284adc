"""Finds and reads exports: a file, a folder, or a ZIP as it was downloaded.

JSON is read as a stream, one conversation at a time, so that an export may be larger than memory.
A ZIP is read in place; nothing of it is written to disk.
"""

from __future__ import annotations

import codecs
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ragstream_core.conversations.importers import agent_logs, chatgpt, claude_ai, gemini, markdown
from ragstream_core.conversations.importers.exchange import Conversation
from ragstream_core.errors import UsageError

FORMATS = (
    chatgpt.NAME, claude_ai.NAME, gemini.NAME, agent_logs.CLAUDE_CODE, agent_logs.CODEX,
    markdown.NAME,
)  # fmt: skip
MAX_RATIO, MAX_BYTES = 200, 32 << 30
"""A member of a ZIP that unpacks to more than so many times its size, or so many bytes, is none."""
UNREADABLE = (
    OSError, zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, zlib.error,
    lzma.LZMAError,
)  # fmt: skip
"""What opening and unpacking raise."""
MAX_LINE = 256 << 20
"""Bytes of one line of a log."""
NAME_ONE = "name the folder or ZIP of an export, or a coding agent's folder of sessions"
Opener = Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file that may hold conversations.

    Attributes:
        name: Path as it was given, with the member of a ZIP behind a colon.
        stem: Its name without folder and extension.
        open: Opens it for reading bytes.
        size: Bytes.
    """

    name: str
    stem: str
    open: Opener
    size: int


@dataclass(frozen=True, slots=True)
class Upload:
    """An export that was handed over as bytes; nothing of it is written to disk.

    Attributes:
        name: Its name, for people.
        data: Its bytes.
    """

    name: str
    data: bytes

    def __str__(self) -> str:
        """Return its name."""
        return self.name


Source = Path | Upload


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read.

    Attributes:
        where: File, and what in it.
        what: What is wrong with it.
        unread: The file could not be read to its end; trying again may help.
    """

    where: str
    what: str
    unread: bool = False


def expanded(name: str) -> Path:
    """Return a path with ``~`` in it as the home of that user; an unknown one stays as it is."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def export_files(path: Source, form: str = "") -> list[ExportFile]:
    """Return the files of an export that may hold conversations, by name.

    Args:
        path: A file, a folder (with its subfolders; links are not followed), a ZIP, or the bytes of
            a file or ZIP.
        form: One of `FORMATS`; Markdown is looked for only by its name, since most is no
            conversation.

    Raises:
        UsageError: It is not there, cannot be read, or holds no such file.
    """
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
    if not found:
        raise UsageError(
            f"{path} holds no conversations: no conversations.json, My Activity.json or *.jsonl",
            hint=NAME_ONE,
        )
    return found


def conversations(
    file: ExportFile, form: str = "", on_read: Callable[[int], object] = lambda size: None
) -> Iterator[Conversation | Problem]:
    """Yield what a file holds, one conversation at a time.

    Args:
        file: One of `export_files`.
        form: One of `FORMATS`; "": as its content tells.
        on_read: Called with the number of bytes after each read.
    """
    if file.name.lower().endswith((".html", ".htm")):
        yield Problem(file.name, "is HTML: ask for the export as JSON")
        return
    try:
        with file.open() as opened:
            stream = _Counted(opened, on_read)
            if file.name.lower().endswith(".jsonl"):
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
    found = markdown.conversation(_lines(stream), name=file.stem)
    return found or Problem(file.name, "no two sides speak in it, such as ## User and ## Assistant")


def _lines(stream: _Counted) -> Iterator[str]:
    while line := stream.readline(MAX_LINE):
        yield line.decode("utf-8", "replace")


def _of_array(file: ExportFile, stream: _Counted, form: str) -> Iterator[Conversation | Problem]:
    import ijson

    activity: list[dict[str, Any]] = []
    rows = 0
    try:
        for row in ijson.items(stream, "item", use_float=True):
            rows += 1
            if gemini.is_entry(row) and form in ("", gemini.NAME):
                if problem := gemini.problem_of(row):
                    yield Problem(f"{file.name}, record {rows}", problem)
                else:
                    activity.append(row)
                continue
            yield _conversation(file, row, rows, form)
    except (ijson.JSONError, UnicodeDecodeError) as error:
        yield Problem(file.name, f"breaks off after {rows} records: {_one_line(error)}")
    if not rows:
        yield Problem(file.name, "holds no list of conversations")
    yield from gemini.conversations(activity)


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
    """Return the members of a ZIP that may hold conversations.

    Raises:
        UsageError: One of them unpacks to more than is plausible, or is encrypted.
    """
    with _archive(path) as archive:
        infos = [i for i in archive.infolist() if _may_hold(PurePosixPath(i.filename).name, form)]
    for info in infos:
        if info.file_size > max(MAX_RATIO * info.compress_size, 1 << 20) or (
            info.file_size > MAX_BYTES
        ):
            raise UsageError(
                f"{path}: {info.filename} would unpack to {info.file_size:,} bytes of "
                f"{info.compress_size:,}",
                hint="unpack it yourself if you trust it, and import the folder",
            )
        if info.flag_bits & 1:
            raise UsageError(f"{path} is encrypted", hint="unpack it, and import the folder")
    return [
        ExportFile(
            f"{path}:{info.filename}",
            PurePosixPath(info.filename).stem,
            _member_opener(path, info),
            info.file_size,
        )
        for info in sorted(infos, key=lambda info: info.filename)
    ]


def _member_opener(path: Source, member: zipfile.ZipInfo) -> Opener:
    def opened() -> AbstractContextManager[IO[bytes]]:
        return _Member(path, member)

    return opened


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


class _Member(AbstractContextManager[IO[bytes]]):
    """A member of a ZIP, open; closes the archive with it."""

    def __init__(self, path: Source, member: zipfile.ZipInfo) -> None:
        self._archive = _archive(path)
        self._stream = io.BufferedReader(self._archive.open(member))  # type: ignore[type-var]

    def __enter__(self) -> IO[bytes]:
        return self._stream

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._archive.close()


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
    return is_markdown(name) if form == markdown.NAME else is_export(name)


def _one_line(error: Exception) -> str:
    text = error.args[0] if error.args else error
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return " ".join(shown.split())[:120]
