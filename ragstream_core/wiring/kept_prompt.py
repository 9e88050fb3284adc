"""A kept prompt: what its record and the files beside it say of it, each read when asked for.

A ledger or a text that is lost or altered is made again from the record's inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.index.view import open_view
from ragstream_core.prompts.explain import load_decisions
from ragstream_core.prompts.frames import frames, mark_of
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex
from ragstream_core.records.prompt_inputs import Pin, PromptInputs
from ragstream_core.wiring import prompt_inputs
from ragstream_core.wiring.conversation_memory import G_OP, ConversationMemory
from ragstream_core.wiring.file_sources import RecordedAnswers, diffs_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ragstream_core.index.view import CatalogView
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import Decision, SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

FILE, DIFF = "file", "diff"

# How the ids of files that a prompt injects begin, and of their changes.
PREFIXES = {FILE: "files/", DIFF: "diff/"}


class InjectedFile(NamedTuple):
    """A file, or the changes of a file, that a prompt injected."""

    short_id: str  # what a citation names it by
    id: str  # of it in the prompt
    kind: str  # ``file`` or ``diff``
    source: str  # its name in the prompt: with its project if the prompt has several
    project: str
    path: str  # relative to the project
    sha256: str  # of its bytes then


@dataclass(frozen=True)
class KeptPrompt:
    """A prompt on record."""

    workspace: Workspace
    record: PromptRecord

    @classmethod
    def of(cls, workspace: Workspace, key: str) -> KeptPrompt:
        """Read the record of a prompt by its key, or the first digits."""
        return cls(workspace, workspace.store.record(key))

    @property
    def key(self) -> str:
        """Its whole key."""
        return self.record.prompt_key

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.workspace.store.root / self.key

    @cached_property
    def inputs(self) -> PromptInputs:
        """What it was made from; not of older formats."""
        return PromptInputs.from_json(self.record.inputs)

    @cached_property
    def pins(self) -> tuple[Pin, ...]:
        """Its projects with their generations, of older formats too."""
        return tuple(Pin(**pin) for pin in self.record.inputs["pins"])

    @cached_property
    def views(self) -> Sequence[CatalogView]:
        """The generations that it was made from."""
        return [self.view(pin) for pin in self.pins]

    def view(self, pin: Pin) -> CatalogView:
        """Return one of those generations."""
        return open_view(self.workspace.index_dir(pin.project), generation=pin.generation)

    def memory(self, op: str = G_OP) -> ConversationMemory:
        """Return the conversation as the prompt saw it, with the settings at an op."""
        return ConversationMemory(self.workspace, self.inputs, op)

    @cached_property
    def stored_text(self) -> str:
        """The Super-Prompt as it lies there; empty if it is lost or altered."""
        path = self.folder / "super_prompt.md"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return text if sha256_hex(text) == self.record.output_sha256 else ""

    @cached_property
    def text(self) -> str:
        """The Super-Prompt."""
        return self.stored_text or self.again.extras.super_prompt

    @cached_property
    def ledger(self) -> list[Decision]:
        """What its stages decided."""
        rows = load_decisions(self.folder)
        return list(self.again.extras.decisions) if rows is None else rows

    @cached_property
    def selection(self) -> tuple[str, ...]:
        """Ids of the selected chunks, best first."""
        rows = [row for row in self.ledger if row.stage == "a4"]
        last = max((row.pass_no for row in rows), default=1)
        return tuple(row.chunk_id for row in rows if row.kept and row.pass_no == last)

    @cached_property
    def issued(self) -> set[str]:
        """The citation ids that it gave out."""
        return {frame.id for frame in frames(self.text, mark_of(self.text))}

    @cached_property
    def injected(self) -> list[InjectedFile]:
        """The files, and the changes of files, that it injected."""
        given = self.record.inputs
        files = [(FILE, *_home(name), sha256) for name, sha256 in given["receipts"].items()]
        diffs = [(DIFF, *home, sha256_hex(text)) for home, text in diffs_in(given["texts"]).items()]
        return [self._injected(*row) for row in (*files, *diffs)]

    def _injected(self, kind: str, project: str, path: str, sha256: str) -> InjectedFile:
        source = f"{project}/{path}" if len(self.pins) > 1 else path
        identifier = f"{PREFIXES[kind]}{source}@{sha256}"
        short_id = sha256_hex(identifier)[:SHORT_ID_DIGITS]
        return InjectedFile(short_id, identifier, kind, source, project, path, sha256)

    @cached_property
    def again(self) -> SuperPrompt:
        """The prompt, made again from its inputs."""
        return self.rerun(self.inputs)

    def rerun(self, inputs: PromptInputs, answers: RecordedAnswers | None = None) -> SuperPrompt:
        """Run the chain for its inputs, perhaps changed ones, with what was answered then."""
        return prompt_inputs.rerun(
            self.workspace, inputs, answers or RecordedAnswers.of(self.record)
        )


def _home(name: str) -> tuple[str, str]:
    project, _, path = name.partition("/")
    return project, path
