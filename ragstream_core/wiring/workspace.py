"""`Workspace`: a data root with its settings; its paths, and what is cached for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.config import AppConfig
from ragstream_core.errors import Advice, RunCommand, UsageError
from ragstream_core.index.schema import is_pulled
from ragstream_core.platform.data_root import Layout, checked
from ragstream_core.wiring import projects as wiring_projects

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.conversations.question_index import Asked, QuestionIndex
    from ragstream_core.ingestion.document_tree import DocumentTree
    from ragstream_core.prompts.store import PromptStore

_MISSING: Advice = (
    "check the name in --data or RAGSTREAM_DATA_DIR; if it is right, ",
    RunCommand("project add", "NAME PATH"),
    " makes the folder",
)


class Caches(NamedTuple):
    """What a process remembers of a data root; each is filled by the module that reads it."""

    journals: dict[Path, Journal]  # by their folder
    questions: dict[str, QuestionIndex]  # by `memory.index_name`
    written_questions: dict[str, tuple[Asked, ...]]  # those that the file holds
    late_facts: deque[str]  # what is to be told behind the next turn


def _nothing_cached() -> Caches:
    return Caches({}, {}, {}, deque(maxlen=20))  # more sentences than anybody reads at once


@dataclass(frozen=True)
class Workspace:
    """A data root and its settings."""

    config: AppConfig
    caches: Caches = field(default_factory=_nothing_cached, repr=False, compare=False)

    @property
    def data_dir(self) -> Path:
        """The data root."""
        return self.config.data_dir

    @property
    def layout(self) -> Layout:
        """Where everything of the data root lies."""
        return self.config.layout

    def with_settings(self, changes: Mapping[str, object], *, task: str = "") -> Workspace:
        """Return this data root under changed settings, and its task profile or another one."""
        if not changes and not task:
            return self
        config = self.config.with_task(task, explicit=changes)
        return replace(self, config=config) if config.layout == self.layout else Workspace(config)

    def notices(self) -> tuple[tuple[str, Advice], ...]:
        """Return what a person should know about the settings and the data root, and what to do."""
        found = self.config.notices()
        if self.config.origin["paths.data_dir"] == "default" or self.data_dir.is_dir():
            return found
        return (*found, (f"the data root {self.data_dir} does not exist", _MISSING))

    @property
    def store(self) -> PromptStore:
        """The prompt store."""
        from ragstream_core.prompts.store import PromptStore

        return PromptStore(self.layout.prompts)

    def projects(self) -> list[str]:
        """Return the names of all projects, sorted; ``default`` holds the flat files.

        Those whose index is made elsewhere are among them, see `own_projects`.
        """
        return wiring_projects.all_names(self.layout)

    def own_projects(self) -> list[str]:
        """Return the names of the projects that are ingested here, sorted."""
        pulled = wiring_projects.pulled(self.layout)
        return [name for name in wiring_projects.names(self.layout) if name not in pulled]

    def unfit_folders(self) -> list[tuple[str, str]]:
        """Return (name, reason) of the folders of ``doc_raw`` that cannot be projects, sorted."""
        return wiring_projects.unfit(self.layout)

    def require_project(self, project: str) -> None:
        """Refuse a name that no project has."""
        wiring_projects.require(self.layout, project)

    def require_unused(self, name: str) -> None:
        """Refuse a name that a project has, whatever its capitals."""
        known = {project.lower(): project for project in self.projects()}
        if taken := known.get(checked(name).lower()):
            raise UsageError(f"there is a project {taken!r} already", hint="choose another name")

    def documents(self, project: str) -> DocumentTree:
        """Return where a project's documents lie; a tree without folders if it is pulled."""
        self.require_project(project)
        if is_pulled(self.index_dir(project)):
            from ragstream_core.ingestion.document_tree import DocumentTree

            return DocumentTree((), in_place=True)
        if not wiring_projects.is_in_place(self.layout, project):
            return wiring_projects.copied(self.layout, project)
        from ragstream_core.wiring import project_files

        content = project_files.read(self.layout, project)
        return project_files.tree_of(self.layout, project, content)

    def open_document(self, project: str, path: str) -> int:
        """Open a document beneath its folder, follow no link, and return its descriptor."""
        return self.documents(project).open(path)

    def index_dir(self, project: str) -> Path:
        """Return a project's index folder, whether it exists or not."""
        return self.layout.index(project)


def open_workspace(
    data_dir: str | Path | None = None,
    *,
    config_path: Path | None = None,
    task: str = "",
    explicit: dict[str, Any] | None = None,
) -> Workspace:
    """Load the settings and return the workspace."""
    given = dict(explicit or {})
    if data_dir is not None:
        given["paths.data_dir"] = str(data_dir)
    workspace = Workspace(AppConfig.load(config_path, task=task, explicit=given))
    settings = workspace.config.chain()
    if settings.retrieval.store != "catalog":  # which needs no look at what stores there are
        from ragstream_core.proposers import choose

        choose.require_store(workspace, settings)
    return workspace
