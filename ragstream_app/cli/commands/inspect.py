"""`ragstream index` inspect, neighbors, tsne: looking at what lies in an index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import Refused, UsageError

if TYPE_CHECKING:
    from ragstream_core.maps.chunk_map import ChunkMap

FINDINGS = 3
NEIGHBORS_EPILOG = """**Examples**

ragstream index neighbors handbook (five random chunks and their neighbours)

ragstream index neighbors handbook --chunk citations.md --k 3 --json"""
TSNE_EPILOG = """**Examples**

ragstream index tsne handbook (writes map.png)

ragstream index tsne handbook --history --out map.csv (one line a point, with its text)

ragstream index tsne handbook --method pca --seed 7 --out pca.png --force"""

Projects = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROJECT...", autocompletion=project_names, help="Projects with an index."
    ),
]
History = Annotated[
    bool, typer.Option("--history", metavar="", help="Also the turns that prompts search.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="The same seed, the same result.")
]


def inspect(
    ctx: typer.Context, project: options.IndexedProject, as_json: options.Json = False
) -> None:
    """Describe an index on one page: model, counts, lengths, repetitions, and what is wrong.

    Raises:
        GenerationGone: Nothing was ever ingested.
        IntegrityError: The catalog cannot be read.
        Exit: With 3, where vectors and metadata do not agree.
    """
    from ragstream_core.services.inspect_index import report

    found = report(session_of(ctx).workspace(), project)
    if as_json:
        emit_json(found)
    else:
        from ragstream_app.output.inspect import print_report

        print_report(found)
    if found.findings:
        raise typer.Exit(FINDINGS)


def neighbors(
    ctx: typer.Context,
    projects: Projects = None,
    chunk: Annotated[
        str, typer.Option(metavar="ID|FILE", help="Start from this chunk, or a file's first ones.")
    ] = "",
    anchors: Annotated[int, typer.Option(min=1, max=1000, help="Chunks to start from.")] = 5,
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=1000, help="Neighbours of each.")] = 5,
    seed: Seed = 0,
    history: History = False,
    as_json: options.Json = False,
) -> None:
    """Show what lies nearest to some chunks: is it about the same thing? No model is needed.

    Raises:
        UsageError: No project, or nothing is called so.
        RagstreamError: Nothing is embedded, or an index is damaged.
    """
    from ragstream_core.records.json_form import json_of
    from ragstream_core.services.chunk_maps import nearest

    found = nearest(
        session_of(ctx).workspace(),
        projects or [],
        history=history,
        chunk=chunk,
        anchors=anchors,
        k=k,
        seed=seed,
    )
    if as_json:
        emit_json([json_of(row) for row in found])
        return
    from ragstream_app.output.inspect import print_neighbours

    print_neighbours(found)


def tsne(
    ctx: typer.Context,
    projects: Projects = None,
    history: History = False,
    method: Annotated[
        Literal["tsne", "pca"], typer.Option(help="tsne keeps neighbours, pca the overall layout.")
    ] = "tsne",
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="A .png or a .csv file.", show_default=True)
    ] = Path("map.png"),
    by: Annotated[
        Literal["auto", "file", "project"], typer.Option(help="What the colours distinguish.")
    ] = "auto",
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of points; beyond it a fair sample is shown.")
    ] = 5000,
    perplexity: Annotated[
        float, typer.Option(min=1, max=1000, help="About how many neighbours count, for t-SNE.")
    ] = 30.0,
    seed: Seed = 0,
    force: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Draw a map of chunks: those that lie together are similar. 5,000 take about half a minute.

    Raises:
        UsageError: No project, the file is neither PNG nor CSV, or cannot be written.
        Refused: The file already exists.
        RagstreamError: Nothing is embedded, an index is damaged, or t-SNE failed.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.maps.chunk_map import as_csv
    from ragstream_core.platform.files import replace_bytes
    from ragstream_core.services import chunk_maps

    _require_new(out, force=force)
    workspace = session_of(ctx).workspace()
    request = chunk_maps.MapRequest(
        tuple(projects or []), history=history, method=method, limit=limit, seed=seed,
        perplexity=perplexity,
    )  # fmt: skip
    with ingest_progress("map") as progress:
        found = chunk_maps.draw(workspace, request, progress)
    if out.suffix.lower() == ".csv":
        data = as_csv(found.places, chunk_maps.texts(workspace, found)).encode("utf-8")
    else:
        from ragstream_core.maps.drawing import draw

        data = draw(found, by="" if by == "auto" else by)
    _require_new(out, force=force)  # a map takes time
    try:
        replace_bytes(out.resolve(), data)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}", hint="--out map.png") from None
    if as_json:
        emit_json(_summary(found, out, len(data)))
        return
    _print_map(found, out, len(data), history=history)


def _require_new(out: Path, *, force: bool) -> None:
    """Refuse a file that is there, or that would be no picture and no table.

    Raises:
        UsageError: Neither PNG nor CSV.
        Refused: It already exists.
    """
    if out.suffix.lower() not in (".png", ".csv"):
        raise UsageError(f"{out}: a map is a .png or a .csv file", hint="--out map.png")
    if out.is_dir() or (out.exists() and not force):
        raise Refused(f"{out} already exists", hint="--force, or another name")


def _summary(found: ChunkMap, out: Path, size: int) -> dict[str, Any]:
    return {
        "path": str(out),
        "bytes": size,
        "shown": len(found.places),
        "total": found.total,
        "method": found.method,
        "seed": found.seed,
        "perplexity": found.perplexity,
        "generations": found.generations,
        "notes": list(found.notes),
    }


def _print_map(found: ChunkMap, out: Path, size: int, *, history: bool) -> None:
    for line in found.notes:
        note(f"note: {line}")
    typer.echo(f"{out}: {found.title} · {size:,} bytes")
    if history and out.suffix.lower() == ".csv":
        note("it holds turns of your conversations; `history clear` cannot reach it")
