"""Question and answer in the conversation: the one before the call, the other right after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_core.answering.citations import Citation, journal_rows
from ragstream_core.answering.grounding import REFUSAL
from ragstream_core.build.history import turns
from ragstream_core.build.memory.after_turn import after_turn
from ragstream_core.errors import RagstreamError
from ragstream_core.history.records import Asked, Cleared, Turn
from ragstream_core.orchestration.chain import OPS
from ragstream_core.orchestration.inputs import inputs_of

if TYPE_CHECKING:
    from ragstream_core.answering.answer import Prepared
    from ragstream_core.build.workspace import Workspace


class Keeper:
    """The conversation that one answer belongs to; writes nothing where nothing may be kept."""

    def __init__(self, workspace: Workspace, prepared: Prepared) -> None:
        self._workspace = workspace
        self._inputs = inputs_of(prepared.prompt)
        self._key = prepared.prompt_key
        self._files = prepared.prompt.extras.get("files", [])
        self._scope = prepared.scope
        self._asked = ""
        self._seq = 0
        self.session = prepared.session

    def asked(self) -> None:
        """Make the question durable.

        Raises:
            OperationFailed: It cannot be.
        """
        if not self.session:
            return
        record = Asked("", self.session, "", self._inputs.text, self._projects, self._key)
        (entry,) = turns.append_records(self._workspace, [record])
        self._asked, self._seq = entry.record.id, entry.seq

    def turn(
        self,
        text: str,
        status: str,
        citations: tuple[Citation, ...],
        *,
        is_extract: bool = False,
    ) -> tuple[str, ...]:
        """Make question and answer durable; return a warning where that is not possible.

        The answer is there and perhaps paid for: it is shown all the same.
        """
        if not self.session:
            return ()
        if self._asked and self._is_cleared():
            return ("the answer is not kept: its question was cleared in the meantime",)
        holds = any(c.verified for c in citations) or not citations
        may_serve = holds and not is_extract and text != REFUSAL
        turn = Turn(
            "", self.session, "", self._inputs.text, text,
            projects=self._projects, active_dbs=self._projects,
            versions=tuple({"path": f["path"], "sha256": f["sha256"]} for f in self._files),
            prompt_key=self._key, asked=self._asked, status=status,
            citations=journal_rows(citations), origin="extract" if is_extract else "",
            scope=self._scope if may_serve else "",
        )  # fmt: skip
        try:
            turns.append_turn(self._workspace, turn)
        except RagstreamError as error:
            return (f"the answer is not kept: {error.message}",)
        memory = self._workspace.settings_for(self._inputs, OPS[-1]).memory
        return after_turn(self._workspace, memory)

    def _is_cleared(self) -> bool:
        """Whether the question was cleared while the answer came: it must not come back with it."""
        for entry in turns.journal(self._workspace).backwards():
            if entry.seq <= self._seq:
                return entry.seq != self._seq
            gone = entry.record.seqs if isinstance(entry.record, Cleared) else ()
            if any(first <= self._seq <= last for first, last in gone):
                return True
        return True

    @property
    def _projects(self) -> tuple[str, ...]:
        return tuple(pin.project for pin in self._inputs.pins)
