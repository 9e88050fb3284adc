"""The files of the Debug Logger: names, lines, levels, rotation; it never disturbs its caller."""

import datetime as dt
import os
import re
import stat
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.platform import debug_log
from ragstream_core.platform.debug_log import LEVELS, DebugLog, DebugRules

WHEN = dt.datetime(2026, 3, 1, 9, 5, 7, 250_000, dt.timezone(dt.timedelta(hours=1)))
HEAD = "[2026-03-01T09:05:07.250+01:00]"
LINE = re.compile(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d\] \[[A-Z]+\] .*")


def make(folder, **rules):
    return DebugLog(folder, DebugRules(**rules), lambda text: text, lambda: WHEN)


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def text(folder, kind):
    (path,) = folder.glob(f"{kind}_*.log")
    return path.read_text()


def test_nothing_is_there_before_the_first_line(tmp_path):
    log = make(tmp_path / "logs")
    log.log_write_text("not wanted", "DEBUG")
    assert not (tmp_path / "logs").exists()
    log.log_write_text("a step")
    assert names(tmp_path / "logs") == ["debug_trace_20260301-090507_sess01.log"]


def test_both_files_have_one_stem_and_belong_to_their_owner(tmp_path):
    folder = tmp_path / "logs"
    old = os.umask(0)
    try:
        for _ in range(2):
            make(folder, vars_enabled=True).log_write_text("x")
    finally:
        os.umask(old)
    stems = [f"20260301-090507_sess{n:02d}.log" for n in (1, 2)]
    assert names(folder) == [f"debug_{kind}_{s}" for kind in ("trace", "vars") for s in stems]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_seeds_names_write_the_seeds_lines(tmp_path):
    log = make(tmp_path, vars_enabled=True)
    log.logWriteText("pieces\nare cut")
    log.logWriteVar("pieces", ["a", "b"], ("text", 3), "abcdef")
    assert text(tmp_path, "debug_trace") == (
        f"{HEAD} [INFO] pieces\\nare cut\n{HEAD} [INFO] vars: pieces (list of 2), text (str of 6)\n"
    )
    assert text(tmp_path, "debug_vars") == (
        f"{HEAD} [INFO] pieces\\nare cut\n"
        f'{HEAD} [INFO] pieces=["a", "b"]\n'
        f"{HEAD} [INFO] text=abc… (len=6)\n"
    )


def test_without_variables_the_trace_alone_says_which_there_were(tmp_path):
    log = make(tmp_path)
    log.logWriteVar("name", "value", "odd")
    assert names(tmp_path) == ["debug_trace_20260301-090507_sess01.log"]
    assert "name (str of 5), odd (str" in text(tmp_path, "debug_trace")
    assert "value" not in text(tmp_path, "debug_trace").replace("no value", "")


@given(
    messages=st.lists(st.tuples(st.text(max_size=250), st.sampled_from(LEVELS)), max_size=8),
    least=st.sampled_from(LEVELS),
    variables=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_each_wanted_call_is_one_line(tmp_path_factory, messages, least, variables):
    folder = tmp_path_factory.mktemp("logs")
    log = make(folder, min_level=least, vars_enabled=variables)
    for message, level in messages:
        log.log_write_text(message, level)
        log.log_write_var("message", message, level=level)
    log.close()
    wanted = [level for _, level in messages if LEVELS.index(level) >= LEVELS.index(least)]
    for path in folder.iterdir():
        lines = path.read_bytes().decode("utf-8").split("\n")
        assert lines.pop() == "" and all(LINE.fullmatch(line) for line in lines)
        assert [line.split("] [")[1].split("]")[0] for line in lines] == [
            level for level in wanted for _ in "tv"
        ]
    assert len(names(folder)) == (1 + variables if wanted else 0)


def test_a_dropped_line_costs_no_look_at_its_values(tmp_path):
    class Untouchable:
        def __repr__(self):
            raise AssertionError

        __len__ = __iter__ = __repr__

    def redact(text):
        raise AssertionError

    log = DebugLog(tmp_path / "logs", DebugRules(vars_enabled=True), redact, lambda: WHEN)
    log.log_write_text("x", "DEBUG")
    log.log_write_var("x", Untouchable(), level="DEBUG")
    assert log.problem == "" and not (tmp_path / "logs").exists()


@given(
    lengths=st.lists(st.integers(1, 80), min_size=1, max_size=30),
    most=st.integers(60, 400),
    keep=st.integers(1, 4),
)
@settings(max_examples=40, deadline=None)
def test_turned_files_hold_the_newest_lines_in_order(tmp_path_factory, lengths, most, keep):
    folder = tmp_path_factory.mktemp("logs")
    log = make(folder, rotate_bytes=most, rotate_keep=keep)
    said = [f"{n}:" + "x" * length for n, length in enumerate(lengths)]
    for message in said:
        log.log_write_text(message)
    log.close()
    base = folder / "debug_trace_20260301-090507_sess01.log"
    turned = [base.with_name(f"{base.name}.{n}") for n in range(keep, 0, -1)]
    files = [path for path in (*turned, base) if path.exists()]
    lines = "".join(path.read_text() for path in files).splitlines()
    assert [line.split("[INFO] ")[1] for line in lines] == said[-len(lines) :]
    assert len(names(folder)) == len(files)
    if len(files) <= keep:  # nothing was pushed out
        assert len(lines) == len(said)
    for path in files:
        assert path.stat().st_size <= most or path.read_text().count("\n") == 1


def test_many_threads_tear_no_line(tmp_path):
    log = make(tmp_path, rotate_bytes=2_000, rotate_keep=50)
    threads = [
        threading.Thread(target=lambda n=n: [log.log_write_text(f"{n}-{i}") for i in range(40)])
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert len(lines) == 240 and all(LINE.fullmatch(line) for line in lines)


def test_a_file_that_was_erased_meanwhile_is_made_anew(tmp_path):
    log = make(tmp_path, vars_enabled=True)
    log.log_write_text("before")
    (gone,) = tmp_path.glob("debug_vars_*")
    gone.unlink()
    log.log_write_text("after")
    assert names(tmp_path) == [
        "debug_trace_20260301-090507_sess01.log",
        "debug_trace_20260301-090507_sess02.log",
        "debug_vars_20260301-090507_sess02.log",
    ]
    assert "before" not in (tmp_path / names(tmp_path)[-1]).read_text()


@pytest.mark.parametrize("where", ["append_line", "open_append", "move_aside"])
def test_a_full_disk_ends_the_log_and_nothing_else(tmp_path, monkeypatch, where):
    log = make(tmp_path, rotate_bytes=60, vars_enabled=True)
    log.log_write_text("first") if where != "open_append" else None

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(debug_log, where, full)
    for _ in range(3):
        log.log_write_text("a line that is long enough to turn the file")
    assert log.problem == "OSError: No space left on device"
    monkeypatch.undo()
    log.log_write_text("quiet from now on")
    assert not any("quiet" in path.read_text() for path in tmp_path.iterdir())
