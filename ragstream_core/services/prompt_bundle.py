"""`ragstream bundle`: everything that a prompt is made again from, in one file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, UnknownPrompt, UsageError
from ragstream_core.ingestion.secrets import find_secrets
from ragstream_core.platform.files import replace_bytes
from ragstream_core.prompts import bundle_format
from ragstream_core.prompts.store import RECORD_NAME
from ragstream_core.records.identity import canonical_json
from ragstream_core.wiring import prompt_inputs
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.kept_prompt import KeptPrompt

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.index.look import Portable
    from ragstream_core.wiring.workspace import Workspace


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
    bundle_format.require_exact(inputs)
    prompt_inputs.require_inputs(workspace, inputs)
    parts = {bundle_format.RECORD: (kept.folder / RECORD_NAME).read_bytes()}
    required = bundle_format.required_blobs(inputs)
    for digest in required:
        parts[bundle_format.BLOB + digest] = workspace.store.blob(digest)
    for digest in bundle_format.mentioned(parts[bundle_format.RECORD]) - set(required):
        with contextlib.suppress(UnknownPrompt):
            parts[bundle_format.BLOB + digest] = workspace.store.blob(digest)
    secrets = _secrets_beside(parts)
    chunks = 0
    for pin in inputs.pins:
        found = take_out(workspace.index_dir(pin.project), pin.generation, pin.digest)
        chunks += len(found.chunks)
        secrets |= _secrets_in(found)
        encoded = dict(zip(bundle_format.INDEX_PARTS, encode(found), strict=True))
        parts |= {
            bundle_format.index_part(pin.project, kind): data for kind, data in encoded.items()
        }
    history = dict(_history(kept))
    secrets |= _secrets_beside(history)
    data = bundle_format.pack(kept.key, parts | history)
    replace_bytes(target.resolve(), data)
    return WrittenBundle(
        prompt_key=kept.key,
        path=str(target),
        bytes=len(data),
        projects={pin.project: pin.generation for pin in inputs.pins},
        chunks=chunks,
        blobs=sum(name.startswith(bundle_format.BLOB) for name in parts),
        records=history.get(bundle_format.JOURNAL, b"").count(b"\n"),
        secrets=sorted(secrets),
    )


def encode(found: Portable) -> list[bytes]:
    """Return the parts of a generation in the order of `INDEX_PARTS`."""
    head = {
        "index_fp": found.index_fp,
        "embed_fp": found.embed_fp,
        "dimension": int(found.vectors.shape[1]),
    }
    files = (
        (f.path, f.sha256, f.size, f.mtime_ns, f.type, f.decision, f.reason) for f in found.files
    )
    return [
        canonical_json(head).encode(),
        _lines(files),
        _lines(found.chunks),
        _lines(found.texts),
        found.vectors.astype("<f4").tobytes(),
    ]


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    return "".join(f"{canonical_json(list(row))}\n" for row in rows).encode()


def _secrets_in(found: Portable) -> set[str]:
    """Return kind and file of what seems to be a secret among the texts of a generation."""
    kinds = {digest: {one.kind for one in find_secrets(text)} for digest, _, text in found.texts}
    return {f"{kind} in {row.path}" for row in found.chunks for kind in kinds[row.text_hash]}


def _secrets_beside(parts: Mapping[str, bytes]) -> set[str]:
    """Return the same of the record, of injected bytes and of the conversation."""
    return {
        f"{one.kind} in {'the conversation' if name == bundle_format.JOURNAL else 'the prompt'}"
        for name, data in parts.items()
        if name != bundle_format.SNAPSHOT  # the journal has its texts
        for one in find_secrets(data.decode("utf-8", "replace"))
    }


def _history(kept: KeptPrompt) -> Iterator[tuple[str, bytes]]:
    """Yield what a prompt saw of the conversation, and nothing where it saw nothing."""
    memory, pin = kept.memory(), kept.inputs.history
    if not pin.seq:
        return
    first = 1 if memory.shown else pin.seq  # what is not shown is only checked
    yield (
        bundle_format.JOURNAL,
        b"".join(raw for _, raw in journal(kept.workspace).lines(first, pin.seq + 1)),
    )
    if memory.view is not None:
        from ragstream_core.index.selection import encode

        memory.view.verify()
        yield bundle_format.SNAPSHOT, bytes(encode(memory.view))
