"""The language model behind an endpoint, against a real server on loopback and its 40 bad moods."""

import gzip
import json
import threading
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragstream_core.errors import (
    ChatBroken,
    ChatBusy,
    ChatFailed,
    ChatRefused,
    ChatTimeout,
    ChatUnreachable,
)
from ragstream_core.models.chat.endpoint_chat import chosen_model
from ragstream_core.models.chat.responses import StreamedText, finish_of, text_of, usage_of
from ragstream_core.platform.endpoint_address import endpoint_at
from ragstream_core.platform.http import EndpointClient, RequestError, refusal
from tests.model_server import (
    ASKED,
    COUNTED,
    DONE,
    KEY,
    STOP,
    event,
    events,
    raw,
    said,
    status,
)
from tests.processes import PATIENCE_S, free_port, until


class City(BaseModel):
    name: str
    people: int


PARIS = {"name": "Paris", "people": 2_100_000}


def silent(handler):
    time.sleep(2)


def drip(handler):
    handler.head(content_length="1000")
    for _ in range(60):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def drip_of_headers(handler):
    for letter in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 60:
        handler.wfile.write(bytes([letter]))
        handler.wfile.flush()
        time.sleep(0.05)


def half(handler):
    data = json.dumps({"choices": [{"message": {"content": "Paris"}}]}).encode()
    handler.head(content_length=str(len(data)))
    handler.wfile.write(data[: len(data) // 2])
    handler.cut()


def fifty_megabytes(handler):
    handler.head(content_type="application/json")
    handler.wfile.write(b'{"choices": [{"message": {"content": "')
    for _ in range(800):
        handler.wfile.write(b"x" * 65_536)
    handler.wfile.write(b'"}}]}')


DEEP = b'{"choices":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


# --- what is sent, what comes back ---


def test_a_whole_answer_with_its_usage(chat, server):
    server.answers = [said("Paris.")]
    model = chat()
    reply = model.complete(ASKED)
    assert (reply.text, reply.status, reply.model, reply.reason) == (
        "Paris.",
        "complete",
        "toy-1",
        "",
    )
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (20, 5, 8)
    assert usage.reported and usage.cost_usd == 0.0
    path, headers, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "toy",
        "temperature": 0.0,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is the capital?"},
        ],
    }
    assert headers["authorization"] == f"Bearer {KEY}"


def test_nothing_of_the_environment_leaves(chat, server, monkeypatch):
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", f"env-{name}")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "X-Mine: env-custom\nAuthorization: Bearer env-auth"
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.answers = [said("Paris.")]
    chat(key="").complete(ASKED)
    chat(key_url="https://api.example.org/v1").complete(ASKED)
    for _, headers, _ in server.seen:
        assert set(headers) <= {
            "host", "connection", "accept", "accept-encoding", "user-agent", "content-type",
            "content-length", "x-stainless-raw-response",
        }  # fmt: skip
        assert headers["user-agent"] == "ragstream"
        assert "env-" not in json.dumps(headers) and KEY not in json.dumps(headers)


def test_a_schema_is_sent_and_its_value_comes_back(chat, server):
    server.answers = [
        said(json.dumps(PARIS)),
        said(f"Sure!\n```json\n{json.dumps(PARIS)}\n```\nBye."),
    ]
    model = chat()
    for _ in range(2):
        assert model.complete(ASKED, schema=City).parsed == City(**PARIS)
    sent = server.seen[0][2]["response_format"]
    assert sent["type"] == "json_schema" and sent["json_schema"]["strict"] is True
    assert set(sent["json_schema"]["schema"]["properties"]) == {"name", "people"}


def test_options_are_sent_where_they_are_set(chat, server):
    server.answers = [said("x")]
    chat(temperature=-1, max_output_tokens=7).complete(ASKED)
    sent = server.seen[0][2]
    assert "temperature" not in sent and sent["max_tokens"] == 7
    newer = chat(url="https://api.openai.com/v1", max_output_tokens=7)._request(ASKED)
    assert newer["max_completion_tokens"] == 7 and "max_tokens" not in newer


def test_a_stream_comes_in_deltas_and_ends_with_the_reply(chat, server):
    server.answers = [
        events(event("Pa"), b": ping\n\n", b"data:\n\n", event("ris"), event(), STOP, COUNTED, DONE)
    ]
    *deltas, last = chat().stream(ASKED)
    assert [delta.text for delta in deltas] == ["Pa", "ris"]
    assert all(delta.reply is None for delta in deltas) and last.text == ""
    reply = last.reply
    assert (reply.text, reply.status, reply.model) == ("Paris", "complete", "toy-1")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 5)
    sent = server.seen[0][2]
    assert sent["stream"] is True and sent["stream_options"] == {"include_usage": True}


def test_usage_is_estimated_where_the_endpoint_counts_none_or_nonsense(chat, server):
    server.answers = [
        said("Paris is it", usage=usage)
        for usage in (None, {}, {"prompt_tokens": -1, "completion_tokens": 2},
                      {"prompt_tokens": "9", "completion_tokens": 1}, [1], {"prompt_tokens": True})
    ]  # fmt: skip
    model = chat()
    for _ in range(6):
        usage = model.complete(ASKED).usage
        assert not usage.reported and usage.input_tokens >= 8 and usage.output_tokens >= 3


def test_the_list_of_models_and_the_choice_without_a_name(chat, server):
    listed = raw({"data": [{"id": "z-chat"}, {"id": "an-embedder-embed"}, {"id": "b-chat"}]})
    server.answers = [listed, said("x")]
    model = chat(model="")
    assert model.complete(ASKED).text == "x"
    assert model.name == "b-chat" and server.seen[1][2]["model"] == "b-chat"
    server.answers = [raw({"data": 3})]
    with pytest.raises(ChatBroken, match="not a list of models"):
        model.list_models()


def test_the_choice_of_a_model():
    names = ["llama3.2:1b", "llama3.2:latest", "nomic-embed-text", "gpt"]
    assert chosen_model("gpt", names) == "gpt"
    for listed in (names, names[::-1]):
        assert chosen_model("llama3.2", listed) == "llama3.2:latest"
        assert chosen_model("llama3.2", [n for n in listed if "latest" not in n]) == "llama3.2:1b"
    assert chosen_model("none", names) == chosen_model("", names[::-1]) == "gpt"
    assert chosen_model("", ["nomic-embed-text"]) == "nomic-embed-text"
    with pytest.raises(ChatRefused, match="no model"):
        chosen_model("x", [])


# --- what fails, and as what ---

FAILURES = [
    ("400", status(400), ChatRefused, "status 400", 1),
    ("401", status(401), ChatRefused, "status 401", 1),
    ("403", status(403), ChatRefused, "status 403", 1),
    ("404", status(404), ChatRefused, "status 404", 1),
    ("redirect", status(302, location="http://127.0.0.1:1/"), ChatRefused, "status 302", 1),
    ("408", status(408), ChatBusy, "status 408", 5),
    ("409", status(409), ChatBusy, "status 409", 5),
    ("429", status(429), ChatBusy, "status 429", 5),
    ("500", status(500), ChatBusy, "status 500", 5),
    ("503", status(503), ChatBusy, "status 503", 5),
    ("half an answer", half, ChatBroken, "no whole answer", 5),
    ("not JSON", raw(b"<html>busy</html>"), ChatBroken, "not JSON", 1),
    ("truncated JSON", raw(b'{"choices": [{"mess'), ChatBroken, "not JSON", 1),
    ("deep JSON", raw(DEEP), ChatBroken, "not JSON", 1),
    ("a list", raw([]), ChatBroken, "not a JSON object", 1),
    ("no choices", raw({"choices": []}), ChatBroken, "without a message", 1),
    ("odd types", raw({"choices": {"0": 1}}), ChatBroken, "without a message", 1),
    ("empty", said(""), ChatBroken, "empty answer", 1),
    ("blank", said(" \n "), ChatBroken, "empty answer", 1),
    ("null", said(None), ChatBroken, "empty answer", 1),
    ("only its limit", said("", finish="length"), ChatBroken, "limit of tokens", 1),
    ("declined", said(None, refusal="no " + KEY), ChatRefused, "declined", 1),
    ("filtered", said(None, finish="content_filter"), ChatRefused, "filtered", 1),
    ("50 MB", fifty_megabytes, ChatBroken, "more than 16 MiB", 1),
    (
        "packed",
        raw(gzip.compress(b" " * 10_000_000), content_encoding="gzip"),
        ChatBroken,
        "compressed",
        1,
    ),
]


@pytest.mark.parametrize(
    ("answer", "kind", "what", "requests"),
    [case[1:] for case in FAILURES],
    ids=[case[0] for case in FAILURES],
)
def test_a_failure_has_its_class(chat, server, answer, kind, what, requests):
    server.answers = [answer]
    with pytest.raises(ChatFailed, match=what) as caught:
        chat().complete(ASKED)
    assert type(caught.value) is kind
    assert caught.value.hint and caught.value.exit_code == 1
    assert KEY not in str(caught.value)
    assert len(server.seen) == requests


@pytest.mark.parametrize("answer", [silent, drip, drip_of_headers], ids=lambda f: f.__name__)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_too_slow_is_a_timeout_and_is_not_paid_twice(chat, server, answer, streamed):
    server.answers = [answer]
    model = chat(timeout_s=0.3, budget_s=0.6)
    with pytest.raises(ChatFailed) as caught:
        list(model.stream(ASKED)) if streamed else model.complete(ASKED)
    assert type(caught.value) is ChatTimeout, caught.value
    assert until(lambda: server.seen) and len(server.seen) == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://127.0.0.1:{port}/v1", "connection refused"),
        ("https://no-such-host.invalid/v1", "DNS"),
        ("https://127.0.0.1:{server}/v1", "TLS"),
    ],
)
def test_nobody_there(chat, server, waits, url, what, streamed):
    model = chat(url=url.format(port=free_port(), server=server.server_port))
    with pytest.raises(ChatUnreachable, match=what) as caught:
        list(model.stream(ASKED)) if streamed else model.complete(ASKED)
    assert caught.value.hint
    assert len(waits) == (0 if model.is_local else 4)


@pytest.mark.parametrize(
    "text",
    ["no JSON at all", '{"name": "Paris"', '{"name": "Paris"}', '{"name": 1, "people": "x"}', "[]",
     "}{", "{" * 100_000, '{"name":' * 50_000,
     "```json\n```", '{"name": "\\ud800", "people": 1e400}',
     ],
)  # fmt: skip
def test_what_does_not_fit_the_schema_is_broken(chat, server, text):
    server.answers = [said(text)]
    with pytest.raises(ChatBroken, match="does not fit City") as caught:
        chat().complete(ASKED, schema=City)
    assert "Paris" not in str(caught.value)


@pytest.mark.parametrize("schema", [None, City], ids=["text", "structured"])
def test_fifty_megabytes_are_refused_without_holding_them(chat, server, schema):
    server.answers = [fifty_megabytes]
    tracemalloc.start()
    try:
        with pytest.raises(ChatBroken, match="more than"):
            chat().complete(ASKED, schema=schema)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (30_000_000 if schema is None else 15_000_000)


# --- repeating ---


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "fault",
    [status(408), status(409), status(429, retry_after="7"), status(500), status(503), half],
    ids=["408", "409", "429", "500", "503", "half"],
)
def test_what_can_pass_is_repeated(chat, server, waits, fault, streamed):
    good = events(event("Paris"), STOP, DONE) if streamed else said("Paris")
    if fault is half and streamed:
        fault = events(cut=True)
    server.answers = [fault, fault, good]
    model = chat()
    reply = list(model.stream(ASKED))[-1].reply if streamed else model.complete(ASKED)
    assert (reply.text, reply.status) == ("Paris", "complete")
    assert len(server.seen) == 3 and len(waits) == 2
    assert waits[1] > waits[0] or waits == [7.0, 7.0]


def test_a_retry_after_may_be_a_date(chat, server, waits):
    server.answers = [status(429, retry_after="Fri, 31 Dec 2100 23:59:59 GMT")]
    with pytest.raises(ChatBusy):
        chat().complete(ASKED)
    assert waits == []  # longer than the budget: not begun
    server.answers = [status(503, retry_after="Fri, 31 Dec 1999 23:59:59 GMT"), said("x")]
    assert chat().complete(ASKED).text == "x"


@pytest.mark.parametrize("header", ["nan", "inf", "-5", "soon", "", "9" * 400])
def test_a_strange_retry_after_does_no_harm(chat, server, waits, header):
    server.answers = [status(429, retry_after=header), said("x")]
    assert chat().complete(ASKED).text == "x"
    assert sum(waits) < 60


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "https://api.example.org/v1"])
def test_what_took_too_long_is_paid_once_wherever_it_was_asked(chat, url):
    tried = []

    def once(limit_s):
        tried.append(limit_s)
        raise RequestError("no whole answer", kind="timeout", again=True)

    with pytest.raises(RequestError, match="no whole answer$"):
        chat(url=url)._client.retry(once)
    assert len(tried) == 1


@given(budget_s=st.floats(0.5, 40), wait=st.integers(0, 60))
def test_waiting_never_exceeds_the_budget(budget_s, wait):
    clock = [0.0]

    def sleep(seconds):
        clock[0] += seconds

    def once(limit_s):
        clock[0] += min(limit_s, 1.0)
        raise refusal(429, str(wait))

    endpoint = endpoint_at("http://127.0.0.1:1/v1", timeout_s=10, budget_s=budget_s)
    with pytest.raises(RequestError, match="429"):
        EndpointClient(endpoint, now=lambda: clock[0], sleep=sleep).retry(once)
    assert clock[0] <= budget_s + 1e-9


def test_an_endpoint_that_is_down_is_left_alone_but_not_when_a_person_waits(chat, server):
    server.answers = [status(500)]
    model = chat(budget_s=600.0)
    with pytest.raises(ChatBusy):
        model.complete(ASKED)
    with pytest.raises(ChatUnreachable, match="status 500; not contacted for another 60 s"):
        model.complete(ASKED)
    assert len(server.seen) == 5
    server.answers = [events(event("back"), STOP, DONE)]
    assert list(model.stream(ASKED))[-1].reply.text == "back"
    server.answers = [said("whole")]
    assert model.complete(ASKED).text == "whole"


# --- streams that end badly ---

PARTIAL = [
    ("cut", events(event("half a sen"), cut=True), "no whole answer"),
    ("no end mark", events(event("half a sen"), STOP), "without the mark"),
    ("broken event", events(event("half a sen"), b"data: {oops\n\n", DONE), "not JSON"),
    ("deep event", events(event("half a sen"), b"data: " + DEEP + b"\n\n", DONE), "not JSON"),
    ("error event", events(event("half a sen"), b'data: {"error": {"message": "x"}}\n\n'), "broke"),
    (
        "error event and an end",
        events(event("half a sen"), b'data: {"error": {"message": "x"}}\n\n', STOP, DONE),
        "broke",
    ),
    ("limit", events(event("half a sen"), event(finish_reason="length"), DONE), "limit of tokens"),
    (
        "filter",
        events(event("half a sen"), event(finish_reason="content_filter"), DONE),
        "filtered",
    ),
    ("endless event", events(event("half a sen"), b"data: " + b"x" * 5_000_000), "more than 4 MiB"),
]


@pytest.mark.parametrize(
    ("answer", "reason"), [case[1:] for case in PARTIAL], ids=[case[0] for case in PARTIAL]
)
def test_a_stream_that_ends_badly_is_partial_and_never_repeated(chat, server, answer, reason):
    server.answers = [answer]
    deltas = list(chat().stream(ASKED))
    reply = deltas[-1].reply
    assert (reply.text, reply.status) == ("half a sen", "partial")
    assert reason in reply.reason
    assert "".join(delta.text for delta in deltas) == reply.text
    assert len(server.seen) == 1


def test_a_stream_that_falls_silent_is_partial(chat, server):
    server.answers = [events(event("half a sen"), event(" more"), pause_s=30)]
    reply = list(chat(timeout_s=2).stream(ASKED))[-1].reply
    assert (reply.text, reply.status) == ("half a sen", "partial")
    assert "within 2 s" in reply.reason or "in time" in reply.reason  # whose clock was first


def test_a_stream_that_never_ends_ends_with_the_budget(chat, server):
    server.answers = [events(*[event("x ")] * 2000, pause_s=0.02)]
    reply = list(chat(budget_s=2).stream(ASKED))[-1].reply
    assert reply.status == "partial" and 1 < len(reply.text) < 3800


def test_a_stream_of_fifty_megabytes_is_cut(chat, server):
    server.answers = [events(*[event("x" * 65_000)] * 800)]
    length = 0
    for delta in chat().stream(ASKED):
        length += len(delta.text)
        last = delta
    assert last.reply.status == "partial" and "16 MiB" in last.reply.reason
    assert length == len(last.reply.text) <= 16 << 20


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (events(), ChatBroken),
        (events(DONE), ChatBroken),
        (events(event(), STOP, DONE), ChatBroken),
        (events(event(" \n"), STOP, DONE), ChatBroken),
        (events(event(finish_reason="content_filter"), DONE), ChatRefused),
        (events(b'data: {"error": {"message": "x"}}\n\n'), ChatBroken),
        (said("not a stream"), ChatBroken),
        (status(401), ChatRefused),
        (status(500), ChatBusy),
    ],
)  # fmt: skip
def test_a_stream_without_a_word_is_an_error(chat, server, answer, kind):
    server.answers = [answer]
    with pytest.raises(ChatFailed) as caught:
        list(chat().stream(ASKED))
    assert type(caught.value) is kind


def test_a_stream_that_nobody_reads_on_ends_the_request(chat, server):
    server.answers = [events(*[event("x" * 1000)] * 50_000)]
    stream = chat().stream(ASKED)
    assert next(stream).text
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)
    for thread in threading.enumerate():
        if thread.name == "endpoint":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_half_characters_are_joined_and_lone_ones_replaced(chat, server):
    halves = [event("a\ud83d"), event("\ude00b"), event("c\udc00"), event("d\ud83d")]
    server.answers = [events(*halves, STOP, DONE), said("e\ud800")]
    model = chat()
    deltas = list(model.stream(ASKED))
    assert deltas[-1].reply.text == "a😀bc\ufffdd\ufffd" == "".join(d.text for d in deltas)
    assert model.complete(ASKED).text == "e\ufffd"


@given(st.text(max_size=60), st.lists(st.integers(0, 120), max_size=8))
def test_a_text_survives_any_cut_between_its_utf16_units(text, cuts):
    units = text.encode("utf-16-le", "surrogatepass")
    edges = sorted({0, len(units), *(min(2 * c, len(units)) for c in cuts)})
    joined, streamed = StreamedText(), ""
    for start, end in zip(edges, edges[1:], strict=False):
        part = units[start:end].decode("utf-16-le", "surrogatepass")
        streamed += joined.add({"choices": [{"delta": {"content": part}}]})
    streamed += joined.rest()
    assert streamed == joined.text == units.decode("utf-16-le", "replace")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["choices", "delta", "message", "content", "usage", "error", "model",
                         "finish_reason", "prompt_tokens", "completion_tokens"]), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["choices", "usage", "error", "model"]), json_values))
def test_no_event_of_any_shape_breaks_more_than_a_fault(event_of_any_shape):
    joined = StreamedText()
    for read in (joined.add, text_of, usage_of, finish_of):
        try:
            read(event_of_any_shape)
        except RequestError as fault:
            assert fault.kind in ("broken", "refused")
