"""A catalog of another format is refused by the command that makes it anew; none of it is lost."""

import sqlite3
from contextlib import closing

import pytest

from ragstream_core.errors import IntegrityError
from ragstream_core.index.check import WHOLE, verify_data
from ragstream_core.index.schema import PulledMark, write_mark
from ragstream_core.index.view import forget_views, open_view


def set_format(index, version):
    forget_views()
    with closing(sqlite3.connect(index / "catalog.sqlite")) as db:
        db.execute(f"PRAGMA user_version={version}")


@pytest.mark.parametrize(
    ("version", "message", "hint"),
    [
        (1, "of format 1, which an earlier version", "`{rebuild}` makes it anew"),
        (3, "is newer of format 3", "use the newer program, or `{rebuild}`"),
    ],
)
def test_another_format_is_named_with_the_command(bench, version, message, hint):
    bench.run()
    set_format(bench.index, version)
    expected = hint.format(rebuild=f"ragstream ingest {bench.index.name} --rebuild")
    for work in (lambda: open_view(bench.index), bench.run):
        with pytest.raises(IntegrityError, match=message) as caught:
            work()
        assert caught.value.hint == expected


def test_an_earlier_one_that_was_pulled_is_to_be_published_anew(bench):
    bench.run()
    write_mark(bench.index, PulledMark("/place", "2026-01-01", "{}"))
    set_format(bench.index, 1)
    with pytest.raises(IntegrityError) as caught:
        open_view(bench.index)
    assert caught.value.hint == (
        f"once it is published anew, `ragstream index pull {bench.index.name} --verify`"
    )


def test_a_rebuild_makes_it_anew_and_embeds_nothing(bench):
    bench.write("a.md", "# One\n\nwords to keep")
    bench.run()
    digest = bench.fresh_view().digest
    set_format(bench.index, 1)
    said = bench.run(rebuild=True)
    assert said.committed and (said.chunks["embedded"], said.chunks["live"]) == (0, 1)
    assert bench.fresh_view().digest == digest
    assert verify_data(bench.index, WHOLE) == []
