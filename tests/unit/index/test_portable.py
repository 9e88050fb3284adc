"""An export holds what the generation holds, byte for byte the same each time."""

import numpy as np
import pytest

from ragstream_core.errors import IntegrityError
from ragstream_core.services.export_index import decode, encode
from ragstream_core.text.bm25 import unpacked


@pytest.fixture
def view(bench):
    for n in range(3):
        bench.write(f"notes/f{n}.md", f"# Heading {n}\n\nA sentence about subject number {n}.\n")
    bench.run()
    return bench.view()


def test_it_reads_back_as_the_generation(view):
    data, meta = encode(view)
    table, told = decode(data)
    assert told == meta._asdict() and (meta.rows, meta.dimension) == (3, view.vectors.shape[1])
    assert (meta.project, meta.generation, meta.digest) == ("demo", 1, view.digest)
    assert table["chunk_id"].to_pylist() == list(view.chunk_ids)
    vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(3, -1)
    assert np.array_equal(vectors, view.vectors)
    for chunk, row in zip(view.chunks(view.chunk_ids), table.to_pylist(), strict=True):
        assert (row["text"], row["path"]) == (chunk.snippet, chunk.source)
        assert (row["span_start"], row["span_end"]) == chunk.span
        assert row["heading"] == chunk.meta["heading"]
    terms = unpacked(table["lexical"][0].as_py())
    assert np.array_equal(terms.term_ids, view.lexical.term_ids)


def test_the_same_generation_gives_the_same_bytes(view, bench):
    assert bytes(encode(view)[0]) == bytes(encode(bench.fresh_view())[0])


def test_what_was_changed_is_refused(view):
    data = bytearray(encode(view)[0])
    at = data.find(b"A sentence about subject")
    data[at] ^= 1
    with pytest.raises(IntegrityError, match="not what was written"):
        decode(bytes(data))
    with pytest.raises(IntegrityError, match="no export"):
        decode(b"nothing of the kind")
