"""The look at workers: not there without a broker, and each trouble in words."""

import contextlib
import socket
import time

import pytest

from tests.app.page_driver import click, open_page, run, said

LOOK = "Look for workers"


def labels(page):
    return [one.label for one in page.button]


def test_a_page_without_a_broker_does_not_speak_of_workers(page):
    assert LOOK not in labels(page)


def test_it_shows_what_is_shared_and_who_answers(indexed, database, redis_server, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", database)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis_server.url(7))
    page = open_page()
    assert "shared vectors" not in said(page), "nobody is asked before somebody wants to know"
    click(page, LOOK)
    assert "shared vectors of this model: 0" in said(page)
    assert "texts that wait for workers: 0" in said(page)
    assert "workers of queue cpu: none; start one with `ragstream worker`" in said(page)
    assert not page.exception and not page.error
    run(page)
    assert LOOK in labels(page)


def test_each_trouble_is_said_and_hides_no_other(indexed, monkeypatch):
    nowhere = "postgresql://ragstream:s3cret-word@127.0.0.1:1/none"
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", nowhere)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", "redis://127.0.0.1:1/0")
    page = click(open_page(), LOOK)
    shown = said(page)
    assert "nobody answers there" in shown and "start Redis there" in shown
    assert "s3cret" not in shown and not page.exception


@pytest.fixture
def silent():
    """The port of a server that takes connections and says nothing, as one that hangs does."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def test_a_database_and_a_broker_that_hang_are_given_up_soon(indexed, silent, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", f"postgresql://me@127.0.0.1:{silent}/none")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", f"redis://127.0.0.1:{silent}/0")
    page, began = open_page(), time.monotonic()
    click(page, LOOK)
    assert time.monotonic() - began < 40, "redis tries for many minutes by itself"
    assert "nobody answers there" in said(page) and "start Redis there" in said(page)


@pytest.mark.parametrize(
    "address", ["redis://127.0.0.1:none/0", "nothing://here", "redis://:my/s3cret@127.0.0.1:1/0"]
)
def test_a_broker_without_an_address_is_said_to_have_none(indexed, address, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", address)
    page = click(open_page(), LOOK)
    assert "embeddings.broker is no address of a Redis" in said(page)
    assert "s3cret" not in said(page) and not page.exception
