"""The Debug Logger at work: what each step of the chain and each ingest writes.

The trace says what was done, in counts and names of ours; texts go to the variables only. Where a
conversation or prompt is not to be kept nothing is written. What is logged is only read.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion.secrets import find_secrets, redact
from ragstream_core.platform.debug_log import VARS, DebugLog, DebugRules, Redactor, is_log
from ragstream_core.platform.endpoint_address import provider_key
from ragstream_core.prompts.inputs import inputs_of, persists
from ragstream_core.records.json_form import json_of

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.prompts.chain import Stage
    from ragstream_core.records import Decision, SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

_MB = 1_000_000
_COMMAND = "command "
_session: ContextVar[str] = ContextVar("session of the debug log", default="")


def log_of(workspace: Workspace, name: str = "") -> DebugLog | None:
    """Return the log of a session of this process; None where none is to be written."""
    settings = workspace.config.settings
    given = settings.debug
    if not given.enabled or not settings.history.persist:
        return None
    rules = DebugRules(
        vars_enabled=given.vars_enabled,
        min_level=given.min_level,
        max_chars=given.max_chars,
        rotate_bytes=round(given.rotate_mb * _MB),
        rotate_keep=given.rotate_keep,
    )
    return _log(workspace.layout.logs, rules, _session.get() or name, _known(workspace))


@contextlib.contextmanager
def session(name: str) -> Iterator[None]:
    """Let what this thread does go to the files of a session, e.g. of a tab of the page."""
    token = _session.set(name)
    try:
        yield
    finally:
        _session.reset(token)


def begin_command(name: str) -> None:
    """Let what this process does from now on go to the files of a command, which are named so."""
    _session.set(f"{_COMMAND}{name}")


def debug_logs(workspace: Workspace, kind: str = "debug") -> list[Path]:
    """Return the files of the Debug Logger, sorted; those in the older place, ``logs``, too."""
    folders = {workspace.layout.logs, workspace.layout.server_logs}
    found = (path for folder in folders for path in folder.glob(f"{kind}_*"))
    return sorted(path for path in found if is_log(path.name))  # files of others may lie there


def vars_files(workspace: Workspace) -> list[Path]:
    """Return the files of variables, sorted: they show prompts and evidence, whole or cut."""
    return debug_logs(workspace, VARS)


@functools.cache  # a process has few sessions, and each of them one log
def _log(folder: Path, rules: DebugRules, session: str, known: tuple[str, ...]) -> DebugLog:
    log = DebugLog(folder, rules, Redactor(known, _without_secrets), _now)
    # the names of other sessions are somebody's words, or different each time
    log.log_write_text(session if session.startswith(_COMMAND) else "session begins")
    return log


def _known(workspace: Workspace) -> tuple[str, ...]:
    """Return the secrets of the settings by value."""
    provider = workspace.config.settings.provider
    with contextlib.suppress(RagstreamError):  # a key that cannot be read cannot be logged
        return (provider_key(provider.api_key, provider.api_key_file).get_secret_value(),)
    return ()


def _without_secrets(text: str) -> str:
    return redact(text, find_secrets(text))


def _now() -> dt.datetime:
    return dt.datetime.now().astimezone()


def logged_stage(workspace: Workspace, op: str, prompt: SuperPrompt, stage: Stage) -> Stage:
    """Return a stage that does the same and writes what it did; itself where nothing is written."""
    inputs = inputs_of(prompt)  # they say whether anything of it may be kept
    log = log_of(workspace, inputs.history.session) if persists(inputs) else None
    if log is None:
        return stage

    def logged(given: SuperPrompt) -> SuperPrompt:
        log.log_write_text(f"{op} begins: {_sizes(given)}")
        with _failure_noted(log, op):
            result = stage(given)
        log.log_write_text(f"{op} ends: {_sizes(result)}{_decided(given, result)}")
        log.log_write_var(
            ("body", 2_000), result.body,
            "query_pieces", json_of(result.extras.query_pieces),
            "shape", json_of(result.extras.shape),
            "final_selection_ids", result.final_selection_ids,
        )  # fmt: skip
        log.log_write_var("decisions", json_of(_rows(given, result)), level="DEBUG")
        return result

    return logged


def logged_ingest(
    workspace: Workspace, project: str, ingest: Callable[[], IngestionStats]
) -> IngestionStats:
    """Run an ingest and write what it did, where that is wanted."""
    log = log_of(workspace)
    if log is None:
        return ingest()
    log.log_write_text(f"ingest of {project} begins")
    with _failure_noted(log, f"ingest of {project}"):
        stats = ingest()
    counts = ", ".join(f"{name} {n}" for name, n in {**stats.files, **stats.chunks}.items())
    state = "refused" if stats.refused else "committed" if stats.committed else "as it was"
    log.log_write_text(f"ingest of {project} ends: generation {stats.generation} {state}, {counts}")
    log.log_write_var("changed", stats.changed, "skipped", stats.skipped_reasons)
    return stats


@contextlib.contextmanager
def _failure_noted(log: DebugLog, what: str) -> Iterator[None]:
    """Write the kind of an error to the trace; its words may quote a document."""
    try:
        yield
    except Exception as error:
        log.log_write_text(f"{what} failed: {type(error).__name__}", "ERROR")
        log.log_write_var("error", str(error), level="ERROR")
        raise


def _sizes(prompt: SuperPrompt) -> str:
    tokens = prompt.extras.token_tree.total
    parts = [
        f"stage {prompt.stage}",
        f"{len(prompt.base_context_chunks)} candidates",
        f"{len(prompt.final_selection_ids)} selected",
        f"{len(prompt.extras.files)} files",
        f"{len(prompt.extras.warnings)} warnings",
        *([f"{tokens} tokens"] if tokens else []),
    ]
    return ", ".join(parts)


def _rows(before: SuperPrompt, after: SuperPrompt) -> list[Decision]:
    """Return the rows that a stage added to the ledger."""
    had = {id(row) for row in before.extras.decisions}
    return [row for row in after.extras.decisions if id(row) not in had]


def _decided(before: SuperPrompt, after: SuperPrompt) -> str:
    rows = _rows(before, after)
    kept = sum(1 for row in rows if row.kept)
    return f", {kept} kept and {len(rows) - kept} dropped" if rows else ""
