"""What run config may say to each stage, as the Launchpad offers it, and a request typed there.

A setting is offered with its meaning, values and default, and none is filled in by itself: what run
config does not name comes from ragstream.yaml. Any other setting of the chain is taken as well;
values are checked where all settings are.

Dagster keeps a run's config before the run begins. The first step puts a typed request into the
inbox and leaves its reference in the config instead of its words, so that the run is re-executed,
kept, expired and erased like one that named the reference from the beginning.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, cast

import dagster as dg

from ragstream_core.errors import RagstreamError, RunCommand, UsageError
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.chain_steps import OWN
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.settings import SECTIONS, chain_keys
from ragstream_core.settings.values import default_of, values_of
from ragstream_core.wiring.workspace import Workspace

# Reference of the request that the Launchpad runs as it stands: see `_example`.
EXAMPLE = "example"
SAMPLE = "handbook"
QUESTION = (
    "# Task\nWhat happens when an ingest is killed half way, and what do I have to do afterwards?\n"
    "\n# Context\nWe ingest every night from a script, and the machine was restarted during the "
    "run.\n\n# Format\nA short list of steps."
)
OF_ANY = "# Task\nWhat are these documents about, and what should I read first?"


def resolve(workspace: Workspace, reference: str) -> PromptRequest:
    """Return the request behind a reference; ``example`` is put into the inbox first."""
    if reference == EXAMPLE:
        reference = workspace.store.put_request(_example(workspace))
    return workspace.store.request(reference)


def _example(workspace: Workspace) -> PromptRequest:
    """Return a question about the sample project; where it is not, one that any project answers."""
    from ragstream_core.index.view import open_view

    projects = workspace.projects()
    if SAMPLE in projects:
        return PromptRequest(QUESTION, (SAMPLE,))
    for project in projects:
        with contextlib.suppress(RagstreamError):  # not ingested, or damaged
            if open_view(workspace.index_dir(project)).chunk_ids:
                return PromptRequest(OF_ANY, (project,))
    raise UsageError(
        "no project is ingested that the example could ask",
        hint=("put documents into a folder of doc_raw, then ", RunCommand("ingest")),
    )


# What of a request can be typed.
TYPED: dict[str, tuple[Any, Any, str]] = {
    "prompt": (
        str,
        "",
        "A question. When the run begins it moves to the inbox, and the run's config names it as "
        "`prompt_ref`. Empty: the request that `prompt_ref` names.",
    ),
    "projects": ([str], [], "Projects to search; empty: the only one there is."),
    "files": ([str], [], "Paths to inject, `path` or `project/path`."),
    "diffs": ([str], [], "Paths whose changes since the last commit are to be shown."),
    "off": ([str], [], "Files to leave out."),
    "lock": (bool, False, "Exact File Lock: only the given files."),
    "task": (str, "", "A task profile."),
    "session": (str, "", "The conversation it belongs to; empty: none."),
}
_OTHER: dict[str, tuple[Any, Any, str]] = {
    "prompt_ref": (
        str,
        EXAMPLE,
        "`sha256:…` of a request in the inbox, or `example`: a question about the handbook, else "
        "about the first project.",
    ),
    "fresh": (bool, False, "Run the stages even if the kept prompt is unchanged."),
}


def typed_request(workspace: Workspace, config: Mapping[str, Any]) -> PromptRequest | None:
    """Return the request that was typed, None where there is none."""
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
    fields: dict[str, Any] = {
        n: tuple(v) if isinstance(v, (list, tuple)) else v for n, v in given.items()
    }
    return PromptRequest(**{**fields, "text": text, "projects": tuple(projects)})


def by_reference(instance: dg.DagsterInstance, run_id: str, *, op: str, reference: str) -> str:
    """Put a reference in the place of what was typed; return why that failed, empty if not."""
    run = instance.get_run_by_id(run_id)
    if run is None:
        return "the run is not recorded"
    ops: dict[str, Any] = dict(cast("Mapping[str, Any]", run.run_config.get("ops", {})))
    config = {k: v for k, v in ops[op]["config"].items() if k not in TYPED}
    config |= {"prompt_ref": reference} if reference else {}
    ops[op] = {**ops[op], "config": config}
    return _replace_config(instance, run, {**run.run_config, "ops": ops})


def _replace_config(
    instance: dg.DagsterInstance, run: dg.DagsterRun, config: Mapping[str, object]
) -> str:
    """Replace the recorded config of a run, leaving no copy of the old one in the database.

    Returns why the old one is still there, for people; empty if it is not.
    """
    from sqlalchemy import text

    storage: Any = instance.run_storage
    if not hasattr(storage, "connect"):
        return f"{type(storage).__name__} does not let a run's config be changed"
    body = dg.serialize_value(run._replace(run_config=config))
    change = text("UPDATE runs SET run_body = :body WHERE run_id = :run_id")
    try:
        with storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA secure_delete=ON")
            db.execute(change, {"body": body, "run_id": run.run_id})
        with contextlib.suppress(Exception), storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except Exception as error:  # whatever is wrong with the storage, the prompt goes on
        return f"{type(error).__name__}: the run's config could not be changed"
    return ""


FROM_RUN = "from_run"
FROM_RUN_MEANS = (
    "If an op subset begins here: the run, or its first 8 digits, whose stages before this one "
    "are taken over."
)


def stage_config(op: str) -> dict[str, dg.Field]:
    """Return what may be said to one stage."""
    offered = {}
    for name in chain_keys():
        if name.startswith(OWN[op]):
            section, _, key = name.partition(".")
            field = SECTIONS[section].model_fields[key]
            offered[name] = dg.Field(
                dg.Any,
                is_required=False,
                description=f"{field.description} Takes: {values_of(field)}. "
                f"Default: {default_of(field)}.",
            )
    settings = dg.Field(
        dg.Permissive(offered),  # type: ignore[no-untyped-call]
        is_required=False,
        description="Settings that change from this stage on, e.g. `gate.theta: 0.1`.",
    )
    named = "`sha256:…` of what a person changed by hand in what this stage reads."
    fields = {"settings": settings, "edits": _text(named)}
    return fields if op == OPS[0] else {**fields, FROM_RUN: _text(FROM_RUN_MEANS)}


def request_config() -> dict[str, dg.Field]:
    """Return what may be said to the first stage; a typed prompt leaves run config at its start."""
    return {
        name: dg.Field(kind, default_value=default, description=means)
        for name, (kind, default, means) in (TYPED | _OTHER).items()
    } | {
        "now": _text("Time of the request, ISO 8601; empty: the present."),
        "time_zone": _text("Name of the zone that `now` is in."),
        **stage_config(OPS[0]),
    }


def _text(description: str) -> dg.Field:
    return dg.Field(dg.String, is_required=False, description=description)
