"""What is said on the page can be done on the page; a command is said to be one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_app.page.panels.shared import on_the_page
from ragstream_core.errors import RagstreamError
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring.prompt_inputs import pin
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import ask, click, control, open_page, run

OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*\b|ragstream (prompt|ask|ingest)\b")


def test_an_empty_prompt_says_where_to_write(indexed):
    page = click(open_page(), "PreProcessing")
    assert "the prompt is empty" in page.error[0].value
    assert "write into Prompt" in page.error[0].value and not OPTION.search(page.error[0].value)


def test_no_project_says_where_to_choose(indexed):
    page = open_page()
    control(page, "multiselect", "Projects").set_value([])
    page = click(ask(run(page)), "PreProcessing")
    assert "under Projects" in page.error[0].value and not OPTION.search(page.error[0].value)


def test_a_project_without_an_index_says_which_button(data):
    page = click(ask(open_page()), "PreProcessing")
    assert "press Ingest Folder of manual" in page.error[0].value


def test_too_much_for_the_budget_says_which_setting(indexed):
    page = open_page()
    control(page, "number_input", "Token budget").set_value(200)
    page = click(ask(run(page), "How? " + "many words of it " * 300), "Run all")
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
        pin(open_workspace(), PromptRequest(**asked), None)
    for said in (refused.value.message, refused.value.hint):
        assert not OPTION.search(on_the_page(said)), said


@given(st.text(max_size=80))
def test_other_words_stay_as_they_are(text):
    assert on_the_page(f"x {text}.") == f"x {text}." or re.search("--|ragstream|again", text)


def test_what_only_a_terminal_can_do_is_said_to_be_that():
    assert on_the_page("ragstream doctor") == "in a terminal: ragstream doctor"
    again = on_the_page("wait for it to finish, then run the command again")
    assert again == "wait for it to finish, then try it again"
