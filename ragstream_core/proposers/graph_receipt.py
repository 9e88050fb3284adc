"""What the folder of an index notes of its graph in PostgreSQL, and the seal of a graph there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.platform import array_file, sidecar
from ragstream_core.platform.files import replace_text
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection

# Beside the other stores that are made from an index: erasing a file takes them all away.
GRAPHS = Path("stores", "pgvector")
_RECEIPT, _MADE = "graph.json", "made.json"
MISSING = "its graph is not in the database"
_SEAL = (
    "SELECT concat_ws(' ', t.oid, pg_relation_filenode(t.oid), i.indexrelid,"
    " pg_relation_filenode(i.indexrelid), e.extversion) FROM pg_class t"
    " JOIN pg_index i ON i.indrelid = t.oid JOIN pg_extension e ON e.extname = 'vector'"
    " WHERE t.oid = to_regclass(%s) AND i.indisvalid"
)
# Which rows of a generation its graph has, so that no question has to find it out.
ROWS_FILE = GRAPHS / "rows.bin"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Which graph a project is searched by, as its folder notes it."""

    name: str  # of the graph's table
    place: str  # the database, without a password
    embed_fp: str
    digest: str  # of the generation it was last compared with
    generation: int
    built_of: int  # number of the generation that the graph was made of
    rows: int
    later: int  # rows of the index that came after it; they are all scored
    gone: int  # its rows that the index no longer has
    mine: bool  # whether this machine made it
    former: tuple[str, ...] = ()  # graphs of ours that are still to be removed


def read(index_dir: Path) -> Receipt | None:
    """Return the receipt of an index; None if it has none that can be read."""
    return sidecar.read(index_dir / GRAPHS / _RECEIPT, Receipt)


def write(index_dir: Path, receipt: Receipt) -> None:
    """Write the receipt of an index."""
    replace_text(index_dir / GRAPHS / _RECEIPT, json.dumps(asdict(receipt)))


def has_rows(index_dir: Path, digest: str) -> bool:
    """Return whether the rows of a generation are noted."""
    return array_file.has_stamp(index_dir / ROWS_FILE, {"digest": digest})


def note_made(index_dir: Path, names: Iterable[str]) -> None:
    """Note tables that are made or removed now, so that a kill leaves none that is not known."""
    replace_text(index_dir / GRAPHS / _MADE, json.dumps(sorted(names)))


def made_here(index_dir: Path, receipt: Receipt | None = None) -> set[str]:
    """Return the names of the tables that this machine made of an index, by its notes."""
    found = receipt or read(index_dir)
    names = {*found.former, *([found.name] if found.mine else [])} if found else set()
    return names.union(sidecar.read(index_dir / GRAPHS / _MADE, list[str]) or ())


def measured_for(receipt: Receipt, *, depth: int, ef: int) -> dict[str, object]:
    """Return what a recall of a graph is measured for."""
    return {"digest": receipt.digest, "name": receipt.name, "depth": depth, "ef_search": ef}


def seal(db: Connection, name: str) -> str:
    """Return what tells a built graph from every other one; empty if it is gone.

    Building its index anew, restoring it from a dump and another pgvector change it.
    """
    row = db.execute(_SEAL, (name,)).fetchone()
    return sha256_hex(f"{name} {row[0]}")[:16] if row else ""
