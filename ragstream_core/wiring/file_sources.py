"""What a prompt may take from documents: filters, files now or as they were kept, and git diffs.

A generation's digest leaves mtimes out, so that machines agree. What ``since:`` closes is therefore
pinned with the prompt, as if each document had been switched off by name; a diff is pinned too.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from ragstream_core.agents.a1_file_injector import candidates, forced_paths
from ragstream_core.agents.filters import Filtered, read_filters
from ragstream_core.agents.headers import default_alias_text, parse_aliases
from ragstream_core.config import environment_with, overlay
from ragstream_core.errors import InjectFile, OperationFailed, RunProgram, UnknownPrompt, UsageError
from ragstream_core.index.look import manifest_of
from ragstream_core.index.rows import live_files
from ragstream_core.index.schema import is_pulled, reading
from ragstream_core.ingestion.file_types import NOT_SUPPORTED
from ragstream_core.ingestion.junk import PREFIX as JUNK
from ragstream_core.prompts.inputs import persists

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.index.rows import FileEntry
    from ragstream_core.ports import IndexView
    from ragstream_core.prompts.store import PromptRecord, PromptStore
    from ragstream_core.records.prompt_inputs import Pin, PromptInputs
    from ragstream_core.records.stage_results import Edit
    from ragstream_core.settings import ChainSettings
    from ragstream_core.wiring.workspace import Workspace

    Pinned = Sequence[Pin] | Sequence[IndexView]

MAX_INJECTED_BYTES = 5_000_000
PREFIX = "diff:"
MAX_BYTES = 500_000
TIMEOUT_S = 20.0
_GIT = (
    "git", "--no-pager", "--no-optional-locks", "--literal-pathspecs",
    "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "protocol.allow=never",
)  # fmt: skip
_DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--relative", "--src-prefix=a/",
    "--dst-prefix=b/", "--unified=3", "--submodule=short", "--ignore-submodules=all", "HEAD", "--",
)  # fmt: skip

# Scopes of settings that lie in the repository: they may have come with the folder.
_FOREIGN = ("local", "worktree")
_aliases = functools.cache(parse_aliases)


def filters_of(text: str, aliases: str = "") -> Filtered:
    """Return the filters of a raw prompt."""
    return read_filters(text, _aliases(aliases or default_alias_text()))


def pinned_documents(workspace: Workspace, pins: Pinned) -> dict[str, FileEntry]:
    """Return the ingested documents of pinned generations, ``project/path`` → manifest row."""
    return {
        f"{pin.project}/{path}": entry
        for pin in pins
        for path, entry in manifest_of(workspace.index_dir(pin.project), pin.generation).items()
        if entry.decision == "ingested"
    }


def excluded_by_filters(
    workspace: Workspace, found: Filtered, pins: Pinned, now: dt.datetime
) -> set[str]:
    """Return the ``project/path`` of the documents that the filters leave out."""
    return found.closed(pinned_documents(workspace, pins), now) if found.filters else set()


def with_history_filters(
    settings: ChainSettings, found: Filtered, now: dt.datetime
) -> ChainSettings:
    """Return the settings under which the conversation is searched no wider than before."""
    past = settings.history
    return overlay(settings, found.past(past.tags, past.since, now))


def count_searchable(workspace: Workspace, inputs: PromptInputs) -> int | None:
    """Count the documents that are searched; None where the prompt has no filter."""
    if not filters_of(inputs.text, inputs.texts["aliases"]).filters:
        return None
    return len(pinned_documents(workspace, inputs.pins).keys() - set(inputs.off))


def injectable(workspace: Workspace, project: str) -> list[str]:
    """Return the paths of a project's regular files that are not on the deny list, sorted."""
    found = workspace.documents(project).scan()
    other = [
        path
        for path, reason in found.refused
        if reason.startswith((NOT_SUPPORTED, JUNK)) and not path.endswith("/")
    ]
    return sorted([*found.files, *other])


def named_files(
    workspace: Workspace, token: str, names: Sequence[str], projects: Sequence[str]
) -> list[str]:
    """Return what a forced name means; if it fits nothing, folders that are away are named."""
    try:
        return forced_paths(token, names)
    except UsageError as error:
        trees = [workspace.documents(project) for project in projects]
        away = [
            f"{root.shown}: {why}" for tree in trees for root, why in tree.absent(tree.missing())
        ]
        pulled = [project for project in projects if is_pulled(workspace.index_dir(project))]
        away += [f"{project}, whose documents lie where its index is made" for project in pulled]
        if not away or candidates(token, names):
            raise
        raise UsageError(error.message, hint=f"it may lie in {'; '.join(away)}") from None


def ingested_hashes(workspace: Workspace, pin: Pin, paths: Collection[str]) -> dict[str, str]:
    """Return the sha256 that some files had in a pinned generation; others are left out."""
    if not paths:
        return {}
    with reading(workspace.index_dir(pin.project)) as db:
        files = live_files(db, pin.generation)
    return {path: files[path].sha256 for path in paths if path in files}


def _names(inputs: PromptInputs, project: str) -> list[str]:
    prefix = f"{project}/"
    return [name.removeprefix(prefix) for name in inputs.names if name.startswith(prefix)]


def read_file(workspace: Workspace, project: str, path: str) -> bytes:
    """Return the bytes of a file of a project's folder."""
    try:
        fd = workspace.open_document(project, path)
        with os.fdopen(fd, "rb") as handle:
            data = handle.read(MAX_INJECTED_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{project}/{path}: {error.strerror}") from None
    if len(data) > MAX_INJECTED_BYTES:
        raise UsageError(f"{project}/{path} is over {MAX_INJECTED_BYTES} bytes")
    return data


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """Reads the document folders; keeps what was read, for replay, where anything is kept."""

    workspace: Workspace
    inputs: PromptInputs

    def names(self, project: str) -> list[str]:
        """Return the files of a project that the prompt may mean."""
        return _names(self.inputs, project)

    def read(self, project: str, path: str) -> bytes:
        """Return a file's bytes and keep them under their digest."""
        data = read_file(self.workspace, project, path)
        if persists(self.inputs):
            self.workspace.store.put_blob(data)
        return data


@dataclass(frozen=True, slots=True)
class RecordedAnswers:
    """What came from outside while a recorded prompt was made: a language model's, a person's."""

    digests: Sequence[str] = ()  # the exchanges
    live: bool = False  # ask the model again and compare, instead of reading them
    differences: list[str] = field(default_factory=list)  # of its answers, filled by the stages
    edits: Sequence[Edit] = ()

    @classmethod
    def of(cls, record: PromptRecord, *, live: bool = False) -> RecordedAnswers:
        """Return what came from outside while that prompt was made."""
        return cls(record.exchanges, live, edits=record.edits)


@dataclass(frozen=True, slots=True)
class RecordedFiles:
    """Reads the bytes that a recorded prompt injected; its answers come along."""

    store: PromptStore
    inputs: PromptInputs
    answers: RecordedAnswers = field(default_factory=RecordedAnswers)

    def names(self, project: str) -> list[str]:
        """Return the files of a project that the prompt could mean."""
        return _names(self.inputs, project)

    def read(self, project: str, path: str) -> bytes:
        """Return the bytes of then."""
        digest = self.inputs.receipts.get(f"{project}/{path}")
        if digest is None:
            raise UnknownPrompt(f"{project}/{path} was not injected in the recorded prompt")
        return self.store.blob(digest)


def pinned_diffs(
    workspace: Workspace, wanted: Sequence[str], projects: Sequence[str]
) -> dict[str, str]:
    """Return the diffs that a prompt asks for, ``diff:project/path`` → text."""
    if not wanted:
        return {}
    several = len(projects) > 1
    homes = {
        f"{project}/{path}" if several else path: (project, path)
        for project in projects
        for path in injectable(workspace, project)
    }
    tokens = [token.replace("\\", "/").removeprefix("./") for token in wanted]
    names = dict.fromkeys(
        name for token in tokens for name in named_files(workspace, token, list(homes), projects)
    )
    return {f"{PREFIX}{'/'.join(homes[name])}": diff_of(workspace, *homes[name]) for name in names}


def _git(
    root: Path,
    *words: str,
    out: IO[bytes] | int = subprocess.PIPE,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git without a shell; nothing is fetched, no diff tool and no text converter runs."""
    return subprocess.run(
        [*_GIT, "-C", str(root), *words], env=env, stdin=subprocess.DEVNULL, stdout=out,
        stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def _without_filters(root: Path) -> dict[str, str]:
    """Return git's environment in which no filter of a repository's own settings is run.

    `git diff` passes a changed file through `filter.NAME.clean`, a command; one that came with the
    folder is nobody's wish. Those of the person's own settings stay.
    """
    done = _git(root, "config", "--list", "--name-only", "--show-scope", "-z")
    listed = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    foreign = [
        name
        for scope, name in zip(listed[::2], listed[1::2], strict=False)
        if scope in _FOREIGN and name.startswith("filter.")
    ]
    drivers = dict.fromkeys(name.rpartition(".")[0] for name in foreign)
    off = [
        (f"{driver}.{key}", value)
        for driver in drivers
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    ]
    return environment_with(
        {
            "GIT_CONFIG_COUNT": str(len(off)),
            **{f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(off)},
            **{f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(off)},
        }
    )


def diffs_in(texts: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return the diffs among a prompt's pinned texts, (project, path) → text."""
    found: dict[tuple[str, str], str] = {}
    for key, text in texts.items():
        if key.startswith(PREFIX):
            project, _, path = key.removeprefix(PREFIX).partition("/")
            found[project, path] = text
    return found


def diff_of(workspace: Workspace, project: str, path: str) -> str:
    """Return what `git diff HEAD` says about one file; empty where nothing changed."""
    name = f"{project}/{path}"
    root, inside = workspace.documents(project).place(path)
    with tempfile.TemporaryFile() as out:
        try:
            done = _git(root, *_DIFF, inside, out=out, env=_without_filters(root))
        except FileNotFoundError:
            raise UsageError(
                f"no diff of {name}: git is not installed",
                hint=(
                    "install git, or pipe a diff in: ",
                    RunProgram("git diff | ragstream prompt - -p PROJECT"),
                ),
            ) from None
        except subprocess.TimeoutExpired:
            raise OperationFailed(f"no diff of {name}: git took over {TIMEOUT_S:g} s") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0][:200]
            raise UsageError(
                f"no diff of {name}: {said or f'git ended with {done.returncode}'}",
                hint="the file must lie in a git work tree with a commit",
            )
        out.seek(0)
        data = out.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"the diff of {name} is over {MAX_BYTES} bytes", hint=InjectFile())
    return data.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n")
