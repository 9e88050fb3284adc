"""What all calls of one server share: the workspace, its models, and the projects served."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.errors import (
    ChooseProject,
    RagstreamError,
    RunCommand,
    UnknownProject,
    UnknownPrompt,
    UsageError,
)

if TYPE_CHECKING:
    from ragstream_core.ports import TokenCounter
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True)
class Desk:
    """One workspace for all clients; every call reads the newest generation.

    Attributes:
        workspace: The data root with its settings.
        only: Names of the projects that are served; none: all there are.
    """

    workspace: Workspace
    only: tuple[str, ...] = ()
    _loading: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def projects(self) -> list[str]:
        """Return the projects that are served now."""
        known = self.workspace.projects()
        return [name for name in known if name in self.only] if self.only else known

    def project(self, named: str = "") -> str:
        """Return the project that a call means.

        Raises:
            UsageError: It names none, and there is not just one.
            UnknownProject: There is no such project here.
        """
        known = self.projects()
        if named and named not in known:
            raise UnknownProject(f"there is no project {named[:80]!r}", hint=ChooseProject())
        if not known:
            raise UsageError("there are no projects yet", hint=RunCommand("ingest"))
        if not named and len(known) > 1:
            raise UsageError(
                f"there are {len(known)} projects: {', '.join(known[:20])}", hint=ChooseProject()
            )
        return named or known[0]

    def place_of(self, project: str, path: str) -> str:
        """Return where a file of a project lies on this machine; empty if it does not.

        Args:
            project: Its name.
            path: Relative to it, as in the index.
        """
        documents = self.workspace.documents(project)
        try:
            place = documents.location(path) if documents.roots else None
        except (RagstreamError, OSError):
            return ""
        return str(place.absolute()) if place is not None and place.is_file() else ""

    def require(self) -> None:
        """Refuse projects that are not there.

        Raises:
            UnknownProject: One of `only` is none; those that there are are named.
        """
        known = self.workspace.projects()
        for name in self.only:
            if name not in known:
                there = ", ".join(known[:20]) or "none yet"
                raise UnknownProject(f"there is no project {name!r}", hint=f"there are: {there}")

    def kept(self, key: str) -> PromptRecord:
        """Return the record of a kept prompt.

        Raises:
            UnknownPrompt: There is none under that key, or it quotes what is not served.
            IntegrityError: It is damaged.
        """
        record = self.workspace.store.record(key)
        if not self.serves(record):
            raise UnknownPrompt(
                f"prompt {record.prompt_key[:12]} quotes what is not served here",
                hint=RunCommand("explain", record.prompt_key[:12]),
            )
        return record

    def serves(self, record: PromptRecord) -> bool:
        """Whether a prompt quotes nothing but projects that are served, and turns about them."""
        from ragstream_core.services.own_projects import is_of_own

        return not self.only or is_of_own(self.workspace, record, self.only)

    def load_models(self) -> None:
        """Load the embedding model once, however many calls come first at the same time.

        Raises:
            RagstreamError: It is not on this machine, or it is not what it was.
        """
        from ragstream_core.wiring import models

        with self._loading:
            models.embedder(self.workspace.config)

    def counter(self) -> TokenCounter:
        """Return what tokens are counted with.

        Raises:
            RagstreamError: The settings name an encoding whose file is not here.
        """
        from ragstream_core.wiring.token_budget import counter_of_settings

        return counter_of_settings(self.workspace, self.workspace.config.chain())

    def budget(self, asked: int) -> int:
        """Return how many tokens a result may have.

        Args:
            asked: By the call; 0 for as many as the settings allow.
        """
        most = self.workspace.config.settings.mcp.result_tokens
        return min(asked, most) if asked else most
