"""`ragstream eval sweep`: the gate's thresholds over a project's gold questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstream_app.session import emit_json, session_of
from ragstream_core.errors import UsageError

Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON on stdout.")]

SWEEP_EPILOG = """**Examples**

ragstream eval sweep handbook

ragstream eval sweep handbook --theta 0.2 --theta 0.3 --relative 0.42 --png maps"""


def sweep(
    ctx: typer.Context,
    project: Annotated[str, typer.Argument(help="A project with gold questions.")],
    theta: Annotated[
        list[float] | None, typer.Option(help="A `gate.theta`; repeatable; default: seven.")
    ] = None,
    relative: Annotated[
        list[float] | None, typer.Option(help="A `gate.relative`; repeatable; default: four.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the heat maps there.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what the gate keeps of what gold questions need, and how long prompts get.

    Every question of the project's `gold.jsonl` is asked under every pair of thresholds. `kept`
    is the share of the expected files and passages that pass the gate, of those that retrieval
    found; `shown` the share that stands in the prompt. Nothing of the questions is kept.

    Raises:
        UsageError: There are no gold questions, or a threshold is not between 0 and 1.
    """
    from ragstream_app.progress import ingest_progress
    from ragstream_core.build import sweeping
    from ragstream_core.config import parse_assignments
    from ragstream_core.evaluation.sweep import RELATIVES, THETAS, pictures, write_point

    workspace = session_of(ctx).workspace(explicit=dict(parse_assignments(assignments or [])))
    pairs = [
        (t, r) for t in sorted({*(theta or THETAS)}) for r in sorted({*(relative or RELATIVES)})
    ]
    with ingest_progress("sweep") as progress:
        points = list(
            sweeping.sweep(
                workspace,
                project,
                pairs,
                progress=lambda done, total: progress("questions", done, total),
            )
        )
    for point in points:
        write_point(sweeping.points_dir(workspace, project), point)
    if png is not None:
        _write_pictures(png, pictures(points))
    if as_json:
        emit_json({"project": project, "points": [point.to_json() for point in points]})
        return
    from ragstream_app.rendering import print_sweep

    print_sweep([point.to_json() for point in points])


def _write_pictures(folder: Path, drawn: dict[str, bytes]) -> None:
    from ragstream_core.atomic import replace_bytes

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in drawn.items():
            replace_bytes(folder / f"{name.replace(' ', '-')}.png", data)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from None
