"""Everything that a kept prompt can say of itself: its candidates' ways, its line, its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ragstream_core.build.asking import recorded_usage
from ragstream_core.build.explaining.lines import Ancestor, line_of
from ragstream_core.build.explaining.tracing import injected_rows
from ragstream_core.errors import UsageError
from ragstream_core.orchestration.again import Asking, times_asked
from ragstream_core.orchestration.explain import headers_of, named, ways
from ragstream_core.prompting.reparse import SUPER_PROMPT
from ragstream_core.records.identity import sha256_hex, shown_name

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.edits import Edit
    from ragstream_core.orchestration.prompt_store import PromptRecord


@dataclass(frozen=True, slots=True)
class Explanation:
    """A prompt, explained.

    Attributes:
        record: Of the prompt.
        candidates: Their ways through the stages, as `ways`.
        line: The prompts that it goes on from, the nearest first.
        files: What it injected, as `injected_rows`.
        usage: What its agents took, as `llm_usage`.
        asked: Every time that it was asked for, in order; empty where that was not noted.
        headers: What the audit decided about headers, as `headers_of`.
    """

    record: PromptRecord
    candidates: Sequence[Mapping[str, Any]]
    line: Sequence[Ancestor]
    files: Sequence[Mapping[str, str]]
    usage: Mapping[str, Any]
    asked: Sequence[Asking] = ()
    headers: Sequence[Mapping[str, Any]] = ()

    @property
    def locked(self) -> bool:
        """Whether the prompt had the Exact File Lock."""
        return bool(self.record.inputs["lock"])

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts; of a Super-Prompt edited by hand only the digest."""
        return {
            "prompt_key": self.record.prompt_key,
            "locked": self.locked,
            "asked": [asdict(asking) for asking in self.asked],
            "edits": [_told(edit) for edit in self.record.edits],
            "parent": self.record.parent,
            "goes_on_from": [asdict(ancestor) for ancestor in self.line],
            "notes": self.record.notes,
            "headers": self.headers,
            "files": self.files,
            "llm": self.usage,
            "candidates": self.candidates,
        }


def explanation(workspace: Workspace, key: str, *, chunk: str = "") -> Explanation:
    """Explain a kept prompt.

    Args:
        workspace: The data root.
        key: Its key or the first digits of it.
        chunk: Only this candidate: its id, its citation, its name in tables or a part of that.

    Raises:
        UsageError: No such prompt, or no such candidate in it.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    record = workspace.store.record(workspace.store.find(key))
    ledger = workspace.decisions(record.prompt_key)
    found = ways(ledger)
    if chunk:
        known = [way["chunk_id"] for way in found]
        meant = named(known, chunk) or [i for i in known if chunk in shown_name(i)]
        found = [way for way in found if way["chunk_id"] in meant]
    if chunk and not found:
        raise UsageError(
            f"no candidate {chunk!r} in prompt {record.prompt_key[:12]}",
            hint=f"ragstream explain {record.prompt_key[:12]} lists them",
        )
    usage = recorded_usage(workspace, record.exchanges)
    return Explanation(
        record,
        found,
        line_of(workspace.store, record),
        injected_rows(record),
        usage,
        times_asked(workspace.store.root / record.prompt_key),
        headers_of(ledger),
    )


def _told(edit: Edit) -> dict[str, str]:
    """Return an edit without passages: of the finished text only its digest."""
    if edit.target != SUPER_PROMPT:
        return asdict(edit)
    return {**asdict(edit), "value": f"sha256:{sha256_hex(edit.value)}"}
