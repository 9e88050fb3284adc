"""`ragstream index publish` and `pull`: an index that other machines read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.session import describe, emit_json, exit_code, note, session_of, show
from ragstream_core.errors import RagstreamError, RunCommand, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragstream_core.services.publish_index import Published
    from ragstream_core.services.pull_index import Pulled

PUBLISH_EPILOG = """**Examples**

ragstream index publish handbook /mnt/team/handbook

ragstream index publish handbook s3://team/handbook --keep 5"""
PULL_EPILOG = """**Examples**

ragstream index pull s3://team/handbook (the first time)

ragstream index pull (all that were pulled, again)"""


def publish(
    ctx: typer.Context,
    project: Annotated[
        str,
        typer.Argument(metavar="PROJECT", help="Its name.", autocompletion=project_names),
    ],
    place: Annotated[
        str,
        typer.Argument(metavar="PLACE", help="A folder of its own, s3://…, gs://… or az://…."),
    ],
    keep: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Remove all but N older publications."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", metavar="", help="Read all that is there; mend what is damaged."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", metavar="", help="Replace another index that is published there."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Publish the index of a project, so that other machines can make prompts from it.

    Only what changed since the last time is sent. Readers see the old state or the new one. The
    documents themselves are not sent, but the index holds the text of every passage.

    Raises:
        UsageError: No such kind of place, or nothing to publish.
        Refused: Another index is published there.
        OperationFailed: The place does not answer; run it again, it goes on.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.services.publish_index import PublishRequest
    from ragstream_core.services.publish_index import publish as publish_index

    workspace = session_of(ctx).workspace()
    request = PublishRequest(keep, verify=verify, force=force)
    with ingest_progress(project) as progress:
        done = publish_index(workspace, project, place, request, progress=progress)
    if done.waiting:
        note(
            f"{done.waiting:,} objects of older publications are less than an hour old and stay; "
            "publish again later to remove them"
        )
    if as_json:
        emit_json(done)
        return
    _print_published(done)


def pull(
    ctx: typer.Context,
    place: Annotated[
        str,
        typer.Argument(
            metavar="[PLACE]",
            help="Where it is published, or a project that was pulled; default: all of those.",
            show_default=False,
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="What the project is called here.")
    ] = "",
    verify: Annotated[
        bool,
        typer.Option("--verify", metavar="", help="Read all that is here; fetch what is damaged."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Read an index that another machine publishes, or bring it up to date.

    Prompts, search and replay work as there; the documents, files to inject and conversations stay
    where they are. Nothing else contacts the place. One of several that cannot be pulled stops no
    other.

    Raises:
        UsageError: Nothing is published there, or a name without a place.
        Refused: The data root has a project of that name.
        IntegrityError: What is published there is damaged; the old index stays.
        OperationFailed: The place does not answer; the old index stays.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.records.json_form import report_of
    from ragstream_core.services.pull_index import pull as pull_index
    from ragstream_core.wiring.projects import pulled

    workspace = session_of(ctx).workspace()
    if name and not place:
        raise UsageError(
            "--name is for one place", hint=RunCommand("index pull", f"PLACE --name {name}")
        )
    places = [place] if place else pulled(workspace.layout)
    if not places:
        raise UsageError(
            "no project of this data root was pulled", hint=RunCommand("index pull", "PLACE")
        )
    rows: list[Mapping[str, object]] = []
    worst = 0
    for one in places:
        try:
            with ingest_progress(name or one) as progress:
                done = pull_index(workspace, one, name=name, verify=verify, progress=progress)
        except (RagstreamError, OSError) as error:
            if len(places) == 1:
                raise
            worst = max(worst, exit_code(error))
            rows.append({"project": one, "error": describe(error).to_json()})
            if not as_json:
                note(f"{one}:")
                show(error)
            continue
        rows.append(report_of(done))
        if not as_json:
            _print_pulled(done)
    if as_json:
        emit_json(rows)
    if worst:
        raise typer.Exit(worst)


def _print_published(done: Published) -> None:
    from ragstream_app.output.words import printable, size

    sent = f"{done.sent:,} blocks sent ({size(done.sent_bytes)} of {size(done.bytes)})"
    gone = f", {done.removed:,} objects of older ones removed" if done.removed else ""
    typer.echo(
        printable(f"{done.project}: generation {done.generation} at {done.url}: {sent}{gone}")
    )
    note(printable(f"next, on another machine: ragstream index pull {done.url}"))


def _print_pulled(done: Pulled) -> None:
    from ragstream_app.output.words import moment, printable, size

    what = f"{done.project}: generation {done.generation} of {moment(done.created)}"
    if not done.changed:
        typer.echo(printable(f"{what}: up to date"))
        return
    typer.echo(
        printable(
            f"{what}: {done.fetched:,} blocks fetched "
            f"({size(done.fetched_bytes)} of {size(done.bytes)})"
        )
    )
    note(f"next: ragstream prompt -p {done.project} …")
