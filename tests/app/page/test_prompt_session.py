"""What a person changes on the page, in the text and in the shaper: held, and taken back."""

import errno
import json
import os

import pytest

from ragstream_app.page.panels import preview, shaper
from ragstream_app.page.prompt_session import (
    PromptSession,
    button_of,
    edit,
    press,
    press_all,
    revert,
    values_of,
)
from ragstream_core.errors import UsageError
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.chain import BUTTONS
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT
from ragstream_core.prompts.edits import HEADERS, PLACES, SHAPE, value_of
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.replay import replay_prompt
from ragstream_core.text.token_estimates import ScriptTokenCounter
from ragstream_core.wiring import stages
from ragstream_core.wiring.answering import prepare
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import QUESTION, area, ask, click, desk

SHAPER, BUILDER = BUTTONS[1], BUTTONS[-1]


@pytest.fixture
def finished(page):
    return click(ask(page), "Build prompt")


def text_of(page):
    return desk(page).last.super_prompt.extras.super_prompt


def rewrite(page, text):
    area(page, "Super-Prompt").set_value(text).run()
    assert not page.exception
    return page


def field(page, target):
    boxes = [*page.selectbox, *page.text_input]
    return next(b for b in boxes if str(b.key).startswith(f"shaper {target} "))


def test_the_text_is_editable_once_it_is_built(page):
    assert area(page, "Super-Prompt").disabled
    click(ask(page), "PreProcessing")
    assert area(page, "Super-Prompt").disabled
    click(page, "Build prompt")
    assert not area(page, "Super-Prompt").disabled


def test_what_is_edited_is_what_is_sent_and_kept(finished, indexed):
    built, key = text_of(finished), desk(finished).last.key
    rewrite(finished, built + "Answer in one line.\n")
    step, space = desk(finished).last, open_workspace()
    assert step.key != key and space.store.record(step.key).parent == key
    sent = prepare(space, step.super_prompt, model=ScriptedChat()).messages
    assert "".join(m.text for m in sent) == built + "Answer in one line.\n"
    assert area(finished, "Super-Prompt").value == built + "Answer in one line.\n"
    assert replay_prompt(space, step.key).verdict == "identical"


def test_revert_brings_back_what_was_built(finished):
    built, key = text_of(finished), desk(finished).last.key
    rewrite(finished, "Something else.\n")
    assert text_of(finished) == "Something else.\n"
    preview_of = values_of(desk(finished).last)
    assert preview_of == {SUPER_PROMPT: "Something else.\n"}
    rewrite(finished, built)
    assert text_of(finished) == built and desk(finished).last.key == key
    assert desk(finished).last.unedited is None


def test_an_emptied_text_comes_back_with_a_message(finished):
    built = text_of(finished)
    rewrite(finished, "")
    assert any("is empty" in e.value for e in finished.error)
    assert area(finished, "Super-Prompt").value == built == text_of(finished)


@pytest.fixture
def full_disk(monkeypatch):
    """Lets nothing be kept while it is on."""
    from ragstream_core.wiring import saved_prompts

    real, on = saved_prompts._kept, []

    def kept(workspace, *given):
        if on:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(workspace.data_dir))
        return real(workspace, *given)

    monkeypatch.setattr(saved_prompts, "_kept", kept)
    return on


def test_a_text_that_cannot_be_kept_stays_in_the_box(finished, full_disk):
    built, typed = text_of(finished), "An hour of typing.\n"
    full_disk.append(True)
    rewrite(finished, typed)
    assert any("No space left" in e.value for e in finished.error)
    assert area(finished, "Super-Prompt").value == typed and text_of(finished) == built
    assert any("not applied" in t.value for t in finished.text)
    click(finished, "Try again")
    assert area(finished, "Super-Prompt").value == typed and text_of(finished) == built
    full_disk.clear()
    click(finished, "Try again")
    assert area(finished, "Super-Prompt").value == typed == text_of(finished)
    assert not finished.error and not any("not applied" in t.value for t in finished.text)


def test_a_text_that_cannot_be_kept_can_be_given_up(finished, full_disk):
    built = text_of(finished)
    full_disk.append(True)
    rewrite(finished, "Something else.\n")
    click(finished, "Discard it")
    assert area(finished, "Super-Prompt").value == built == text_of(finished)
    assert not any(b.label == "Try again" for b in finished.button)


def test_fields_that_cannot_be_applied_keep_what_was_typed(finished, monkeypatch):
    from ragstream_core.services import edit_prompt

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    field(finished, "tone").set_value("dry")
    with monkeypatch.context() as patch:
        patch.setattr(edit_prompt, "edit", full)
        click(finished, "Apply")
    assert any("No space left" in e.value for e in finished.error)
    assert field(finished, "tone").value == "dry" and list(desk(finished).steps) == list(BUTTONS)
    click(finished, "Apply")
    assert values_of(desk(finished).steps[SHAPER]) == {"tone": "dry"} and not finished.error


def test_a_broken_fence_is_said_and_not_refused(finished):
    rewrite(finished, text_of(finished).replace("<<END DOC", "END DOC", 1))
    assert any("structure" in w.value for w in finished.warning)
    rewrite(finished, "word " * 40_000)
    assert any("budget" in w.value for w in finished.warning)


def test_the_difference_shows_what_was_changed():
    lines = preview.difference("a\nb\nc\n", "a\nB\nc\n").split("\n")
    assert "-b" in lines and "+B" in lines and " a" in lines
    assert preview.difference("a\n", "a\n") == ""


def test_a_prompt_pressed_again_drops_the_edit(finished):
    built = text_of(finished)
    rewrite(finished, "Something else.\n")
    click(finished, "Build prompt")
    assert text_of(finished) == built and desk(finished).last.unedited is None
    assert gone(finished) == "Rebuilt. Your edits are not in it: the Super-Prompt."
    click(finished, "Put them back")
    assert text_of(finished) == "Something else.\n" and not gone(finished)


def gone(page):
    """Return what is said of edits that a press dropped."""
    return next((t.value for t in page.text if t.value.startswith("Rebuilt")), "")


def test_run_all_says_which_edits_of_the_shaper_it_drops(page):
    for button in BUTTONS[:2]:
        click(ask(page), button)
    field(page, "tone").set_value("dry")
    field(page, "depth").set_value("low")
    click(page, "Apply")
    assert not gone(page)
    click(page, BUTTONS[2])
    assert not gone(page) and values_of(desk(page).steps[SHAPER])  # later stages keep them
    click(page, "Build prompt")
    assert gone(page) == "Rebuilt. Your edits are not in it: tone, depth."
    assert "Tone: dry" not in text_of(page)
    click(page, "Put them back")
    assert values_of(desk(page).steps[SHAPER]) == {"tone": "dry", "depth": "low"}
    assert not gone(page) and list(desk(page).steps) == list(BUTTONS[:2])
    for button in BUTTONS[2:]:
        click(page, button)
    assert "Tone: dry" in text_of(page)


def test_dropped_edits_are_forgotten_when_told_so(finished):
    rewrite(finished, "Something else.\n")
    click(finished, BUTTONS[-1])
    assert gone(finished)
    click(finished, "Discard")
    assert not gone(finished) and "Something else" not in str(finished.session_state)


def test_an_edit_of_the_shaper_says_that_the_edited_text_goes(finished):
    rewrite(finished, "Something else.\n")
    field(finished, "tone").set_value("dry")
    click(finished, "Apply")
    assert gone(finished) == "Rebuilt. Your edits are not in it: the Super-Prompt."
    assert next(b for b in finished.button if b.label == "Put them back").disabled


def test_a_press_that_fails_drops_no_edit(finished, monkeypatch):
    def explode(self, op, prompt, **more):
        raise ZeroDivisionError("canary")

    rewrite(finished, "Something else.\n")
    with monkeypatch.context() as patch:
        patch.setattr(stages, "make_stage", explode)
        click(finished, BUTTONS[-1])
    assert "canary" in finished.error[0].value and not gone(finished)
    assert text_of(finished) == "Something else.\n"


def test_the_shaper_shows_what_a2_made_and_where_from(page):
    assert any("proposes intent" in t.value for t in page.text)
    text = f"# Task\n{QUESTION}\n# Audience\noperators"
    click(click(ask(page, text), "PreProcessing"), SHAPER)
    step = desk(page).steps[SHAPER]
    for target in (*SHAPE, *HEADERS):
        assert field(page, target).value == value_of(step.super_prompt, target)
    assert "you wrote it" in field(page, "audience").label
    assert "proposed by A2" in field(page, "format").label
    assert "found by A2" in field(page, "intent").label
    assert "default" in field(page, "tone").label


def test_apply_changes_the_shaper_s_result_and_drops_later_steps(finished):
    field(finished, "intent").set_value("compare")
    field(finished, "audience").set_value("auditors of banks")
    click(finished, "Apply")
    assert list(desk(finished).steps) == [*BUTTONS[:2]]
    assert "weighs options evenly" in field(finished, "role").value
    assert "edited, was empty" in field(finished, "audience").label
    for button in BUTTONS[2:]:
        click(finished, button)
    assert "Audience: auditors of banks" in text_of(finished)
    space, key = open_workspace(), desk(finished).last.key
    assert {e.target for e in space.store.record(key).edits} == {"intent", "audience"}
    assert replay_prompt(space, key).verdict == "identical"


def test_apply_without_a_change_drops_nothing(finished):
    click(finished, "Apply")
    assert list(desk(finished).steps) == list(BUTTONS)


def test_edits_add_up_and_revert_takes_all_back(finished):
    before = desk(finished).steps[SHAPER].super_prompt
    field(finished, "tone").set_value("dry")
    click(finished, "Apply")
    field(finished, "depth").set_value("low")
    click(finished, "Apply")
    assert values_of(desk(finished).steps[SHAPER]) == {"tone": "dry", "depth": "low"}
    field(finished, "tone").set_value(value_of(before, "tone"))
    click(finished, "Apply")
    assert values_of(desk(finished).steps[SHAPER]) == {"depth": "low"}
    click(finished, "Revert")
    assert desk(finished).steps[SHAPER].super_prompt is before


def test_every_target_belongs_to_one_button():
    assert {button_of(target) for target in PLACES} == {SHAPER, BUILDER} == {shaper.BUTTON, BUILDER}


def test_edits_on_the_desk_without_a_page(indexed):
    space, mine, request = open_workspace(), PromptSession(), PromptRequest(QUESTION, ("manual",))
    with pytest.raises(UsageError, match="no result to edit"):
        edit(mine, SHAPER, {"tone": "dry"}, space)
    press_all(mine, request, space)
    edit(mine, SHAPER, {"tone": "dry"}, space)
    for button in BUTTONS[2:]:
        press(mine, button, request, space)
    assert "Tone: dry" in mine.last.super_prompt.extras.super_prompt
    edit(mine, BUILDER, {SUPER_PROMPT: "Only this.\n"}, space)
    record = space.store.record(mine.last.key)
    assert [e.target for e in record.edits] == ["tone", SUPER_PROMPT]
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    assert replay_prompt(space, record.parent).verdict == "identical"
    revert(mine, BUILDER)
    assert mine.last.key == record.parent


def test_explain_lists_the_edits(finished, run):
    rewrite(finished, text_of(finished) + "Be brief.\n")
    key = desk(finished).last.key
    code, out, _ = run("explain", key)
    assert code == 0 and "edited by hand" in out.splitlines()[0]
    assert open_workspace().store.record(key).parent[:8] in out.splitlines()[0]
    shown = json.loads(run("explain", key, "--json")[1])
    assert shown["parent"] == open_workspace().store.record(key).parent
    assert [row["value"][:7] for row in shown["edits"]] == ["sha256:"]
    assert "Be brief." not in json.dumps(shown)


def test_the_tokens_are_those_of_the_edited_text(finished):
    text, before = text_of(finished), desk(finished).last.super_prompt
    at, end = text.index("<<DOC 1 "), text.index("<<END DOC 1 ")
    rewrite(finished, text[:at] + text[end:])
    prompt = desk(finished).last.super_prompt
    saved = before.extras.token_tree.total - prompt.extras.token_tree.total
    assert abs(saved - ScriptTokenCounter().count(text[at:end])) <= 10
    assert len(preview.by_file(prompt)) == len(preview.by_file(before)) - 1


def test_nothing_is_taken_back_under_a_press_at_work(indexed):
    from ragstream_app.page.jobs import presses

    space, mine = open_workspace(), PromptSession()
    press_all(mine, PromptRequest(QUESTION, ("manual",)), space)
    edit(mine, SHAPER, {"tone": "dry"}, space)
    steps, mine.job = mine.steps, presses.PressJob(BUTTONS[2], mine, None, space)
    for change in (lambda: revert(mine, SHAPER), lambda: edit(mine, SHAPER, {"tone": "x"}, space)):
        with pytest.raises(UsageError, match="is running"):
            change()
    assert mine.steps is steps


def test_an_edit_with_persist_off_is_written_nowhere(finished, indexed):
    def files():
        return {p: p.stat().st_mtime_ns for p in indexed.rglob("*") if p.is_file()}

    next(b for b in finished.checkbox if b.label == "Persist history").uncheck().run()
    before = files()
    rewrite(finished, text_of(finished) + "CANARY of an edit.\n")
    step = desk(finished).last
    assert "CANARY" in step.super_prompt.extras.super_prompt and step.key == ""
    assert files() == before
