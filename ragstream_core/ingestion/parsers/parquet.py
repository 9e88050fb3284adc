"""Parquet files as Markdown: their columns and first rows."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.tables import Grid, markdown_table

# Rows that are shown.
SAMPLE = 100
_LONGEST = 500  # characters of a cell


def parquet_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the columns of a file with their types, and its first rows."""
    import pyarrow  # here: it starts threads, and what serves the files may have none
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        schema, rows = file.schema_arrow, file.metadata.num_rows
        batch = next(file.iter_batches(batch_size=SAMPLE, use_threads=False), None)
        columns = [] if batch is None else [column.to_pylist() for column in batch.columns]
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError):
        raise Refusal("not a readable Parquet file (broken or encrypted)") from None
    types = [{0: "column", 1: "type"}, *({0: f.name, 1: str(f.type)} for f in schema)]
    head = dict(enumerate(schema.names))
    sample = [
        {n: _shown(value) for n, value in enumerate(row)} for row in zip(*columns, strict=True)
    ]
    made = ["## Columns", markdown_table(Grid(types), limit)]
    if sample:
        made += ["## Rows", markdown_table(Grid([head, *sample]), limit)]
    return "\n\n".join(made), f"columns, and {len(sample)} of {rows} rows"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
