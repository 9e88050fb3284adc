"""The models that clients see: one a project, and one for each task profile of it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from starlette.responses import JSONResponse
from starlette.routing import Route

from ragstream_app.api.errors import ApiError
from ragstream_core.errors import UnknownProject

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ragstream_core.wiring.workspace import Workspace

OWNER = "ragstream"
PREFIX = f"{OWNER}/"


class ModelJson(TypedDict):
    """A model as OpenAI's API shows it."""

    id: str
    object: str
    created: int
    owned_by: str


@dataclass(frozen=True, slots=True)
class Target:
    """What a model's name stands for.

    Attributes:
        name: The name, ``ragstream/PROJECT`` or ``ragstream/PROJECT:PROFILE``.
        project: The project that is searched.
        task: The task profile; empty: the settings as they are.
    """

    name: str
    project: str
    task: str


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a server.

    Attributes:
        workspace: The data root.
        only: Names of the projects that are served; none: all there are.
    """

    workspace: Workspace
    only: tuple[str, ...] = ()

    def require(self) -> None:
        """Refuse projects that are not there.

        Raises:
            UnknownProject: One of `only` is none; the nearest name is named.
        """
        known = self.workspace.projects()
        for name in self.only:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = (
                    f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
                )
                raise UnknownProject(f"no project {name!r}", hint=hint)

    def targets(self) -> list[Target]:
        """Return all of them: of each project the plain one first, then its profiles, sorted."""
        tasks = ("", *sorted(self.workspace.config.tasks))
        projects = [p for p in self.workspace.projects() if not self.only or p in self.only]
        return [_target(project, task) for project in projects for task in tasks]

    def target(self, name: str) -> Target:
        """Return what a name stands for; ``ragstream/`` may be left out.

        Raises:
            ApiError: There is no such model; the nearest name is named.
        """
        known = {target.name: target for target in self.targets()}
        found = known.get(name) or known.get(f"{PREFIX}{name}")
        if found is not None:
            return found
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "`GET /v1/models` lists them"
        shown = name if len(name) <= 200 else f"{name[:200]}…"
        raise ApiError(
            404, f"there is no model {shown!r}; {hint}", code="model_not_found", param="model"
        )

    def to_json(self, target: Target) -> ModelJson:
        """Return a model as OpenAI's API shows it.

        Nothing keeps when a project began, and a time that moves with each ingest is another model
        to a client that remembers it: it is 0.
        """
        return {"id": target.name, "object": "model", "created": 0, "owned_by": OWNER}


def _target(project: str, task: str) -> Target:
    return Target(f"{PREFIX}{project}{f':{task}' if task else ''}", project, task)


def model_routes(models: Models) -> Sequence[Route]:
    """Return the routes that list the models.

    Args:
        models: Those of the server.
    """

    def every(_: Request) -> Response:
        found = [models.to_json(target) for target in models.targets()]
        return JSONResponse({"object": "list", "data": found})

    def one(request: Request) -> Response:
        return JSONResponse(models.to_json(models.target(request.path_params["model"])))

    return [Route("/v1/models", every), Route("/v1/models/{model:path}", one)]
