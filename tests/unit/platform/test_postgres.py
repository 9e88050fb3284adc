"""`Database` and `Tables`: addresses, errors that say what to do, tables of one version."""

import os
import signal
import socket
import sys
import threading

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragstream_core.errors import ExtraMissing, OperationFailed, RagstreamError, UnknownSetting
from ragstream_core.platform import extras
from ragstream_core.platform import postgres as postgres_module
from ragstream_core.platform.postgres import Database, Sessions, Tables, database_at

SETTING = "embeddings.shared"
CARS = Tables("cars", 1, ("CREATE TABLE cars (name text)",))


def at(url: str, **limits) -> Database:
    made = database_at(url, setting=SETTING)
    return Database(SETTING, made.url, made.shown, **limits)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "does not begin with postgresql://"),
        ("mysql://host/name", "does not begin with postgresql://"),
        ("postgresql://host", "names no database"),
        ("postgresql://host/a/b", "names no database"),
        ("postgresql://host:99999/name", "cannot be read"),
        ("postgresql://host/na me", "must be written as %XX"),
        ("postgresql://user:se#cret@host/name", "cannot be read"),
    ],
)
def test_what_is_no_address_is_refused_without_its_words(url, why):
    with pytest.raises(UnknownSetting, match=why) as error:
        database_at(url, setting=SETTING)
    assert "RAGSTREAM_EMBEDDINGS__SHARED" in error.value.hint
    assert "cret" not in str(error.value)


@example("%aa", "")
@given(st.text("abc%+!$'()*,;=~-_.", min_size=3), st.sampled_from(["", ":5432"]))
def test_a_password_is_never_shown(password, port):
    secret = f"Q{password}Q"
    url = f"postgresql://me:{secret}@host{port}/name?sslmode=disable"
    found = database_at(url, setting=SETTING)
    assert secret not in repr(found)
    assert found.shown == f"postgresql://me@host{port}/name"
    assert secret not in str(found.failure(psycopg.OperationalError(f"for {url}: password=1 x")))


def test_each_trouble_says_what_where_and_what_next(postgres):
    troubles = {
        postgres.url("nowhere"): ("nowhere", "createdb"),
        postgres.url().replace("ragstream@", "stranger@"): ("stranger", "createuser"),
        postgres.url().replace(f":{postgres.port}/", ":1/"): ("nobody answers", "firewall"),
        "postgresql://host.invalid/name": ("host name is not known", "check the host"),
    }
    for url, (what, next_) in troubles.items():
        database = at(url)
        with pytest.raises(OperationFailed) as error:
            database.connect()
        assert what in error.value.message
        assert database.shown in error.value.message
        assert SETTING in error.value.message
        assert next_ in error.value.hint


def test_a_statement_has_a_limit(database):
    place = at(database, statement_s=1)
    with (
        place.connect() as db,
        pytest.raises(OperationFailed, match="took too long"),
        place.errors(),
    ):
        db.execute("SELECT pg_sleep(30)")


def test_parameters_in_the_address_are_kept(database):
    with at(f"{database}?options=-csearch_path%3Dmine", statement_s=7).connect() as db:
        assert db.execute("SHOW search_path").fetchone() == ("mine",)
        assert db.execute("SHOW statement_timeout").fetchone() == ("7s",)
    with pytest.raises(OperationFailed, match="no_such_word"):
        at(f"{database}?no_such_word=1").connect()


def test_a_server_that_hangs_is_given_up_and_another_one_asked(database, monkeypatch):
    monkeypatch.setattr(postgres_module, "LATE_S", 0.2)
    place = at(database, statement_s=1)
    open_ones = Sessions(place)
    pid = open_ones.ask(lambda db: db.info.backend_pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(OperationFailed, match="does not answer any more") as error:
            open_ones.ask(lambda db: db.execute("SELECT 1").fetchone())
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "wait until it is back" in error.value.hint
    assert open_ones.ask(lambda db: db.execute("SELECT 2").fetchone()) == (2,)
    with place.connect() as db, db.unlimited():
        db.execute("SET statement_timeout = 0")
        assert db.execute("SELECT 3 FROM pg_sleep(1.5)").fetchone() == (3,)


def test_who_accepts_and_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = at(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/name", connect_s=2)
        with pytest.raises(OperationFailed, match="nobody answers there"):
            place.connect()


def test_a_connection_that_ended_says_to_wait(postgres, database):
    place = at(database)
    with place.connect() as db, postgres.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (db.info.backend_pid,))
        for _ in range(2):
            with (
                pytest.raises(OperationFailed, match="connection|shutting") as error,
                place.errors(),
            ):
                db.execute("SELECT 1")
            assert "wait until it is back" in error.value.hint


def test_a_full_disk_is_named(database):
    place = at(database)
    full = psycopg.errors.DiskFull("could not extend file")
    failure = place.failure(full)
    assert "its disk is full" in failure.message
    assert "free space on the database's disk" in failure.hint


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(extras, "_absent", list)
    with pytest.raises(ExtraMissing, match=r"embeddings\.shared .* needs psycopg") as error:
        at("postgresql://host/name").connect()
    assert "ragstream[distributed]" in error.value.hint


def test_tables_are_made_once_by_many_at_a_time(database):
    place = at(database)
    failed: list[RagstreamError] = []

    def make():
        try:
            with place.connect() as db:
                CARS.ensure(db, place)
        except RagstreamError as error:
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with place.connect() as db:
        assert db.execute("SELECT part, version FROM ragstream_schema").fetchall() == [("cars", 1)]


@pytest.mark.parametrize(("mine", "next_"), [(2, "drop these tables"), (0, "newer RAGstream")])
def test_tables_of_another_version_are_refused_and_left_alone(database, mine, next_):
    place = at(database)
    with place.connect() as db:
        CARS.ensure(db, place)
        with pytest.raises(RagstreamError, match="have version 1") as error:
            Tables("cars", mine, ("DROP TABLE cars",)).ensure(db, place)
        assert next_ in error.value.hint
        assert db.execute("SELECT count(*) FROM cars").fetchone() == (0,)


def test_a_user_who_may_not_make_tables_is_told(postgres, database):
    with postgres.connect() as admin:
        admin.execute("DROP ROLE IF EXISTS guest")
        admin.execute("CREATE ROLE guest LOGIN")
    place = at(database.replace("ragstream@", "guest@"))
    with place.connect() as db, pytest.raises(OperationFailed, match="may not do that") as error:
        CARS.ensure(db, place)
    assert "GRANT CREATE" in error.value.hint


def test_a_database_that_is_killed_is_found_again(postgres, database):
    place = at(database)
    with place.connect() as db:
        CARS.ensure(db, place)
        postgres.restart(signal.SIGKILL)
        with pytest.raises(OperationFailed), place.errors():
            db.execute("SELECT 1")
    with place.connect() as db:
        CARS.ensure(db, place)


def test_psycopg_without_its_library_names_the_extra(monkeypatch):
    monkeypatch.setattr(extras, "_absent", lambda names: [])
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ExtraMissing, match="psycopg cannot be loaded") as error:
        at("postgresql://host/name").connect()
    assert "ragstream[distributed]" in error.value.hint
