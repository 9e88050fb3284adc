"""What is said on the page can be done on the page; a command is said to be one."""

import re
from typing import get_args

import pytest

from ragstream_app.page.panels.shared import on_the_page
from ragstream_core.errors import (
    Action,
    AddOption,
    AllowSecrets,
    ChooseProject,
    FreeSpace,
    InjectFile,
    RagstreamError,
    RunCommand,
    RunProgram,
    SetSetting,
    SetVariable,
    SwitchOff,
    TryAgain,
    on_the_command_line,
    worded,
)
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import ask, click, control, desk, open_page, run

OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*\b|ragstream (prompt|ask|ingest)\b")


def test_an_empty_prompt_says_where_to_write(page):
    (error,) = [e.value for e in click(page, "PreProcessing").error]
    assert "the prompt is empty" in error and "write into Prompt" in error
    assert not OPTION.search(error)
    click(ask(page), "PreProcessing")
    assert not page.error and desk(page).steps


def test_no_project_says_where_to_choose(page):
    control(page, "multiselect", "Projects").set_value([])
    (error,) = [e.value for e in click(ask(run(page)), "PreProcessing").error]
    assert "no project given" in error and "under Projects" in error
    assert not OPTION.search(error)


def test_a_project_without_an_index_says_which_button(data):
    page = click(ask(open_page()), "PreProcessing")
    assert "press Ingest Folder of manual" in page.error[0].value


def test_too_much_for_the_budget_says_which_setting(indexed):
    page = open_page()
    control(page, "number_input", "Token budget").set_value(200)
    page = click(ask(run(page), "How? " + "many words of it " * 300), "Build prompt")
    assert "prompt.budget_tokens = " in page.error[0].value
    assert "under Other settings" in page.error[0].value and not OPTION.search(page.error[0].value)


WRONG = (
    {"text": ""},
    {"projects": ()},
    {"projects": ("manual", "other"), "as_of": 1},
    {"off": ("manual/no-such.md",)},
)


@pytest.mark.parametrize("given_", WRONG, ids=str)
def test_what_is_wrong_with_a_request_is_said_without_options(indexed, given_):
    asked = {"text": "How?", "projects": ("manual",), **given_}
    with pytest.raises(RagstreamError) as refused:
        pin_inputs(open_workspace(), PromptRequest(**asked), None)
    for said in (refused.value.message, worded(refused.value.advice, on_the_page)):
        assert not OPTION.search(said), said


WORDS = {
    RunCommand("doctor"): ("ragstream doctor", "in a terminal: ragstream doctor"),
    RunCommand("ingest"): ("ragstream ingest", "press Ingest Folder in the sidebar"),
    RunCommand("ingest", "x"): ("ragstream ingest x", "press Ingest Folder of x in the sidebar"),
    RunCommand("ingest", "x --rebuild"): (
        "ragstream ingest x --rebuild", "in a terminal: ragstream ingest x --rebuild"
    ),
    RunCommand("project sync", "x"): (
        "ragstream project sync x",
        "press Sync of x in the sidebar",
    ),
    RunCommand("prompt"): ("ragstream prompt", "write into Prompt what you want to know"),
    RunProgram("pip install x"): ("pip install x", "in a terminal: pip install x"),
    AddOption("--force"): ("--force", "--force on the command line"),
    SetSetting("a.b", "1"): ("--set a.b=1", "write a.b = 1 under Other settings in the sidebar"),
    SetSetting("a.b", "1", lasting=True): ("set a.b to 1", "set a.b to 1"),
    SetVariable("KEY"): ("export KEY", "in a terminal: export KEY"),
    SwitchOff(): ("leave the file out with --off PATH", "switch the file OFF under Files"),
    ChooseProject(): (
        "-p PROJECT; `ragstream status` lists them", "choose one under Projects in the sidebar"
    ),
    AllowSecrets(): (
        "send it with --allow-secrets",
        "choose “Send it even though it seems to contain secrets”",
    ),
    InjectFile(): ("--file instead", "choose it under Inject instead"),
    FreeSpace(): ("free disk space", "free disk space"),
    TryAgain(): ("run the command again", "try it again"),
}  # fmt: skip


def test_each_kind_of_action_has_words_in_each_face():
    assert {type(action) for action in WORDS} == set(get_args(Action))
    for action, (terminal, page) in WORDS.items():
        assert on_the_command_line(action, alone=True) == terminal
        assert on_the_page(action, alone=True) == page


def test_a_command_in_a_sentence_stands_between_backticks():
    advice = ("wait, or run ", RunCommand("doctor"), "; then ", TryAgain())
    assert worded(advice) == "wait, or run `ragstream doctor`; then run the command again"
    page = worded(advice, on_the_page)
    assert page == "wait, or run `ragstream doctor` in a terminal; then try it again"


def test_a_hint_may_be_words_an_action_or_both():
    hints = {"": (), "look": ("look",), TryAgain(): (TryAgain(),), ("a ", TryAgain()): None}
    for hint, advice in hints.items():
        error = RagstreamError("it failed", hint=hint)
        assert error.advice == (hint if advice is None else advice)
    assert error.hint == "a run the command again" and error.hint in str(error)
