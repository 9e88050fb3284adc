"""What is said of a child that ended before it gave an answer."""

import signal

import pytest

from ragstream_core.ingestion.parsers.isolated import Limits, _death


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-signal.SIGXCPU, "took more than 7 s of CPU"),
        (-signal.SIGKILL, "short of memory"),  # the killer of the system says nothing else
        (-signal.SIGSEGV, "signal 11"),
        (3, "exit code 3"),
    ],
)
def test_the_reason_is_that_of_the_signal(code, said):
    assert said in _death(code, Limits(cpu_s=7))
