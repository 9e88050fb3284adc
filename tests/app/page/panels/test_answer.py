"""The answer panel: nothing is sent without a click or twice, and all that comes is checked."""

import re
import threading

import pytest

from ragstream_app.answer_stream import STOPPED, StoppableChat
from ragstream_app.page.jobs.answers import AnswerJob
from ragstream_app.page.prompt_session import PromptSession, press_all
from ragstream_core.errors import ChatBroken
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.chat import ChatDelta
from ragstream_core.wiring import answering
from ragstream_core.wiring.workspace import open_workspace
from tests.app.hostile_answers import PAYLOADS
from tests.app.model_answers import FIRST, QUESTION, SECRET, turns
from tests.app.page_driver import AppTest, button, click, drawn, open_page, passage, until
from tests.model_server import KEY, LIMIT_S, event, events, held, model_names, status, streamed


@pytest.fixture
def opened(indexed):
    """Open the page, over a finished prompt or an empty desk."""

    def open_it(*, built: bool = True, **settings) -> AppTest:
        if not built:
            return open_page()
        desk = PromptSession()
        press_all(desk, PromptRequest(QUESTION, ("manual",), settings=settings), open_workspace())
        return open_page(desk=desk, super_prompt=desk.last.super_prompt.extras.super_prompt)

    return open_it


def job(page: AppTest) -> AnswerJob:
    return page.session_state["answer_job"]


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


def finished(page: AppTest) -> AppTest:
    until(page, lambda: not job(page).running)
    return page.run()


def short_id(page: AppTest, source: str = "guide/locks.md") -> str:
    prompt = page.session_state["desk"].last.super_prompt
    cited = prompt.extras.citations
    return next(i for i, row in cited.items() if row.source == source)


# --- before anything is sent


def test_without_a_prompt_it_says_what_to_do(opened, server):
    page = opened(built=False)
    assert "Build prompt" in texts(page) and not [b for b in page.button if b.label == "Send"]
    assert server.seen == []


def test_without_a_model_send_is_off_and_one_message_says_what_to_do(opened, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")
    page = opened()
    assert button(page, "Send").disabled
    (message,) = [i.value for i in page.info if "127.0.0.1:9" in i.value]
    assert "ollama serve" in message and "provider.base_url" in message


def test_no_model_name_is_a_message_and_nobody_is_asked_for_one(opened, server, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "")
    page = opened()
    assert button(page, "Send").disabled and server.seen == []
    server.answers = [model_names("embed-1", "chat-2", "chat-1")]
    click(page, "List models")
    assert [path for path, _, _ in server.seen] == ["/v1/models"]
    model = next(s for s in page.selectbox if s.label == "Model")
    assert model.value == "chat-1" and set(model.options) == {"chat-1", "chat-2", "embed-1"}
    server.answers = [streamed("Only injected files.")]
    finished(click(page, "Send"))
    assert server.seen[-1][2]["model"] == "chat-1"


def test_wrong_settings_of_the_provider_are_a_message(opened, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://example.org/v1")
    page = opened()
    assert any("plain http is for this machine only" in e.value for e in page.error)


def test_another_machine_is_said_with_what_goes_there(opened, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "https://llm.invalid/v1")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "unknown-model")
    shown = texts(opened())
    assert "llm.invalid:443" in shown and "2 messages" in shown and "the excerpts" in shown
    assert "price unknown" in shown


def test_the_price_is_estimated_before_and_counted_after(opened, server, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__INPUT_USD_PER_MTOK", "1000")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__OUTPUT_USD_PER_MTOK", "2000")
    page = opened()
    tokens = int(re.search(r"about ([\d,]+) tokens", texts(page))[1].replace(",", ""))
    assert f"about ${tokens / 1000:.4f}, and $2.0000 for each 1,000" in texts(page)
    server.answers = [streamed("Only injected files.")]
    finished(click(page, "Send"))
    assert "20 + 5 tokens · $0.0300" in texts(page)


def test_secrets_leave_only_after_an_explicit_tick(data, run, opened, monkeypatch):
    (data / "doc_raw" / "manual" / "token.md").write_text(f"# Exact file lock\n\n{SECRET}\n")
    assert run("ingest", "manual")[0] == 0
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "https://llm.invalid/v1")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "1")
    page = opened()
    assert button(page, "Send").disabled
    warnings = [w.value for w in page.warning if "secrets" in w.value]
    assert len(warnings) == 2  # below the text, which may be copied, and where it is sent
    assert all("github-token in token.md" in w and SECRET not in w for w in warnings)
    next(c for c in page.checkbox if "secrets" in c.label).check().run()
    assert not button(page, "Send").disabled
    finished(click(page, "Send"))
    assert any("llm.invalid:443" in e.value for e in page.error)


# --- the stream


def test_words_are_shown_before_the_answer_is_complete_and_a_rerun_asks_nobody_again(
    opened, server, run
):
    gate = threading.Event()
    page = opened()
    server.answers = [held(FIRST, gate, " Nothing else counts.")]
    click(page, "Send")
    until(page, lambda: "Only injected files" in drawn(page))
    for _ in range(3):
        page.run()
        assert job(page).running and button(page, "Send").disabled
    gate.set()
    finished(page)
    assert len(server.seen) == 1 and "Nothing else counts." in drawn(page)
    (turn,) = turns(run)
    assert turn["assistant_text"] == f"{FIRST} Nothing else counts."
    assert f"kept in session {turn['session_id']}" in texts(page)


def test_what_is_sent_is_the_super_prompt_that_is_shown(opened, server):
    page = opened()
    shown = page.session_state["desk"].last.super_prompt.extras.super_prompt
    server.answers = [streamed("Only injected files.")]
    finished(click(page, "Send"))
    system, user = (message["content"] for message in server.seen[0][2]["messages"])
    assert user in shown and shown.startswith(system.rpartition("\n\n")[0])
    assert QUESTION in user and server.seen[0][2]["stream"] is True


def test_an_edit_is_sent_and_never_the_text_before_it(opened, server):
    page = opened()
    area = next(a for a in page.text_area if a.label == "Super-Prompt")
    edited = area.value + "\nAnswer in one word."
    area.set_value(edited)
    click(page, "Send")  # the edit and the press reach the page together
    assert server.seen == [] and any("changed just now" in e.value for e in page.error)
    server.answers = [streamed("Injected.")]
    finished(click(page, "Send"))
    sent = "\n".join(message["content"] for message in server.seen[0][2]["messages"])
    assert "Answer in one word." in sent
    assert page.session_state["desk"].last.super_prompt.extras.super_prompt == edited


def test_stop_keeps_what_came_as_partial(opened, server, run):
    gate = threading.Event()
    page = opened()
    server.answers = [held(FIRST, gate)]
    click(page, "Send")
    until(page, lambda: "Only injected files" in drawn(page))
    finished(click(page, "Stop"))
    gate.set()
    assert job(page).result.status == "partial" and STOPPED in texts(page)
    assert [(t["status"], t["assistant_text"]) for t in turns(run)] == [("partial", FIRST)]


def test_stop_before_the_first_word_keeps_the_question(opened, server, run):
    gate = threading.Event()
    page = opened()
    server.answers = [held("", gate)]
    click(page, "Send")
    until(page, lambda: len(server.seen) == 1)
    finished(click(page, "Stop"))
    gate.set()
    assert any("Stopped before the first word" in i.value for i in page.info)
    assert [turn["status"] for turn in turns(run)] == ["unanswered"]
    server.answers = [streamed("Here it is.")]
    assert "Here it is." in drawn(finished(click(page, "Send")))


def test_an_answer_that_breaks_off_is_shown_and_said(opened, server, run):
    page = opened()
    server.answers = [events(event("Only inj"), cut=True)]
    finished(click(page, "Send"))
    assert "Only inj" in drawn(page) and "the answer broke off" in texts(page)
    assert [turn["status"] for turn in turns(run)] == ["partial"]


def test_a_refusing_endpoint_is_one_message_without_the_key(opened, server, run):
    page = opened()
    server.answers = [status(401)]
    finished(click(page, "Send"))
    (error,) = [e.value for e in page.error]
    assert "RAGSTREAM_PROVIDER__API_KEY" in error and KEY not in error + texts(page)
    assert "kept without an answer" in texts(page)
    assert [turn["status"] for turn in turns(run)] == ["unanswered"]


def test_where_nothing_is_kept_the_page_says_so(opened, server, run):
    page = opened(**{"history.persist": False})
    server.answers = [streamed("Only injected files.")]
    finished(click(page, "Send"))
    assert "not kept" in texts(page) and turns(run) == []


def test_the_next_answer_stands_in_the_same_conversation(opened, server, run):
    page = opened()
    server.answers = [streamed("Only injected files.")]
    for _ in range(2):
        finished(click(page, "Send"))
    first, second = turns(run)
    assert first["session_id"] == second["session_id"]


# --- citations


@pytest.fixture
def answered(opened, server):
    """A page with an answer that cites one chunk rightly and one that does not exist."""
    page = opened()
    good = f"[source: guide/locks.md, chunk: {short_id(page)}]"
    server.answers = [streamed(f"Only injected files {good[:9]}", f"{good[9:]} count",
                           " [source: x.md, chunk: 00000000].")]  # fmt: skip
    return finished(click(page, "Send"))


def citation_buttons(page: AppTest):
    return [b for b in page.button if str(b.key).startswith("citation ")]


def test_citations_are_listed_verified_or_with_the_reason(answered):
    assert "1 of 2 citations verified" in texts(answered)
    good, bad = citation_buttons(answered)
    assert "guide/locks.md" in good.label and good.label.startswith("1 ✓") and not good.disabled
    assert "00000000" in bad.label and bad.label.startswith("2 ⚠") and bad.disabled
    (loud,) = [e.value for e in answered.error]
    assert loud.startswith("Unverified citation 2: ") and "made up?" in loud
    assert "[source" not in drawn(answered)
    assert "Only injected files¹ count⚠²." in drawn(answered)


def test_whether_the_documents_answer_is_said_before_the_answer(indexed, server):
    desk = PromptSession()
    press_all(
        desk, PromptRequest("Which colour is the moon of Mars?", ("manual",)), open_workspace()
    )
    page = open_page(desk=desk)
    server.answers = [streamed("It is grey, I believe.")]
    finished(click(page, "Send"))
    told = [w.value for w in page.warning if "No passage clearly answers" in w.value]
    assert told and job(page).result.doubt in told[0]
    assert len(told) == 2  # above the rendered prompt, and above the answer


def test_a_citation_opens_its_passage_by_line_and_says_what_became_of_the_file(answered, indexed):
    path = indexed / "doc_raw" / "manual" / "guide" / "locks.md"
    lines = path.read_text().split("\n")

    def opened_text() -> list[str]:
        click(answered, citation_buttons(answered)[0].label)
        return passage(answered)

    cited = [line for line in opened_text() if line.startswith(">")]
    assert cited and any("Exact File Lock restricts" in line for line in cited)
    assert all(lines[int(line.split()[0][1:]) - 1] in line for line in cited)
    assert "manual/guide/locks.md: current" in texts(answered)
    assert "index version 1); file unchanged since" in texts(answered)
    click(answered, citation_buttons(answered)[0].label)
    assert not passage(answered)
    path.write_text("# Something else\n")
    assert any("Exact File Lock restricts" in line for line in opened_text())
    assert "manual/guide/locks.md: changed" in texts(answered)
    path.unlink()
    answered.run()
    assert "manual/guide/locks.md: deleted" in texts(answered)


def test_a_citation_of_a_prompt_that_is_not_kept_shows_the_words_of_the_prompt(opened, server):
    page = opened(**{"history.persist": False})
    server.answers = [streamed(f"Yes [source: guide/locks.md, chunk: {short_id(page)}].")]
    finished(click(page, "Send"))
    click(page, citation_buttons(page)[0].label)
    assert any("Exact File Lock restricts" in line for line in passage(page))
    assert "The prompt is not kept" in texts(page)


def test_the_words_that_an_answer_quotes_are_marked_in_the_passage(opened, server):
    page = opened()
    name = f"[source: guide/locks.md, chunk: {short_id(page)}]"
    server.answers = [streamed(f"It says “restricts a prompt to the files you inject” {name}.")]
    finished(click(page, "Send"))
    click(page, citation_buttons(page)[0].label)
    (marked,) = [line for line in passage(page) if "«" in line]
    assert "Lock «restricts a prompt to the files you inject». Retrieval" in marked


# --- what a model writes stays text


def test_hostile_answers_are_text_at_every_look(opened, server):
    page = opened()
    gates = threading.Event()
    joined = "\n\n".join(PAYLOADS)
    server.answers = [held(joined[:2000], gates, joined[2000:])]
    click(page, "Send")
    until(page, lambda: "tracker.invalid" in drawn(page))
    gates.set()
    finished(page)
    assert drawn(page).count("tracker.invalid") > 50
    assert not [m for m in page.markdown if "tracker.invalid" in m.value]


def test_a_huge_answer_is_drawn_in_part_and_kept_whole(opened, server, run):
    page = opened()
    server.answers = [streamed(*["many words " * 1_000] * 10)]
    finished(click(page, "Send"))
    assert len(drawn(page)) < 70_000 and "more characters: Save has them all" in texts(page)
    assert turns(run)[0]["assistant_text"] == "many words " * 10_000


# --- the job, without a page


def prepared(script, **given):
    workspace = open_workspace()
    desk = PromptSession()
    press_all(desk, PromptRequest(QUESTION, ("manual",), **given), workspace)
    model = ScriptedChat(entries=script)
    return workspace, answering.prepare(
        workspace, desk.last.super_prompt, prompt_key=desk.last.key, model=model
    )


def test_a_job_gives_what_core_gives(indexed):
    workspace, ready = prepared([{"say": "One [source: x, chunk: 00000000] **two**\n\n- three."}])
    mine = AnswerJob(workspace, ready).start()
    assert mine.wait(LIMIT_S) and mine.error is None
    theirs = answering.answer(workspace, ready)
    assert (mine.result.text, mine.result.citations) == (theirs.text, theirs.citations)
    assert mine.text == theirs.text == "".join(mine._pieces)


def test_a_job_that_fails_holds_the_error(indexed):
    workspace, ready = prepared([{"fail": "busy"}])
    mine = AnswerJob(workspace, ready).start()
    assert mine.wait(LIMIT_S) and mine.result is None and "busy" in str(mine.error)


def test_a_stream_ends_where_it_is_stopped():
    stop = threading.Event()
    chat = StoppableChat(ScriptedChat(entries=[{"say": "abc" * 1000}]), stop)
    stream = chat.stream([])
    assert next(stream).text == "abc"
    stop.set()
    with pytest.raises(ChatBroken, match=STOPPED):
        list(stream)


def test_a_model_whose_answer_was_stopped_is_asked_for_one_more_word_at_most():
    stop, closed, drawn, go_on = threading.Event(), threading.Event(), [], threading.Event()

    class Endless(ScriptedChat):
        def stream(self, messages):
            try:
                while True:
                    drawn.append(stop.is_set())
                    yield ChatDelta("word ")
                    go_on.wait(LIMIT_S)
            finally:
                closed.set()

    stream = StoppableChat(Endless(), stop).stream([])
    assert next(stream).text == "word "
    stop.set()
    with pytest.raises(ChatBroken, match=STOPPED):
        list(stream)
    go_on.set()
    assert closed.wait(LIMIT_S) and sum(drawn) <= 1


def test_model_and_cost_are_there_before_the_prompt_and_bound_it(opened, monkeypatch):
    page = opened(built=False)
    assert "Up to 6,000 tokens for llama3.2; no cost" in texts(page)
    page.session_state["other_settings"] = "prompt.model_window = 1600"
    page.session_state["answer_models"] = ["gpt-4o"]
    page.run()
    page.selectbox(key="answer_model").set_value("gpt-4o")
    page.run()
    assert not page.exception
    assert "Up to 1,200 tokens of a window of 1,600 for gpt-4o, $0.0030" in texts(page)
    page.session_state["prompt_text"] = QUESTION
    page.session_state["projects"] = ["manual"]
    click(page.run(), "Build prompt")
    made = page.session_state["desk"].last.super_prompt
    assert made.model_target == "gpt-4o"
    assert made.extras.token_tree.total <= 1200
