"""`ragstream spec`: the test specification of a project, new or continued.

What a file has already stays: a requirement with a case is not written again, ids are never given
twice, and the words that a person put into a section remain. `renew` writes the cases again, under
the ids that they have.

The file of a specification: gone on with where it is ours, never overwritten where it is not.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, OperationFailed, Refused, RunCommand, UsageError
from ragstream_core.platform.files import replace_text
from ragstream_core.services.spec_drafts import Drafter, Project, Unit, read_project, specs_dir
from ragstream_core.testspecs.identifiers import id_format, id_pattern
from ragstream_core.testspecs.markdown import Section, document, renumbered, section, sections_of
from ragstream_core.testspecs.requirements import SIGNATURE, natural
from ragstream_core.testspecs.specification import (
    DUE,
    LEFT_OUT,
    MENTIONED,
    NOT_TESTABLE,
    Coverage,
    Specification,
    covered,
)

if TYPE_CHECKING:
    from ragstream_core.ports import Progress
    from ragstream_core.services.spec_drafts import Draft
    from ragstream_core.testspecs.specification import TestCase
    from ragstream_core.wiring.workspace import Workspace


SHOWN = 3
FILE = "test-spec.md"
MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class SpecRequest:
    """What is asked for."""

    project: str
    requirements: tuple[str, ...] = ()  # only these ids; empty: all
    # what fits a requirement id; empty: as ``documentation.requirement_pattern`` says
    pattern: str = ""
    start: int = 0  # number of the first case; 0: behind the highest that is taken
    form: str = ""  # ``deterministic`` or ``llm``; empty: as ``documentation.form`` says
    task: str = ""  # name of a task profile
    # embed the raw JSON of each case; None: as ``documentation.embed_json`` says
    embed_json: bool | None = None
    renew: bool = False  # write cases again that are there already
    dry_run: bool = False  # only say what would be written; the chain does not run


@dataclass(frozen=True, slots=True)
class WrittenSpec:
    """A specification and its file."""

    spec: Specification  # what was written now, and the coverage of everything
    markdown: str  # the whole file; earlier sections are in it
    path: Path | None = None  # where the project's own lies
    changed: bool = False  # whether its bytes are others than before


def generate(
    workspace: Workspace,
    request: SpecRequest,
    *,
    sections: Sequence[Section] = (),
    progress: Progress | None = None,
) -> WrittenSpec:
    """Write the test specification of a project; its file is not touched.

    Args:
        workspace: The data root.
        request: What is asked for.
        sections: The cases that its file has.
        progress: Called with (done, total) requirements.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: A pattern that is none, or an id that no document has.
    """
    settings = workspace.config.settings.documentation
    fits = id_pattern(request.pattern or settings.requirement_pattern)
    numbering = id_format(settings.id_format)
    project = read_project(workspace, request.project, fits)
    wanted = _wanted(project, request.requirements)
    units = project.units(wanted)
    rowed = project.found.ids if sections else wanted  # a file tells of every requirement
    held = {name: one.id for one in reversed(sections) for name in one.requirements}
    own = {one.requirements[0]: one.id for one in reversed(sections) if one.requirements}
    due = [u for u in units if request.renew or not all(name in held for name in u.ids)]
    if request.dry_run:
        spec = _specification(project, request, _planned(project, due), rowed, sections)
        return WrittenSpec(spec, document(spec, sections))
    drafts = list(_drafted(project, request, due, progress))
    fresh = numbering.fresh({one.id for one in sections}, request.start)
    cases = [replace(d.case, id=own.get(u.ids[0]) or next(fresh)) for u, d in drafts if d.case]
    embed = settings.embed_json if request.embed_json is None else request.embed_json
    made = {case.id: section(case, embed_json=embed) for case in cases}
    without = {own.get(u.ids[0]) for u, d in drafts if d.case is None}
    whole = renumbered([one for one in sections if one.id not in without], made)
    rows = {u: (d.state, d.words) for u, d in drafts}
    spec = _specification(project, request, rows, rowed, whole, cases)
    return WrittenSpec(spec, document(spec, whole))


def _drafted(
    project: Project, request: SpecRequest, due: Sequence[Unit], progress: Progress | None
) -> Iterator[tuple[Unit, Draft]]:
    form = request.form or project.workspace.config.settings.documentation.form
    drafter = Drafter.of(project, form, request.task)
    for done, unit in enumerate(due):
        if progress is not None:
            progress(done, len(due))
        yield unit, drafter(unit)
    if progress is not None:
        progress(len(due), len(due))


def _wanted(project: Project, named: Sequence[str]) -> tuple[str, ...]:
    """Return the ids that are asked for."""
    known = project.found.ids
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(name, known, SHOWN) or known[:SHOWN]
            pattern = (AddOption("--pattern REGEX"), " says what ids are")
            hint = f"one of: {', '.join(near)}" if near else pattern
            raise UsageError(f"project {project.name!r} has no requirement {name!r}", hint=hint)
    return tuple(sorted(set(named), key=natural)) if named else known


def _planned(project: Project, due: Sequence[Unit]) -> dict[Unit, tuple[str, str]]:
    return {
        unit: (DUE, "") if project.is_testable(unit) else (NOT_TESTABLE, unit.definitions[0].title)
        for unit in due
    }


def _specification(
    project: Project,
    request: SpecRequest,
    rows: dict[Unit, tuple[str, str]],
    rowed: Sequence[str],
    sections: Sequence[Section],
    cases: Sequence[TestCase] = (),
) -> Specification:
    states = {name: row for unit, row in rows.items() for name in unit.ids}
    table = [_row(project, name, states.get(name)) for name in rowed]
    written = {case.id for case in cases}
    settings = project.workspace.config.settings.documentation
    return Specification(
        project=project.name,
        generation=project.generation,
        digest=project.digest,
        pattern=request.pattern or settings.requirement_pattern,
        cases=tuple(cases),
        coverage=covered(table, {one.id: one.requirements for one in sections}),
        kept=tuple(one.id for one in sections if one.id not in written),
    )


def _row(project: Project, name: str, state: tuple[str, str] | None) -> Coverage:
    """Return the row of an id whose cases are not known yet."""
    found = project.found.of(name)
    if not found:
        mention = project.found.mentions[name][0]
        place = _place(project, mention.path, mention.span)
        return Coverage(name, "", (), MENTIONED, f"{place}: {project.words(mention)}")
    unit = project.units([name])[0]
    one = unit.definitions[0]
    said, words = state or (LEFT_OUT, "")
    return Coverage(name, _place(project, one.path, one.span), (), said, words)


def _place(project: Project, path: str, span: tuple[int, int]) -> str:
    line = project.lines(path, span)[0]
    return f"{path}:{line}" if line else path


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
        raise OperationFailed(
            f"{path}: {error.strerror}", hint=("choose another ", AddOption("--out"))
        ) from None
    text = data.decode("utf-8", "replace")
    if len(data) <= MAX_BYTES and text.startswith(f"{SIGNATURE}\n"):
        return sections_of(text)
    if force:
        return []
    raise Refused(
        f"{path} exists and is not a test specification of ragstream spec",
        hint=(
            "choose another ",
            AddOption("--out"),
            ", or replace the file with ",
            AddOption("--force"),
        ),
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
        raise OperationFailed(
            f"{path}: {error.strerror}", hint=("choose another ", AddOption("--out"))
        ) from None
    return True


def write_kept(
    workspace: Workspace, request: SpecRequest, *, progress: Progress | None = None
) -> WrittenSpec:
    """Bring a project's own specification up to date; its cases keep their ids.

    Args:
        workspace: The data root.
        request: What is asked for.
        progress: Called with (done, total) requirements.

    Raises:
        Refused: Nothing may be kept.
    """
    if not workspace.config.settings.history.persist:
        raise Refused(
            "history.persist is off, and the specification would be kept",
            hint=(
                RunCommand("spec", "PROJECT --out FILE"),
                " writes one file and keeps nothing else",
            ),
        )
    path = kept_file(workspace, request.project)
    sections = read_sections(path, force=True)
    made = generate(workspace, request, sections=sections, progress=progress)
    has_any = bool(made.spec.cases or made.spec.kept) and not request.dry_run
    changed = has_any and write(path, made.markdown)
    return replace(made, path=path, changed=changed)


def unknown_requirements(workspace: Workspace, project: str) -> list[str]:
    """Return what a project's own specification names and its documents do not have.

    Returns:
        ``CASE: REQUIREMENT`` of each, in the order of the file.
    """
    sections = read_sections(kept_file(workspace, project), force=True)
    if not sections:
        return []
    settings = workspace.config.settings.documentation
    known = read_project(workspace, project, id_pattern(settings.requirement_pattern)).found.ids
    named = [(one.id, name) for one in sections for name in one.requirements]
    return [f"{case}: {name}" for case, name in named if name not in known]
