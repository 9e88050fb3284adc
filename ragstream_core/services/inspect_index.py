"""One page about an index: what it holds, whether vectors and metadata agree, how long chunks are.

The check is that of `ragstream index check` with every text hashed; nothing is repaired here.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import RagstreamError, RunCommand
from ragstream_core.index.check import Finding, verify_structure
from ragstream_core.index.schema import LIVE
from ragstream_core.index.vectors import VectorFile
from ragstream_core.maps import figures
from ragstream_core.maps.chunk_map import largest
from ragstream_core.records.json_form import fields_of
from ragstream_core.text.languages import other_than_english

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.ports import F32
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


class TokenLengths(NamedTuple):
    """How many tokens a chunk has."""

    min: int
    mean: float
    max: int
    histogram: Sequence[figures.Bucket]


class VectorCounts(NamedTuple):
    """How many vectors the index has: of live texts, of older generations, and too few."""

    live: int
    older: int
    missing: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """A project's newest generation."""

    project: str
    generation: int  # number of the generation
    created: str  # when it was made, ISO 8601
    digest: str  # of its rows
    model: str  # name of the model if the settings' model made it
    embed_fp: str  # fingerprint of the model
    index_fp: str  # fingerprint of parsing and chunking
    dimension: int  # of the vectors
    files: Mapping[str, int]  # type → how many
    skipped: int  # how many files were left out
    chunks: int  # how many chunks
    texts: int  # how many different texts they have
    tokens: TokenLengths  # their lengths
    repeated: figures.Repeats  # texts that stand in several chunks
    vectors: VectorCounts  # how many there are
    norms: figures.Norms  # how long they are
    largest: Mapping[str, int]  # path → chunks
    findings: Sequence[Finding]  # what is wrong
    # path → where it lies on this machine, of the largest; None: not read in place
    locations: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream index inspect --json` prints."""
        return fields_of(self)


FILES = 10


class _Rows(NamedTuple):
    """What the catalog says of the newest generation."""

    generation: Generation
    types: dict[str, int]
    skipped: int
    chunks: list[tuple[str, str, int]]
    missing: int
    older: int
    named: list[tuple[int, int]]
    file: VectorFile


def report(workspace: Workspace, project: str) -> IndexReport:
    """Describe a project's newest generation.

    Args:
        workspace: The data root.
        project: Its name.

    Raises:
        UnknownProject: There is no such folder.
        GenerationGone: Nothing is ingested.
        IntegrityError: The catalog cannot be read at all.
    """
    from ragstream_core.index.schema import read
    from ragstream_core.wiring.file_states import file_locations

    workspace.require_project(project)
    index_dir = workspace.index_dir(project)
    rows = read(index_dir, lambda db: _rows(db, index_dir))
    texts, tokens = {h for _, h, _ in rows.chunks}, [t for _, _, t in rows.chunks]
    newest = rows.generation
    most = largest((path for path, _, _ in rows.chunks), FILES)
    places = file_locations(workspace, ((project, path) for path in most))
    return IndexReport(
        project=project,
        generation=newest.n,
        created=newest.created,
        digest=newest.digest,
        model=_model(workspace, newest.embed_fp),
        embed_fp=newest.embed_fp,
        index_fp=newest.index_fp,
        dimension=rows.file.dimension,
        files=rows.types,
        skipped=rows.skipped,
        chunks=len(rows.chunks),
        texts=len(texts),
        tokens=TokenLengths(
            min(tokens, default=0),
            round(sum(tokens) / max(len(tokens), 1), 1),
            max(tokens, default=0),
            figures.histogram(tokens),
        ),
        repeated=figures.repeated([h for _, h, _ in rows.chunks]),
        vectors=VectorCounts(len(texts) - rows.missing, rows.older, rows.missing),
        norms=figures.norms(_vectors(rows)),
        largest=most,
        findings=_findings(index_dir, project),
        locations={path: place for (_, path), place in places.items()} or None,
    )


def language_of_texts(workspace: Workspace, name: str) -> str:
    """Return the language of most of a project's texts, for people; empty: English, or not sure.

    Args:
        workspace: The data root.
        name: The project; 60 texts of its index are looked at.
    """
    from ragstream_core.index.schema import read

    texts = "SELECT text FROM texts WHERE length(text) > 80 LIMIT 60"
    try:
        index_dir = workspace.index_dir(name)
        said = read(index_dir, lambda db: [str(row[0]) for row in db.execute(texts)])
    except RagstreamError:
        return ""
    others = Counter(filter(None, map(other_than_english, said)))
    return others.most_common(1)[0][0] if 2 * others.total() > len(said) else ""


def _rows(db: sqlite3.Connection, index_dir: Path) -> _Rows:
    """Read everything in one transaction.

    Raises:
        GenerationGone: Nothing is committed.
    """
    from ragstream_core.errors import GenerationGone
    from ragstream_core.index.rows import latest_generation

    newest = latest_generation(db)
    if newest is None:
        raise GenerationGone("the index has no generation yet", hint=RunCommand("ingest"))
    at: dict[str, int | str] = {"n": newest.n, "fp": newest.embed_fp}
    types = dict(
        db.execute(
            f"SELECT type, count(*) FROM files WHERE {LIVE} AND decision = 'ingested' "
            "GROUP BY type ORDER BY count(*) DESC, type", at,
        )
    )  # fmt: skip
    skipped = f"SELECT count(*) FROM files WHERE {LIVE} AND decision != 'ingested'"
    chunks = db.execute(
        "SELECT c.path, c.text_hash, coalesce(t.tokens, 0) FROM chunks c LEFT JOIN texts t "
        f"ON t.text_hash = c.text_hash WHERE {LIVE} ORDER BY c.chunk_id", at,
    ).fetchall()  # fmt: skip
    live = f"SELECT DISTINCT text_hash FROM chunks WHERE {LIVE}"
    mine = "SELECT text_hash FROM vectors WHERE embed_fp = :fp"
    named = f"SELECT epoch, row FROM vectors WHERE embed_fp = :fp AND text_hash IN ({live})"
    return _Rows(
        newest,
        types,
        _number(db, skipped, at),
        chunks,
        missing=_number(db, f"SELECT count(*) FROM (SELECT * FROM ({live}) EXCEPT {mine})", at),
        older=_number(db, f"SELECT count(*) FROM ({mine} EXCEPT {live})", at),
        named=db.execute(named, at).fetchall(),
        file=VectorFile.of(db, index_dir, newest.embed_fp),
    )


def _number(db: sqlite3.Connection, query: str, values: Mapping[str, int | str]) -> int:
    return int(db.execute(query, values).fetchone()[0])


def _vectors(rows: _Rows) -> F32:
    """Return the live vectors as they lie in the file, sound or not; none where it cannot be read.

    What is wrong with the file is said by the check.
    """
    import numpy as np

    file = rows.file
    at = sorted(row for epoch, row in rows.named if file.holds(epoch, row))
    try:
        return np.asarray(file.rows[at])
    except (RagstreamError, OSError):
        return np.zeros((0, 1), dtype=np.float32)


def _findings(index_dir: Path, project: str) -> list[Finding]:
    run = (RunCommand("index check", project),)
    found = dict.fromkeys(verify_structure(index_dir, read_texts=True))
    return [finding._replace(remedy=run) for finding in found]


def _model(workspace: Workspace, embed_fp: str) -> str:
    """Return the model's name where the settings' model made the vectors, else what it is."""
    from ragstream_core.errors import RagstreamError
    from ragstream_core.wiring import models

    settings = workspace.config.settings.embeddings
    try:
        same = models.fingerprint(workspace.config) == embed_fp
    except RagstreamError:  # its weights are not here
        same = False
    return f"{settings.backend}/{settings.model}" if same else "not the one that the settings name"
