"""`SharedEmbedder` and `VectorTable`: one row a text, the embedder's own bits."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_core.errors import OperationFailed, Refused
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.models.embedders.shared_vectors import SharedEmbedder, VectorTable
from ragstream_core.platform.postgres import database_at
from ragstream_core.records.identity import sha256_hex
from tests.conftest import CountingEmbedder

ROOT = os.name == "posix" and os.geteuid() == 0
TEXTS = ["one", "two", "", "lone \ud800", "three " * 300]


def at(url):
    return database_at(url, setting="embeddings.shared")


def sharing(url, inner=None, **given):
    return SharedEmbedder(inner or CountingEmbedder(), at(url), **given)


def rows_of(url, columns="count(*)"):
    with psycopg.connect(url) as db:
        return db.execute(f"SELECT {columns} FROM ragstream_vectors").fetchall()


def same_bits(one, other):
    return one.dtype == other.dtype == np.float32 and one.tobytes() == other.tobytes()


def test_a_text_is_embedded_once_whoever_asks(database):
    first, second = sharing(database), sharing(database)
    told = []
    made = first.embed_documents([*TEXTS, "one"])
    taken = second.embed_documents([*TEXTS, "one"], progress=lambda *at: told.append(at))
    assert same_bits(made, HashedEmbedder().embed_documents([*TEXTS, "one"]))
    assert same_bits(made, taken)
    assert (first._inner.seen, second._inner.seen) == (TEXTS, [])
    assert (first.taken, second.taken) == (0, len(TEXTS))
    assert told == [(6, 6)]
    assert not first.warning and not second.warning
    assert rows_of(database) == [(len(TEXTS),)]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.text(max_size=3), max_size=8), max_size=4))
def test_the_bits_are_those_of_the_embedder_whatever_was_there(database, batches):
    shared = sharing(database)
    for batch in batches:
        assert same_bits(shared.embed_documents(batch), HashedEmbedder().embed_documents(batch))
    assert len(shared._inner.seen) == len(set(shared._inner.seen))
    shared.close()


def test_no_texts_give_no_rows(database):
    assert sharing(database).embed_documents([]).shape == (0, HashedEmbedder().dimension)


def test_everything_else_is_the_embedders_own(database):
    shared, own = sharing(database), HashedEmbedder()
    assert (shared.name, shared.fingerprint, shared.window) == (
        own.name,
        own.fingerprint,
        own.window,
    )
    assert shared.count("two words") == own.count("two words")
    assert shared.truncated_inputs == 0
    assert same_bits(shared.embed_queries(["one"]), own.embed_queries(["one"]))
    assert [a.tobytes() for a in shared.token_vectors(["one"])] == [
        a.tobytes() for a in own.token_vectors(["one"])
    ]
    assert not hasattr(shared, "no_such_attribute")
    assert SharedEmbedder(own, at(database)).token_offsets("one") == own.token_offsets("one")


DAMAGE = {
    "a flipped byte": "vector = set_byte(vector, 5, get_byte(vector, 5) # 1)",
    "a cut vector": "vector = substring(vector FROM 1 FOR 100)",
    "another crc": "crc = crc # 1",
    "an empty vector": "vector = ''",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_row_is_made_again_and_replaced(database, damage):
    sharing(database).embed_documents(TEXTS)
    with psycopg.connect(database) as db:
        key = bytes.fromhex(sha256_hex("two"))
        db.execute(f"UPDATE ragstream_vectors SET {DAMAGE[damage]} WHERE text_hash = %s", (key,))
    again, after = sharing(database), sharing(database)
    assert same_bits(again.embed_documents(TEXTS), HashedEmbedder().embed_documents(TEXTS))
    assert (again._inner.seen, again.remade, again.taken) == (["two"], 1, len(TEXTS) - 1)
    after.embed_documents(TEXTS)
    assert after._inner.seen == [] and rows_of(database) == [(len(TEXTS),)]


def test_a_row_of_another_text_is_no_vector_of_this_one(database):
    sharing(database).embed_documents(["one", "two"])
    with psycopg.connect(database) as db:
        (vector, crc), *_ = db.execute(
            "SELECT vector, crc FROM ragstream_vectors WHERE text_hash = %s",
            (bytes.fromhex(sha256_hex("one")),),
        ).fetchall()
        db.execute(
            "UPDATE ragstream_vectors SET vector = %s, crc = %s WHERE text_hash = %s",
            (vector, crc, bytes.fromhex(sha256_hex("two"))),
        )
    shared = sharing(database)
    assert same_bits(
        shared.embed_documents(["one", "two"]), HashedEmbedder().embed_documents(["one", "two"])
    )
    assert shared.remade == 1


def test_models_share_a_table_without_meeting(database):
    others = CountingEmbedder(fingerprint="f" * 64)
    sharing(database).embed_documents(TEXTS)
    other = sharing(database, others)
    other.embed_documents(TEXTS)
    assert others.seen == TEXTS and other.taken == 0
    assert rows_of(database) == [(2 * len(TEXTS),)]


def test_one_fingerprint_with_two_dimensions_is_refused_and_costs_a_warning(database):
    sharing(database).embed_documents(TEXTS)
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_embedders SET dimension = 3")
    with pytest.raises(Refused, match="have 3 numbers"):
        VectorTable(at(database), CountingEmbedder())
    shared = sharing(database)
    assert same_bits(shared.embed_documents(TEXTS), HashedEmbedder().embed_documents(TEXTS))
    assert "have 3 numbers" in shared.warning and "next:" in shared.warning


def test_many_at_a_time_write_each_text_once(database):
    texts = [f"text {n}" for n in range(300)]
    rng = np.random.default_rng(1)
    orders = [rng.permutation(len(texts)) for _ in range(6)]
    wrong = []

    def work(order):
        mine = [texts[n] for n in order]
        shared = sharing(database)
        good = same_bits(shared.embed_documents(mine), HashedEmbedder().embed_documents(mine))
        if not good or shared.warning:
            wrong.append(shared.warning or "other bits")
        shared.close()

    threads = [threading.Thread(target=work, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert rows_of(database, "count(*), count(DISTINCT text_hash)") == [(300, 300)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_database_that_is_away_costs_one_warning_and_local_work(postgres):
    url, clock = postgres.create("away"), Clock()
    shared = sharing(url, clock=clock)
    shared.embed_documents(["one"])
    postgres.drop("away")
    for text in ("two", "three"):
        assert same_bits(shared.embed_documents([text]), HashedEmbedder().embed_documents([text]))
    first = shared.warning
    assert "vectors were made here, not shared" in first
    postgres.create("away")  # back, with nothing in it
    shared.embed_documents(["four"])
    clock.now = 61.0
    shared.embed_documents(["five"])
    assert shared.warning == first
    assert rows_of(url) == [(1,)], "only what came after the pause"
    shared.close()
    postgres.drop("away")


def test_a_connection_that_breaks_in_between_loses_no_vector(postgres, database):
    class Breaking(CountingEmbedder):
        def embed_documents(self, texts, *, progress=None):
            with postgres.connect() as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = %s", (database.rpartition("/")[2],),
                )  # fmt: skip
            return super().embed_documents(texts)

    shared = sharing(database, Breaking())
    assert same_bits(shared.embed_documents(TEXTS), HashedEmbedder().embed_documents(TEXTS))
    assert shared.warning


@pytest.mark.skipif(not ROOT, reason="a small disk can be mounted by root only")
def test_a_full_disk_on_the_database_is_named_and_nothing_half_is_kept(postgres):
    disk = Path(tempfile.mkdtemp(dir=postgres.folder))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m,mode=777", "tmpfs", str(disk)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        shutil.chown(disk, "nobody", "nogroup")
        with postgres.connect("postgres") as admin:
            admin.execute(f"CREATE TABLESPACE tiny LOCATION '{disk}'")
            admin.execute("CREATE DATABASE full_disk TABLESPACE tiny")
        url = postgres.url("full_disk")
        ballast = disk / "ballast"  # a new connection may have to write a file of its own
        ballast.write_bytes(b"x" * 1_000_000)
        texts = [f"text {n}" for n in range(30_000)]
        shared = sharing(url)
        table = VectorTable(at(url), shared)
        vectors = HashedEmbedder().embed_documents(texts)
        by_hash = {sha256_hex(t): v for t, v in zip(texts, vectors, strict=True)}
        with pytest.raises(OperationFailed, match="its disk is full") as error:
            table.add(by_hash)
        assert "free space on the database's disk" in error.value.hint
        ballast.unlink()
        there = rows_of(url)[0][0]
        assert 0 < there < len(texts) and there % 1_000 == 0
        assert same_bits(shared.embed_documents(texts[:10]), vectors[:10])
        table.close()
        shared.close()
    finally:
        with postgres.connect("postgres") as admin:
            admin.execute("DROP DATABASE IF EXISTS full_disk WITH (FORCE)")
            admin.execute("DROP TABLESPACE IF EXISTS tiny")
        subprocess.run(["umount", "-l", str(disk)], check=True)  # a process may hold a file


def test_nothing_is_imported_unless_the_setting_names_a_database():
    code = (
        "import sys\n"
        "from ragstream_core.config import AppConfig\n"
        "from ragstream_core.wiring.shared_vectors import sharing\n"
        "with sharing(AppConfig.load(), None) as shared: assert shared is None\n"
        "from ragstream_core.services import ingest\n"
        "from ragstream_assets import definitions\n"
        "found = [m for m in sys.modules if m.partition('.')[0] in"
        " ('psycopg', 'psycopg_pool', 'procrastinate')]\n"
        "assert not found, found\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
