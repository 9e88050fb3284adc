"""``projects/NAME/project.yaml``: folders read in place, and addresses that are mirrored."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ragstream_core.config import is_confirmed, state_dir
from ragstream_core.errors import RagstreamError, Refused, RunCommand, UsageError, quoted
from ragstream_core.ingestion.document_tree import DocumentTree, Root
from ragstream_core.ingestion.file_types import encode_name
from ragstream_core.platform import confirmed_files
from ragstream_core.platform.data_root import NAME_RULE, PROJECT_FILE, Layout, is_project_name
from ragstream_core.platform.files import replace_bytes
from ragstream_core.platform.locks import serialized
from ragstream_core.settings.confirmation import leads_out, own_folder

if TYPE_CHECKING:
    import yaml

    from ragstream_core.remote.address import Address

MAX_BYTES = 1_000_000

# A glob with more wildcards could take for ever to match.
MAX_STARS = 8
_NOT_A_LABEL = re.compile(r"[^A-Za-z0-9._-]+")
_SPECIAL = re.compile(r"([\\*?\[\]! #])")
_HEAD = "# Folders that RAGstream reads in place. Nothing is ever written there.\n"


def _checked_glob(glob: str) -> str:
    """Return a git-style glob."""
    from ragstream_core.ingestion.ignore import is_pattern

    if not glob.strip() or glob.count("*") > MAX_STARS or "\n" in glob:
        raise ValueError(f"{glob!r} is no usable glob: one line, at most {MAX_STARS} wildcards")
    if not is_pattern(glob):
        raise ValueError(f"{glob!r} is no git-style glob")
    return glob


Glob = Annotated[str, AfterValidator(_checked_glob)]


class RootEntry(BaseModel):
    """One folder of this machine, or one address."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    label: str = ""  # before the paths of its documents if the project has several folders
    path: str = ""  # absolute, or relative to the data root, or beginning with ~
    url: str = ""  # in place of a path: documents are fetched from there when a person asks

    @field_validator("label")
    @classmethod
    def _named(cls, label: str) -> str:
        if label and not is_project_name(label):
            raise ValueError(f"{label!r} cannot be a label: {NAME_RULE}")
        return label

    @field_validator("path")
    @classmethod
    def _somewhere(cls, path: str) -> str:
        if not path.strip() or "\0" in path:
            raise ValueError("no path")
        try:
            Path(path).expanduser()
        except RuntimeError as error:
            raise ValueError(f"{path}: {error}") from None
        return path

    @field_validator("url")
    @classmethod
    def _known(cls, url: str) -> str:
        try:
            return _address(url).url if url else ""
        except RagstreamError as error:
            raise ValueError(error.message) from None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.path) == bool(self.url):
            raise ValueError("no path" if not self.path else "either a path or a url")
        return self


class ProjectFile(BaseModel):
    """What ``project.yaml`` says."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    roots: tuple[RootEntry, ...] = Field(min_length=1, strict=False)
    include: tuple[Glob, ...] = Field((), strict=False)  # git-style; none: all documents
    exclude: tuple[Glob, ...] = Field((), strict=False)

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        seen: set[str] = set()
        for root in self.roots if len(self.roots) > 1 else ():
            if not root.label:
                raise ValueError(
                    f"with several folders each needs a label; {root.path or root.url} has none"
                )
            if root.label.lower() in seen:
                raise ValueError(f"the label {root.label!r} comes twice")
            seen.add(root.label.lower())
        return self


def read(layout: Layout, project: str) -> ProjectFile:
    """Read the file of a project that has one."""
    path = layout.project_file(project)
    data = file_bytes(path)
    said = parsed(data, path)
    outside = led_out(layout, said)
    if outside and not is_confirmed(path, data):
        raise Refused(
            f"project {project} is to read {', '.join(outside)}, and you have not confirmed {path}",
            hint=(RunCommand("config trust", quoted(path)), " shows what it says and asks"),
        )
    return said


def led_out(layout: Layout, said: ProjectFile) -> list[str]:
    """Return the addresses that a file names, and the folders outside of its own.

    Its own is the folder that holds the data root: a data root that came with a folder may read
    that folder, and nothing else of the person's.
    """
    own = own_folder(layout.root)
    return [
        root.url or str(folder_of(layout, root))
        for root in said.roots
        if root.url or leads_out(str(folder_of(layout, root)), own)
    ]


def file_bytes(path: Path) -> bytes:
    """Return all bytes of a project file."""
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unusable(path, 0, error.strerror or str(error)) from None
    if len(data) > MAX_BYTES:
        raise _unusable(path, 0, f"over {MAX_BYTES} bytes")
    return data


def parsed(data: bytes, path: Path) -> ProjectFile:
    """Return what the bytes of a project file say."""
    import yaml

    try:
        value = yaml.safe_load(data)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _unusable(path, mark.line + 1 if mark else 0, error.problem or "no YAML") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _unusable(path, 0, str(error).split("\n", 1)[0]) from None
    try:
        return ProjectFile.model_validate(value)
    except ValidationError as error:
        place, fault = first_fault(error)
        where = ".".join(map(str, place))
        line = _line(yaml.compose(data, Loader=yaml.SafeLoader), place)
        raise _unusable(path, line, f"{where}: {fault}" if where else fault) from None


def first_fault(error: ValidationError) -> tuple[tuple[str | int, ...], str]:
    """Return the place of the first fault of a file, and what it is."""
    first = error.errors()[0]
    return first["loc"], str(first["msg"]).removeprefix("Value error, ")


def _line(node: yaml.Node | None, place: Sequence[str | int]) -> int:
    """Return the line of what an error is about, as near as the file has it; 0: nowhere."""
    import yaml

    for part in place:
        inner = None
        if isinstance(node, yaml.MappingNode):
            pairs = ((key, value) for key, value in node.value if key.value == part)
            inner = next((key if value.value == [] else value for key, value in pairs), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            inner = node.value[part] if part < len(node.value) else None
        if inner is None:
            break
        node = inner
    return node.start_mark.line + 1 if node is not None else 0


def _unusable(path: Path, line: int, why: str) -> UsageError:
    where = f"{path}:{line}" if line else str(path)
    return UsageError(
        f"{where}: {why}",
        hint=(
            "correct the file, or write it anew: ",
            RunCommand("project add", f"{path.parent.name} PATH --replace"),
        ),
    )


def write(layout: Layout, project: str, content: ProjectFile) -> None:
    """Write the file of a project: a reader sees the old one or the new one.

    It is written because a person said what to read, so it counts as confirmed by that. What of it
    stood there before was `read`, and is confirmed or harmless.
    """
    import yaml

    values = content.model_dump(mode="json", exclude_defaults=True)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    path, data = layout.project_file(project), (_HEAD + text).encode()
    if led_out(layout, content):
        confirmed_files.confirm(state_dir(), path, data)
    replace_bytes(path, data)


def exclude(layout: Layout, project: str, path: str) -> None:
    """Add one document to what a project leaves out; done already: nothing is written."""
    glob = "/" + _SPECIAL.sub(r"\\\1", path)
    with serialized(layout.projects):
        before = read(layout, project)
        if glob in before.exclude:
            return
        try:
            content = ProjectFile(
                roots=before.roots, include=before.include, exclude=(*before.exclude, glob)
            )
        except ValidationError as error:
            raise UsageError(
                f"{path!r} cannot be named in {PROJECT_FILE}: {first_fault(error)[1]}",
                hint="move the document away",
            ) from None
        write(layout, project, content)


def label_of(name: str) -> str:
    """Return the label of a folder that was given none: its own name, as far as that can be one."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    label = re.sub(r"\.{2,}", ".", _NOT_A_LABEL.sub("-", plain)).strip("-._")[:64]
    return label if is_project_name(label) else f"folder-{label}".rstrip("-")[:64]


def labelled(content: ProjectFile) -> ProjectFile:
    """Return the same project with a label for its only folder, so that another can join it.

    Globs that name a place below that folder keep their meaning: the label goes before them.
    """
    if len(content.roots) > 1:
        return content
    (only,) = content.roots
    label = only.label or label_of(Path(only.path or _address(only.url).name).name)
    return ProjectFile(
        roots=(only.model_copy(update={"label": label}),),
        include=tuple(_below(label, glob) for glob in content.include),
        exclude=tuple(_below(label, glob) for glob in content.exclude),
    )


def _below(label: str, glob: str) -> str:
    taken_back, plain = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
    anchored = "/" in plain.rstrip("/")
    return f"{taken_back}/{label}/{plain.lstrip('/')}" if anchored else glob


def folder_of(layout: Layout, entry: RootEntry) -> Path:
    """Return where a folder lies; links in its path are not resolved."""
    return Path(os.path.normpath(layout.root / Path(entry.path).expanduser()))


def _address(url: str) -> Address:
    from ragstream_core.remote.address import parse  # not where folders are all there is

    return parse(url)


def mirror_home(layout: Layout, project: str, entry: RootEntry) -> Path:
    """Return the folder that belongs to the mirror of an address, whether it is there or not."""
    return layout.mirrors / project / (entry.label or _address(entry.url).name)


def tree_of(layout: Layout, project: str, said: ProjectFile) -> DocumentTree:
    """Return where the documents lie that a project's file speaks of; looks into no folder."""
    own = [layout.root, layout.indexes, layout.logs]
    roots = []
    for entry in said.roots:
        label = entry.label if len(said.roots) > 1 else ""
        if entry.url:
            from ragstream_core.remote.state import FILES  # not where folders are all there is

            files = mirror_home(layout, project, entry) / FILES
            roots.append(Root(label, files, url=entry.url))
            continue
        path = folder_of(layout, entry)
        real = Path(os.path.realpath(path))
        if real.is_relative_to(os.path.realpath(layout.root)):
            raise UsageError(
                f"project {project}: {path} lies within the data root {layout.root}",
                hint=("name a folder outside it in ", str(layout.project_file(project))),
            )
        roots.append(Root(label, path, _closed(label, real, own)))
    return DocumentTree(tuple(roots), said.include, said.exclude, in_place=True)


def _closed(label: str, root: Path, own: Sequence[Path]) -> frozenset[str]:
    """Return the prefixes below a folder where RAGstream itself writes."""
    found = set()
    for folder in own:
        real = Path(os.path.realpath(folder))
        if real.is_relative_to(root) and real != root:
            parts = [encode_name(part) for part in real.relative_to(root).parts]
            found.add("/".join([*([label] if label else []), *parts]) + "/")
    return frozenset(found)
