"""A reply from another program as a turn of the journal, its citations checked first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, UsageError
from ragstream_core.prompts.citations import parse_markers
from ragstream_core.wiring.journal import append_turn, require_persist
from ragstream_core.wiring.kept_prompt import KeptPrompt

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.records import Entry, Turn
    from ragstream_core.records.json_form import Json
    from ragstream_core.wiring.workspace import Workspace


def append_external(
    workspace: Workspace, turn: Turn, *, answers: str = ""
) -> tuple[Entry, list[str]]:
    """Append a reply from outside, its citations checked before it enters (R-191, R-215).

    Args:
        workspace: The data root.
        turn: As for `external_turn`, which completes it.
        answers: As there.

    Returns:
        Its entry, and the markers in it that its prompt did not issue, as written.

    Raises:
        UsageError: No question, no reply, or a field that is not valid.
        UnknownPrompt: No prompt under that key.
        IntegrityError: The prompt's record is damaged.
        Refused: `history.persist` is off: nothing is written.
        OperationFailed: Disk full or failing; the turn is not kept.
    """
    require_persist(workspace)
    whole, unknown = external_turn(workspace, turn, answers=answers)
    return append_turn(workspace, whole), unknown


def external_turn(workspace: Workspace, turn: Turn, *, answers: str = "") -> tuple[Turn, list[str]]:
    """Complete a reply from outside by what its prompt knows, and check it; nothing is written.

    Args:
        workspace: The data root.
        turn: With the reply; without a question the text of the prompt is taken, without
            versions those of the files that it injected, without projects those that it read.
        answers: Key of the prompt that it answers, or its first 6 digits; "": none.

    Returns:
        The turn, and the markers in it that its prompt did not issue, as written.

    Raises:
        UsageError: No question, or no reply.
        UnknownPrompt: No prompt under that key.
        IntegrityError: The prompt's record is damaged.
        RagstreamError: Its rendering is lost and cannot be made again.
    """
    if not turn.assistant_text.strip():
        raise UsageError(
            "an external reply without its text", hint=AddOption("--assistant-file FILE")
        )
    prompt = KeptPrompt.of(workspace, workspace.store.find(answers)) if answers else None
    if prompt:
        files = sorted(prompt.inputs.receipts.items())
        versions = [{"path": name.partition("/")[2], "sha256": sha256} for name, sha256 in files]
        turn = replace(
            turn,
            user_text=turn.user_text or prompt.inputs.text,
            versions=turn.versions or tuple(versions),
            projects=turn.projects or tuple(pin.project for pin in prompt.pins),
            prompt_key=prompt.key,
        )
    if not turn.user_text:
        raise UsageError(
            "an external reply without its question",
            hint=(
                "give ",
                AddOption("--user TEXT"),
                ", or ",
                AddOption("--answers KEY"),
                " of the prompt that it answers",
            ),
        )
    citations = _citations(turn.assistant_text, prompt)
    unknown = [f"[source: {c['source']}, chunk: {c['id']}]" for c in citations if not c["known"]]
    return replace(turn, source="external", citations=citations), unknown


def prompt_session(workspace: Workspace, key: str) -> str:
    """Return the conversation in which a recorded prompt was asked, "" for none.

    Args:
        workspace: The data root.
        key: The prompt's key, or its first 6 digits.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
    """
    return KeptPrompt.of(workspace, key).inputs.history.session


def _citations(answer: str, prompt: KeptPrompt | None) -> tuple[dict[str, Json], ...]:
    """Return the citations of an answer in order, each once, with whether the prompt issued it."""
    if not parse_markers(answer):
        return ()
    issued = prompt.issued if prompt else set()
    markers = sorted(parse_markers(answer), key=lambda marker: marker.span)
    rows: dict[tuple[str, str], dict[str, Json]] = {
        (m.id, m.source): {"id": m.id, "source": m.source, "known": m.id in issued} for m in markers
    }
    return tuple(rows.values())
