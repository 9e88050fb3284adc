"""A question typed into the Launchpad: a request like any other, and by reference from then on.

Dagster keeps a run's config before the run begins. The first step puts the request into the inbox
and takes its words out of the run's config; what is left there is the reference, so that the run is
re-executed, kept, expired and erased like one that named the reference from the beginning.

The request that the Launchpad runs as it stands; it asks the sample project about itself.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, cast

import dagster as dg

from ragstream_core.errors import UsageError
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring.workspace import Workspace

EXAMPLE = "example"
QUESTION = (
    "# Task\nWhat happens when an ingest is killed half way, and what do I have to do afterwards?\n"
    "\n# Context\nWe ingest every night from a script, and the machine was restarted during the "
    "run.\n\n# Format\nA short list of steps."
)


def resolve(workspace: Workspace, reference: str) -> PromptRequest:
    """Return the request behind a reference; ``example`` is put into the inbox first.

    Raises:
        UnknownPrompt: No such request in the inbox.
        IntegrityError: Its bytes do not have its digest.
        UsageError: It is not a request.
        OSError: The inbox cannot be written.
    """
    if reference == EXAMPLE:
        request = PromptRequest(QUESTION, ("handbook",))
        reference = workspace.store.put_request(request)
    return workspace.store.request(reference)


TYPED = ("prompt", "projects", "files", "diffs", "off", "lock", "task", "session")
"""What of a request can be typed."""
_LISTS = ("projects", "files", "diffs", "off")


def typed_config() -> dict[str, dg.Field]:
    """Return the fields of a request that the Launchpad offers."""
    told = {
        "projects": "Projects to search; empty: the only one there is.",
        "files": "Paths to inject, `path` or `project/path`.",
        "diffs": "Paths whose changes since the last commit are to be shown.",
        "off": "Files to leave out.",
    }
    lists = {
        name: dg.Field([str], default_value=[], description=means) for name, means in told.items()
    }
    return {
        "prompt": dg.Field(
            str,
            default_value="",
            description="A question. When the run begins it moves to the inbox, and the run's "
            "config names it as `prompt_ref`. Empty: the request that `prompt_ref` names.",
        ),
        **lists,
        "lock": dg.Field(
            bool, default_value=False, description="Exact File Lock: only the given files."
        ),
        "task": dg.Field(str, default_value="", description="A task profile."),
        "session": dg.Field(
            str, default_value="", description="The conversation it belongs to; empty: none."
        ),
    }


def typed_request(workspace: Workspace, config: Mapping[str, Any]) -> PromptRequest | None:
    """Return the request that was typed, None where there is none.

    Args:
        workspace: The data root.
        config: Of the first op.

    Raises:
        UsageError: Words of a request without a question, a question beside a reference, or no
            project where there are several.
        EmptyPrompt: The question has no letter and no digit.
    """
    given = {name: config[name] for name in TYPED if config.get(name)}
    if not given:
        return None
    if not str(given.get("prompt", "")).strip():
        raise UsageError(
            f"{min(given)} is given, and no prompt", hint="type a question into `prompt`"
        )
    if config.get("prompt_ref", EXAMPLE) != EXAMPLE:
        raise UsageError("prompt and prompt_ref are given", hint="leave one of them out")
    projects = given.get("projects") or workspace.projects()
    if "projects" not in given and len(projects) != 1:
        raise UsageError(
            "no project is given", hint=f"projects: one or more of {', '.join(projects) or 'none'}"
        )
    text = str(given.pop("prompt"))
    fields: dict[str, Any] = {n: tuple(v) if n in _LISTS else v for n, v in given.items()}
    return PromptRequest(**{**fields, "text": text, "projects": tuple(projects)})


def by_reference(instance: dg.DagsterInstance, run_id: str, *, op: str, reference: str) -> str:
    """Put a reference in the place of what was typed into a run's config.

    Args:
        instance: Where the run is recorded.
        run_id: The run.
        op: Whose config it is.
        reference: Of the request; empty: nothing of it may be kept.

    Returns:
        Why the words still stand there, for people; empty where they do not.
    """
    from dagster._core.storage.runs.schema import RunsTable
    from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
    from dagster._serdes import serialize_value

    run, storage = instance.get_run_by_id(run_id), instance.run_storage
    if run is None or not isinstance(storage, SqlRunStorage):
        return f"{type(storage).__name__} does not let a run's config be changed"
    ops: dict[str, Any] = dict(cast("Mapping[str, Any]", run.run_config.get("ops", {})))
    config = {k: v for k, v in ops[op]["config"].items() if k not in TYPED}
    config |= {"prompt_ref": reference} if reference else {}
    ops[op] = {**ops[op], "config": config}
    changed = run._replace(run_config={**run.run_config, "ops": ops})
    try:
        with storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA secure_delete=ON")
            row = RunsTable.update().where(RunsTable.c.run_id == run_id)
            db.execute(row.values(run_body=serialize_value(changed)))
        with contextlib.suppress(Exception), storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except Exception as error:  # whatever is wrong with the storage, the prompt goes on
        return f"{type(error).__name__}: the run's config could not be changed"
    return ""
