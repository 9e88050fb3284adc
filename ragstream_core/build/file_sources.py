"""Where A1 reads from: the document folders now, or the bytes a record kept."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.build import projects as folders
from ragstream_core.build.keeping import persists
from ragstream_core.errors import UnknownPrompt, UsageError
from ragstream_core.ingestion.loader import open_beneath
from ragstream_core.ingestion.names import decode_name
from ragstream_core.ingestion.scan import ScanRules, scan
from ragstream_core.stores.catalog_read import live_files
from ragstream_core.stores.schema import CATALOG_NAME, connect_reader, guard

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.edits import Edit
    from ragstream_core.orchestration.inputs import Pin, PromptInputs
    from ragstream_core.orchestration.prompt_store import PromptRecord, PromptStore

MAX_INJECTED_BYTES = 5_000_000


def injectable(workspace: Workspace, project: str) -> list[str]:
    """Return the paths of a project's regular files that are not on the deny list, sorted.

    Raises:
        UnknownProject: There is no such folder.
    """
    flat = folders.is_flat(workspace.data_dir, project)
    found = scan(workspace.doc_dir(project), ScanRules(flat=flat))
    other = [path for path, reason in found.refused if reason == "type not supported"]
    return sorted([*found.files, *other])


def ingested_hashes(workspace: Workspace, pin: Pin, paths: Collection[str]) -> dict[str, str]:
    """Return the sha256 that some files had in a pinned generation; others are left out.

    Raises:
        OperationFailed: The catalog cannot be read.
    """
    if not paths:
        return {}
    index_dir = workspace.index_dir(pin.project)
    with guard(index_dir / CATALOG_NAME):
        db = connect_reader(index_dir)
        try:
            files = live_files(db, pin.generation)
        finally:
            db.close()
    return {path: files[path].sha256 for path in paths if path in files}


def _names(inputs: PromptInputs, project: str) -> list[str]:
    prefix = f"{project}/"
    return [name.removeprefix(prefix) for name in inputs.names if name.startswith(prefix)]


def read_file(workspace: Workspace, project: str, path: str) -> bytes:
    """Return the bytes of a file of a project's folder.

    Raises:
        UsageError: The file is gone, is a link, or is over 5 MB.
    """
    try:
        fd = open_beneath(workspace.doc_dir(project), decode_name(path))
        with os.fdopen(fd, "rb") as handle:
            data = handle.read(MAX_INJECTED_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{project}/{path}: {error.strerror}") from None
    if len(data) > MAX_INJECTED_BYTES:
        raise UsageError(f"{project}/{path} is over {MAX_INJECTED_BYTES} bytes")
    return data


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """Reads the document folders; keeps what was read, for replay, where anything is kept."""

    workspace: Workspace
    inputs: PromptInputs

    def names(self, project: str) -> list[str]:
        """Return the files of a project that the prompt may mean."""
        return _names(self.inputs, project)

    def read(self, project: str, path: str) -> bytes:
        """Return a file's bytes and keep them under their digest.

        Raises:
            UsageError: The file is gone, is a link, or is over 5 MB.
            OSError: The bytes cannot be kept.
        """
        data = read_file(self.workspace, project, path)
        if persists(self.inputs):
            self.workspace.store.put_blob(data)
        return data


@dataclass(frozen=True, slots=True)
class RecordedAnswers:
    """What came from outside while a recorded prompt was made: a language model's, a person's.

    Attributes:
        digests: The exchanges.
        live: Ask the model again and compare, instead of reading them.
        differences: What it said otherwise, for people; filled by the stages.
        edits: What a person changed by hand.
    """

    digests: Sequence[str] = ()
    live: bool = False
    differences: list[str] = field(default_factory=list)
    edits: Sequence[Edit] = ()

    @classmethod
    def of(cls, record: PromptRecord, *, live: bool = False) -> RecordedAnswers:
        """Return what came from outside while that prompt was made."""
        return cls(record.exchanges, live, edits=record.edits)


@dataclass(frozen=True, slots=True)
class RecordedFiles:
    """Reads the bytes that a recorded prompt injected; its answers come along."""

    store: PromptStore
    inputs: PromptInputs
    answers: RecordedAnswers = field(default_factory=RecordedAnswers)

    def names(self, project: str) -> list[str]:
        """Return the files of a project that the prompt could mean."""
        return _names(self.inputs, project)

    def read(self, project: str, path: str) -> bytes:
        """Return the bytes of then.

        Raises:
            UnknownPrompt: They are not kept.
            IntegrityError: They are kept and are not what they were.
        """
        digest = self.inputs.receipts.get(f"{project}/{path}")
        if digest is None:
            raise UnknownPrompt(f"{project}/{path} was not injected in the recorded prompt")
        return self.store.blob(digest)
