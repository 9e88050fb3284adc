"""What a reply from outside answers: the recorded prompt, and which citations it may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragstream_core.prompts.citations import check_markers, parse_markers
from ragstream_core.prompts.inputs import inputs_from
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

_FRAME = "<<DOC "


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
    return inputs_from(workspace.store.record(workspace.store.find(key)).inputs).history.session


def prompt_versions(workspace: Workspace, key: str) -> tuple[dict[str, Any], ...]:
    """Return the files that a recorded prompt injected, as they were: ``{"path", "sha256"}``.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
    """
    receipts = inputs_from(workspace.store.record(key).inputs).receipts
    rows = ((name.partition("/")[2], sha256) for name, sha256 in sorted(receipts.items()))
    return tuple({"path": path, "sha256": sha256} for path, sha256 in rows)


def checked_citations(workspace: Workspace, key: str, answer: str) -> tuple[dict[str, Any], ...]:
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
    issued = issued_ids(workspace, key) if key else set()
    known, unknown = check_markers(answer, issued)
    ordered = sorted([*known, *unknown], key=lambda marker: marker.span)
    rows = {(m.id, m.source): {"id": m.id, "source": m.source, "known": m.id in issued}
            for m in ordered}  # fmt: skip
    return tuple(rows.values())


def issued_ids(workspace: Workspace, key: str) -> set[str]:
    """Return the citation ids that a recorded prompt gave out: those of its frames.

    No quoted line can begin like a frame; a rendering that is lost or altered is made again.

    Raises:
        UnknownPrompt: No prompt under that key.
        RagstreamError: Its rendering is lost and cannot be made again.
    """
    record = workspace.store.record(key)
    path = workspace.store.root / record.prompt_key / "super_prompt.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if sha256_hex(text) != record.output_sha256:
        from ragstream_core.wiring import prompt_inputs
        from ragstream_core.wiring.file_sources import RecordedAnswers

        answers = RecordedAnswers.of(record)
        prompt = prompt_inputs.rerun(workspace, inputs_from(record.inputs), answers)
        text = str(prompt.extras["super_prompt"])
    frames = "\n".join(line for line in text.split("\n") if line.startswith(_FRAME))
    return {marker.id for marker in parse_markers(frames) if marker.form == "fence"}
