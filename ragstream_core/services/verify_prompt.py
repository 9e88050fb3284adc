"""`ragstream verify-prompt`: the files that a prompt shows against the files on disk now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from ragstream_core.errors import RagstreamError, RunCommand, UsageError
from ragstream_core.index.view import open_view
from ragstream_core.prompts.citations import Marker, parse_markers, shown_name
from ragstream_core.prompts.compare import blocks_of
from ragstream_core.prompts.edited_prompt import sections_of
from ragstream_core.prompts.fences import NAME_MAX
from ragstream_core.prompts.frames import Frame, frames, mark_of
from ragstream_core.prompts.render import ATTACHMENTS, FILES, SAME_TEXT
from ragstream_core.records.identity import parse_chunk_id, sha256_hex
from ragstream_core.wiring.file_states import (
    CHANGED,
    CURRENT,
    UNREADABLE,
    diff_now,
    homes_of,
    state_now,
)
from ragstream_core.wiring.kept_prompt import DIFF, KeptPrompt

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

INJECTED, QUOTED = "injected", "quoted"
REPEATED = ("near_duplicate", "duplicate_text")
_USES = {"FULL": INJECTED, "PACK": INJECTED, "DIFF": DIFF}


class ShownFile(NamedTuple):
    """A file that a prompt shows, and what has become of it."""

    project: str  # its project; empty if that is not known
    path: str  # relative to the project
    sha256: str  # of its bytes then, or the first digits
    # ``injected`` as ❖ FILES, ``quoted`` in excerpts or named below one, or ``diff``: its changes
    # since its last commit
    use: str
    state: str  # see `state_now`


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """The files that a prompt shows."""

    prompt_key: str  # of its record; empty if it is on none
    files: tuple[ShownFile, ...]  # in the order of the prompt's own lists


def verify_key(workspace: Workspace, key: str) -> ShownFiles:
    """Compare the files that a recorded prompt shows with those on disk.

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
        RagstreamError: Its ledger or its rendering is gone and cannot be made again.
    """
    return _verified(KeptPrompt.of(workspace, key))


def _verified(kept: KeptPrompt) -> ShownFiles:
    workspace = kept.workspace
    injected = [(f.project, f.path, f.sha256, f.kind) for f in kept.injected]
    rows = [(*row[:3], INJECTED) for row in injected if row[3] != DIFF]
    versions = dict.fromkeys(map(_version, [*kept.selection, *_named(kept)]))
    for path, sha256 in filter(None, versions):
        homes = homes_of(workspace, kept.pins, path, sha256)
        rows.append((_nearest(workspace, homes, path, sha256), path, sha256, QUOTED))
    rows += [row for row in injected if row[3] == DIFF]
    return ShownFiles(kept.key, tuple(_stated(workspace, rows)))


def verify_text(workspace: Workspace, text: str, projects: Sequence[str] = ()) -> ShownFiles:
    """Compare the files that a rendered Super-Prompt shows with those on disk.

    A prompt that is on record is compared by its record, any other one by its frames.

    Args:
        workspace: The data root.
        text: The Super-Prompt.
        projects: Whose files its frames name; default: those of the data root.

    Raises:
        UsageError: The text is on no record and frames no file.
        RagstreamError: As `verify_key`.
    """
    kept = _recorded(workspace, text)
    if kept is not None:
        return _verified(kept)
    nonce = mark_of(text)
    sections = [part for part in sections_of(text, nonce) if part.name in (FILES, ATTACHMENTS)]
    shown = [frame for part in sections for frame in frames(part.text, nonce)]
    rows = [_framed(workspace, projects, frame) for frame in shown if frame.sha256]
    rows += [_named_home(workspace, projects, marker) for marker in _also(blocks_of(text))]
    if not rows:
        raise UsageError(
            "this text frames no file and is not a recorded Super-Prompt",
            hint=(RunCommand("prompt", "… --out FILE"), " writes one; or give its key"),
        )
    return ShownFiles("", tuple(_stated(workspace, dict.fromkeys(rows))))


def _named(kept: KeptPrompt) -> list[str]:
    """Return the ids of the passages that a recorded prompt names as the same below a frame."""
    dropped = [row.chunk_id for row in kept.ledger if row.rule in REPEATED]
    if not dropped:
        return []
    ids = tuple(marker.id for marker in _also(blocks_of(kept.text)))
    return [i for i in dropped if ids and sha256_hex(i).startswith(ids)]


def _also(blocks: Mapping[str, str]) -> list[Marker]:
    lines = blocks.get(ATTACHMENTS, "").split("\n")  # what is quoted begins otherwise
    return [m for line in lines if line.startswith(SAME_TEXT) for m in parse_markers(line)]


def _named_home(
    workspace: Workspace, projects: Sequence[str], marker: Marker
) -> tuple[str, str, str, str]:
    """Return project, path and digest of what a marker names if an index has it still."""
    for project in projects or workspace.projects():
        try:
            known = open_view(workspace.index_dir(project)).chunk_ids
        except RagstreamError:
            continue  # nothing is ingested there, or it is damaged: another one may have it
        for path, sha256 in filter(None, map(_version, _with_id(known, marker.id))):
            if shown_name(path) == marker.source:
                return project, path, sha256[:12], QUOTED
    return "", unquote(marker.source), "", QUOTED


def _with_id(chunk_ids: Iterable[str], short_id: str) -> Iterator[str]:
    return (i for i in chunk_ids if sha256_hex(i).startswith(short_id))


def _framed(
    workspace: Workspace, projects: Sequence[str], frame: Frame
) -> tuple[str, str, str, str]:
    """Return project, path, digest and use of a frame; with several projects it names one."""
    known, path = list(projects) or workspace.projects(), frame.source
    use = _USES.get(frame.mode, QUOTED)
    if len(path) >= NAME_MAX:
        return "", path, frame.sha256, use  # cut: no one can say which file it was
    head, _, rest = path.partition("/")
    named = [(head, rest)] if rest and head in known else []
    look = diff_now if use == DIFF else state_now
    states = {
        home: look(workspace, *home, frame.sha256)
        for home in [*((project, path) for project in known), *named]
    }
    current = (home for home, state in states.items() if state == CURRENT)
    changed = (home for home, state in states.items() if state == CHANGED and home[1] == path)
    return (*next(current, next(changed, (*named, ("", path))[0])), frame.sha256, use)


def _version(chunk_id: str) -> tuple[str, str] | None:
    try:
        path, sha256, _ = parse_chunk_id(chunk_id)
    except ValueError:
        return None  # a turn of the conversation
    return path, sha256


def _nearest(workspace: Workspace, homes: Sequence[str], path: str, sha256: str) -> str:
    current = (p for p in homes if state_now(workspace, p, path, sha256) == CURRENT)
    return next(current, homes[0])


def _stated(workspace: Workspace, rows: Iterable[tuple[str, str, str, str]]) -> list[ShownFile]:
    files = []
    for project, path, sha256, use in rows:
        look = diff_now if use == DIFF else state_now
        state = look(workspace, project, path, sha256) if project else UNREADABLE
        files.append(ShownFile(project, path, sha256, use, state))
    return files


def _recorded(workspace: Workspace, text: str) -> KeptPrompt | None:
    """Return the kept prompt of a text; a terminal adds one line end when it prints it."""
    digests = {sha256_hex(text), sha256_hex(text.removesuffix("\n"))}
    for key in reversed(workspace.store.keys()):
        try:
            kept = KeptPrompt.of(workspace, key)
        except RagstreamError:
            continue  # another prompt's damage is not this one's
        if kept.record.output_sha256 in digests:
            return kept
    return None
