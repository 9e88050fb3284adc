"""The conversation on the page: replies from outside, nothing kept, tags, clearing, exports."""

import json
import tempfile

import pytest

from ragstream_app.output.history_ways import Way
from ragstream_app.page.jobs.background import BackgroundJob
from ragstream_app.page.jobs.presses import PressJob
from ragstream_app.page.panels.history import clearing, turns
from ragstream_app.page.panels.shared import PERSIST_KEY, PROMPT_KEY, SESSION_KEY
from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Asked, TagEdit, Turn
from ragstream_core.services.clear_history import clear
from ragstream_core.wiring import journal
from ragstream_core.wiring.erasure import PHASES
from ragstream_core.wiring.workspace import open_workspace
from tests.app.model_answers import QUESTION
from tests.app.page_driver import ask as typed
from tests.app.page_driver import choose_row, click, desk, open_page
from tests.app.page_driver import run as redrawn
from tests.workspaces import files_below

REPLY = "Only injected files are read.\n\nRetrieval is *skipped*."
CANARY = "Zebulon Quatermain"


@pytest.fixture
def said(run):
    """Two conversations of three and two turns."""
    for session, count in (("first", 3), ("second", 2)):
        for n in range(count):
            words = ("--user", f"{session} question {n}?", "--assistant", f"{session} answer {n}.")
            assert run("history", "append", "--session", session, *words)[0] == 0


def widget(kind, label):
    return next(w for w in kind if w.label == label)


def reply(page, text=REPLY, question="", tags=()):
    widget(page.text_area, "External Reply").set_value(text)
    widget(page.text_area, "Question").set_value(question)
    page.session_state["external_tags"] = list(tags)
    return click(page, "Send to History")


def ask(page, text=QUESTION):
    return click(typed(page, text), "Build prompt")


def records():
    return [entry.record for entry in journal.journal(open_workspace()).entries()]


def kept():
    return [record for record in records() if isinstance(record, Turn)]


def talk(page, session):
    """Choose or type the conversation."""
    chooser = widget(page.selectbox, "Conversation")
    chooser.options.append(session)  # as the browser does with what is typed
    chooser.set_value(session)
    return redrawn(page)


def messages(page):
    return [m.value for kind in (page.success, page.warning, page.error) for m in kind]


def chosen_turn(page, number):
    """Choose the row of a turn in the list, as a click on it does."""
    frame = next(f for f in page.dataframe if "#" in f.value.columns)
    position = list(frame.value["#"]).index(number)
    return choose_row(page, frame.key, position)


def test_a_reply_to_a_prompt_is_a_turn_with_all_fields(page, indexed):
    page.session_state["inject"] = ["manual/settings.yaml"]
    ask(page)
    key = desk(page).last.key
    assert key
    reply(page, REPLY + " [source: x.md, chunk: zzzzzz]", tags=["GOLD", "mine"])
    (turn,) = kept()
    assert turn.source == "external" and turn.prompt_key == key
    assert turn.user_text == QUESTION and turn.assistant_text.startswith(REPLY)
    assert turn.tags == ("GOLD", "mine") and turn.projects == ("manual",)
    assert [v["path"] for v in turn.versions] == ["settings.yaml"]
    assert len(turn.versions[0]["sha256"]) == 64 and turn.timestamp and turn.session_id
    assert [c["known"] for c in turn.citations] == [False]
    assert any("turn 1 of" in m and turn.id in m for m in messages(page))
    assert any("not issued by the prompt" in m and "zzzzzz" in m for m in messages(page))
    assert widget(page.text_area, "External Reply").value == ""
    assert page.session_state[SESSION_KEY] == turn.session_id


def test_replies_join_the_conversation_and_the_next_prompt_shows_them(page):
    reply(page, "8503.", "Which port has the page?")
    reply(page, "3000.", "And Dagster?")
    first, second = kept()
    assert first.session_id == second.session_id and first.prompt_key == ""
    ask(page)
    prompt = desk(page).last.super_prompt
    assert "Which port has the page?" in prompt.recentConversation["body"]
    assert desk(page).request.session == first.session_id


@pytest.mark.parametrize("text, question", [("", QUESTION), ("   ", QUESTION), (REPLY, "")])
def test_a_reply_without_its_text_or_question_is_a_message(page, text, question):
    reply(page, text, question)
    assert "an external reply without its" in page.error[0].value and kept() == []
    assert (widget(page.text_area, "External Reply").value or "") == text


def test_a_session_of_ones_own_is_taken_and_no_name_is_refused(page):
    talk(page, "my-talk.1")
    reply(page, "Yes.", "Really?")
    assert kept()[0].session_id == "my-talk.1"
    chooser = widget(page.selectbox, "Conversation")
    assert "my-talk.1" in chooser.options
    talk(page, "../etc")
    assert "not a session name" in page.error[0].value
    assert page.session_state[SESSION_KEY] == ""


def test_with_persist_off_a_whole_chain_and_a_reply_change_no_file(indexed, tmp_path, monkeypatch):
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("DAGSTER_HOME", "")
    page = open_page()
    ask(page)
    assert not (indexed / "dagster_home").exists()
    reply(page, "Before.", "What was before?")
    widget(page.checkbox, "Persist history").uncheck().run()
    before = files_below(tmp_path)
    ask(page, f"What does {CANARY} know about the lock?")
    assert desk(page).last.key == ""
    reply(page, f"{CANARY} knows.", tags=["GOLD"])
    reply(page, "More.", f"What else does {CANARY} know?")
    widget(page.toggle, "RECENT HISTORY").set_value(True).run()
    widget(page.text_input, "Find turns").set_value("before").run()
    assert files_below(tmp_path) == before
    held = page.session_state["held_turns"]
    assert [t.source for t in held] == ["external"] * 2 and held[0].tags == ("GOLD",)
    assert CANARY in held[0].user_text and held[0].timestamp
    assert any("nothing was written" in m for m in messages(page))


def test_switched_on_later_held_turns_are_written_only_when_asked(page):
    widget(page.checkbox, "Persist history").uncheck().run()
    reply(page, f"{CANARY} knows.", "Who knows?")
    reply(page, "Nobody.", "Who else?")
    assert widget(page.button, "Write them to the history").disabled
    widget(page.checkbox, "Persist history").check().run()
    assert records() == []
    first, second = page.session_state["held_turns"]
    click(page, "Write them to the history")
    assert [t.id for t in kept()] == [first.id, second.id]
    assert [t.timestamp for t in kept()] == [first.timestamp, second.timestamp]
    assert page.session_state["held_turns"] == []


def test_held_turns_are_forgotten_and_are_of_one_tab(indexed):
    page, other = open_page(), open_page()
    widget(page.checkbox, "Persist history").uncheck().run()
    reply(page, f"{CANARY} knows.", "Who knows?")
    assert any("held by this tab" in t.value for t in page.text)
    assert not any("held by this tab" in t.value for t in other.run().text)
    click(page, "Forget them")
    assert page.session_state["held_turns"] == [] and records() == []


def test_a_page_that_once_failed_forgets_no_choice(page, monkeypatch):
    from ragstream_core.wiring.workspace import Workspace

    def fail(self):
        raise OSError("no such disk")

    widget(page.checkbox, "Persist history").uncheck().run()
    talk(page, "mine")
    widget(page.text_area, "External Reply").set_value(REPLY).run()
    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "projects", fail)
        page.run()
        assert page.error and not page.checkbox
    page.run()
    assert widget(page.checkbox, "Persist history").value is False
    assert page.session_state[SESSION_KEY] == "mine"
    assert widget(page.text_area, "External Reply").value == REPLY


def test_persist_off_in_the_settings_cannot_be_switched_on(indexed, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    page = open_page()
    box = widget(page.checkbox, "Persist history")
    assert box.value is False and box.disabled
    reply(page, f"{CANARY} knows.", "Who knows?")
    assert records() == [] and len(page.session_state["held_turns"]) == 1


def test_a_tag_edit_is_a_record_of_its_own(page, said):
    page.run()
    chosen_turn(page, 2)
    tagged = _tags_of(page)
    assert tagged.value == [] and widget(page.button, "Keep tags").disabled
    page.session_state[tagged.key] = ["gold", "mine"]
    click(page.run(), "Keep tags")
    *before, edit = records()
    assert isinstance(edit, TagEdit) and (edit.add, edit.remove) == (("GOLD", "mine"), ())
    assert edit.turn == before[1].id and before[1].tags == ()
    assert _tags_of(page).value == ["GOLD", "mine"]
    _tags_of(page).set_value(["mine"])
    click(page.run(), "Keep tags")
    assert records()[-1].remove == ("GOLD",) and len(records()) == 7
    assert journal.show(open_workspace(), "first")[1].tags == ("mine",)


def test_tags_of_an_old_box_overwrite_no_newer_ones(page, said, run):
    page.run()
    chosen_turn(page, 2)
    _tags_of(page).set_value(["mine"]).run()
    number = next(row for row in journal.show(open_workspace(), "first")).seq + 1
    run("history", "tag", str(number), "--add", "SILVER", "--add", "theirs")  # meanwhile
    click(page, "Keep tags")
    assert set(journal.show(open_workspace(), "first")[1].tags) == {"SILVER", "theirs", "mine"}
    assert records()[-1].remove == () and records()[-1].add == ("mine",)
    run("history", "tag", str(number), "--remove", "theirs", "--add", "BLUE")
    page.run()
    assert set(_tags_of(page).value) == {"SILVER", "mine", "BLUE"}  # a box shows those of now
    assert widget(page.button, "Keep tags").disabled
    _tags_of(page).set_value(["SILVER", "BLUE"]).run()
    run("history", "tag", str(number), "--remove", "SILVER")
    page.run()  # drawn again with a change that is not kept yet
    assert _tags_of(page).value == ["BLUE"]
    click(page, "Keep tags")
    assert journal.show(open_workspace(), "first")[1].tags == ("BLUE",)


def test_tags_are_not_edited_where_nothing_is_kept(page, said):
    page.run()
    widget(page.checkbox, "Persist history").uncheck().run()
    chosen_turn(page, 2)
    page.session_state[_tags_of(page).key] = ["GOLD"]
    click(page.run(), "Keep tags")
    assert "history.persist is off" in page.error[0].value and len(records()) == 5


def _tags_of(page):
    return next(m for m in page.multiselect if str(m.key).startswith("tags of "))


def shown(page):
    frames = [f.value for f in page.dataframe if "#" in f.value.columns]
    return list(frames[0]["#"]) if frames else []


def test_the_list_is_filtered_by_conversation_words_and_tags(page, said, run):
    run("history", "tag", "4", "--add", "SILVER")
    page.run()
    assert shown(page) == [5, 4, 3, 2, 1]
    assert shown(talk(page, "first")) == [3, 2, 1]
    widget(page.toggle, "All conversations").set_value(True).run()
    assert shown(page) == [5, 4, 3, 2, 1]
    widget(page.text_input, "Find turns").set_value("ANSWER 1").run()
    assert shown(page) == [5, 2]
    widget(page.multiselect, "With tags").set_value(["SILVER"]).run()
    assert shown(page) == []
    widget(page.text_input, "Find turns").set_value("").run()
    assert shown(page) == [4]


def test_a_choice_stays_with_its_turn_when_the_list_changes(page, said, run):
    page.run()
    chosen_turn(page, 4)
    assert any(t.value.startswith("#4 ") for t in page.text)
    run("history", "append", "--session", "third", "--user", "New?", "--assistant", "Yes.")
    page.run()
    assert shown(page)[0] == 6 and any(t.value.startswith("#4 ") for t in page.text)


def test_turns_are_shown_as_text(page, run):
    evil = "![i](http://evil.example/x.png) <img src=x> :red[x] $x$"
    run("history", "append", "--session", "a", "--user", evil, "--assistant", evil)
    page.run()
    chosen_turn(page, 1)
    assert [c.value for c in page.code if "evil" in c.value] == [evil, evil]
    assert not any("evil" in m.value for m in page.markdown)


def test_recent_history_is_shown_on_demand_as_the_prompt_has_it(page, said):
    talk(page, "first")
    assert not any("first question 2?" in c.value for c in page.code)
    widget(page.toggle, "RECENT HISTORY").set_value(True).run()
    block = next(c.value for c in page.code if "first question 2?" in c.value)
    ask(page)
    assert desk(page).last.super_prompt.recentConversation["body"] == block


def test_nothing_of_the_decisions_enters_the_history(page):
    ask(page)
    reply(page)
    reasons = {row.reason for row in desk(page).last.super_prompt.extras.decisions}
    said = json.dumps([row.to_json() for row in journal.show(open_workspace())], ensure_ascii=False)
    assert reasons and not any(reason in said for reason in reasons)
    ask(page, "And what else?")
    recent = desk(page).last.super_prompt.recentConversation["body"]
    assert REPLY in recent and not any(reason in recent for reason in reasons)


def look(page):
    return click(page, "What would go?")


def confirm(page, word="CLEAR"):
    widget(page.text_input, "Type CLEAR to confirm").set_value(word).run()
    button = widget(page.button, "Clear for good")
    if not button.disabled:
        button.click().run()
        for _ in range(200):
            job = page.session_state["clearing_job"]
            if job.wait(0.1):
                break
        page.run()
    assert not page.exception
    return page


def bars(page):
    return [b.proto.value for b in page.get("progress") if "Clearing" in b.proto.text]


SCOPES = {
    "session": ("This conversation", {}, "first", {"second"}),
    "range": ("A time", {"clear_since": "2020-01-01", "clear_until": "2100-01-01"}, "", set()),
    "nothing in range": ("A time", {"clear_until": "2020-01-01"}, "", {"first", "second"}),
    "range of a session": ("A time", {"clear_since": "2020-01-01", "clear_only": True},
                           "second", {"first"}),
    "all": ("Everything", {}, "first", set()),
}  # fmt: skip


@pytest.mark.parametrize("name", SCOPES)
@pytest.mark.parametrize("archive", [False, True])
def test_each_clearing_works_and_only_when_it_is_confirmed(page, said, indexed, name, archive):
    scope, fields, session, left = SCOPES[name]
    talk(page, session)
    page.session_state["clear_scope"] = scope
    page.run()
    for key, value in {**fields, "clear_archive": archive}.items():
        page.session_state[key] = value
    before = records()
    look(page)
    assert any("would go" in m for m in messages(page)) and records() == before
    if left == {"first", "second"}:
        assert not [b for b in page.button if b.label == "Clear for good"]
        return
    for word in ("", "clear", "CLEAR!"):
        confirm(page, word)
        assert records() == before
    confirm(page)
    assert {turn.session_id for turn in kept()} == left
    assert any("cleared for good" in m for m in messages(page))
    assert any("out of reach" in m for m in messages(page))
    archives = list((indexed / "history").glob("archive/*"))
    assert len(archives) == archive
    if archive:
        click(page, "Bring back")
        assert {turn.session_id for turn in kept()} == {"first", "second"}


def test_a_look_at_something_else_confirms_nothing(page, said):
    look(talk(page, "first"))
    widget(page.text_input, "Type CLEAR to confirm").set_value("CLEAR").run()
    talk(page, "second")
    assert not [b for b in page.button if b.label == "Clear for good"]
    assert len(kept()) == 5


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01"])
def test_no_date_is_a_message(page, said, since):
    page.session_state["clear_scope"] = "A time"
    page.run()
    widget(page.text_input, "From, included").set_value(since)
    look(page)
    assert "is not a date" in page.error[0].value and len(kept()) == 5


def test_nothing_named_is_a_message(page, said):
    look(page.run())
    assert "say what to clear" in page.error[0].value and len(kept()) == 5


def test_a_prompt_that_showed_cleared_turns_leaves_the_desk(page, said):
    ask(talk(page, "first"))
    assert "first answer" in widget(page.text_area, "Super-Prompt").value
    confirm(look(page))
    assert desk(page).steps == {}
    assert widget(page.text_area, "Super-Prompt").value == ""


def test_the_prompt_of_a_cleared_question_leaves_the_desk_as_well(page):
    ask(page)
    reply(page)
    page.session_state["answer_job"] = None
    confirm(look(page))
    assert kept() == [] and desk(page).steps == {}
    assert "answer_job" not in page.session_state


def test_a_clearing_of_others_leaves_the_desk_alone(page, said, indexed):
    page.session_state["lock"] = True  # a prompt under the lock sees no conversation
    page.session_state["inject"] = ["manual/settings.yaml"]
    ask(page)
    assert desk(page).last.key
    talk(page, "first")
    confirm(look(page))
    assert len(kept()) == 2 and len(desk(page).steps) == 8


def test_turns_are_set_aside_and_brought_back(page, said):
    talk(page, "first")
    widget(page.selectbox, "What happens to the turns").set_value("Keep, inactive").run()
    before = records()
    look(page)
    assert any("would be inactive" in m for m in messages(page)) and records() == before
    widget(page.text_input, "Type CLEAR to confirm").set_value("clear").run()
    assert widget(page.button, "Do it").disabled
    widget(page.text_input, "Type CLEAR to confirm").set_value("CLEAR").run()
    click(page, "Do it")
    page.run()
    assert any("no prompt uses them" in m for m in messages(page))
    assert all("INACTIVE" in r.tags for r in journal.show(open_workspace(), "first"))
    click(page, "Use inactive turns again")
    assert not any("INACTIVE" in r.tags for r in journal.show(open_workspace()))


def test_a_clearing_says_how_far_it_is(said):
    seen = []
    clearing.start(open_workspace(), {"session": "first"}, Way()).wait(240)
    clear(open_workspace(), Choice(everything=True), progress=lambda *what: seen.append(what))
    assert seen == [(phase, n, len(PHASES)) for n, phase in enumerate(PHASES)]
    assert set(clearing.PHASES) == set(PHASES)


def test_a_clearing_that_takes_long_is_followed_and_started_once(page, said, monkeypatch):
    begun = []

    def slow(workspace, choice, way):
        begun.append(BackgroundJob("clearing", lambda _: None))
        begun[-1].report("journal", 2, 5)
        return begun[-1]

    monkeypatch.setattr(clearing, "start", slow)
    monkeypatch.setattr(clearing, "AT_ONCE_S", 0.0)
    talk(page, "first")
    ask(page)
    look(page)
    widget(page.text_input, "Type CLEAR to confirm").set_value("CLEAR").run()
    click(page, "Clear for good")
    assert bars(page) == [40]
    look(page)
    widget(page.text_input, "Type CLEAR to confirm").set_value("CLEAR").run()
    assert widget(page.button, "Clear for good").disabled and len(begun) == 1
    cleared = clear(open_workspace(), Choice("first"))
    begun[0].result = clearing.Cleared(cleared, Way().told(cleared))
    begun[0]._ended.set()
    page.run()
    assert any("3 turns of first cleared for good" in m for m in messages(page))
    assert desk(page).steps == {} and not bars(page)
    assert widget(page.text_area, "Super-Prompt").value == ""
    click(page, "Close this report")
    assert not any("cleared for good" in m for m in messages(page))


def test_a_clearing_that_fails_is_a_problem_and_no_traceback(said):
    job = clearing.start(open_workspace(), {"session": "no session"}, Way())
    assert job.wait(240) and "not a session name" in str(job.error)


def test_turns_are_brought_into_a_project_and_taken_out_again(page, said, run):
    run("history", "tag", "4", "--add", "GOLD")
    page.run()
    widget(page.multiselect, "All turns with these tags").set_value(["GOLD"]).run()
    before = records()
    click(page, "Which turns?")
    assert records() == before and any("1 turn would be" in m for m in messages(page))
    click(page, "Bring in")
    assert journal.show(open_workspace())[3].tags == ("GOLD", "project:manual")
    click(page, "Undo")
    assert journal.show(open_workspace())[3].tags == ("GOLD",)
    assert len(records()) == len(before) + 2


def test_the_downloads_are_what_the_command_writes(page, said, run):
    for session in ("", "second"):
        options = ("--session", session) if session else ()
        assert turns._jsonl(session) == run("history", "export", *options)[1]
        assert turns._markdown(session) == run("history", "export", *options, "--format", "md")[1]
    labels = {b.label for b in page.get("download_button")}
    assert {"JSONL", "Markdown"} <= labels


def test_an_unanswered_question_has_no_tags(page):
    journal.append_records(open_workspace(), [Asked("", "a", "", "Anybody there?")])
    page.run()
    chosen_turn(page, 1)
    assert any("unanswered" in t.value for t in page.text)
    assert not [b for b in page.button if b.label == "Keep tags"]


def test_drawing_the_page_writes_nothing(indexed, tmp_path):
    before = files_below(tmp_path)
    page = open_page()
    widget(page.toggle, "RECENT HISTORY").set_value(True).run()
    assert page.session_state[PERSIST_KEY] is True and not page.session_state[PROMPT_KEY]
    assert files_below(tmp_path) == before and not (indexed / "history").exists()


def test_a_clearing_takes_no_steps_from_under_a_press(page, said):
    ask(talk(page, "first"))
    mine = desk(page)
    mine.job = PressJob("Build prompt", mine, mine.request, open_workspace())
    confirm(look(page))
    assert len(mine.steps) == 8
    mine.job._ended.set()
    page.run()
    assert mine.steps == {}
