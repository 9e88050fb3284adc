"""The sealed rows of the newest generation: they answer as the catalog does, or not at all."""

import os
import sqlite3

import numpy as np
import pytest

from ragstream_core.errors import IntegrityError
from ragstream_core.index import generation_rows, view
from ragstream_core.index.generation_rows import ROWS_FILE
from ragstream_core.index.vectors import VectorFile
from ragstream_core.index.view import forget_views, open_view


@pytest.fixture
def filled(bench):
    for n in range(6):
        bench.write(f"{n}.md", f"# Heading {n}\n\nbody words number {n}")
    bench.write("long.md", "\n\n".join(f"paragraph {n} of the long one " * 9 for n in range(40)))
    bench.run()
    return bench


def kept_view(bench, generation=None):
    forget_views()
    return open_view(bench.index, project=bench.project, generation=generation, keep=True)


def execute(bench, statement, *values):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    db.execute(statement, values)
    db.commit()
    db.close()


def told(view):
    return (view.digest, view.generation, view.chunk_ids, view.paths,
            np.asarray(view.vectors).tobytes(), view.chunks(view.chunk_ids))  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """Counts how often a generation was read from the catalog."""
    calls = []
    real = view.load_rows
    monkeypatch.setattr(view, "load_rows", lambda *given: calls.append(1) or real(*given))
    return calls


def test_they_answer_as_the_catalog_does_without_asking_it(filled, asked):
    told_first = told(kept_view(filled))
    assert asked == [1]
    again = kept_view(filled)
    assert told(again) == told_first and asked == [1]
    with pytest.raises(TypeError):
        again.vectors[0] = 0
    assert again.loaded.row_of[again.chunk_ids[3]] == 3


def test_whoever_does_not_keep_writes_nothing(filled):
    filled.fresh_view()
    assert not (filled.index / ROWS_FILE).exists()


def test_another_generation_is_read_from_the_catalog(filled, asked):
    kept_view(filled)
    written = (filled.index / ROWS_FILE).read_bytes()
    filled.write("0.md", "other words")
    (filled.docs / "1.md").unlink()
    filled.run()
    newest = told(filled.fresh_view())
    old = told(kept_view(filled, 1))  # not the newest: nothing is written
    assert (filled.index / ROWS_FILE).read_bytes() == written
    assert told(kept_view(filled)) == newest and old != newest
    del asked[:]
    assert told(filled.fresh_view()) == newest and not asked
    assert told(filled.fresh_view(1)) == old and asked


def test_of_a_later_generation_only_what_changed_is_read(filled, asked):
    """Files are written anew, removed, renamed and added, in one ingest or in several."""
    kept_view(filled)
    filled.write("0.md", "other words")
    filled.run()
    filled.write("long.md", "\n\n".join(f"paragraph {n} of the new one " * 9 for n in range(30)))
    (filled.docs / "1.md").unlink()
    (filled.docs / "2.md").rename(filled.docs / "9.md")
    filled.write("zz.md", "the last of them, with the words of 0.md: other words")
    filled.run()
    del asked[:]
    found = kept_view(filled)
    assert told(kept_view(filled)) == told(found) and not asked
    (filled.index / ROWS_FILE).unlink()
    plain = kept_view(filled)
    assert told(plain) == told(found) and asked == [1]
    for name in ("places", "crcs"):
        assert np.array_equal(getattr(plain.loaded, name), getattr(found.loaded, name))
    assert plain.loaded.vectors_crc == found.loaded.vectors_crc


@pytest.mark.parametrize("column", ["start", "heading", "path", "chunk_id"])
def test_a_row_that_came_is_checked_when_it_is_opened(filled, asked, column):
    kept_view(filled)
    filled.write("0.md", "# Other\n\nwords")
    filled.run()
    execute(filled, f'UPDATE chunks SET "{column}" = 77 WHERE from_gen = 2')
    with pytest.raises(IntegrityError, match="digest"):
        kept_view(filled)


@pytest.mark.parametrize("changed", ["DELETE FROM chunks WHERE to_gen = 2",
                                     "UPDATE chunks SET heading = 'x' WHERE to_gen = 2",
                                     "UPDATE chunks SET to_gen = 1 WHERE to_gen = 2"])  # fmt: skip
def test_a_row_that_ended_and_was_damaged_is_no_reason_to_answer_otherwise(filled, asked, changed):
    kept_view(filled)
    filled.write("0.md", "# Other\n\nwords")
    filled.run()
    newest = told(filled.fresh_view())
    execute(filled, changed)
    del asked[:]
    assert told(kept_view(filled)) == newest and asked == [1]


@pytest.mark.parametrize("place", [100, -100])
def test_a_vector_that_was_flipped_is_found_when_a_later_generation_is_opened(filled, place):
    kept_view(filled)
    filled.write("0.md", "# Other\n\nwords")
    filled.run()
    path = filled.vector_file()
    raw = bytearray(path.read_bytes())
    raw[4000 if place > 0 else place] ^= 4
    path.write_bytes(raw)
    with pytest.raises(IntegrityError, match="crc"):
        kept_view(filled)


def test_a_generation_of_other_rows_altogether_is_read_from_the_catalog(filled, asked, monkeypatch):
    monkeypatch.setattr(generation_rows, "_FEW", 3)
    kept_view(filled)
    for n in range(5):
        filled.write(f"{n}.md", f"# Other {n}\n\nwords")
    filled.run()
    del asked[:]
    kept_view(filled)
    assert asked == [1]


def test_an_empty_generation_is_kept_too(bench, asked):
    bench.write("0.md", "words")
    bench.run()
    (bench.docs / "0.md").unlink()
    bench.run()
    first = told(kept_view(bench))
    assert first[2] == () and told(kept_view(bench)) == first and asked == [1]
    bench.write("1.md", "words")
    bench.run()
    kept = told(kept_view(bench))
    assert kept == told(bench.fresh_view()) and len(kept[2]) == 1 and asked == [1]


@pytest.mark.parametrize("column", ["start", "end", "page", "heading", "chunk_idx", "text_hash"])
def test_a_changed_row_is_found_when_its_chunk_is_loaded(filled, column):
    kept_view(filled)
    wanted = kept_view(filled).chunk_ids[2]
    value = {"heading": "other", "text_hash": "0" * 64}.get(column, 77)
    execute(filled, f'UPDATE chunks SET "{column}" = ? WHERE chunk_id = ?', value, wanted)
    view = kept_view(filled)
    with pytest.raises(IntegrityError, match="not what was committed"):
        view.chunks([wanted])
    assert view.chunks([view.chunk_ids[3]])
    assert filled.health()


def test_a_flipped_vector_is_found_by_the_catalogs_crc(filled):
    kept_view(filled)
    path = filled.vector_file()
    raw = bytearray(path.read_bytes())
    raw[700] ^= 4
    path.write_bytes(raw)
    with pytest.raises(IntegrityError, match="crc"):
        kept_view(filled)


def test_a_file_that_was_not_written_since_is_read_when_vectors_are_asked_for(
    filled, asked, monkeypatch
):
    monkeypatch.setattr(generation_rows, "_SETTLED_NS", -(10**18))
    first = told(kept_view(filled))
    with monkeypatch.context() as patch:
        patch.delattr(VectorFile, "crc")
        again = kept_view(filled)
        assert told(again) == first
        with pytest.raises(TypeError):
            again.vectors[0] = 0
    path = filled.vector_file()
    path.write_bytes(path.read_bytes())
    again = kept_view(filled)
    assert told(again) == first and asked == [1]
    with monkeypatch.context() as patch:  # and the file says how it is now
        patch.delattr(VectorFile, "crc")
        assert told(kept_view(filled)) == first and asked == [1]
    test_a_flipped_vector_is_found_by_the_catalogs_crc(filled)


def test_a_file_that_grows_or_goes_keeps_its_rows_and_one_that_is_cut_is_not_read(filled):
    """What was checked is mapped; a read behind the end of a file would end the process."""
    view, path = kept_view(filled), filled.vector_file()
    rows, size = view.vectors, path.stat().st_size
    before = np.asarray(rows)
    with path.open("ab") as file:  # another ingest has begun
        file.write(bytes(64))
    assert np.array_equal(rows, before)
    os.truncate(path, 100)
    with pytest.raises(IntegrityError, match="lost its end"):
        rows[[0, 1]]
    os.truncate(path, size)
    path.unlink()  # as a compaction does
    assert rows[0:1].shape == before[0:1].shape


def test_rows_of_an_older_vector_file_are_not_used(filled, asked):
    first = kept_view(filled)
    execute(filled, "UPDATE vector_files SET epoch = 2")
    execute(filled, "UPDATE vectors SET epoch = 2")
    path = filled.vector_file()
    rows = np.fromfile(path, "<f4").reshape(len(set(first.loaded.places)), -1)[::-1]
    path.with_name(path.name.replace("-1.f32", "-2.f32")).write_bytes(rows.tobytes())
    execute(filled, "UPDATE vectors SET row = ? - row", len(rows) - 1)
    path.unlink()
    again = kept_view(filled)
    assert np.array_equal(again.vectors, first.vectors) and asked == [1, 1]


def test_a_folder_that_cannot_be_written_is_no_error(filled):
    (filled.index / "stores").write_text("in the way")
    view = kept_view(filled)
    assert view.chunks(view.chunk_ids)


def test_what_was_replaced_meanwhile_does_not_stay(filled, monkeypatch):
    """An erasing between the reading and the writing: the file would name what is gone."""
    answers = iter([True, False])
    monkeypatch.setattr(view, "_is_newest", lambda *given: next(answers))
    kept_view(filled)
    assert not (filled.index / ROWS_FILE).exists()
