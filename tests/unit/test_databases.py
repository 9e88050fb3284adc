"""The databases that tests start answer, are empty, and come back after a kill."""

import signal

import psycopg

from tests.databases import PostgresServer


def test_a_database_is_empty_and_knows_vectors(database):
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("CREATE EXTENSION vector")
        row = db.execute("SELECT '[1,2]'::halfvec(2) <=> '[1,2]'::halfvec(2)").fetchone()
    assert row == (0.0,)


def test_a_killed_postgresql_comes_back_with_what_was_committed():
    server = PostgresServer(synced=True)
    try:
        with server.connect() as db:
            db.execute("CREATE TABLE t AS SELECT 1 AS n")
        server.restart(signal.SIGKILL)
        with server.connect() as db:
            assert db.execute("SELECT n FROM t").fetchone() == (1,)
    finally:
        server.close()
