"""The chat view: it asks once, shows what is kept, and all that comes is checked and stays text."""

import threading

from ragstream_app.answer_stream import STOPPED
from tests.app.hostile_answers import PAYLOADS
from tests.app.model_answers import FIRST, QUESTION, SECRET, cites, turns
from tests.app.page_driver import (
    area,
    click,
    control,
    drawn,
    open_page,
    passage,
    run,
    said,
    until,
)
from tests.model_server import KEY, LIMIT_S, held, model_names, status, streamed


def open_chat():
    """Open the page in a tab of its own, and there the chat."""
    return open_page(view="Chat")


def asks(page, text=QUESTION):
    """Write into the chat's box and send it."""
    page.chat_input[0].set_value(text)
    return run(page)


def job(page):
    return page.session_state["chat_job"]


def finished(page):
    until(page, lambda: not job(page).running)
    return run(page)


def cited(page):
    return [b for b in page.button if str(b.key).startswith("chat cites ")]


def test_an_empty_chat_says_what_to_do(indexed, server):
    page = open_chat()
    assert "Ask what the documents of manual say." in said(page)
    assert server.seen == [] and not page.chat_input[0].disabled


def test_without_a_project_it_says_so_and_takes_no_question(environment):
    page = open_chat()
    assert page.chat_input[0].disabled and "Choose a project in the sidebar" in said(page)


def test_an_answer_comes_once_and_is_kept(indexed, server, run):
    gate = threading.Event()
    server.answers = [held(FIRST, gate, " Nothing else counts.")]
    page = asks(open_chat())
    until(page, lambda: "Only injected files" in drawn(page))
    for _ in range(3):
        page.run()
        assert page.chat_input[0].disabled and job(page).running
    gate.set()
    finished(page)
    assert len(server.seen) == 1 and drawn(page).count("Nothing else counts.") == 1
    (turn,) = turns(run)
    assert turn["assistant_text"] == f"{FIRST} Nothing else counts."
    assert page.session_state["session"] == turn["session_id"]
    assert said(page).count(QUESTION) == 2, "as the conversation's title, and as the turn"


def test_citations_are_checked_and_open_their_passage(indexed, server):
    server.answers = [cites]
    page = finished(asks(open_chat()))
    good, bad = cited(page)
    assert good.label.startswith("1 ✓") and "locks.md" in good.label and not good.disabled
    assert bad.label.startswith("2 ⚠ unverified") and bad.disabled
    assert "[source" not in drawn(page)
    good.click()
    run(page)
    assert any("Exact File Lock restricts" in line for line in passage(page))
    assert "manual/guide/locks.md: current" in said(page)
    click(page, "Close")
    assert not any("Exact File Lock restricts" in line for line in passage(page))


def test_markers_are_shown_only_where_somebody_wants_them(indexed, server):
    server.answers = [cites]
    page = finished(asks(open_chat()))
    control(page, "toggle", "Markers").set_value(True)
    run(page)
    assert "[source: locks.md, chunk: " in drawn(page)


def test_another_tab_shows_the_conversation_from_the_journal(indexed, server):
    server.answers = [cites]
    page = finished(asks(open_chat()))
    session = page.session_state["session"]
    other = open_chat()
    assert "Only injected files" not in drawn(other)
    control(other, "selectbox", "Conversation").set_value(session)
    run(other)
    assert "Only injected files count¹, nothing else⚠²" in drawn(other)
    assert "[source" not in drawn(other)
    cited(other)[0].click()
    run(other)
    assert any("Exact File Lock restricts" in line for line in passage(other))


def test_the_next_question_stands_in_the_same_conversation(indexed, server, run):
    server.answers = [streamed("One, it is."), streamed("Two, it is.")]
    page = finished(asks(open_chat()))
    finished(asks(page, "And how is it turned on?"))
    assert drawn(page).index("One, it is.") < drawn(page).index("Two, it is.")
    first, second = turns(run)
    assert first["session_id"] == second["session_id"]
    assert "One, it is." in server.seen[-1][2]["messages"][-1]["content"]


def test_the_sidebar_counts(indexed, server):
    server.answers = [streamed("Yes, it is so.")]
    page = open_chat()
    control(page, "multiselect", "Inject").set_value(["manual/guide/locks.md"])
    control(page, "toggle", "Exact File Lock").set_value(True)
    run(page)
    finished(asks(page))
    assert "guide/citations.md" not in server.seen[-1][2]["messages"][-1]["content"]
    assert not job(page).turn.prompt.final_selection_ids


def test_stop_keeps_what_came(indexed, server, run):
    gate = threading.Event()
    server.answers = [held(FIRST, gate)]
    page = asks(open_chat())
    until(page, lambda: "Only injected files" in drawn(page))
    finished(click(page, "Stop"))
    gate.set()
    assert STOPPED in said(page) and "this is what came" in said(page)
    assert [turn["status"] for turn in turns(run)] == ["partial"]


def test_without_a_model_the_answer_is_an_extract(indexed, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "1")
    page = open_chat()
    assert "Answers are extracts of the documents." in said(page)
    finished(asks(page))
    assert "No model is running at" in drawn(page) and cited(page)
    assert "Origin: extract" in said(page)


def test_a_failing_model_is_a_message_and_the_question_can_be_asked_again(indexed, server, run):
    server.answers = [status(401), streamed("Here it is.")]
    page = finished(asks(open_chat()))
    (error,) = [e.value for e in page.error]
    assert "RAGSTREAM_PROVIDER__API_KEY" in error and KEY not in error + said(page)
    assert "The question is kept without an answer." in said(page)
    finished(click(page, "Ask again"))
    assert "Here it is." in drawn(page)
    assert [turn["status"] for turn in turns(run)] == ["unanswered", "complete"]


def test_secrets_leave_only_after_an_explicit_press(data, run, monkeypatch):
    (data / "doc_raw" / "manual" / "token.md").write_text(f"# Exact file lock\n\n{SECRET}\n")
    assert run("ingest", "manual")[0] == 0
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "https://llm.invalid/v1")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "m")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "1")
    page = open_chat()
    assert "What prompts show goes to llm.invalid:443." in said(page)
    finished(asks(page))
    (error,) = [e.value for e in page.error]
    assert "github-token in token.md" in error and SECRET not in error and turns(run) == []
    finished(click(page, "Send it even though it seems to contain secrets"))
    assert turns(run)


def test_persist_off_writes_nothing_and_the_tab_shows_it_all_the_same(indexed, server):
    server.answers = [cites]
    page = open_chat()
    control(page, "checkbox", "Persist history").set_value(False)
    run(page)
    before = {p: p.read_bytes() for p in indexed.rglob("*") if p.is_file()}
    finished(asks(page))
    finished(asks(page, "And how is it turned on?"))
    assert drawn(page).count("Only injected files count") == 2
    cited(page)[0].click()
    run(page)
    assert any("Exact File Lock restricts" in line for line in passage(page))
    assert {p: p.read_bytes() for p in indexed.rglob("*") if p.is_file()} == before


def test_a_cleared_turn_is_gone_from_the_view(indexed, server, run):
    server.answers = [streamed("Zebulon says so.")]
    page = finished(asks(open_chat()))
    assert "Zebulon" in drawn(page)
    assert run("history", "clear", "--all", "--yes")[0] == 0
    page.run()
    assert not page.exception and "Zebulon" not in drawn(page)


def test_open_in_prompt_takes_the_question_along(indexed, server):
    server.answers = [streamed("Yes, it is so.")]
    page = finished(asks(open_chat()))
    click(page, "Open in Prompt")
    assert area(page, "Prompt").value == QUESTION
    assert page.session_state["view"] == "Prompt"


def test_the_model_of_the_chat_is_that_of_the_answer_panel(indexed, server):
    page = open_chat()
    server.answers = [model_names("toy-1", "toy-2")]
    next(b for b in page.button if b.key == "chat list models").click()
    run(page)
    next(s for s in page.selectbox if s.key == "chat_model").set_value("toy-2")
    run(page)
    server.answers = [streamed("Two, it is.")]
    finished(asks(page))
    assert server.seen[-1][2]["model"] == "toy-2"
    assert page.session_state["answer_model"] == "toy-2"


def test_the_model_of_the_chat_bounds_what_is_sent(indexed, server):
    page = open_chat()
    both = 2  # the Prompt view says it as well
    assert said(page).count("Up to 6,000 tokens for toy-1; no cost") == both
    page.session_state["other_settings"] = "prompt.model_window = 1600"
    page.session_state["answer_models"] = ["gpt-4o"]
    run(page)
    next(s for s in page.selectbox if s.key == "chat_model").set_value("gpt-4o")
    run(page)
    told = "Up to 1,200 tokens of a window of 1,600 for gpt-4o"
    assert said(page).count(told) == both
    server.answers = [streamed("Two, it is.")]
    finished(asks(page))
    made = job(page).turn.prompt
    assert made.model_target == "gpt-4o" and made.extras.enforced.budget_tokens == 1200
    assert server.seen[-1][2]["model"] == "gpt-4o"


def test_memory_is_switched_by_its_settings(indexed, server):
    server.answers = [streamed("Yes, it is so.")]
    page = open_chat()
    control(page, "toggle", "Memory").set_value(True)
    run(page)
    finished(asks(page))
    finished(asks(page))
    assert len(server.seen) == 1 and "Origin: cached from turn" in said(page)


def test_hostile_answers_and_questions_are_text(indexed, server):
    gate = threading.Event()
    joined = "\n\n".join(PAYLOADS)
    server.answers = [held(joined[:2000], gate, joined[2000:])]
    page = asks(open_chat(), f"{QUESTION} <img src=x> ![a](http://tracker.invalid/q.png)")
    until(page, lambda: "tracker.invalid" in drawn(page))
    gate.set()
    finished(page)
    assert drawn(page).count("tracker.invalid") > 50
    assert not [m for m in page.markdown if "tracker.invalid" in m.value]


def test_a_question_on_its_way_outlives_the_page(indexed, server, run):
    gate = threading.Event()
    server.answers = [held(FIRST, gate, " Nothing else counts.")]
    page = asks(open_chat())
    until(page, lambda: "Only injected files" in drawn(page))
    mine = job(page)
    gate.set()
    assert mine.wait(LIMIT_S) and "Nothing else counts." in turns(run)[0]["assistant_text"]


def test_a_chat_that_is_not_open_draws_no_conversation(indexed, server):
    server.answers = [streamed("Yes, it is so.")]
    page = finished(asks(open_chat()))
    page.session_state["view"] = "Prompt"
    run(page)
    assert "Yes, it is so." not in drawn(page)
    page.session_state["view"] = "Chat"
    assert "Yes, it is so." in drawn(run(page))
