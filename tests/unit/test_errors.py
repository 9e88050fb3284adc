"""Commands in advice can be pasted into a shell, whatever the names in them hold."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.errors import RunCommand, on_the_command_line, quoted

NAMES = st.text("ab 0'\\\"$*;|&~…\nü-", min_size=1, max_size=12)


@given(st.lists(NAMES, min_size=1))
def test_a_shell_reads_the_words_that_were_quoted(words):
    assert shlex.split(quoted(*words)) == words


def test_plain_names_stand_without_quotes():
    action = RunCommand("forget", quoted("guide/locks.md", "-p", "manual"))
    assert on_the_command_line(action, alone=True) == "ragstream forget guide/locks.md -p manual"
    action = RunCommand("forget", quoted("my notes.md", "-p", "manual"))
    assert on_the_command_line(action, alone=False) == "`ragstream forget 'my notes.md' -p manual`"
