"""What the steps of all jobs share: lines of progress may be lost, and nothing else with them."""

from types import SimpleNamespace

import pytest

from ragstream_assets import failures
from ragstream_core.errors import Stopped


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(failures.time, "monotonic", lambda: now[0])
    return now


def step(log):
    """What a reporter reads of a step's context."""
    return SimpleNamespace(log=SimpleNamespace(info=log))


def test_a_line_that_cannot_be_written_is_left_out_and_tried_less_often(clock):
    lines, told, away = [], [], True

    def log(line):
        lines.append((clock[0] - 1000, line))
        if away:
            raise OSError("the database is away")

    report = failures.reporter(step(log), lambda *said: told.append(said))
    for second in range(1, 101):
        clock[0] = 1000 + second
        away = second < 60
        report("embed", second, 100)
    assert told == [("embed", second, 100) for second in range(1, 101)]
    assert [when for when, _ in lines] == [10, 70, 80, 90, 100]
    assert lines[1][1] == "embed: 70 of 100"


def test_who_stops_the_work_is_heard(clock):
    def stop(*said):
        raise Stopped("a person asked for it")

    with pytest.raises(Stopped):
        failures.reporter(step(lambda line: None), stop)("embed", 0, 1)

    def interrupted(line):
        raise KeyboardInterrupt

    report = failures.reporter(step(interrupted))
    clock[0] += failures.LOG_EVERY_S
    with pytest.raises(KeyboardInterrupt):
        report("embed", 0, 1)
