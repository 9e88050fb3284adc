"""Everything a prompt's bytes depend on, pinned before the first stage runs, and its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ragstream_core.config import overlay, typed
from ragstream_core.conversations.journal.records import checked_session
from ragstream_core.errors import ChooseProject, EmptyPrompt, RunCommand, RunProgram, UsageError
from ragstream_core.prompts.chain import OPS
from ragstream_core.records import SuperPrompt, evolve
from ragstream_core.records.identity import digest_of
from ragstream_core.settings import ChainSettings

INPUTS_VERSION = 1
QUERY_VECTORS = "query_vectors"
TIME_READ = "time_read"
"""The entry of ``extras`` that says that a stage has read the prompt's time."""
DIGEST = "memory_digest"
"""The text of `PromptInputs.texts` that is the rolling digest of the conversation."""


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """What a person asks for; small, kept by its digest in the inbox.

    Attributes:
        text: The raw prompt.
        projects: Names of the projects to search.
        files: Paths to inject, ``path`` or ``project/path``; forces any type.
        diffs: Paths whose changes since the last commit are to be shown.
        off: ``project/path`` of files outside the Eligibility Pool.
        lock: Exact File Lock: only ❖ FILES.
        settings: Explicit settings, dotted key → value.
        task: Name of a task profile.
        as_of: Generation to read, for one project; 0 for the newest.
        session: The conversation it belongs to; empty: none, so nothing is recent.
    """

    text: str
    projects: tuple[str, ...]
    files: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    lock: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""
    as_of: int = 0
    session: str = ""
    diffs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be asked.

        Raises:
            EmptyPrompt: The text has no letter and no digit.
            UsageError: No project, ``as_of`` for several, no name of a session, or bytes that are
                no text.
        """
        given = (self.text, self.session, *self.projects, *self.files, *self.off, *self.diffs)
        for text in given:
            _require_text(text)
        if not any(c.isalnum() for c in self.text):
            raise EmptyPrompt("the prompt is empty", hint=RunCommand("prompt", '"…" -p PROJECT'))
        if not self.projects:
            raise UsageError("no project given", hint=ChooseProject())
        if self.as_of and len(self.projects) > 1:
            raise UsageError(
                "an older generation is of one project, and several are given", hint=ChooseProject()
            )
        if self.session:
            checked_session(self.session)


def _require_text(text: str) -> None:
    """Refuse what UTF-8 cannot hold: bytes of another encoding on a command line.

    Raises:
        UsageError: There is such a byte; its position is named.
    """
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


def request_from(data: Mapping[str, Any]) -> PromptRequest:
    """Rebuild a request from its JSON form.

    Raises:
        UsageError: An unknown or missing field.
        EmptyPrompt: As the constructor.
    """
    try:
        tuples = {k: tuple(data[k]) for k in ("projects", "files", "off", "diffs") if k in data}
        return PromptRequest(**{**data, **tuples})
    except TypeError as error:
        raise UsageError(f"not a prompt request: {error}") from None


@dataclass(frozen=True, slots=True)
class Pin:
    """One project at one generation."""

    project: str
    generation: int
    digest: str
    embed_fp: str


@dataclass(frozen=True, slots=True)
class HistoryPin:
    """The conversation as one prompt sees it; all empty if there is none.

    Attributes:
        session: The prompt's own conversation.
        seq: Last record of the journal that counts.
        chain: Hash of that record's line; covers everything before it.
        snapshot: Digest of the published selection; empty: no older turn is searched.
        high_water: Last record that the selection includes.
        note: Why older turns are left out, for people.
    """

    session: str = ""
    seq: int = 0
    chain: str = ""
    snapshot: str = ""
    high_water: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """The typed inputs; stages read clock, files, environment and settings through them only.

    Attributes:
        text: The raw prompt.
        pins: Project generations, by project name.
        named: Paths that must be injected.
        names: ``project/path`` of the files that a word of the prompt may mean.
        off: Files outside the Eligibility Pool.
        lock: Exact File Lock.
        settings: The complete chain settings, section → key → value.
        changes: Settings changed on the way: op that saw it first, dotted key, value.
        texts: ``hard_rules``, ``project_memory``, ``aliases``, ``lexicon``, verbatim;
            ``memory_digest`` if there is one; and ``diff:project/path`` for the changes of a
            file.
        now: ISO 8601 time of the request; empty for a finished prompt if no stage read it.
        time_zone: Its zone's name; likewise.
        models: What was resolved: ``embedder``, ``reranker``, ``reranker_weights`` (digest of its
            files), ``gate``, ``gate_weights``, ``counter``.
        code: Op → version of the code that ran it (`STAGE_VERSIONS`); empty in records made before
            stages had versions.
        receipts: ``project/path`` → sha256 of every injected file; filled by A1.
        query_vectors: sha256 of each query text → sha256 of its vector's bytes, if the vectors
            cannot be made again; filled by retrieval.
        history: The conversation as the prompt sees it.
    """

    text: str
    pins: tuple[Pin, ...]
    named: tuple[str, ...]
    names: tuple[str, ...]
    off: tuple[str, ...]
    lock: bool
    settings: Mapping[str, Mapping[str, Any]]
    texts: Mapping[str, str]
    now: str
    time_zone: str
    models: Mapping[str, str]
    code: Mapping[str, int]
    changes: tuple[tuple[str, str, Any], ...] = ()
    receipts: Mapping[str, str] = field(default_factory=dict)
    query_vectors: Mapping[str, str] = field(default_factory=dict)
    history: HistoryPin = HistoryPin()

    def changes_at(self, op: str) -> dict[str, Any]:
        """Return the changed settings that hold at an op: those made there or upstream."""
        position = OPS.index(op)
        return {key: value for at, key, value in self.changes if OPS.index(at) <= position}

    def settings_at(self, op: str) -> ChainSettings:
        """Return the settings that hold at an op."""
        return overlay(ChainSettings.model_validate(self.settings), self.changes_at(op))

    def with_changes(self, op: str, changes: Mapping[str, Any]) -> PromptInputs:
        """Return inputs in which settings change from ``op`` on, replacing earlier ones there."""
        kept = [c for c in self.changes if not (c[0] == op and c[1] in changes)]
        added = [(op, key, value) for key, value in sorted(changes.items())]
        return replace(self, changes=(*kept, *added))

    @property
    def timeless(self) -> PromptInputs:
        """The inputs without a time."""
        return replace(self, now="", time_zone="")

    @property
    def key(self) -> str:
        """The ``input_key``: digest of all of it, 64 hex digits."""
        return digest_of(inputs_json(self))


def inputs_json(inputs: PromptInputs) -> dict[str, Any]:
    """Return the JSON form of inputs; `inputs_from` is its inverse."""
    data = asdict(inputs)
    data["changes"] = [list(change) for change in inputs.changes]
    return {"version": INPUTS_VERSION, **data}


def inputs_from(data: Mapping[str, Any]) -> PromptInputs:
    """Rebuild inputs from their JSON form.

    Raises:
        UsageError: Another version of the format.
    """
    fields = dict(data)
    if fields.pop("version", None) != INPUTS_VERSION:
        raise UsageError(f"prompt inputs of version {data.get('version')!r} cannot be read here")
    return PromptInputs(
        **{
            **fields,
            "pins": tuple(Pin(**pin) for pin in fields["pins"]),
            "named": tuple(fields["named"]),
            "names": tuple(fields["names"]),
            "off": tuple(fields["off"]),
            "changes": tuple((c[0], c[1], c[2]) for c in fields["changes"]),
            "history": HistoryPin(**fields.get("history", {})),
            "code": fields["code"] if isinstance(fields["code"], Mapping) else {},
        }
    )


def inputs_of(prompt: SuperPrompt) -> PromptInputs:
    """Return the pinned inputs that a prompt carries, with the digests that stages have added.

    A time that no stage has read is left out: nothing can depend on it.

    Raises:
        UsageError: The prompt was made outside of the chain.
    """
    if "inputs" not in prompt.extras:
        raise UsageError("this prompt carries no inputs; start it with `begin`")
    inputs = inputs_from(prompt.extras["inputs"])
    receipts = {"/".join(f["home"]): f["sha256"] for f in prompt.extras.get("files", [])}
    vectors = prompt.extras.get(QUERY_VECTORS, {})
    found = replace(inputs, receipts=receipts, query_vectors=dict(vectors))
    return found if prompt.extras.get(TIME_READ) else found.timeless


def begin(inputs: PromptInputs) -> SuperPrompt:
    """Make the raw record that the first stage reads."""
    model = str(inputs.settings["prompt"]["model_target"])
    prompt = SuperPrompt(body={"text": inputs.text}, model_target=model)
    prompt.extras["inputs"] = inputs_json(inputs)
    return prompt


def change_settings(prompt: SuperPrompt, op: str, changes: Mapping[str, Any]) -> SuperPrompt:
    """Return the prompt with settings that change from ``op`` on.

    Args:
        prompt: As ``op`` reads it.
        op: Name of an op of the chain.
        changes: Dotted key → value or its text; both give the same prompt key.

    Raises:
        UnknownSetting: A key that no stage reads, or a value out of its range.
    """
    if not changes:
        return prompt
    inputs = inputs_from(prompt.extras["inputs"]).with_changes(op, typed(changes))
    return evolve(prompt, extras={**prompt.extras, "inputs": inputs_json(inputs)})


def persists(inputs: PromptInputs) -> bool:
    """Return whether anything of a prompt may be written: once off, off for the whole of it.

    Raises:
        UnknownSetting: `history.persist` was changed to what is neither on nor off.
    """
    given = ChainSettings.model_validate(inputs.settings)
    changes = [{key: value} for _, key, value in inputs.changes if key == "history.persist"]
    return all(overlay(given, change).history.persist for change in ({}, *changes))
