"""Pins what the bytes of a prompt depend on, and runs pinned inputs again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ragstream_core.agents.a1_file_injector import candidates
from ragstream_core.agents.headers import default_alias_text
from ragstream_core.config import AppConfig, overlay
from ragstream_core.conversations.follow_ups import TURNS, follow_up, may_lean
from ragstream_core.conversations.given import pinned_text
from ragstream_core.conversations.journal.records import INACTIVE, Turn
from ragstream_core.conversations.lexicon import read_lexicon_text
from ragstream_core.conversations.recent_history import Scope, answer_of, layer_g
from ragstream_core.errors import (
    ChooseProject,
    GenerationGone,
    InputUnavailable,
    IntegrityError,
    ModelMismatch,
    RagstreamError,
    RunCommand,
    UsageError,
)
from ragstream_core.index.schema import is_pulled
from ragstream_core.index.view import open_view
from ragstream_core.models.token_counters import resolved_counter
from ragstream_core.platform.data_root import Layout
from ragstream_core.prompts.classification import path_tokens
from ragstream_core.prompts.inputs import CONVERSATION, DIGEST, FOLLOW_UP, PromptRequest
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.proposers import choose
from ragstream_core.records.prompt_inputs import HistoryPin, Pin, PromptInputs
from ragstream_core.settings import ChainSettings
from ragstream_core.wiring import file_sources, models, remembered_facts_files
from ragstream_core.wiring.conversation_memory import BACKFILL
from ragstream_core.wiring.digest import digest_text
from ragstream_core.wiring.file_sources import (
    RecordedAnswers,
    RecordedFiles,
    injectable,
    named_files,
)
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.token_budget import counter_of_settings, within_window

if TYPE_CHECKING:
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

_LEFT_OUT = "older turns are left out: "
DEFAULT_HARD_RULES = """\
Answer from the cited passages and the injected files only.
Say plainly when they do not answer the question.
Cite every claim as [source: <filename>, chunk: <id>].
"""


# Settings of prompts that are measured: no conversation takes part, no language model is asked.
ALONE = {
    "history.enabled": False,
    "history.recency_k": 0,
    "history.follow_ups": False,
    "prompt.recent_history": False,
    **{f"agents.{agent}_form": "deterministic" for agent in ("a2", "a3", "a4", "audit")},
}


def pin_inputs(
    workspace: Workspace, request: PromptRequest, now: dt.datetime | None = None
) -> PromptInputs:
    """Pin everything a prompt's bytes depend on."""
    now = now or dt.datetime.now().astimezone()
    config = _configured(workspace, request)
    filters = file_sources.filters_of(request.text)
    settings = within_window(file_sources.with_history_filters(config.chain(), filters, now))
    for project in request.projects:
        workspace.require_project(project)
    if not (request.projects or request.conversation or journal(workspace).newest().seq):
        raise UsageError("no project given", hint=ChooseProject())
    pins = [_pin(workspace, config, name, request.as_of) for name in sorted(set(request.projects))]
    projects = [p.project for p in pins]
    embed_fp = pins[0].embed_fp if pins else models.fingerprint(config)
    history = HistoryPin() if request.lock else pin_history(workspace, request.session, embed_fp)
    return PromptInputs(
        text=request.text,
        pins=tuple(pins),
        named=request.files,
        names=_names(workspace, request, projects),
        off=tuple(
            sorted(
                _switched_off(workspace, request.off, pins)
                | file_sources.excluded_by_filters(workspace, filters, pins, now)
            )
        ),
        lock=request.lock,
        settings=settings.pinned(),
        texts=_pinned_texts(workspace, request, settings, projects, history),
        now=now.isoformat(),
        time_zone=str(now.tzinfo),
        models={
            **resolved_models(config, settings),
            **choose.pinned(workspace, settings, pins),
        },
        code=STAGE_VERSIONS,
        history=history,
    )


def _pinned_texts(
    workspace: Workspace,
    request: PromptRequest,
    settings: ChainSettings,
    projects: Sequence[str],
    history: HistoryPin,
) -> dict[str, str]:
    """Return every text but those of documents that a prompt's bytes depend on, by name."""
    count = counter_of_settings(workspace, settings).count
    conversation = {}
    if not request.lock:
        memory, upto = settings.memory, history.seq
        conversation = {
            DIGEST: digest_text(workspace, memory, upto=upto, count=count, projects=projects),
            CONVERSATION: pinned_text(request.conversation, settings.history.recency_k),
            FOLLOW_UP: _follow_up_text(workspace, request, settings, history),
        }
    rules = _project_text(workspace.layout, projects, "hard_rules.md")
    lexicon = settings.history.lexicon
    return {
        "hard_rules": rules if rules.strip() else DEFAULT_HARD_RULES,
        "project_memory": _project_text(workspace.layout, projects, "project_memory.md"),
        "aliases": default_alias_text(),
        **remembered_facts_files.pinned(workspace, settings.prompt.budget_tokens, count),
        "lexicon": read_lexicon_text(Path(lexicon).expanduser()) if lexicon else "",
        **{name: text for name, text in conversation.items() if text},
        **file_sources.pinned_diffs(workspace, request.diffs, projects),
    }


def settings_of(workspace: Workspace, request: PromptRequest) -> ChainSettings:
    """Return the chain settings of a request, before what its text narrows."""
    return _configured(workspace, request).chain()


def resolved_models(config: AppConfig, settings: ChainSettings) -> dict[str, str]:
    """Return which model takes each role under these settings, without loading one."""
    reranker = models.reranker_name(config, settings.rerank)
    gate = models.gate_name(config, settings.gate)
    counter = resolved_counter(settings.prompt, config.layout.models)
    notes = {
        "gate_unmeasured": models.unmeasured_gate(config, settings.gate),
        "counter_note": counter.note,
    }
    return {
        "embedder": _embedder_name(config),
        "reranker": reranker,
        "reranker_weights": models.reranker_weights(config, reranker),
        "gate": gate,
        "gate_weights": models.reranker_weights(config, gate),
        "counter": counter.name,
        **{name: note for name, note in notes.items() if note},
    }


def _embedder_name(config: AppConfig) -> str:
    chosen = config.settings.embeddings
    precise = "" if chosen.precision == "float32" else f" in {chosen.precision}"
    return f"{chosen.backend}:{chosen.model}{precise}"


def rerun(
    workspace: Workspace, inputs: PromptInputs, answers: RecordedAnswers | None = None
) -> SuperPrompt:
    """Run the chain for recorded inputs; files come from the record."""
    require_inputs(workspace, inputs)
    files = RecordedFiles(workspace.store, inputs, answers or RecordedAnswers())
    return run_prompt(workspace, inputs, files=files, edits=files.answers.edits)


def require_inputs(workspace: Workspace, inputs: PromptInputs) -> None:
    """Refuse to run recorded inputs where one of them is not what it was."""
    for pinned in inputs.pins:
        index_dir = workspace.index_dir(pinned.project)
        found = open_view(index_dir, generation=pinned.generation)
        if found.digest != pinned.digest:
            raise GenerationGone(
                f"generation {pinned.generation} of {pinned.project} has changed: a file "
                f"was forgotten since, or the index was rebuilt (digest {found.digest[:12]}, the "
                f"prompt needs {pinned.digest[:12]})",
                hint=(RunCommand("replay", "--bundle FILE"), ", if there is a bundle of it"),
            )
    models.require_replayable(workspace.config)
    require_history(workspace, inputs.history)
    choose.require_pinned(workspace, inputs.models.get("store", ""), inputs.pins)


def _configured(workspace: Workspace, request: PromptRequest) -> AppConfig:
    if not request.task and not request.settings:
        return workspace.config
    overlay(workspace.config.chain(), request.settings)  # refuses what no stage reads
    return workspace.config.with_task(request.task, explicit=request.settings)


def _pin(workspace: Workspace, config: AppConfig, project: str, as_of: int) -> Pin:
    index_dir = workspace.index_dir(project)
    newest = open_view(index_dir).generation if as_of else 0
    if as_of > newest:
        raise UsageError(
            f"project {project} has no generation {as_of}; its newest is {newest}",
            hint=RunCommand("index generations", project),
        )
    found = open_view(index_dir, generation=as_of)
    mine = models.fingerprint(config)
    if found.embed_fp != mine:
        raise ModelMismatch(
            f"project {project!r} was embedded by model {found.embed_fp[:12]}; the settings ask "
            f"for {_embedder_name(config)}, {mine[:12]}",
            hint="set embeddings.* to what it is made with, elsewhere"
            if is_pulled(index_dir)
            else (
                RunCommand("ingest", f"{project} --rebuild"),
                ", or set embeddings.* back",
            ),
        )
    return Pin(project, found.generation, found.digest, found.embed_fp)


def _names(
    workspace: Workspace, request: PromptRequest, projects: Sequence[str]
) -> tuple[str, ...]:
    """Return the files that a word of the prompt or a ``--file`` may mean, as ``project/path``."""
    forced = [token.replace("\\", "/").removeprefix("./") for token in request.files]
    tokens = [*forced, *path_tokens(request.text)]
    if not tokens:
        return ()
    several = len(projects) > 1
    shown = {
        f"{project}/{path}" if several else path: f"{project}/{path}"
        for project in projects
        for path in injectable(workspace, project)
    }
    for token in forced:
        named_files(workspace, token, list(shown), projects)  # refuses before anything is recorded
    found = {shown[name] for token in tokens for name in candidates(token, list(shown))}
    return tuple(sorted(found))


def _switched_off(workspace: Workspace, paths: Sequence[str], pins: Sequence[Pin]) -> set[str]:
    """Return the files that are switched off as ``project/path``; folders are read if need be."""
    if not paths:
        return set()
    known = {
        f"{pin.project}/{path}"
        for pin in pins
        for path in open_view(workspace.index_dir(pin.project), generation=pin.generation).paths
    }
    if any(_known_as(path, known, pins) is None for path in paths):
        known |= {f"{p.project}/{path}" for p in pins for path in injectable(workspace, p.project)}
    return {_known_as(path, known, pins) or _unknown(path, known) for path in paths}


def _known_as(path: str, known: Collection[str], pins: Sequence[Pin]) -> str | None:
    """Return a file as ``project/path``; in the only project a file of that name comes first."""
    wanted = [f"{pins[0].project}/{path}", path] if len(pins) == 1 else [path]
    return next((name for name in wanted if name in known), None)


def _unknown(path: str, known: Collection[str]) -> NoReturn:
    """Refuse a file that cannot be switched off."""
    near = sorted(name for name in known if name.endswith(f"/{path}"))
    what = "give its full path" if near else "no such file"
    near = near or get_close_matches(path, sorted(known), 3, 0.5)
    raise UsageError(
        f"{path} is named to be left out: {what}",
        hint=f"one of: {', '.join(near[:3])}" if near else "its path below the project's folder",
    )


def _project_text(layout: Layout, projects: Sequence[str], name: str) -> str:
    parts = []
    for project in projects:
        path = layout.projects / project / name
        if not (path.exists() or path.is_symlink()):
            continue
        try:
            parts.append(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, OSError) as error:
            why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error.strerror)
            raise IntegrityError(
                f"{path} cannot be read: {why}",
                hint="every prompt of the project holds it: save it as UTF-8 text, or remove it",
            ) from None
    return "\n".join(parts)


def pin_history(workspace: Workspace, session: str, embed_fp: str) -> HistoryPin:
    """Pin the journal's end and the snapshot of older turns; nothing is waited for.

    If the snapshot is behind, missing, damaged or another model's, the prompt goes on without it
    and says so.
    """
    log = journal(workspace)
    newest = log.newest() if log.folder.is_dir() else None
    if newest is None or not newest.seq:
        return HistoryPin()
    snapshot, high_water, note = _published(workspace, embed_fp)
    if high_water > newest.seq:
        snapshot, high_water = "", 0
        note = f"{_LEFT_OUT}their index is ahead of the journal; ragstream history check"
    return HistoryPin(session, newest.seq, newest.chain, snapshot, high_water, note)


def _published(workspace: Workspace, embed_fp: str) -> tuple[str, int, str]:
    """Return the snapshot's digest and high-water mark, or why it cannot be used."""
    from ragstream_core.wiring.history_index import History  # brings NumPy

    try:
        view = History(workspace).selection()
    except RagstreamError as error:
        return "", 0, f"{_LEFT_OUT}{error.message}; {error.hint or BACKFILL}"
    if view is None:
        return "", 0, ""
    if view.embed_fp != embed_fp:
        made_by = f"embedded by model {view.embed_fp[:12]}, the documents by {embed_fp[:12]}"
        return "", 0, f"{_LEFT_OUT}{made_by}; {BACKFILL} --rebuild"
    return view.digest, view.mark.position.seq, ""


def _follow_up_text(
    workspace: Workspace, request: PromptRequest, settings: ChainSettings, pin: HistoryPin
) -> str:
    """Return how a question is read that leans on the one before it, "" if it stands by itself."""
    if not settings.history.follow_ups or not may_lean(request.text):
        return ""
    before = request.conversation
    if not before and pin.seq:
        out = (*settings.history.exclude_tags, INACTIVE)
        scope = Scope(request.session, TURNS, exclude_tags=out)
        own = layer_g(journal(workspace), scope, upto=pin.seq).own
        turns = [entry.record for entry in own if isinstance(entry.record, Turn)]
        before = tuple((t.user_text, answer_of(t)) for t in turns)
    found = follow_up(request.text, before)
    return found.pinned() if found else ""


def require_history(workspace: Workspace, pin: HistoryPin) -> None:
    """Refuse to go on if the journal is not what it was."""
    if not pin.seq:
        return
    found = next(journal(workspace).entries(pin.seq, pin.seq + 1), None)
    if found is None or found.chain != pin.chain:
        raise InputUnavailable(
            f"the conversation up to record {pin.seq} is not what it was: turns were cleared "
            "since, or the journal is damaged",
            hint=RunCommand("history check"),
        )
