"""Keep prompts, and drop those that are neither kept nor recent, with what only they need.

A prompt that is not kept goes when it is older than `retention.prompt_days`, or when
`retention.prompt_count` newer ones are there. A run that led to no finished prompt counts as one.
Stage JSON stays while a prompt that stays was made from it, injected bytes and requests as long as
anything that stays names them. Every step is one rename: killed anywhere, the next call goes on.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, IntegrityError, RagstreamError, RunCommand
from ragstream_core.index.look import kept_generations
from ragstream_core.platform.disk import size_of
from ragstream_core.platform.files import move_aside, remove_path, replace_text
from ragstream_core.prompts.recorded import POINTERS, pointed
from ragstream_core.prompts.store import KEPT_NAME, PARENT_PREFIX, RECORD_NAME
from ragstream_core.records.prompt_inputs import PromptInputs

if TYPE_CHECKING:
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.wiring.workspace import Workspace

DAY_S = 86_400.0

# A record on its way out; keeping the prompt before its folder went brings it back.
RETIRED_NAME = "record.expired"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class MarkedPrompt:
    """A prompt that was marked as kept, or is so no longer."""

    prompt_key: str
    kept: bool  # whether it is
    # project and generation of what it was made from; empty if it is not kept
    pins: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class DroppedPrompts:
    """What a retention of prompts dropped, or would drop."""

    dry_run: bool  # whether it only looked
    prompts: tuple[str, ...]  # their keys, oldest first
    runs: int  # how many folders of stage JSON
    files: int  # how many injected bytes and requests
    bytes: int  # that they take


@dataclass(frozen=True, slots=True)
class Expired:
    """What nobody needs any longer."""

    prompts: tuple[Path, ...]  # folders of prompts, oldest first
    runs: tuple[Path, ...]  # folders of stage JSON
    files: tuple[Path, ...]  # injected bytes and requests, and what a kill left over


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a prompt needs besides its own folder; blobs are whatever looks like a digest in it."""

    run_id: str
    blobs: frozenset[str]
    text: str


def keep(workspace: Workspace, key: str) -> MarkedPrompt:
    """Mark a prompt as kept; from now on its generations stay.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
        GenerationGone: A generation that it was made from is no longer there; not marked.
    """
    full_key = workspace.store.find(key)
    record = workspace.store.record(full_key)
    pins = PromptInputs.from_json(record.inputs).pins
    marker = workspace.store.root / full_key / KEPT_NAME
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    replace_text(marker, f"{now}\n")  # first: from here on no ingest drops what is still there
    try:
        workspace.store.record(full_key)  # it may have expired at this very moment
        for pin in pins:
            _require(workspace, pin)
    except RagstreamError:
        marker.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            marker.parent.rmdir()  # where nothing but the marker was left
        raise
    return MarkedPrompt(full_key, True, tuple((pin.project, pin.generation) for pin in pins))


def unkeep(workspace: Workspace, key: str) -> MarkedPrompt:
    """Take the mark away; the next retention may drop its generations.

    Raises:
        UnknownPrompt: No prompt under that key.
        OSError: The marker cannot be removed.
    """
    full_key = workspace.store.find(key)
    (workspace.store.root / full_key / KEPT_NAME).unlink(missing_ok=True)
    return MarkedPrompt(full_key, False, ())


def gc(workspace: Workspace, *, now: float | None = None, dry_run: bool = False) -> DroppedPrompts:
    """Drop the prompts that are neither kept nor recent, with what only they need.

    Args:
        workspace: The data root.
        now: Seconds since the epoch; default: the present moment.
        dry_run: Only show what would be removed.

    Raises:
        OSError: Something cannot be removed; what went is gone, run it again.
    """
    root, now = workspace.store.root, time.time() if now is None else now
    rules = workspace.config.settings.retention
    if not dry_run:
        _go_on(root)
    found = expired(root, now=now, days=rules.prompt_days, count=rules.prompt_count)
    if not dry_run and not all([_retire(folder) for folder in found.prompts]):
        # somebody kept one at this moment, and with it what it needs
        found = expired(root, now=now, days=rules.prompt_days, count=rules.prompt_count)
    paths = (*found.runs, *found.files, *found.prompts)
    bytes_ = sum(size_of(path) for path in paths)
    for path in () if dry_run else paths:
        _discard(path)
    keys = tuple(path.name for path in found.prompts)
    return DroppedPrompts(dry_run, keys, len(found.runs), len(found.files), bytes_)


def expired(root: Path, *, now: float, days: int, count: int) -> Expired:
    """Return what may go; reads only.

    Args:
        root: Folder of the prompt store.
        now: Seconds since the epoch.
        days: Age from which a prompt that is not kept goes.
        count: So many of the newest that are not kept stay.
    """
    records = {path.parent: _time(path) for path in root.glob(f"*/{RECORD_NAME}")}
    retired = {path.parent: _time(path) for path in root.glob(f"*/{RETIRED_NAME}")}
    records |= retired
    needs = {folder: _needs(folder) for folder in records}
    runs = _Runs(root / "runs")
    loose = runs.leaves - runs.behind(need.run_id for need in needs.values() if need)
    units = {folder: at for folder, at in records.items() if not (folder / KEPT_NAME).exists()}
    units |= {path: _time(path) for path in loose if _time(path) < now - DAY_S}
    newest = sorted(set(units) - set(retired), key=lambda p: (units[p], p.name), reverse=True)
    oldest = now - days * DAY_S
    going = {p for i, p in enumerate(newest) if i >= count or units[p] < oldest} | set(retired)
    prompts = tuple(sorted(going & set(records), key=lambda p: (records[p], p.name)))
    gone = {path.name for path in prompts}
    torn = (*_torn(root, now - DAY_S), *_dangling(root, gone))
    staying = [need for folder, need in needs.items() if folder not in going]
    if None in staying:  # nobody knows what a damaged record needs: all that is shared stays
        return Expired(prompts, (), torn)
    known = [need for need in staying if need]
    kept = runs.behind([need.run_id for need in known] + [p.name for p in loose - going])
    files = (*torn, *_unnamed(root, known, oldest - DAY_S))
    return Expired(prompts, tuple(sorted(runs.all - kept)), files)


class _Runs:
    """The folders of stage JSON, and which of them read from which.

    Attributes:
        all: The folders.
        leaves: Those that no other one read from.
    """

    def __init__(self, folder: Path) -> None:
        self.all = {path for path in folder.glob("*") if not path.name.startswith(".")}
        self._parents = {path.name: _parents(path) for path in self.all}
        read = {name for parents in self._parents.values() for name in parents}
        self.leaves = {path for path in self.all if path.name not in read}

    def behind(self, run_ids: Iterable[str]) -> set[Path]:
        """Return the folders of some runs and of all that they read from."""
        found: set[str] = set()
        waiting = list(run_ids)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._parents.get(name, ())
        return {path for path in self.all if path.name in found}


def _parents(run: Path) -> list[str]:
    return [path.name.removeprefix(PARENT_PREFIX) for path in run.glob(f"{PARENT_PREFIX}*")]


def _needs(folder: Path) -> _Needs | None:
    """Read what a prompt needs; None where its record cannot be read."""
    try:
        path = folder / RECORD_NAME
        raw = (path if path.exists() else folder / RETIRED_NAME).read_text(encoding="utf-8")
        record = json.loads(raw)
        text = str(record["inputs"]["text"])
        return _Needs(str(record["run_id"]), frozenset(_DIGEST.findall(raw)), text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _unnamed(root: Path, needs: Collection[_Needs], before: float) -> Iterator[Path]:
    """Yield old injected bytes and requests that nothing names."""
    named = {digest for need in needs for digest in need.blobs}
    texts = {need.text for need in needs}
    for path in sorted(root.glob("blobs/*")):
        if path.name not in named and _time(path) < before:
            yield path
    for path in sorted(root.glob("inbox/*.json")):
        if _time(path) < before and _text_of(path) not in texts:
            yield path


def _torn(root: Path, before: float) -> Iterator[Path]:
    """Yield folders of prompts whose writing was killed before their record."""
    for path in sorted(root.glob("*")):
        held = any((path / name).exists() for name in (RECORD_NAME, RETIRED_NAME, KEPT_NAME))
        if _DIGEST.fullmatch(path.name) and not held and _time(path) < before:
            yield path


def _dangling(root: Path, gone: Collection[str]) -> Iterator[Path]:
    """Yield the notes of which prompt answers a request, where that prompt is gone or goes."""
    for path in sorted((root / POINTERS).glob("*")):
        key = pointed(root, path.name)
        if key in gone or not (root / key / RECORD_NAME).exists():
            yield path


def _retire(folder: Path) -> bool:
    """Take a prompt's record away unless somebody keeps it at this moment; say whether it went."""
    record, retired = folder / RECORD_NAME, folder / RETIRED_NAME
    with contextlib.suppress(FileNotFoundError):  # another process is at it
        if record.exists():
            move_aside(record, retired)
        if (folder / KEPT_NAME).exists():
            move_aside(retired, record)
            return False
    return True


def _go_on(root: Path) -> None:
    """Finish what an earlier call was killed at; a prompt kept since then is back."""
    for retired in root.glob(f"*/{RETIRED_NAME}"):
        _retire(retired.parent)
    for pattern in (".*.gone", "*/.*.gone"):
        for path in root.glob(pattern):
            remove_path(path)


def _discard(path: Path) -> None:
    gone = path.with_name(f".{path.name}.gone")
    with contextlib.suppress(FileNotFoundError):
        move_aside(path, gone)
    remove_path(gone)


def _time(path: Path) -> float:
    """Return the time of a file's last change; one that is gone is as new as can be."""
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")


def _text_of(request: Path) -> str:
    try:
        return str(json.loads(request.read_bytes())["text"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _require(workspace: Workspace, pin: Pin) -> None:
    project, n = pin.project, pin.generation
    try:
        digests = {g.n: g.digest for g in kept_generations(workspace.index_dir(project))}
    except GenerationGone:
        digests = {}
    except RagstreamError as error:
        raise IntegrityError(error.message, hint=error.advice) from error
    if digests.get(n) != pin.digest:
        raise GenerationGone(
            f"generation {n} of {project}, which the prompt was made from, is no longer there",
            hint=(
                "keep a prompt soon after it is made; ",
                RunCommand("index generations"),
                " lists them",
            ),
        )
