import queue

import pytest

from ragstream_app.output import progress
from ragstream_app.output.progress import ReportRate, ingest_progress
from ragstream_app.output.words import duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "1 s"), (40.4, "40 s"), (89, "89 s"), (180, "3 min"), (5399, "90 min"), (9000, "2.5 h")],
)
def test_durations_are_for_people(seconds, said):
    assert duration(seconds) == said


def test_a_line_names_files_chunks_speed_and_time_left():
    pace = ReportRate()
    assert pace.note("read", 12, 39, now=0) == "12/39 files"
    assert pace.note("embed", 0, 1200, now=10) == "12/39 files, 0/1,200 chunks"
    line = pace.note("embed", 400, 1200, now=20)
    assert line == "12/39 files, 400/1,200 chunks, 40 chunks/s, about 20 s left"
    assert "of 0" not in line


def test_an_unknown_total_is_not_shown_as_zero():
    pace = ReportRate()
    assert pace.note("embed", 225, 0, now=0) == "225 chunks"
    assert pace.note("commit", 0, 0, now=1).startswith("225 chunks, commit")


def test_lines_say_where_it_is_also_while_a_phase_reports_nothing(monkeypatch):
    monkeypatch.setattr(progress, "QUIET_S", 0.001)
    said: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(progress, "note", said.put)

    def next_line(than: str = "") -> str:
        return next(line for line in iter(lambda: said.get(timeout=60), None) if line != than)

    with ingest_progress("demo") as report:
        report("read", 1, 2)
        assert next_line() == "demo: 1/2 files"
        report("embed", 1, 4)
        assert next_line("demo: 1/2 files") == "demo: 1/2 files, 1/4 chunks"
        report("collection", 0, 0)  # which reports nothing until it is made
        after = "demo: committed; making the Chroma collection"
        assert next_line("demo: 1/2 files, 1/4 chunks") == after
        assert next_line() == after
