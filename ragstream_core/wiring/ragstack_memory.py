"""`RagstackMemory`: an earlier answer to the same question, and what memory adds to a prompt.

Reads only. What is kept of a turn is the journal's; what is derived from it is written afterwards,
by one writer. An earlier answer is given again with its citations as its own prompt issued them.
"""

from __future__ import annotations

import contextlib
import functools
import os
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.answers.answer import Answer
from ragstream_core.answers.citations import Citation, Issued, citations_of, journal_rows
from ragstream_core.answers.stream_buffer import clean_citation_tags
from ragstream_core.conversations.clearing import cleared_since
from ragstream_core.conversations.journal.records import OWN_PROJECTS, Turn
from ragstream_core.conversations.question_match import asks_the_same, stands_alone
from ragstream_core.errors import InputUnavailable, IntegrityError, RagstreamError, RunCommand
from ragstream_core.prompts.blocks import history_texts
from ragstream_core.prompts.frames import Frame, frames, mark_of
from ragstream_core.records.chat import ChatUsage
from ragstream_core.records.identity import sha256_hex
from ragstream_core.wiring import answer_cache, journal, models, prompt_inputs
from ragstream_core.wiring.answering import after_turn
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragstream_core.conversations.question_index import Match
    from ragstream_core.ports import ChatModel, IndexView
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.records import Chunk
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.settings.prompts import MemoryConfig
    from ragstream_core.wiring.workspace import Workspace

# So many of the nearest questions are read from the journal.
LOOKED_AT = 8
NOT_KEPT = "the prompt that issued it is not kept any more"


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An earlier answer that serves."""

    query: str  # what is asked now
    turn: Turn  # the turn whose answer it is
    score: float  # cosine of the two questions
    answer: Answer  # the answer, as it is given again
    seq: int  # newest record of the journal when it was found


class RagstackMemory:
    """The answer cache and the digest, as one question sees them."""

    def __init__(
        self, workspace: Workspace, request: PromptRequest, *, model: ChatModel | None = None
    ) -> None:
        self._workspace = workspace
        self._request = request
        self._model = model

    @functools.cached_property
    def settings(self) -> MemoryConfig:
        """Section ``memory`` of the request."""
        return prompt_inputs.settings_of(self._workspace, self._request).memory

    @property
    def is_cached(self) -> bool:
        """Whether earlier answers are looked for: switched on, and turns may be kept."""
        if not (self.settings.enabled and self.settings.cache):
            return False
        persist = prompt_inputs.settings_of(self._workspace, self._request).history.persist
        return persist and self._workspace.config.settings.history.persist

    def maybe_answer(self, query: str) -> CachedAnswer | None:
        """Return an earlier answer to what is asked now, None where none serves.

        The nearest question wins, of equals the newest. It must hold under the same scope, and its
        words be as near as `memory.cache_match` wants: an embedder does not see every difference.
        """
        if not (self.is_cached and stands_alone(query)):
            return None
        inputs = pin_inputs(self._workspace, replace(self._request, text=query))
        model = self._model or models.chat_model(self._workspace.config)
        scope = answer_cache.scope_of(self._workspace, inputs, model)
        embedder = models.embedder(self._workspace.config)
        known = answer_cache.questions(self._workspace, self.settings.index_name, embedder)
        if not scope or all(row.scope != scope for row in known.rows):
            return None
        (vector,) = embedder.embed_queries([query])
        least = self.settings.cache_min_score
        for match in known.nearest(vector, scope=scope, least=least)[:LOOKED_AT]:
            turn = self._turn(match)
            if turn and self._is_asked_by(query, turn) and self._holds(inputs, turn):
                session = self._request.session or journal.new_session(self._workspace)
                answer = cached_answer(self._workspace, turn, session=session)
                return CachedAnswer(query, turn, match.score, answer, known.seq)
        return None

    def keep(self, found: CachedAnswer) -> Answer:
        """Keep question and answer as a turn that says whose answer it is; return the answer.

        Where that is not possible the answer carries a warning instead: the disk is full, turns
        were cleared in the meantime, `history.persist` is off.
        """
        turn = Turn(
            "", found.answer.session, "", found.query, found.answer.raw,
            projects=found.turn.projects, active_dbs=found.turn.active_dbs,
            versions=found.turn.versions, citations=journal_rows(found.answer.citations),
            origin="cached", origin_turn=found.turn.id, used_in=OWN_PROJECTS,
        )  # fmt: skip
        log = journal.journal(self._workspace)

        def made() -> list[journal.Written]:
            """Return the turn."""
            if cleared_since(log, found.seq):
                raise InputUnavailable("turns were cleared in the meantime")
            return journal.completed([turn])

        try:
            journal.require_persist(self._workspace)
            log.append_made(made)
        except RagstreamError as error:
            said = (f"the answer is not kept: {error.message}",)
            return replace(found.answer, warnings=said, session="")
        return replace(found.answer, warnings=after_turn(self._workspace, self.settings))

    def build_memory_context(self, query: str) -> str:
        """Return what memory adds to the prompt of a query: digest and older turns (R-249).

        The chain itself makes it, so it is what the prompt shows and within the same budget.
        """
        inputs = pin_inputs(self._workspace, replace(self._request, text=query))
        prompt = run_prompt(self._workspace, inputs, through="a5_format_enforcer")
        shown = [text for source, text in history_texts(prompt) if source.id != "recent"]
        return "\n\n".join(shown) if self.settings.enabled else ""

    def _turn(self, match: Match) -> Turn | None:
        """Return the turn of an earlier question, as the journal has it."""
        needle = f'"id":"{match.asked.turn}"'.encode()
        for entry in journal.journal(self._workspace).backwards(wanted=lambda raw: needle in raw):
            turn = entry.record
            if isinstance(turn, Turn) and turn.id == match.asked.turn:
                return turn if sha256_hex(turn.user_text) == match.asked.sha256 else None
        return None

    def _is_asked_by(self, query: str, turn: Turn) -> bool:
        return asks_the_same(query, turn.user_text, self.settings.cache_match)

    def _holds(self, inputs: PromptInputs, turn: Turn) -> bool:
        """Whether the files that the answer speaks of are what they were."""
        several = len(inputs.pins) > 1
        if not inputs.pins:
            return not turn.versions
        for row in turn.versions:
            path = str(row["path"])
            project, path = path.split("/", 1) if several else (inputs.pins[0].project, path)
            if self._digest(project, path) != row["sha256"]:
                return False
        return True

    def _digest(self, project: str, path: str) -> str:
        with contextlib.suppress(OSError, RagstreamError):
            fd = self._workspace.open_document(project, path)
            with os.fdopen(fd, "rb") as handle:
                return sha256_hex(handle.read())
        return ""


def cached_answer(workspace: Workspace, turn: Turn, *, session: str = "") -> Answer:
    """Return the answer of a turn as the answer to another question; nothing is written."""
    raw = turn.assistant_text
    known = [str(row["id"]) for row in turn.citations]
    try:
        issued = issued_then(workspace, turn.prompt_key)
        citations = tuple(citations_of(raw, issued))
        known = list(issued)
    except RagstreamError:
        citations = tuple(_of_row(row) for row in turn.citations)
    return Answer(
        clean_citation_tags(raw, known),
        raw,
        "complete",
        citations,
        ChatUsage(0, 0, cost_usd=0.0),
        prompt_key=turn.prompt_key,
        session=session,
        origin="cached",
        source_turn=turn.id,
    )


def issued_then(workspace: Workspace, key: str) -> dict[str, Issued]:
    """Return what a kept prompt issued: citation id → what it shows under it."""
    kept = KeptPrompt.of(workspace, key)
    if not kept.stored_text:
        path = kept.folder / "super_prompt.md"
        raise IntegrityError(f"{path} is not what it was", hint=RunCommand("replay", key[:12]))
    files = {sha256_hex(file.id): file.id for file in kept.injected}
    shown = frames(kept.stored_text, mark_of(kept.stored_text))
    return {frame.id: _issued(frame, _chunk(kept.views, frame), files) for frame in shown}


def _chunk(views: Sequence[IndexView], frame: Frame) -> Chunk | None:
    """Return the piece of a document that a frame shows; None for anything else."""
    for view in views:
        ids = view.chunk_ids
        for at in range(bisect_left(ids, f"{frame.source}::"), len(ids)):
            if not ids[at].startswith(f"{frame.source}::"):
                break
            if sha256_hex(ids[at]).startswith(frame.id):
                return view.chunks([ids[at]])[0]
    return None


def _issued(frame: Frame, chunk: Chunk | None, files: Mapping[str, str]) -> Issued:
    if chunk is None:
        locator = next((i for digest, i in files.items() if digest.startswith(frame.id)), frame.id)
        return Issued(frame.id, frame.source, locator, frame.text)
    page = int(chunk.meta.get("page_number") or 0)
    return Issued(frame.id, chunk.source, chunk.id, frame.text, page or None)


def _of_row(row: Mapping[str, object]) -> Citation:
    known = bool(row["known"])
    return Citation(str(row["id"]), str(row["source"]), known=known, reason=NOT_KEPT)
