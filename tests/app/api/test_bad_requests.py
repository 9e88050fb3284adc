"""What a client may send: each is an error that says what is wrong, and the server goes on."""

import json
import select
import socket

import pytest

from tests.app.serving import QUESTION, error_of
from tests.processes import PATIENCE_S, read_head

CHAT, EMBED = "/v1/chat/completions", "/v1/embeddings"
NAME = "ragstream/manual"
USER = {"role": "user", "content": QUESTION}
IMAGE = {"type": "image_url", "image_url": {"url": "http://evil.example/x.png"}}


@pytest.fixture(autouse=True)
def goes_on(alone):
    """After each of them a good request is answered, and nothing was written to stderr."""
    yield
    assert alone.request("GET", "/v1/models").status_code == 200
    assert alone.log.read_text() == ""


def post(alone, path, body, **headers):
    given = {"Authorization": f"Bearer {alone.token}", "Content-Type": "application/json"}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return alone.request("POST", path, content=content, headers={**given, **headers})


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"3", b'"text"', b"[" * 100_000, b'{"a":' * 100_000,
    b'{"model": "\xff\xfe"}', b'{"model": "\\ud800"}', b"\x00", b"{}{}", b"\xef\xbb\xbf",
    b'{"model": "m", "messages": ' + b"9" * 5000 + b"}",
])  # fmt: skip
@pytest.mark.parametrize("path", [CHAT, EMBED])
def test_what_is_no_json_object(alone, path, body):
    response = post(alone, path, body)
    assert response.status_code == 400
    assert error_of(response)[1] in ("invalid_json", "invalid_value")


@pytest.mark.parametrize("more, param, said", [
    ({"messages": []}, "messages", "at least 1"),
    ({"messages": None}, "messages", "array"),
    ({"messages": [USER] * 10_000}, "messages", "at most 2000"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "the assistant's"),
    ({"messages": [USER, {"role": "assistant", "content": "x"}]}, "messages", "the assistant's"),
    ({"messages": [{"role": "system", "content": "x"}]}, "messages", "a system message"),
    ({"messages": [{"role": "user"}]}, "messages", "empty"),
    ({"messages": [{"role": "user", "content": " \n"}]}, "messages", "empty"),
    ({"messages": [{"role": "user", "content": "x " * 500_000}]}, "messages", "1,000,000"),
    ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages.0.content.0.type", "images"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages.0.content", "string"),
    ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages.0.role", ""),
    ({"messages": [{**USER, "tool_calls": [{"id": "1"}]}]}, "messages.0.tool_calls", "tools"),
    ({"model": ""}, "model", "at least 1"),
    ({"model": None}, "model", "string"),
    ({"tools": [{"type": "function"}]}, "tools", "tools are not called"),
    ({"functions": [{}]}, "functions", "not supported"),
    ({"n": 2}, "n", "1"),
    ({"logprobs": True}, "logprobs", "not supported"),
    ({"top_logprobs": 3}, "top_logprobs", "not supported"),
    ({"stop": ["\n"]}, "stop", "not supported"),
    ({"audio": {"voice": "x"}}, "audio", "answers are text"),
    ({"modalities": ["text", "audio"]}, "modalities", "answers are text"),
    ({"response_format": {"type": "json_object"}}, "response_format", "answers are text"),
    ({"temperature": 3}, "temperature", "less than or equal to 2"),
    ({"temperature": "0.5"}, "temperature", "number"),
    ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
    ({"stream": "yes"}, "stream", "boolean"),
    ({"store": True, "metadata": {"session": 3}}, "metadata.session", "string"),
])  # fmt: skip
def test_what_cannot_be_answered_names_the_parameter(alone, more, param, said):
    response = post(alone, CHAT, {"model": NAME, "messages": [USER], **more})
    assert response.status_code == 400, response.text
    found = response.json()["error"]
    assert found["param"] == param and said in found["message"], found
    assert found["type"] == "invalid_request_error"


@pytest.mark.parametrize("more", [
    {"tools": []}, {"tools": None}, {"logprobs": False}, {"modalities": ["text"]}, {"n": 1},
    {"response_format": {"type": "text"}}, {"tool_choice": "none"}, {"presence_penalty": 0.5},
])  # fmt: skip
def test_parameters_that_ask_for_nothing_are_taken(alone, more):
    assert alone.chat(**more).status_code == 200


@pytest.mark.parametrize("content", ["...", "🙂", "--"])
def test_a_question_without_a_word(alone, content):
    for more in ({}, {"stream": True}):
        assert error_of(alone.chat(content, **more)) == (400, "invalid_request")


def test_a_session_that_is_no_name(alone):
    assert error_of(alone.chat(metadata={"session": "a\n/../b"})) == (400, "invalid_request")


@pytest.mark.parametrize("path, more", [(CHAT, {"messages": [USER]}), (EMBED, {"input": "x"})])
def test_a_model_that_is_not_there_is_told_the_nearest(alone, path, more):
    response = post(alone, path, {"model": "ragstream/manuel", **more})
    assert error_of(response) == (404, "model_not_found")
    assert "did you mean ragstream/manual?" in response.json()["error"]["message"]
    for name in ("../../etc/passwd", "x" * 100_000, "ragstream/manual:nonsense", "\u0000"):
        assert error_of(post(alone, path, {"model": name, **more})) == (404, "model_not_found")


def head_of(alone, path, *lines):
    """The head of a request, and where it goes."""
    host, port = alone.url.removeprefix("http://").split(":")
    own = (f"POST {path} HTTP/1.1", f"Host: {host}:{port}",
           f"Authorization: Bearer {alone.token}", "Content-Type: application/json")  # fmt: skip
    return "\r\n".join([*own, *lines, "", ""]).encode(), (host, int(port))


def test_a_body_that_is_too_long_is_not_even_asked_for(alone):
    head, address = head_of(alone, CHAT, f"Content-Length: {100 << 20}")
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        client.sendall(head)
        said = b""
        while b"too_large" not in said and (more := client.recv(4096)):  # head and body come apart
            said += more
    assert b" 413 " in said.splitlines()[0] and b"16 MiB" in said and b"too_large" in said


def test_a_body_without_a_length_is_read_up_to_the_limit(alone):
    head, address = head_of(alone, CHAT, "Transfer-Encoding: chunked")
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        client.sendall(head + 16 * piece)  # the limit: to refuse it here is to read all of it
        assert select.select([client], [], [], 0)[0] == []
        client.sendall(b"1\r\n \r\n")
        assert b" 413 " in read_head(client).splitlines()[0]


def test_one_that_leaves_while_it_sends_is_forgotten(alone):
    for path in (CHAT, EMBED):
        head, address = head_of(alone, path, "Content-Length: 1000")
        with socket.create_connection(address, timeout=PATIENCE_S) as client:
            client.sendall(head + b"{")


def test_another_media_type_is_refused(alone):
    response = post(
        alone, CHAT, {"model": NAME, "messages": [USER]}, **{"Content-Type": "text/plain"}
    )
    assert error_of(response) == (403, "refused") and "application/json" in response.text


def test_a_project_that_was_never_ingested_says_what_to_run(alone, root):
    (root / "doc_raw" / "fresh").mkdir(exist_ok=True)
    response = post(alone, CHAT, {"model": "ragstream/fresh", "messages": [USER]})
    assert error_of(response) == (422, "not_ingested")
    assert "ragstream ingest fresh" in response.json()["error"]["message"]
