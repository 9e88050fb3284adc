"""`ragstream index import-pkl`: documents from the NumPy pickles of older programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstream_app.session import emit_json, note, session_of

IMPORT_EPILOG = """**Examples**

ragstream index import-pkl history_store.pkl -p old_notes

ragstream ingest old_notes (embeds the texts with this project's model)"""


def import_pkl(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pickle with texts.")],
    project: Annotated[
        str, typer.Option("--project", "-p", metavar="PROJECT", help="Where the documents go.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print JSON on stdout.")
    ] = False,
) -> None:
    """Write the texts of a NumPy pickle as documents of a project.

    A pickle can run programs when it is opened. This one is read by a limited process that knows
    arrays, texts and containers and refuses everything else; nothing in it is ever executed.

    Raises:
        UsageError: The file cannot be read, or a document of that name holds another text.
        PickleRefused: The pickle is refused; nothing was written.
    """
    from ragstream_core.build import projects
    from ragstream_core.ingestion.pickle_import import import_pickle

    data_dir = session_of(ctx).workspace().data_dir
    found = import_pickle(file, data_dir / "doc_raw" / projects.checked(project))
    if as_json:
        emit_json({"project": project, **found._asdict()})
        return
    typer.echo(
        f"{project}: {len(found.written)} documents written, {len(found.unchanged)} unchanged, "
        f"{found.empty} without text, {found.vectors} vectors not imported"
    )
    if found.written:
        note(f"next: ragstream ingest {project}")
