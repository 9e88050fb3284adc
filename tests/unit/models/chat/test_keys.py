"""A key goes to its host and nowhere else: 12 canaries through 6 failures; where keys come from."""

import json
import logging
import traceback

import pytest
from pydantic import SecretStr

from ragstream_core.config import AppConfig
from ragstream_core.errors import ChatFailed, Refused, UnknownSetting, UsageError
from ragstream_core.platform.endpoint_address import provider_key
from ragstream_core.wiring.models import chat_model, endpoint
from tests.model_server import ASKED, KEY, events, raw, said, status

CANARIES = [
    "sk-proj-canary0123456789abcdefghijklmnop",
    "sk-ant-canary-0001-ABCDEFGH",
    "ghp_canaryABCDEFGH01",
    "AKIACANARY0123456789",
    "xoxb-canary-1-2-abc",
    "canary.eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
    "canary+/=" * 5,
    "AIzaCANARYabcdefghijklmnopqrstuvw",
    "canary:with:colons",
    "canary%20percent",
    "{canary}",
    "canary" * 100,
]


def echo(code):
    """Repeat the request's head and body, as careless servers do."""

    def answer(handler):
        handler.whole({"error": {"message": str(handler.headers)}}, code)

    return answer


def cut_after_the_key(handler):
    handler.head(content_length="1000")
    handler.wfile.write(str(handler.headers).encode())
    handler.cut()


PATHS = {
    "401": echo(401),
    "500": echo(500),
    "cut": cut_after_the_key,
    "no JSON": lambda handler: handler.whole(str(handler.headers).encode()),
    "wrong schema": lambda handler: said(str(handler.headers))(handler),
    "header": lambda handler: handler.head(418, retry_after=handler.headers["authorization"]),
}


@pytest.mark.parametrize("path", PATHS, ids=PATHS)
@pytest.mark.parametrize("canary", CANARIES, ids=range(12))
def test_a_key_is_in_no_message_traceback_log_or_repr(chat, server, caplog, capsys, canary, path):
    from .test_endpoint_chat import City

    caplog.set_level(logging.DEBUG)
    server.answers = [PATHS[path]]
    model = chat(key=canary)
    texts = [repr(model), str(vars(model)), repr(model._options), repr(model._client.endpoint)]
    for ask in (lambda: model.complete(ASKED, schema=City), lambda: list(model.stream(ASKED))):
        try:
            ask()
        except ChatFailed as error:
            texts += [
                str(error),
                repr(error),
                error.hint,
                "".join(traceback.format_exception(error)),
            ]
            assert error.__cause__ is None and error.__suppress_context__
    assert len(texts) >= 8
    assert f"Bearer {canary}" == server.seen[0][1]["authorization"]
    texts += [record.getMessage() for record in caplog.records]
    texts += [str(vars(record)) for record in caplog.records]
    texts += [*capsys.readouterr()]
    assert not [text for text in texts if canary in text]


@pytest.fixture
def settled(monkeypatch, tmp_path, server):
    """Settings as a person has them: the address in the environment, no file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGSTREAM_CONFIG", raising=False)
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", server.url)
    server.answers = [said("x")]
    return monkeypatch


def test_a_key_comes_from_the_environment(settled, server):
    settled.setenv("RAGSTREAM_PROVIDER__API_KEY", "sk-from-env")
    config = AppConfig.load()
    chat_model(config).complete(ASKED)
    assert server.seen[0][1]["authorization"] == "Bearer sk-from-env"
    shown = [repr(config), str(config), config.settings.model_dump_json(), str(config.settings)]
    assert not [text for text in shown if "sk-from-env" in text]


def test_a_key_comes_from_a_file_that_is_private(settled, server, tmp_path):
    path = tmp_path / "key"
    path.write_text("sk-from-file\n")
    path.chmod(0o600)
    settled.setenv("RAGSTREAM_PROVIDER__API_KEY_FILE", str(path))
    chat_model(AppConfig.load()).complete(ASKED)
    assert server.seen[0][1]["authorization"] == "Bearer sk-from-file"
    settled.setenv("RAGSTREAM_PROVIDER__API_KEY", "sk-first")
    assert provider_key(SecretStr("sk-first"), str(path)).get_secret_value() == "sk-first"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o622, 0o610, 0o601])
def test_a_file_open_to_others_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    path.write_text("sk-canary")
    path.chmod(mode)
    with pytest.raises(Refused, match="open to others") as caught:
        provider_key(SecretStr(""), str(path))
    assert "chmod 600" in caught.value.hint and "sk-canary" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n", b"sk-canary one", b"sk-canary\nsk-two", b"sk-canary\r\nX-Evil: 1",
     b"sk-canary\x00", "sk-cänary".encode(), b"sk-canary\xff"],
)  # fmt: skip
def test_what_is_no_key_is_refused_and_not_repeated(tmp_path, data):
    path = tmp_path / "key"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="holds no key") as caught:
        provider_key(SecretStr(""), str(path))
    assert "anary" not in str(caught.value)


def test_a_key_file_must_be_a_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        provider_key(SecretStr(""), str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"cannot be read|not a regular"):
        provider_key(SecretStr(""), str(tmp_path))


def test_a_run_can_not_move_the_key_to_another_host(settled, server):
    settled.setenv("RAGSTREAM_PROVIDER__API_KEY", "sk-canary")
    moved = {"provider.base_url": "https://evil.example/v1"}
    with pytest.raises(UnknownSetting, match="not taken from a run"):
        chat_model(AppConfig.load(explicit=moved))
    taken = endpoint(AppConfig.load(explicit={**moved, "embeddings.backend": "openai"}))
    assert taken.host == "evil.example:443" and taken.api_key == ""
    mine = endpoint(AppConfig.load(explicit={"embeddings.backend": "openai"}))
    assert mine.api_key == "sk-canary"


@pytest.mark.parametrize("name", ["backend", "api_key", "api_key_file", "script"])
def test_a_run_can_not_say_whose_code_or_key_is_taken(settled, name):
    config = AppConfig.load(explicit={f"provider.{name}": "x"})
    with pytest.raises(UnknownSetting, match=f"provider.{name}"):
        chat_model(config)


def test_a_redirect_takes_the_key_nowhere(chat, server):
    elsewhere = status(307, location=f"{server.url}/elsewhere")
    server.answers = [elsewhere]
    with pytest.raises(ChatFailed, match="307"):
        chat().complete(ASKED)
    assert [path for path, _, _ in server.seen] == ["/v1/chat/completions"]


def test_unused_answers_are_not_kept_in_the_error(chat, server):
    server.answers = [
        raw(json.dumps({"choices": [{"message": {"content": ["my secret"]}}]}).encode())
    ]
    with pytest.raises(ChatFailed) as caught:
        chat().complete(ASKED)
    assert "my secret" not in "".join(traceback.format_exception(caught.value))


def test_a_stream_keeps_its_key_to_itself(chat, server):
    server.answers = [events(f'data: {{"error": {{"message": "key {KEY}"}}}}\n\n'.encode())]
    with pytest.raises(ChatFailed) as caught:
        list(chat().stream(ASKED))
    assert KEY not in "".join(traceback.format_exception(caught.value))
