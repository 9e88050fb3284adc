"""A change of a few documents writes their term arrays, not all of them."""

import pytest

from ragstream_core.index import derived, term_files
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.check import repair_derived
from ragstream_core.index.derived import CHANGES_FILE, LEXICAL_FILE
from ragstream_core.index.schema import reading
from ragstream_core.index.view import forget_views
from ragstream_core.platform import array_file
from ragstream_core.text.bm25 import Bm25, LexicalArrays, build_lexical
from ragstream_core.text.bm25_merge import MergedLists
from ragstream_core.text.terms import term_id, terms

QUESTIONS = ["body words number", "replaced heading", "new", "Heading 3"]


@pytest.fixture
def filled(bench, monkeypatch):
    """Thirty files, of which a change is always worth a file of its own."""
    monkeypatch.setattr(derived, "WHOLE_BELOW", 1)
    monkeypatch.setattr(derived, "MOST_CHANGED", 0.5)
    for n in range(30):
        bench.write(f"{n}.md", f"# Heading {n}\n\nbody words number {n}")
    bench.run()
    return bench


def change(bench):
    """Replace a file, remove one, add two: one before and one behind all others."""
    bench.write("3.md", "# Another heading\n\nreplaced\n\n# Heading 4\n\nmore words")
    (bench.docs / "7.md").unlink()
    bench.write("00.md", "new and first")
    bench.write("zz.md", "new and last")
    return bench.run()


def require_equal_to_one_build(bench, kind=MergedLists):
    """The arrays, and the scores that they give, are those of all rows at once."""
    view = bench.fresh_view()
    with reading(bench.index) as db:
        whole = build_lexical(derived.terms_of(db, bench.index, view.generation))
    assert isinstance(view.lexical, kind)
    assert view.lexical.packed() == whole.packed()
    for question in map(terms, QUESTIONS):
        assert (
            Bm25([view.lexical]).scores(question).tobytes()
            == Bm25([whole]).scores(question).tobytes()
        )


def published(bench):
    """Name and bytes of each file of term arrays."""
    return {path.name: path.read_bytes() for path in (bench.index / LEXICAL_FILE).parent.iterdir()}


def test_a_change_leaves_the_file_of_all_rows_as_it_is(filled):
    before = published(filled)
    assert list(before) == ["arrays.bin"]
    assert change(filled).committed
    after = published(filled)
    assert after["arrays.bin"] == before["arrays.bin"]
    assert (
        array_file.read_description(filled.index / CHANGES_FILE)["arrays"]["lengths"][1] // 4 == 3
    )
    assert derived.terms_are_published(filled.index, filled.view().pinned)
    require_equal_to_one_build(filled)


def test_changes_add_up_until_they_are_merged(filled, monkeypatch):
    change(filled)
    before = published(filled)["arrays.bin"]
    filled.write("3.md", "body words number 3, as once before")  # came with the change before
    (filled.docs / "zz.md").unlink()
    filled.write("7.md", "# Heading 7\n\nbody words number 7")  # its old row ended before
    filled.run()
    require_equal_to_one_build(filled)
    assert published(filled)["arrays.bin"] == before
    monkeypatch.setattr(derived, "MOST_CHANGED", 0.1)
    filled.write("8.md", "one more")
    filled.run()
    assert list(published(filled)) == ["arrays.bin"]
    require_equal_to_one_build(filled, LexicalArrays)
    with open_catalog(filled.index) as catalog:  # as one that is written from the catalog
        merged = published(filled)
        derived.publish_terms_again(catalog.db, filled.index, catalog.latest())
    assert published(filled) == merged


def test_what_is_merged_never_reads_the_terms_of_other_rows(filled, monkeypatch):
    asked = []
    whole = derived.terms_of
    monkeypatch.setattr(derived, "terms_of", lambda *args: asked.append(args) or whole(*args))
    change(filled)
    monkeypatch.setattr(derived, "MOST_CHANGED", 0.1)
    filled.write("8.md", "one more")
    filled.run()
    assert asked == []
    require_equal_to_one_build(filled, LexicalArrays)


def test_what_ended_goes_when_no_generation_that_had_it_is_kept(filled):
    word = term_id("marzipan").to_bytes(8, "little", signed=True)
    filled.write("s.md", "marzipan")
    filled.run()
    with open_catalog(filled.index) as catalog:
        derived.publish_terms_again(catalog.db, filled.index, catalog.latest())
    (filled.docs / "s.md").unlink()
    filled.run(retain_generations=2)
    assert word in published(filled)["arrays.bin"]
    require_equal_to_one_build(filled)
    filled.write("3.md", "replaced")
    filled.run(retain_generations=2)
    assert word not in (filled.index / "catalog.sqlite").read_bytes()
    assert not any(word in raw for raw in published(filled).values())
    require_equal_to_one_build(filled, LexicalArrays)


def test_all_files_may_go_and_come_back(filled, monkeypatch):
    monkeypatch.setattr(derived, "MOST_CHANGED", 9.0)
    texts = {path: path.read_bytes() for path in filled.docs.iterdir()}
    for path in texts:
        path.unlink()
    filled.write("x.md", "the only one")
    filled.run()
    require_equal_to_one_build(filled)
    for path, text in texts.items():
        path.write_bytes(text)
    filled.run()
    require_equal_to_one_build(filled)


def test_changes_of_a_file_that_is_gone_or_another_are_built_from_the_catalog(filled):
    change(filled)
    (filled.index / LEXICAL_FILE).write_bytes(b"{}\n")
    require_equal_to_one_build(filled, LexicalArrays)
    assert filled.pending() is not None
    filled.run()
    assert list(published(filled)) == ["arrays.bin"]


def test_changes_are_not_taken_with_a_file_that_came_while_they_were_read(filled, monkeypatch):
    change(filled)
    older, newest = published(filled), filled.view().pinned
    read = term_files.read_changes

    def read_and_wait(path, stamp):
        found = read(path, stamp)
        for name, raw in later.items():
            (filled.index / LEXICAL_FILE).with_name(name).write_bytes(raw)
        return found

    monkeypatch.setattr(derived, "MOST_CHANGED", 0.1)
    filled.write("8.md", "one more")
    filled.run()  # merged
    monkeypatch.setattr(derived, "MOST_CHANGED", 0.5)
    filled.write("9.md", "and another")
    filled.run()
    later = published(filled)
    with reading(filled.index) as db:
        expected = build_lexical(derived.terms_of(db, filled.index, newest.n)).packed()
        for name, raw in older.items():
            (filled.index / LEXICAL_FILE).with_name(name).write_bytes(raw)
        monkeypatch.setattr(term_files, "read_changes", read_and_wait)
        assert derived.load_terms(db, filled.index, newest).packed() == expected


@pytest.mark.parametrize("name", [LEXICAL_FILE, CHANGES_FILE])
def test_the_next_change_does_not_build_on_a_damaged_file(filled, name):
    change(filled)
    path = filled.index / name
    raw = bytearray(path.read_bytes())
    raw[9] ^= 4
    path.write_bytes(raw)
    require_equal_to_one_build(filled, LexicalArrays)
    filled.write("8.md", "one more")
    filled.run()
    assert list(published(filled)) == ["arrays.bin"]
    require_equal_to_one_build(filled, LexicalArrays)


def test_repair_says_nothing_of_sound_changes_and_names_wrong_ones(filled):
    change(filled)
    sound = published(filled)
    assert repair_derived(filled.index) == []
    assert list(published(filled)) == ["arrays.bin"]
    require_equal_to_one_build(filled, LexicalArrays)
    for name, raw in sound.items():
        (filled.index / LEXICAL_FILE).with_name(name).write_bytes(raw)
    (filled.index / CHANGES_FILE).unlink()
    assert repair_derived(filled.index) == [str(LEXICAL_FILE)]


def test_an_earlier_generation_is_read_as_before(filled):
    forget_views()
    first = filled.view(1).lexical.packed()
    change(filled)
    assert filled.fresh_view(1).lexical.packed() == first


def test_with_one_generation_kept_nothing_of_a_replaced_file_stays(filled):
    filled.write("3.md", "replaced")
    filled.run(delete_replaced=True)
    assert list(published(filled)) == ["arrays.bin"]
    require_equal_to_one_build(filled, LexicalArrays)
