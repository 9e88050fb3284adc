"""Providers by name, and the scripted one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragstream_core.config import AppConfig
from ragstream_core.errors import ChatBroken, ChatBusy, ChatTimeout, UnknownSetting, UsageError
from ragstream_core.models.chat.endpoint_chat import ChatOptions, EndpointChat
from ragstream_core.models.chat.prices import Prices
from ragstream_core.models.chat.providers import PROVIDERS
from ragstream_core.models.chat.responses import ERRORS
from ragstream_core.models.chat.scripted import PIECE, ScriptedChat
from ragstream_core.platform.endpoint_address import endpoint_at
from ragstream_core.records.chat import ChatMessage
from ragstream_core.wiring.models import chat_model

WHERE = endpoint_at("http://127.0.0.1:11434/v1")
OPTIONS = ChatOptions("toy", WHERE, Prices(WHERE))


def asked(text):
    return [ChatMessage("user", text)]


class City(BaseModel):
    name: str


class Third:
    """A provider of somebody else."""

    name, host, is_local = "third", "", True

    def __init__(self, model, options):
        self.given = (model, options)

    def list_models(self):
        return [self.name]

    def price(self, input_tokens, output_tokens):
        return None

    def complete(self, messages, *, schema=None):
        return self.given

    def stream(self, messages):
        yield from ()


def test_a_third_provider_plugs_in():
    PROVIDERS.register("third", Third)
    try:
        assert PROVIDERS.create("third", OPTIONS).complete(asked("x")) == ("toy", OPTIONS)
    finally:
        PROVIDERS.unregister("third")
    by_path = PROVIDERS.create(f"{__name__}:Third", OPTIONS)
    assert type(by_path).__name__ == "Third"
    with pytest.raises(UnknownSetting, match="no provider 'third'"):
        PROVIDERS.create("third", OPTIONS)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="ChatModel port: list_models, price, complete, stream"):
        PROVIDERS.create("builtins:object", OPTIONS)
    assert isinstance(PROVIDERS.create("openai", OPTIONS), EndpointChat)


def test_the_script_answers_by_what_is_asked(tmp_path, monkeypatch):
    script = tmp_path / "script.yaml"
    script.write_text(
        "- {when: capital, say: Paris it is, once: true}\n"
        "- {when: city, say: {name: Paris}}\n"
        "- {when: slow, fail: timeout}\n"
        "- {when: long, say: half a sen, cut: true}\n"
        "- {when: nothing, say: ''}\n"
        "- {when: capital, fail: busy}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BACKEND", "scripted")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__SCRIPT", str(script))
    model = chat_model(AppConfig.load())
    assert model.complete(asked("the capital?")).text == "Paris it is"
    with pytest.raises(ChatBusy):
        model.complete(asked("the capital?"))
    assert model.complete(asked("a city"), schema=City).parsed == City(name="Paris")
    with pytest.raises(ChatTimeout):
        model.complete(asked("slow"))
    reply = model.complete(asked("long"))
    assert (reply.text, reply.status, reply.usage.cost_usd) == ("half a sen", "partial", 0.0)
    for text in ("nothing", "else"):
        with pytest.raises(ChatBroken):
            model.complete(asked(text))
    with pytest.raises(ChatBroken, match="does not fit City"):
        model.complete(asked("long"), schema=City)
    assert (model.name, model.host, model.is_local) == ("scripted", "", True)
    assert model.list_models() == ["scripted"] and model.price(9, 9) == 0.0


@given(st.text(min_size=1).filter(str.strip), st.booleans())
def test_a_scripted_stream_is_the_text_in_small_pieces(text, cut):
    *deltas, last = ScriptedChat(entries=[{"say": text, "cut": cut}]).stream(asked("x"))
    assert all(0 < len(delta.text) <= PIECE and delta.reply is None for delta in deltas)
    assert "".join(delta.text for delta in deltas) == text == last.reply.text
    assert last.reply.status == ("partial" if cut else "complete")


@pytest.mark.parametrize("kind", sorted(ERRORS))
def test_every_failure_can_be_scripted(kind):
    with pytest.raises(ERRORS[kind]):
        list(ScriptedChat(entries=[{"fail": kind}]).stream(asked("x")))


@pytest.mark.parametrize(
    ("text", "what"),
    [("[1]", "entry 1"), ("- {sya: x}", "entry 1"), ("- {say: x}\n- {fail: often}", "entry 2"),
     ("- {say: [", "as YAML"), ("x", "entry 1"), ("", "entry 1")],
)  # fmt: skip
def test_what_is_no_script_is_named(tmp_path, text, what):
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(UnknownSetting, match=what):
        ScriptedChat(str(path))
    with pytest.raises(UnknownSetting, match="cannot be read"):
        ScriptedChat(str(tmp_path / "none"))
