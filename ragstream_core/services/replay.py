"""`ragstream replay`: a kept prompt, or that of a bundle, made again and compared; `bundle`.

A bundle holds everything that a prompt is made again from. One that is read comes from somewhere
else and is treated as such: it is checked as a whole, read by strict forms, and what it says of
itself is held against the prompt's record. It becomes a data root of its own in a private folder
that is removed afterwards; the data root stays as it was.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.segments import CURRENT
from ragstream_core.errors import (
    AddOption,
    EmbeddingFailed,
    InputUnavailable,
    IntegrityError,
    RagstreamError,
    RunCommand,
    UnknownPrompt,
    UsageError,
)
from ragstream_core.ingestion.secrets import find_secrets
from ragstream_core.platform.array_file import OTHER
from ragstream_core.platform.files import make_private_dir, replace_bytes
from ragstream_core.prompts.bundle_format import (
    BLOB,
    INDEX_PARTS,
    JOURNAL,
    MAX_BYTES,
    MAX_NUMBER,
    RECORD,
    SNAPSHOT,
    Bundle,
    broken,
    decode,
    encode,
    index_part,
    mentioned,
    pack,
    require_exact,
    required_blobs,
    strict_json,
    unpack,
)
from ragstream_core.prompts.inputs import settings_at
from ragstream_core.prompts.replay import replay
from ragstream_core.prompts.store import RECORD_NAME
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import prompt_inputs
from ragstream_core.wiring.file_sources import RecordedAnswers
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.kept_prompt import KeptPrompt

if TYPE_CHECKING:
    from ragstream_core.index.look import Portable
    from ragstream_core.prompts.replay import ReplayVerdict
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.wiring.workspace import Workspace

# What foreign values of a wrong kind raise, wherever they are first used.
_NO_VALUE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, EmbeddingFailed)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(?:/[A-Za-z0-9][A-Za-z0-9_.-]*)?")


def replay_prompt(workspace: Workspace, key: str, *, live: bool = False) -> ReplayVerdict:
    """Recompute a kept prompt and compare.

    Args:
        workspace: The data root.
        key: Its key or the first digits.
        live: Ask the language model again and compare what it says as well.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
    """
    kept = KeptPrompt.of(workspace, key)
    answers = RecordedAnswers.of(kept.record, live=live)
    run = functools.partial(kept.rerun, answers=answers)
    return replay(kept.record, run, answers.differences)


def replay_bundle(
    workspace: Workspace, path: Path, *, key: str = "", live: bool = False
) -> tuple[str, ReplayVerdict]:
    """Make the prompt of a bundle again and compare; nothing of it stays on the disk.

    Args:
        workspace: Its models and its settings of models are used.
        path: The file.
        key: The prompt that it must be of, or its first digits; "": any.
        live: Ask this workspace's language model again, and compare what it says as well.

    Returns:
        (its key, the verdict).

    Raises:
        UsageError: There is no such file.
        IntegrityError: It is not what was written, or of another prompt.
        OSError: The disk cannot take it.
    """
    bundle = unpack(_read(path))
    if not bundle.prompt_key.startswith(key):
        raise IntegrityError(
            f"{path} is of the prompt {bundle.prompt_key[:12]}, not of {key[:12]}",
            hint=(RunCommand("replay", "--bundle FILE"), ", without a key, takes any"),
        )
    with tempfile.TemporaryDirectory(prefix="ragstream-bundle-") as folder:
        try:
            space = put_down(workspace, Path(folder), bundle)
            return bundle.prompt_key, replay_prompt(space, bundle.prompt_key, live=live)
        except InputUnavailable as error:
            from ragstream_core.prompts.replay import ReplayVerdict

            verdict = ReplayVerdict("input unavailable", error.message, "", "", error.hint)
            return bundle.prompt_key, verdict
        except _NO_VALUE as error:
            broken(f"a value is not what it must be ({type(error).__name__})")


def _read(path: Path) -> bytes:
    """Read a regular file; a pipe or a device is none.

    Raises:
        UsageError: There is no such file.
        IntegrityError: It is larger than a bundle may be.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=RunCommand("bundle", "KEY")) from None
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise UsageError(f"{path} is not a file", hint=(RunCommand("bundle", "KEY"), " writes one"))
    with os.fdopen(fd, "rb") as handle:
        if found.st_size > MAX_BYTES:
            broken(f"it is larger than {MAX_BYTES:,} bytes")
        return handle.read(MAX_BYTES + 1)


def put_down(workspace: Workspace, root: Path, bundle: Bundle) -> Workspace:
    """Make a data root of a bundle.

    Args:
        workspace: Whose models are used.
        root: An empty folder.
        bundle: As from `unpack`.

    Returns:
        A workspace over that folder.

    Raises:
        IntegrityError: The parts do not fit the record, or each other.
        RagstreamError: They cannot be put down.
    """
    given = {"paths.data_dir": str(root), "paths.index_dir": "", "paths.logs": ""}
    space = workspace.with_settings(given)
    (root / "models").symlink_to(make_private_dir(workspace.layout.models))
    inputs = _recorded(space, bundle)
    _require_parts(bundle, inputs)
    for name, data in bundle.parts.items():
        digest = name.removeprefix(BLOB)
        if name.startswith(BLOB) and space.store.put_blob(bytes(data)) != digest:
            broken(f"the bytes {digest[:12]} differ")
    for pin in inputs.pins:
        _put_generation(space, bundle, pin)
    _put_history(space, bundle, inputs)
    return space


def _recorded(space: Workspace, bundle: Bundle) -> PromptInputs:
    """Put the record down and return its inputs; their digests are part of the prompt's key.

    Raises:
        IntegrityError: It is not the record of the prompt, or names what it must not.
    """
    if RECORD not in bundle.parts:
        broken("it holds no record")
    strict_json(bundle.parts[RECORD], "its record")
    path = space.store.root / bundle.prompt_key / RECORD_NAME
    replace_bytes(path, bytes(bundle.parts[RECORD]), durable=False)
    try:
        record = space.store.record(bundle.prompt_key)
        inputs = PromptInputs.from_json(record.inputs)
        require_exact(inputs)
    except RagstreamError as error:
        broken(error.message)
    settings = settings_at(inputs, "prompt_builder")
    for name in (settings.rerank.model, inputs.models.get("reranker", "none")):
        if _MODEL.fullmatch(name) is None:
            broken(f"it names {name[:80]!r} as a model")
    return inputs


def _require_parts(bundle: Bundle, inputs: PromptInputs) -> None:
    """Refuse what the record does not name, and what it names and is not there."""
    wanted = {
        RECORD,
        *(BLOB + digest for digest in required_blobs(inputs)),
    }
    for pin in inputs.pins:
        wanted |= {index_part(pin.project, kind) for kind in INDEX_PARTS}
    optional = {BLOB + digest for digest in mentioned(bundle.parts[RECORD])}
    if inputs.history.seq:
        wanted.add(JOURNAL)
    if inputs.history.snapshot:
        optional.add(SNAPSHOT)  # where the prompt looked at it
    odd = (wanted - set(bundle.parts)) | (set(bundle.parts) - wanted - optional)
    if odd:
        broken(f"its parts are not those of its record: {min(odd)[:80]}")


def _put_generation(space: Workspace, bundle: Bundle, pin: Pin) -> None:
    from ragstream_core.index.look import put_in

    if type(pin.generation) is not int or not 1 <= pin.generation < MAX_NUMBER:
        broken("its record names no generation")
    raw = [bundle.parts[index_part(pin.project, kind)] for kind in INDEX_PARTS]
    found = decode(raw)
    if found.embed_fp != pin.embed_fp:
        broken(f"the vectors of {pin.project} are of another model")
    put_in(space.index_dir(pin.project), found, n=pin.generation, digest=pin.digest)


def _put_history(space: Workspace, bundle: Bundle, inputs: PromptInputs) -> None:
    lines, snapshot = (bundle.parts.get(name) for name in (JOURNAL, SNAPSHOT))
    if lines is not None:
        replace_bytes(space.layout.logs / CURRENT, bytes(lines), durable=False)
    if snapshot is not None:
        history = History(space)
        replace_bytes(history.path, bytes(snapshot), durable=False)
        try:
            view = history.selection()
        except IntegrityError as error:
            if f"{OTHER}lexical" not in error.message:
                raise
            # whole, and of terms by other rules; nothing here can publish it again
            why = f"the older turns of the bundle: {error.message.partition(': ')[2]}"
            raise InputUnavailable(why, hint="build the prompt again where it was made") from None
        if view is None or view.digest != inputs.history.snapshot:
            broken("its older turns differ")
        view.verify()


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A bundle that was written."""

    prompt_key: str  # of the prompt that it makes again
    path: str  # where it lies
    bytes: int  # its size
    projects: dict[str, int]  # name → generation
    chunks: int  # how many it holds
    blobs: int  # injected bytes, query vectors and answers of a model that it holds
    records: int  # of the conversation
    secrets: list[str]  # where it seems to hold keys or passwords, sorted


def write_bundle(workspace: Workspace, key: str, target: Path) -> WrittenBundle:
    """Write the bundle of a recorded prompt; a file that is there is replaced.

    Args:
        workspace: The data root.
        key: Its key or the first digits.
        target: Where to.

    Raises:
        UnknownPrompt: No prompt under that key, or bytes that it injected are not kept.
        GenerationGone: A generation that it was made from is no longer there.
        InputUnavailable: It needs a store or a conversation that cannot be put into a file.
        IntegrityError: The record or an index is damaged.
        Refused: It would be larger than 1 GB.
        UsageError: The target is a folder.
        OSError: Disk full, permission denied.
    """
    from ragstream_core.index.look import take_out

    if target.is_dir():
        raise UsageError(f"{target} is a folder", hint=AddOption("--out FILE"))
    kept = KeptPrompt.of(workspace, key)
    inputs = kept.inputs
    require_exact(inputs)
    prompt_inputs.require_inputs(workspace, inputs)
    parts = {RECORD: (kept.folder / RECORD_NAME).read_bytes()}
    required = required_blobs(inputs)
    for digest in required:
        parts[BLOB + digest] = workspace.store.blob(digest)
    for digest in mentioned(parts[RECORD]) - set(required):
        with contextlib.suppress(UnknownPrompt):
            parts[BLOB + digest] = workspace.store.blob(digest)
    secrets = _secrets_beside(parts)
    chunks = 0
    for pin in inputs.pins:
        found = take_out(workspace.index_dir(pin.project), pin.generation, pin.digest)
        chunks += len(found.chunks)
        secrets |= _secrets_in(found)
        encoded = dict(zip(INDEX_PARTS, encode(found), strict=True))
        parts |= {index_part(pin.project, kind): data for kind, data in encoded.items()}
    history = dict(_history(kept))
    secrets |= _secrets_beside(history)
    data = pack(kept.key, parts | history)
    replace_bytes(target.resolve(), data)
    return WrittenBundle(
        prompt_key=kept.key,
        path=str(target),
        bytes=len(data),
        projects={pin.project: pin.generation for pin in inputs.pins},
        chunks=chunks,
        blobs=sum(name.startswith(BLOB) for name in parts),
        records=history.get(JOURNAL, b"").count(b"\n"),
        secrets=sorted(secrets),
    )


def _secrets_in(found: Portable) -> set[str]:
    """Return kind and file of what seems to be a secret among the texts of a generation."""
    kinds = {digest: {one.kind for one in find_secrets(text)} for digest, _, text in found.texts}
    return {f"{kind} in {row.path}" for row in found.chunks for kind in kinds[row.text_hash]}


def _secrets_beside(parts: Mapping[str, bytes]) -> set[str]:
    """Return the same of the record, of injected bytes and of the conversation."""
    return {
        f"{one.kind} in {'the conversation' if name == JOURNAL else 'the prompt'}"
        for name, data in parts.items()
        if name != SNAPSHOT  # the journal has its texts
        for one in find_secrets(data.decode("utf-8", "replace"))
    }


def _history(kept: KeptPrompt) -> Iterator[tuple[str, bytes]]:
    """Yield what a prompt saw of the conversation, and nothing where it saw nothing."""
    memory, pin = kept.memory(), kept.inputs.history
    if not pin.seq:
        return
    first = 1 if memory.shown else pin.seq  # what is not shown is only checked
    yield (
        JOURNAL,
        b"".join(raw for _, raw in journal(kept.workspace).lines(first, pin.seq + 1)),
    )
    if memory.view is not None:
        from ragstream_core.index import selection

        memory.view.verify()
        yield SNAPSHOT, bytes(selection.encode(memory.view))
