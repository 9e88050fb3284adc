"""What somebody asks for, and the raw prompt that the first stage reads."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ragstream_core.config import overlay, typed
from ragstream_core.conversations.journal.records import checked_session
from ragstream_core.errors import ChooseProject, EmptyPrompt, RunCommand, RunProgram, UsageError
from ragstream_core.prompts.chain import OPS
from ragstream_core.records import SuperPrompt, evolve
from ragstream_core.records.json_form import Json
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.settings import ChainSettings

# The text of `PromptInputs.texts` that is the rolling digest of the conversation.
DIGEST = "memory_digest"
# The text that is a conversation which came with the question, as `conversations.given` has it.
CONVERSATION = "conversation"

# The text that says how a follow-up question is read, as `conversations.follow_ups` has it.
FOLLOW_UP = "follow_up"


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """What a person asks for; small, kept by its digest in the inbox."""

    text: str  # the raw prompt
    projects: tuple[str, ...]  # names of the projects to search; none: conversations alone
    files: tuple[str, ...] = ()  # paths to inject, ``path`` or ``project/path``; forces any type
    off: tuple[str, ...] = ()  # ``project/path`` of files outside the Eligibility Pool
    lock: bool = False  # Exact File Lock: only ❖ FILES
    # explicit settings, dotted key → value
    settings: Mapping[str, Json] = field(default_factory=dict)
    task: str = ""  # name of a task profile
    as_of: int = 0  # generation to read, for one project; 0 for the newest
    session: str = ""  # the conversation it belongs to; empty: none, so nothing is recent
    diffs: tuple[str, ...] = ()  # paths whose changes since the last commit are to be shown
    # earlier pairs (asked, answered) that came with the question, oldest first; shown in place of
    # the session's
    conversation: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        given = (self.text, self.session, *self.projects, *self.files, *self.off, *self.diffs)
        for text in (*given, *(text for pair in self.conversation for text in pair)):
            _require_text(text)
        if not any(c.isalnum() for c in self.text):
            raise EmptyPrompt("the prompt is empty", hint=RunCommand("prompt", '"…" -p PROJECT'))
        of_projects = (self.files, self.diffs, self.off, self.lock, self.as_of)
        if not self.projects and any(of_projects):
            raise UsageError("no project given", hint=ChooseProject())
        if self.as_of and len(self.projects) > 1:
            raise UsageError(
                "an older generation is of one project, and several are given", hint=ChooseProject()
            )
        if self.session:
            checked_session(self.session)


def _require_text(text: str) -> None:
    """Refuse what UTF-8 cannot hold: bytes of another encoding on a command line."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 20) : error.start]
        raise UsageError(
            f"the prompt or a name in it is not UTF-8 at character {error.start}, after {shown!r}",
            hint=(
                "save or type it as UTF-8; ",
                RunProgram("iconv -t utf-8"),
                " converts a file",
            ),
        ) from None


def request_from(data: Mapping[str, Json]) -> PromptRequest:
    """Rebuild a request from its JSON form."""
    try:
        tuples = {k: tuple(data[k]) for k in ("projects", "files", "off", "diffs") if k in data}
        pairs = tuple((asked, answered) for asked, answered in data.get("conversation", ()))
        return PromptRequest(**{**data, **tuples, "conversation": pairs})
    except (TypeError, ValueError) as error:
        raise UsageError(f"not a prompt request: {error}") from None


def inputs_of(prompt: SuperPrompt) -> PromptInputs:
    """Return the pinned inputs that a prompt carries, with the digests that stages have added.

    A time that no stage has read is left out: nothing can depend on it. If stages have read its day
    alone, the day begins then.
    """
    extras = prompt.extras
    if not hasattr(extras, "inputs"):
        raise UsageError("this prompt carries no inputs; start it with `begin`")
    receipts = {"/".join(file.home): file.sha256 for file in extras.files}
    vectors = dict(extras.query_vectors)
    found = replace(extras.inputs, receipts=receipts, query_vectors=vectors)
    return found.read_as(time=extras.time_read, day=extras.day_read)


def changes_at(inputs: PromptInputs, op: str) -> dict[str, Json]:
    """Return the changed settings that hold at an op: those made there or upstream."""
    position = OPS.index(op)
    return {key: value for at, key, value in inputs.changes if OPS.index(at) <= position}


def pinned_settings(inputs: PromptInputs) -> ChainSettings:
    """Return the settings that a prompt was begun with."""
    return _validated(_Same(inputs.settings))


class _Same:
    """A mapping that equals itself alone: every stage asks for the settings of the same inputs."""

    __slots__ = ("held",)

    def __init__(self, held: Mapping[str, Mapping[str, Json]]) -> None:
        self.held = held

    def __hash__(self) -> int:
        """Return a number that is its own as long as it is held."""
        return id(self.held)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same mapping."""
        return isinstance(other, _Same) and other.held is self.held


@functools.lru_cache(maxsize=8)
def _validated(settings: _Same) -> ChainSettings:
    return ChainSettings.of_pins(settings.held)


def settings_at(inputs: PromptInputs, op: str) -> ChainSettings:
    """Return the settings that hold at an op."""
    return overlay(pinned_settings(inputs), changes_at(inputs, op))


def begin(inputs: PromptInputs) -> SuperPrompt:
    """Make the raw record that the first stage reads."""
    model = str(inputs.settings["prompt"]["model_target"])
    prompt = SuperPrompt(body={"text": inputs.text}, model_target=model)
    prompt.extras.inputs = inputs
    return prompt


def change_settings(prompt: SuperPrompt, op: str, changes: Mapping[str, Json]) -> SuperPrompt:
    """Return the prompt with settings that change from ``op`` on."""
    if not changes:
        return prompt
    result = evolve(prompt)
    result.extras.inputs = prompt.extras.inputs.with_changes(op, typed(changes))
    return result


def persists(inputs: PromptInputs) -> bool:
    """Return whether anything of a prompt may be written: once off, off for the whole of it."""
    given = pinned_settings(inputs)
    changes = [{key: value} for _, key, value in inputs.changes if key == "history.persist"]
    return all(overlay(given, change).history.persist for change in ({}, *changes))
