"""What all calls of one server share: the workspace, its models, and which project is meant."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.errors import ChooseProject, RunCommand, UnknownProject, UsageError

if TYPE_CHECKING:
    from ragstream_core.ports import TokenCounter
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True)
class Desk:
    """One workspace for all clients; every call reads the newest generation.

    Attributes:
        workspace: The data root with its settings.
        default: The project of calls that name none; empty: the only one.
    """

    workspace: Workspace
    default: str = ""
    _loading: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def project(self, named: str = "") -> str:
        """Return the project that a call means.

        Raises:
            UsageError: It names none, and there is not just one.
            UnknownProject: There is no such project.
        """
        known = self.workspace.projects()
        chosen = named or self.usual(known)
        if not chosen:
            if not known:
                raise UsageError("there are no projects yet", hint=RunCommand("ingest"))
            raise UsageError(
                f"there are {len(known)} projects: {', '.join(known[:20])}", hint=ChooseProject()
            )
        if chosen not in known:
            raise UnknownProject(f"there is no project {chosen[:80]!r}", hint=ChooseProject())
        return chosen

    def usual(self, known: list[str]) -> str:
        """Return the project of calls that name none; empty if they have to.

        Args:
            known: All projects.
        """
        return self.default or (known[0] if len(known) == 1 else "")

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
