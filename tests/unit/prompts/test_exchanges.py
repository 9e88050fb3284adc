"""Exchanges with a language model: recorded, part of the key, answered again without anybody."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragstream_core.errors import InputUnavailable, IntegrityError
from ragstream_core.models.chat.responses import ERRORS
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.exchanges import (
    Exchange,
    Exchanges,
    call_of,
    exchange_from,
    request_digest,
)
from ragstream_core.prompts.store import PromptStore
from ragstream_core.records.chat import ChatMessage


class City(BaseModel):
    name: str


class Town(BaseModel):
    name: str
    size: int = 0


PARIS = {"say": 'Sure: {"name": "Paris"}'}


def asked(text):
    return [ChatMessage("system", "s"), ChatMessage("user", text)]


def model(*entries):
    return ScriptedChat(entries=entries)


def test_an_answer_is_recorded_and_given_again_without_a_model(tmp_path):
    first = Exchanges(model(PARIS))
    assert first.ask("a4", asked("x"), City, fallback="SAF-A1").value == City(name="Paris")
    store = PromptStore(tmp_path)
    digests = first.keep(store.put_blob)
    kept = [exchange_from(store.blob(digest)) for digest in digests]
    assert kept == first.made and kept[0].validated and not kept[0].fallback
    assert kept[0].response == PARIS["say"] and kept[0].usage["cost_usd"] == 0.0
    again = Exchanges(None, kept)
    assert again.ask("a4", asked("x"), City, fallback="SAF-A1").value == City(name="Paris")
    assert again.keep(store.put_blob) == digests


@pytest.mark.parametrize(
    "entry",
    [{"fail": kind} for kind in ERRORS] + [{"say": "broken {"}, {"say": ""}, {"when": "never"}],
)
def test_a_failure_is_a_reason_and_replays_as_one(entry):
    first = Exchanges(model(entry))
    answer = first.ask("a4", asked("x"), City, fallback="SAF-A1")
    assert answer.value is None and answer.reason
    (made,) = first.made
    assert (made.validated, made.fallback, made.response) == (False, "SAF-A1", "")
    assert Exchanges(None, first.made).ask("a4", asked("x"), City, fallback="SAF-A1") == answer


def test_a_stage_may_ask_twice_and_each_answer_finds_its_question():
    chat = model({"say": {"name": "one"}, "once": True}, {"say": {"name": "two"}})
    first = Exchanges(chat)
    said = [first.ask("a2", asked("x"), City, fallback="-").value.name for _ in range(2)]
    again = Exchanges(None, first.made)
    assert [again.ask("a2", asked("x"), City, fallback="-").value.name for _ in said] == said
    assert said == ["one", "two"]
    with pytest.raises(InputUnavailable, match="asks no model"):
        again.ask("a2", asked("x"), City, fallback="-")


@pytest.mark.parametrize(
    ("op", "messages", "schema"),
    [("a3", asked("x"), City), ("a4", asked("y"), City), ("a4", asked("x"), Town),
     ("a4", [ChatMessage("user", "x")], City)],
)  # fmt: skip
def test_another_question_is_not_answered_from_the_record(op, messages, schema):
    first = Exchanges(model(PARIS))
    first.ask("a4", asked("x"), City, fallback="-")
    with pytest.raises(InputUnavailable):
        Exchanges(None, first.made).ask(op, messages, schema, fallback="-")


def test_a_live_replay_asks_and_says_what_differs():
    first = Exchanges(model(PARIS))
    first.ask("a4", asked("x"), City, fallback="-")
    same = Exchanges(model(PARIS), first.made)
    same.ask("a4", asked("x"), City, fallback="-")
    assert same.differences == []
    other = Exchanges(model({"say": {"name": "Rome"}}), first.made)
    assert other.ask("a4", asked("x"), City, fallback="-").value.name == "Rome"
    assert other.differences == ["a4: another answer than then"]
    moved = Exchanges(model(PARIS), first.made)
    moved.ask("a4", asked("y"), City, fallback="-")
    assert moved.differences == ["a4: another question than then"]


@given(st.text(), st.text(), st.text(), st.booleans())
def test_bytes_are_the_exchange(op, response, reason, validated):
    exchange = Exchange(op, "0" * 64, "m", response, {"input_tokens": 3}, validated, "f", reason)
    assert exchange_from(exchange.data) == exchange


@given(st.text(), st.text())
def test_the_request_digest_tells_requests_apart(one, other):
    same = request_digest("m", asked(one), City) == request_digest("m", asked(other), City)
    assert same == (one == other)
    assert request_digest("m", asked(one), City) != request_digest("n", asked(one), City)
    assert request_digest("m", asked(one), City) != request_digest("m", asked(one), Town)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", b'{"version": 2}', b'{"version": 1, "x": 2}']
)
def test_damaged_bytes_are_refused(data):
    with pytest.raises(IntegrityError):
        exchange_from(data)


def test_a_record_names_its_exchanges_and_its_key_covers_them(tmp_path, monkeypatch):
    from ragstream_core.prompts.store import RECORD_NAME, RECORD_VERSION
    from ragstream_core.records.identity import digest_of

    inputs = {"text": "x"}
    key = digest_of([digest_of(inputs), ["e" * 64], [], "f" * 64])
    record = {
        "version": RECORD_VERSION, "prompt_key": key, "input_key": digest_of(inputs),
        "inputs": inputs, "output_sha256": "f" * 64, "trail": [], "environment": {},
        "run_id": "", "timings_ms": {}, "tokens": 0, "exchanges": ["e" * 64],
    }  # fmt: skip
    path = tmp_path / key / RECORD_NAME
    path.parent.mkdir()
    path.write_text(json.dumps(record))
    assert list(PromptStore(tmp_path).record(key).exchanges) == ["e" * 64]
    path.write_text(json.dumps({**record, "exchanges": []}))
    with pytest.raises(IntegrityError, match="does not belong"):
        PromptStore(tmp_path).record(key)


@pytest.mark.parametrize("usage", [{"input_tokens": 3, "of_later": 1}, {"input_tokens": 3}])
def test_what_an_exchange_took_is_read_with_keys_that_are_new_or_missing(usage):
    told = call_of(Exchange("a2", "0" * 64, "m", "yes", usage)).usage
    assert (told.input_tokens, told.output_tokens) == (3, 0)
