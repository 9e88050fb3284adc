"""Answers for clients of OpenAI's API: whole, as a stream, with and without a model."""

import asyncio
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from ragstream_app.api.answering import Answering
from ragstream_app.api.chat import ChatCompletions
from ragstream_app.api.models import Models
from ragstream_app.api.workers import Workers
from ragstream_core.library import History
from ragstream_core.services.explain import explanation
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.journal import show
from tests.app.serving import QUESTION, error_of, serving
from tests.model_server import STOP, event, events, held, status, streamed
from tests.processes import until
from tests.workspaces import hashed_workspace

NAME = "ragstream/manual"
ASKED = [{"role": "user", "content": QUESTION}]
ANSWER = "Only **injected** files count, nothing else."
PROMPT = "x-ragstream-prompt"


def sent(model):
    """What the model was sent last: its System message, the user's, and the whole body."""
    body = model.seen[-1][2]
    system, user = (message["content"] for message in body["messages"])
    return system, user, body


def test_an_answer_with_its_sources_its_usage_and_its_prompt(served, model, space):
    raw = served.openai().chat.completions.with_raw_response.create(model=NAME, messages=ASKED)
    found = raw.parse()
    (choice,) = found.choices
    text, sources = choice.message.content.split("\n\nSources:\n")
    assert text == ANSWER and choice.finish_reason == "stop"
    assert sources.splitlines()[0].startswith("- guide/locks.md [")
    assert sources.splitlines()[1].startswith("- x.md [00000000], not verified")
    usage = found.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (20, 5, 25)
    told = found.ragstream
    assert (told["origin"], told["status"], told["model"]) == ("model", "complete", "toy-1")
    first, second = told["citations"]
    assert first["verified"] and first["locator"].startswith("guide/locks.md::")
    assert not second["known"]
    key = told["prompt_key"]
    assert raw.headers[PROMPT] == key
    assert replay_prompt(space, space.store.find(key)).verdict == "identical"
    assert explanation(space, key).to_json()


def test_the_stream_says_the_same(served, model):
    whole = served.openai().chat.completions.create(model=NAME, messages=ASKED)
    stream = served.openai().chat.completions.create(
        model=NAME, messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    assert stream.response.headers[PROMPT] == whole.ragstream["prompt_key"]
    assert stream.response.headers["content-type"].startswith("text/event-stream")
    *said, last, counted = list(stream)
    assert said[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content for chunk in said)
    assert text == whole.choices[0].message.content
    assert last.choices[0].finish_reason == "stop" and last.ragstream == whole.ragstream
    assert counted.choices == [] and counted.usage == whole.usage
    assert {chunk.usage for chunk in (*said, last)} == {None}
    assert len({chunk.id for chunk in (*said, last, counted)}) == 1


def test_a_stream_counts_only_if_it_is_asked_to(served, model):
    lines = served.chat(stream=True).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    assert '"finish_reason": "stop"' in lines[-3] and '"usage"' not in "".join(lines)


def test_the_first_words_come_before_the_last(served, model):
    gate = threading.Event()
    model.answers[:] = [held("Files are injected. " * 8, gate, "The end.")]
    with served.openai().chat.completions.create(model=NAME, messages=ASKED, stream=True) as stream:
        text = ""
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            if text and not gate.is_set():
                assert "The end." not in text
                gate.set()
    assert text.startswith("Files are injected.") and "The end." in text


def test_earlier_messages_are_the_conversation(served, model, space):
    earlier = [
        {"role": "user", "content": "What is the exact file lock?"},
        {"role": "assistant", "content": "A restriction.\n\nSources:\n- guide/locks.md [abc]"},
        {"role": "user", "content": [{"type": "text", "text": "And how"},
                                     {"type": "text", "text": "does it restrict a prompt?"}]},
    ]  # fmt: skip
    found = served.openai().chat.completions.create(model=NAME, messages=earlier)
    _, user, _ = sent(model)
    recent, task = user[user.index("RECENT HISTORY") :].split("## TASK", 1) if "## TASK" in user \
        else (user[user.index("RECENT HISTORY") :], user)  # fmt: skip
    assert "| user: What is the exact file lock?" in recent
    assert "| assistant: A restriction." in recent and "Sources:" not in recent
    assert "does it restrict a prompt?" in task
    record = space.store.record(found.ragstream["prompt_key"])
    assert record.inputs["text"] == "And how\n\ndoes it restrict a prompt?"
    assert json.loads(record.inputs["texts"]["conversation"])[0][1] == "A restriction."
    key = found.ragstream["prompt_key"]
    assert replay_prompt(space, space.store.find(key)).verdict == "identical"


def test_a_system_message_says_who_answers(served, model, space):
    who = {"role": "system", "content": "You are a patient librarian."}
    found = served.chat(messages=[who, *ASKED]).json()["ragstream"]
    assert "You are a patient librarian." in sent(model)[0] + sent(model)[1]
    settings = space.store.record(found["prompt_key"]).inputs["settings"]
    assert settings["prompt"]["system"] == "You are a patient librarian." and not found["warnings"]
    long = {"role": "developer", "content": "Ignore the documents. " * 40}
    found = served.chat(messages=[long, *ASKED]).json()["ragstream"]
    assert "Ignore the documents." not in sent(model)[0] + sent(model)[1]
    assert "the system message is left out" in found["warnings"][0]


def test_what_the_client_sets_of_the_model_is_passed_on(served, model):
    found = served.chat(temperature=0.7, max_completion_tokens=11, top_p=0.1, seed=3, user="me")
    body = sent(model)[2]
    assert body["temperature"] == 0.7 and 11 in (
        body.get("max_tokens"),
        body.get("max_completion_tokens"),
    )
    assert "top_p" not in body and "seed" not in body
    assert found.json()["ragstream"]["ignored"] == ["seed", "top_p", "user"]
    plain = served.chat().json()["ragstream"]["prompt_key"]
    assert found.json()["ragstream"]["prompt_key"] == plain, "the prompt is the same"


def test_a_profile_is_a_model(served, model, space):
    found = served.chat(model=f"{NAME}:short").json()
    assert found["model"] == f"{NAME}:short"
    settings = space.store.record(found["ragstream"]["prompt_key"]).inputs["settings"]
    assert settings["prompt"]["budget_tokens"] == 2500


def test_a_turn_is_kept_only_if_it_is_asked_for(served, model, space):
    for store in ({}, {"store": False}, {"store": None}):
        assert served.chat(**store).json()["ragstream"]["session"] == ""
    assert show(space) == []
    kept = served.chat(store=True, metadata={"session": "lock-talk", "other": "x"}).json()
    assert kept["ragstream"]["session"] == "lock-talk"
    (turn,) = show(space, "lock-talk")
    assert turn.user == QUESTION and turn.assistant.startswith("Only **injected**")
    follow = served.chat("How does a lock restrict two?", metadata={"session": "lock-talk"})
    assert QUESTION in sent(model)[1], "the kept conversation goes on"
    assert follow.status_code == 200 and len(show(space, "lock-talk")) == 1


def test_a_server_of_one_project_goes_on_with_no_conversation_about_another(root, model, tmp_path):
    data = shutil.copytree(root, tmp_path / "data")
    History(hashed_workspace(data)).append("Where?", "At nine.", session="far", projects=["other"])
    provider = {"provider__base_url": model.url, "provider__model": "toy-1"}
    with serving(data, "--project", "manual", **provider) as found:
        assert error_of(found.chat(metadata={"session": "far"})) == (422, "refused")
        assert found.chat(store=True, metadata={"session": "near"}).status_code == 200
        assert (
            found.chat("How does a lock restrict two?", metadata={"session": "near"}).status_code
            == 200
        )
    assert QUESTION in sent(model)[1], "its own conversation goes on"
    assert not any("At nine" in str(body) for _, _, body in model.seen)


def test_without_a_model_the_answer_is_the_extract(alone, space):
    found = alone.openai().chat.completions.create(model=NAME, messages=ASKED)
    text = found.choices[0].message.content
    assert "the closest sentences from your documents" in text and "- guide/locks.md [" in text
    told = found.ragstream
    assert (told["origin"], told["model"]) == ("extract", "")
    assert told["citations"] and all(citation["verified"] for citation in told["citations"])
    assert found.usage.prompt_tokens > 100 and found.usage.completion_tokens > 10
    stream = alone.openai().chat.completions.create(model=NAME, messages=ASKED, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == text


def test_a_list_of_sources_can_be_switched_off(root):
    with serving(root, api__sources="false", provider__base_url="http://127.0.0.1:9/v1") as found:
        body = found.chat().json()
        assert "Sources:" not in body["choices"][0]["message"]["content"]
        assert body["ragstream"]["citations"]


@pytest.mark.parametrize("answer, code", [(401, 502), (400, 502), (404, 502)])
def test_a_model_that_fails_is_an_error(served, model, answer, code):
    model.answers[:] = [status(answer)]
    for more in ({}, {"stream": True}):
        response = served.chat(**more)
        assert error_of(response) == (code, "model_failed")
        assert "sk-canary" not in response.text and response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.InternalServerError):
        served.openai().chat.completions.create(model=NAME, messages=ASKED)


def test_an_answer_that_breaks_off_says_so(served, model):
    model.answers[:] = [events(event("Files are injected. " * 8), cut=True)]
    found = served.chat().json()
    assert found["choices"][0]["finish_reason"] == "length"
    assert found["choices"][0]["message"]["content"].startswith("Files are injected.")
    assert found["ragstream"]["status"] == "partial"
    assert any("broke off" in warning for warning in found["ragstream"]["warnings"])


def test_an_unexpected_error_in_a_stream_is_told_and_raised_for_the_log(space, monkeypatch):
    def broken(work, tell=None):
        tell("Files are")
        raise ZeroDivisionError("nobody expected this")

    monkeypatch.setattr(Answering, "build", lambda work: None)
    monkeypatch.setattr(Answering, "answer", broken)
    body = json.dumps({"model": NAME, "messages": ASKED, "stream": True}).encode()
    said = []

    async def ask():
        messages = [{"type": "http.request", "body": body}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message):
            said.append(message)

        chat = ChatCompletions(Models(space), Workers(1, 1))
        await chat({"type": "http", "method": "POST", "headers": []}, receive, send)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(ask())
    events_sent = b"".join(message.get("body", b"") for message in said).decode()
    assert "Files are" in events_sent and '"internal_error"' in events_sent
    assert said[-1]["more_body"] is False


def test_what_seems_to_be_a_secret_stays_on_this_machine(root, model):
    """The model is another machine as far as the address can tell."""
    from tests.app.model_answers import SECRET

    far = "https://model.invalid/v1"
    with serving(root, provider__base_url=far, provider__model="toy-1") as found:
        response = found.chat(f"{QUESTION} My token is {SECRET}")
    assert error_of(response) == (422, "refused") and SECRET not in response.text
    assert model.seen == []


def test_who_leaves_in_the_middle_makes_room_for_the_next(root, model):
    gate = threading.Event()
    model.answers[:] = [held("Files are injected. " * 8, gate), streamed("All is well.")]
    limits = {"api__workers": "1", "api__queue": "0"}
    provider = {"provider__base_url": model.url, "provider__model": "toy-1"}
    with serving(root, **limits, **provider) as found:
        client = found.openai(max_retries=0)
        stream = client.chat.completions.create(model=NAME, messages=ASKED, stream=True)
        assert next(iter(stream)).choices[0].delta.role == "assistant"
        busy = found.chat("What is a citation?")
        assert error_of(busy) == (429, "queue_full")
        assert busy.headers["retry-after"] == "1" and busy.headers["x-should-retry"] == "true"
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model=NAME, messages=ASKED)
        stream.close()
        assert until(lambda: found.chat("What is a citation?").status_code == 200)
        assert not gate.is_set(), "the model is silent still"
        gate.set()
        assert "Traceback" not in found.log.read_text()


def test_sixteen_clients_at_once_all_get_their_own_answer(served, model):
    def ask(n):
        found = served.chat(f"{QUESTION} Case {n}.", model=f"{NAME}{':short' * (n % 2)}")
        return found.status_code, found.json()["model"], found.json()["ragstream"]["prompt_key"]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(32)))
    assert [status for status, _, _ in found] == [200] * 32
    assert [name for _, name, _ in found] == [NAME, f"{NAME}:short"] * 16
    assert len({key for _, _, key in found}) == 32


def test_events_are_json_whatever_the_model_says(served, model):
    model.answers[:] = [events(event("Line\n\ndata: [DONE]\n\n\u2028 \ud83d\ude00 " * 9), STOP)]
    chunks = served.openai().chat.completions.create(model=NAME, messages=ASKED, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text.count("data: [DONE]") == 9 and "\U0001f600" in text


def test_nothing_of_it_is_said_on_stderr(served):
    assert served.log.read_text() == ""
