"""A reply from another program as a turn of the journal, its citations checked first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import AddOption, UsageError
from ragstream_core.prompts.citations import check_markers, parse_markers
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring.journal import append_turn, require_persist

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.records import Entry, Turn
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


class CheckedReply(NamedTuple):
    """A reply from outside, and the markers in it that its prompt did not issue, as written."""

    turn: Turn
    unknown: list[str]


class KeptReply(NamedTuple):
    """A reply from outside that is in the journal; ``unknown`` as of `CheckedReply`."""

    entry: Entry
    unknown: list[str]


def append_external(workspace: Workspace, turn: Turn, *, answers: str = "") -> KeptReply:
    """Append a reply from outside, its citations checked before it enters (R-191, R-215).

    Args:
        workspace: The data root.
        turn: As for `external_turn`, which completes it.
        answers: As there.

    Raises:
        UsageError: No question, no reply, or a field that is not valid.
        UnknownPrompt: No prompt under that key.
        IntegrityError: The prompt's record is damaged.
        Refused: `history.persist` is off: nothing is written.
        OperationFailed: Disk full or failing; the turn is not kept.
    """
    require_persist(workspace)
    whole, unknown = external_turn(workspace, turn, answers=answers)
    return KeptReply(append_turn(workspace, whole), unknown)


def external_turn(workspace: Workspace, turn: Turn, *, answers: str = "") -> CheckedReply:
    """Complete a reply from outside by what its prompt knows, and check it; nothing is written.

    Args:
        workspace: The data root.
        turn: With the reply; without a question the text of the prompt is taken, without
            versions those of the files that it injected, without projects those that it read.
        answers: Key of the prompt that it answers, or its first 6 digits; "": none.

    Raises:
        UsageError: No question, or no reply.
        UnknownPrompt: No prompt under that key.
        IntegrityError: The prompt's record is damaged.
    """
    if not turn.assistant_text.strip():
        raise UsageError(
            "an external reply without its text", hint=AddOption("--assistant-file FILE")
        )
    key = workspace.store.find(answers) if answers else ""
    question = turn.user_text or (prompt_text(workspace, key) if key else "")
    if not question:
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
    citations = checked_citations(workspace, key, turn.assistant_text)
    versions = turn.versions or (prompt_versions(workspace, key) if key else ())
    projects = turn.projects or (prompt_projects(workspace, key) if key else ())
    whole = replace(
        turn, user_text=question, source="external", versions=versions, projects=projects
    )
    unknown = [f"[source: {c['source']}, chunk: {c['id']}]" for c in citations if not c["known"]]
    return CheckedReply(replace(whole, prompt_key=key, citations=citations), unknown)


def prompt_text(workspace: Workspace, key: str) -> str:
    """Return what was asked by a recorded prompt.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
    """
    return str(workspace.store.record(key).inputs["text"])


def prompt_session(workspace: Workspace, key: str) -> str:
    """Return the conversation in which a recorded prompt was asked, "" for none.

    Args:
        workspace: The data root.
        key: The prompt's key, or its first 6 digits.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
    """
    return PromptInputs.from_json(
        workspace.store.record(workspace.store.find(key)).inputs
    ).history.session


def prompt_versions(workspace: Workspace, key: str) -> tuple[dict[str, Json], ...]:
    """Return the files that a recorded prompt injected, as they were: ``{"path", "sha256"}``.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
    """
    receipts = PromptInputs.from_json(workspace.store.record(key).inputs).receipts
    rows = ((name.partition("/")[2], sha256) for name, sha256 in sorted(receipts.items()))
    return tuple({"path": path, "sha256": sha256} for path, sha256 in rows)


def prompt_projects(workspace: Workspace, key: str) -> tuple[str, ...]:
    """Return the projects that a recorded prompt read.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
    """
    pins = PromptInputs.from_json(workspace.store.record(key).inputs).pins
    return tuple(pin.project for pin in pins)


def checked_citations(workspace: Workspace, key: str, answer: str) -> tuple[dict[str, Json], ...]:
    """Return the citations of an answer, each with whether the prompt issued it.

    Args:
        workspace: The data root.
        key: The prompt's full key; "": none, so it issued nothing.
        answer: The answer's text.

    Returns:
        ``{"id", "source", "known"}`` in order of appearance, each once.

    Raises:
        UnknownPrompt: No prompt under that key.
        RagstreamError: Its rendering is lost and cannot be made again.
    """
    if not parse_markers(answer):
        return ()
    from ragstream_core.wiring.kept_prompt import KeptPrompt  # what makes prompts again is heavy

    issued = KeptPrompt.of(workspace, key).issued if key else set()
    known, unknown = check_markers(answer, issued)
    ordered = sorted([*known, *unknown], key=lambda marker: marker.span)
    rows: dict[tuple[str, str], dict[str, Json]] = {
        (m.id, m.source): {"id": m.id, "source": m.source, "known": m.id in issued} for m in ordered
    }
    return tuple(rows.values())
