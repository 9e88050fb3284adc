"""The look at workers: not there without a database, and each trouble in words."""

import contextlib
import socket
import time

from tests.app.page_driver import click, open_page, run, said

LOOK = "Look for workers"


def labels(page):
    return [one.label for one in page.button]


def test_a_page_without_a_database_does_not_speak_of_workers(page):
    assert LOOK not in labels(page)


def test_it_shows_what_is_shared_and_who_is_there(indexed, database, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", database)
    page = open_page()
    assert "shared vectors" not in said(page), "nobody is asked before somebody wants to know"
    click(page, LOOK)
    assert "shared vectors of this model: 0" in said(page)
    assert "texts that wait for workers: 0" in said(page)
    assert "workers of queue cpu: none; start one with `ragstream worker`" in said(page)
    assert not page.exception and not page.error
    run(page)
    assert LOOK in labels(page)


def test_a_database_that_is_away_is_said_to_be(indexed, monkeypatch):
    nowhere = "postgresql://ragstream:s3cret-word@127.0.0.1:1/none"
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", nowhere)
    page = click(open_page(), LOOK)
    assert "nobody answers there" in said(page)
    assert "s3cret" not in said(page) and not page.exception


def test_a_database_that_hangs_is_given_up_soon(indexed, monkeypatch):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", f"postgresql://me@127.0.0.1:{port}/none")
        page, began = open_page(), time.monotonic()
        click(page, LOOK)
    assert time.monotonic() - began < 40
    assert "nobody answers there" in said(page)
