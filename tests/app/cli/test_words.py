"""What follows an option is its value, whatever it says: never an option of the program."""

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from ragstream_app.cli.main import WITH_VALUE, app, called, told_apart
from tests.app.test_reference import commands

LOOKS_LIKE_ONE = ["--data", "--config", "--traceback", "--data=x", "--help", "--version", "--json"]
PROGRAM = typer.main.get_command(app)


def _valued():
    """Every option of every command that takes a value, in all its spellings."""
    for words in commands():
        command = PROGRAM
        for word in words:
            command = command.commands[word]
        for param in command.params:
            if words and param.param_type_name == "option" and not param.is_flag:
                yield from (([*words], name) for name in param.opts)


VALUED = list(_valued())


@given(st.sampled_from(VALUED), st.sampled_from(LOOKS_LIKE_ONE), st.booleans())
def test_a_value_is_no_option_of_the_program(option, value, before):
    words, name = option
    given_ = ["--data", "d"]
    line = [*given_, *words, name, value] if before else [*words, name, value, *given_]
    found = told_apart(line, called(line))
    assert found.first == given_
    assert found.rest == [*words, name, value]
    assert set(found.options) == {"--data", name}


@given(st.sampled_from(sorted(filter(None, (words and " ".join(words) for words in commands())))),
       st.sampled_from([*WITH_VALUE, "--traceback"]), st.integers(0, 3))  # fmt: skip
def test_global_options_may_stand_anywhere(command, name, at):
    option = [name, "x"] if name in WITH_VALUE else [name]
    words = command.split()
    line = [*words[:at], *option, *words[at:]]
    found = told_apart(line, called(line))
    assert (found.first, found.rest, found.options) == (option, words, [name])


def test_short_options_and_what_follows_two_dashes():
    line = ["search", "-k", "--data", "-k5", "--data", "d", "--", "--data", "--json"]
    found = told_apart(line, called(line))
    assert found.first == ["--data", "d"]
    assert found.rest == ["search", "-k", "--data", "-k5", "--", "--data", "--json"]
    assert found.options == ["-k", "-k5", "--data"]


@pytest.mark.parametrize("said", ["--data", "--config", "--traceback", "--help", "--version"])
def test_what_is_said_is_kept_and_in_its_place(environment, run, said):
    words = ["history", "append", "--session", "a", "--user", said, "--assistant", "x"]
    assert run(*words)[0] == 0
    shown = run("history", "show", "--session", "a")[1]
    assert said in shown and "x" in shown
