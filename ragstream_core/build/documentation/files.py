"""The file of a specification: gone on with where it is ours, never overwritten where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.atomic import replace_text
from ragstream_core.build.documentation.drafts import specs_dir
from ragstream_core.build.documentation.generating import SpecRequest, generate
from ragstream_core.build.documentation.sources import read_project
from ragstream_core.documentation.documents import SIGNATURE
from ragstream_core.documentation.identifiers import id_pattern
from ragstream_core.documentation.markdown import Section, sections_of
from ragstream_core.errors import OperationFailed, Refused

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.documentation.specification import Specification
    from ragstream_core.ports import Progress

FILE = "test-spec.md"
MAX_BYTES = 50_000_000


def kept_file(workspace: Workspace, project: str) -> Path:
    """Return where a project's own specification lies, whether it exists or not.

    Raises:
        InvalidName: The name could lead outside the data root.
    """
    return specs_dir(workspace, project) / FILE


def read_sections(path: Path, *, force: bool = False) -> list[Section]:
    """Return the cases of a file; none where it does not exist.

    Args:
        path: The file.
        force: A file that is no specification will be replaced.

    Raises:
        Refused: It is no specification of ours, and would be overwritten.
        OperationFailed: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OperationFailed(f"{path}: {error.strerror}", hint="choose another --out") from None
    text = data.decode("utf-8", "replace")
    if len(data) <= MAX_BYTES and text.startswith(f"{SIGNATURE}\n"):
        return sections_of(text)
    if force:
        return []
    raise Refused(
        f"{path} exists and is not a test specification of ragstream spec",
        hint="choose another --out, or replace the file with --force",
    )


def write(path: Path, markdown: str) -> bool:
    """Put a specification in its place, unless it is there byte for byte; say whether it was not.

    Raises:
        OperationFailed: It cannot be written; the old file is untouched.
    """
    try:
        if path.is_file() and path.read_bytes() == markdown.encode("utf-8"):
            return False
        replace_text(path, markdown)
    except OSError as error:
        raise OperationFailed(f"{path}: {error.strerror}", hint="choose another --out") from None
    return True


@dataclass(frozen=True, slots=True)
class Kept:
    """A project's own specification after it was written.

    Attributes:
        spec: What was written, and its coverage.
        markdown: The whole file.
        path: Where it lies; nothing is written where no requirement id was found.
        changed: Whether its bytes are others than before.
    """

    spec: Specification
    markdown: str
    path: Path
    changed: bool


def write_kept(
    workspace: Workspace, request: SpecRequest, *, progress: Progress | None = None
) -> Kept:
    """Bring a project's own specification up to date; its cases keep their ids.

    Args:
        workspace: The data root.
        request: What is asked for.
        progress: Called with (done, total) requirements.

    Raises:
        Refused: Nothing may be kept.
        RagstreamError: An unknown project, nothing is ingested, or the chain failed.
    """
    if not workspace.config.settings.history.persist:
        raise Refused(
            "history.persist is off, and the specification would be kept",
            hint="ragstream spec PROJECT --out FILE writes one file and keeps nothing else",
        )
    path = kept_file(workspace, request.project)
    sections = read_sections(path, force=True)
    made = generate(workspace, request, sections=sections, progress=progress)
    has_any = bool(made.spec.cases or made.spec.kept) and not request.dry_run
    changed = has_any and write(path, made.markdown)
    return Kept(made.spec, made.markdown, path, changed)


def unknown_requirements(workspace: Workspace, project: str) -> list[str]:
    """Return what a project's own specification names and its documents do not have.

    Returns:
        ``CASE: REQUIREMENT`` of each, in the order of the file.

    Raises:
        RagstreamError: An unknown project, or nothing is ingested.
    """
    sections = read_sections(kept_file(workspace, project), force=True)
    if not sections:
        return []
    settings = workspace.config.settings.documentation
    known = read_project(workspace, project, id_pattern(settings.requirement_pattern)).found.ids
    named = [(one.id, name) for one in sections for name in one.requirements]
    return [f"{case}: {name}" for case, name in named if name not in known]
