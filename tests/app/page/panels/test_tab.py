"""A tab that is loaded again shows what it showed; what it asked stands in no address."""

from streamlit.testing.v1 import AppTest

from ragstream_app.page.panels import tab
from tests.app.model_answers import QUESTION
from tests.app.page_driver import PAGE, area, ask, click, control, desk, open_page, said
from tests.app.page_driver import run as draw
from tests.workspaces import write_docs


def loaded_again(page):
    """Load the page of a tab again, as a browser does."""
    again = AppTest.from_file(PAGE, default_timeout=60)
    for name, values in page.query_params.items():
        again.query_params[name] = values
    return draw(again)


def test_projects_question_and_prompt_survive_a_reload(page, indexed, run):
    write_docs(indexed, "garden", {"roses.md": "# Roses\n"})
    assert run("ingest", "garden")[0] == 0
    control(draw(page), "multiselect", "Projects").set_value(["garden", "manual"])
    click(ask(draw(page)), "Build prompt")
    again = loaded_again(page)
    assert again.session_state.projects == ["garden", "manual"]
    assert area(again, "Prompt").value == QUESTION
    assert area(again, "Super-Prompt").value == desk(page).last.super_prompt.extras.super_prompt
    click(again, "PreProcessing")  # a doubled tab goes its own way
    assert len(desk(again).steps) == 1 and len(desk(page).steps) == 8


def test_a_new_tab_begins_empty_and_the_address_holds_no_word(page):
    click(ask(page), "Build prompt")
    assert list(page.query_params) == ["tab"] and page.query_params["tab"] == desk(page).id
    page.query_params.clear()
    other = loaded_again(page)
    assert not area(other, "Prompt").value and not desk(other).steps


def test_an_error_is_not_told_again_after_a_reload(page):
    click(page, "Build prompt")
    assert len(page.error) == 1
    assert not loaded_again(page).error


def test_an_error_goes_once_something_else_is_asked(indexed):
    page = open_page(projects=[])
    click(ask(page), "Build prompt")
    assert "no project given" in page.error[0].value
    draw(page)
    assert page.error
    control(page, "multiselect", "Projects").set_value(["manual"])
    assert not draw(page).error and "no project given" not in said(page)


def test_only_the_newest_tabs_are_remembered(indexed, monkeypatch):
    monkeypatch.setattr(tab, "MOST", 2)
    first = open_page()
    draw(ask(first))
    for _ in range(2):
        draw(AppTest.from_file(PAGE, default_timeout=60))
    assert not area(loaded_again(first), "Prompt").value
